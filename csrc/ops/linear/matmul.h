// Matrix products for other families: with checks and allocation.
#pragma once
#include "device/matmul.h"
#include "ops/table/common.h"

namespace fb {

// PyTorch's matmul: 1-d operands are vectors, leading dims broadcast.
Tensor matmul(const Tensor& x, const Tensor& y);
// beta * input + alpha * a @ b for matrices or batches; `input` broadcasts to the product's shape.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha);

// c = beta * c + alpha * a @ b, as in device::Multiplying.
inline void gemm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha = Scalar(1),
                 const Scalar& beta = Scalar(0)) {
    device::multiplying(c).gemm(c, a, b, alpha, beta);
}

// out = a @ b + bias (a vector or undefined). out is contiguous, and written only once if the product's kernel supports
// it.
void multiply_add(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias);

// The output of a product: a.out if it has the dtype and overlaps no input, else a new tensor (copied afterwards). An
// out of another dtype is an error unless the op converts.
Tensor product_target(Args& a, const Dims& shape, DType dtype, Tensors inputs, bool converts = false);
// The batch dimensions: all but the last `keep`.
Dims leading(const Tensor& t, int64_t keep);
void check_same_dtype(const Tensor& x, const Tensor& y);

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
// Distances between rows of x and y in the p-norm. mode: PyTorch's compute_mode.
Tensor cdist(const Tensor& x, const Tensor& y, double p, const std::string& mode);

}  // namespace fb
