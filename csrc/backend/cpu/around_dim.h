// A contiguous tensor as seen around one dimension, for scans and softmax; kernels of device::Scanning in several
// files.
#pragma once
#include <algorithm>

#include "base/parallel.h"
#include "tensor/tensor.h"

namespace fb::cpu {

struct AroundDim {
    int64_t outer, size, inner;
};
inline AroundDim around(const Tensor& t, int64_t dim) {
    AroundDim s{1, t.dim() ? t.shape()[dim] : 1, 1};
    for (int64_t d = 0; d < t.dim(); d++) {
        if (d < dim) s.outer *= t.shape()[d];
        if (d > dim) s.inner *= t.shape()[d];
    }
    return s;
}

// Calls f(offset of the first element, columns) for every tile of at most `width` adjacent columns. `cost` is the work
// per element.
template <class F>
void each_column_tile(const AroundDim& s, int64_t width, int64_t cost, F f) {
    int64_t per_row = (s.inner + width - 1) / width;
    int64_t work = std::max<int64_t>(1, cost * s.size * std::min(width, s.inner));
    parallel_for(s.outer * per_row, std::max<int64_t>(1, parallel_grain / work), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; k++) {
            int64_t first = k % per_row * width;
            f(k / per_row * s.size * s.inner + first, std::min(width, s.inner - first));
        }
    });
}

void linear_scan(const Tensor& in, const Tensor& factor, const Tensor& out, int64_t dim, bool reverse);
void softmax(const Tensor& in, const Tensor& out, int64_t dim, bool logarithm);
void softmax_backward(const Tensor& g, const Tensor& y, const Tensor& out, int64_t dim, bool logarithm);

}  // namespace fb::cpu
