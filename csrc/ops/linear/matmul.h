// Matrix products for other families: checked, allocating.
#pragma once
#include "device/matmul.h"
#include "ops/table/common.h"

namespace fb {

// PyTorch's matmul: 1-d operands are vectors, leading dims broadcast.
Tensor matmul(const Tensor& x, const Tensor& y);
// beta * input + alpha * a @ b for matrices or batches; `input` broadcasts to the product's shape.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha);

// c = beta * c + alpha * a @ b, as device::Multiplying has it.
inline void gemm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha = Scalar(1),
                 const Scalar& beta = Scalar(0)) {
    device::multiplying(c).gemm(c, a, b, alpha, beta);
}

// out = a @ b + bias, a vector or nothing. out is contiguous, and written only once where the product's kernel can.
void multiply_add(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias);

// Where a product goes: a.out when it has the dtype and overlaps no input, else a fresh tensor (copied afterwards).
// An out of another dtype is an error unless the op converts.
Tensor product_target(Args& a, const Dims& shape, DType dtype, Tensors inputs, bool converts = false);
// Dims of the matrices' batch: all but the last `keep`.
Dims leading(const Tensor& t, int64_t keep);
void check_same_dtype(const Tensor& x, const Tensor& y);

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
// Distances between rows of x and y in the p-norm. mode: PyTorch's compute_mode.
Tensor cdist(const Tensor& x, const Tensor& y, double p, const std::string& mode);

}  // namespace fb
