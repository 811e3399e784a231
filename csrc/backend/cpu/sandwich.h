// Scans and softmax see a contiguous tensor around one dimension; kernels of device::Scanning in several files.
#pragma once
#include "tensor/tensor.h"

namespace fb::cpu {

struct Sandwich {
    int64_t outer, size, inner;
};
inline Sandwich around(const Tensor& t, int64_t dim) {
    Sandwich s{1, t.dim() ? t.shape()[dim] : 1, 1};
    for (int64_t d = 0; d < t.dim(); d++) {
        if (d < dim) s.outer *= t.shape()[d];
        if (d > dim) s.inner *= t.shape()[d];
    }
    return s;
}

void linear_scan(const Tensor& in, const Tensor& factor, const Tensor& out, int64_t dim, bool reverse);
void softmax(const Tensor& in, const Tensor& out, int64_t dim, bool logarithm);
void softmax_backward(const Tensor& g, const Tensor& y, const Tensor& out, int64_t dim, bool logarithm);

}  // namespace fb::cpu
