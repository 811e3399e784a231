// Scans (cumulative sums and others) along one dimension, and softmax. Tensors are contiguous and of one shape.
#pragma once
#include "device/table.h"

namespace fb::device {

struct Scanning {
    // `out` is int64, floating point or complex; integers of other sizes are widened to int64.
    void (*sum)(const Tensor& in, const Tensor& out, int64_t dim);
    void (*product)(const Tensor& in, const Tensor& out, int64_t dim);
    void (*logsumexp)(const Tensor& in, const Tensor& out, int64_t dim);
    // Cumulative extremes and their indices (int64).
    void (*extreme)(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices);
    // out[i] = in[i] + factor[i] * out[i - 1] along `dim`, or in reverse in[i] + factor[i + 1] * out[i + 1]. An
    // undefined factor means ones. float32, float64 and complex.
    void (*linear)(const Tensor& in, const Tensor& factor, const Tensor& out, int64_t dim, bool reverse);
    // exp(x) / Σ exp(x), or its logarithm.
    void (*softmax)(const Tensor& in, const Tensor& out, int64_t dim, bool logarithm);
    // y * (g - Σ g y), or with `logarithm` g - exp(y) Σ g, where y is the result of softmax.
    void (*softmax_backward)(const Tensor& g, const Tensor& y, const Tensor& out, int64_t dim, bool logarithm);
};
inline const Scanning& scanning(const Tensor& on) { return device::on<Scanning>(on.device()); }

}  // namespace fb::device
