// Products of matrices and vectors, and distances between rows. The tensors of a call have the same dtype, and the
// result overlaps no operand.
#pragma once
#include "device/table.h"

namespace fb::device {

struct Multiplying {
    // c = beta * c + alpha * a @ b. The last two dims are the matrices; leading dims are the batch, with the same sizes
    // in all three (stride 0 allowed in a and b). With beta = 0, c is not read. All dtypes.
    void (*gemm)(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta);
    // out = a @ b + bias in one pass for a contiguous matrix and a bias that broadcasts; returns false, without
    // writing, where that is not possible.
    bool (*gemm_bias)(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias);
    // Σ x[i] * y[i] (conj(x[i]) when `conjugate`) of two 1-d tensors into the 0-d tensor `out`.
    void (*dot)(const Tensor& out, const Tensor& x, const Tensor& y, bool conjugate);
    // out[i, j] = x[i] * y[j].
    void (*outer)(const Tensor& out, const Tensor& x, const Tensor& y);
    // out[i, j] = beta * start[i, j] + alpha * x[i] * y[j], rounded after every operation; contiguous half types.
    void (*add_outer_half)(const Tensor& out, const Tensor& start, const Tensor& x, const Tensor& y, const Scalar& beta,
                           const Scalar& alpha);
    // out = x * y with broadcasting.
    void (*multiply)(const Tensor& out, const Tensor& x, const Tensor& y);

    // Distances in the p-norm between the rows of contiguous x (…, m, k) and y (…, n, k), float32 or float64, into (…,
    // m, n). by_product: Euclidean distances by way of a matrix product.
    void (*distances)(const Tensor& out, const Tensor& x, const Tensor& y, double p, bool by_product);
    // Between all pairs of different rows of x (n, k).
    void (*pair_distances)(const Tensor& out, const Tensor& x, double p);
    // out += Σ_j g[i, j] * the derivative of |x[i] - y[j]| = d[i, j] for every row i.
    void (*distance_slopes)(const Tensor& out, const Tensor& g, const Tensor& x, const Tensor& y, double p,
                            const Tensor& d);
};
inline const Multiplying& multiplying(const Tensor& on) { return device::on<Multiplying>(on.device()); }

}  // namespace fb::device
