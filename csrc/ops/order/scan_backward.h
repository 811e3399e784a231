// Kernels of the gradients of scans and softmax: contiguous tensors of one shape and dtype.
#pragma once
#include "tensor/tensor.h"

namespace fb {

// out[i] = in[i] + factor[i] * out[i - 1] along `dim`, or in reverse in[i] + factor[i + 1] * out[i + 1]. An undefined
// factor stands for ones. float32, float64 and complex.
void linear_scan_kernel(const Tensor& in, const Tensor& factor, const Tensor& out, int64_t dim, bool reverse);

// y * (g - Σ g y), or with `logarithm` g - exp(y) Σ g, where y is what softmax or log_softmax gave.
void softmax_backward_kernel(const Tensor& g, const Tensor& y, const Tensor& out, int64_t dim, bool logarithm);

}  // namespace fb
