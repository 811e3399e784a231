// Tensors of shape (batch, channels, ...) in the two orders that pooling and normalisation work in directly: planes
// (row-major) and channels-last. Results keep the order of the input (Note [Layout freedom]).
#pragma once
#include "backend/cpu/loops.h"
#include "ops/shape/create.h"
#include "ops/table/common.h"
#include "ops/table/free_layout.h"

namespace fb {

inline Dims last_strides(const Dims& shape) {
    Dims strides(shape.size());
    int64_t step = 1;
    auto place = [&](int64_t d) {
        strides[d] = step;
        step *= std::max<int64_t>(shape[d], 1);
    };
    place(1);
    for (int64_t d = shape.size() - 1; d >= 2; d--) place(d);
    place(0);
    return strides;
}

// Channels-last in memory; the strides of sizes of 1 say nothing.
inline bool lies_last(const Tensor& t) {
    Dims strides = last_strides(t.shape());
    for (int64_t d = 0; d < t.dim(); d++) {
        if (t.shape()[d] != 1 && t.strides()[d] != strides[d]) return false;
    }
    return true;
}

// An input ready to be read.
struct Channels {
    Tensor t;               // in one of the two orders
    bool last = false;      // which one
    bool promised = false;  // the caller knows that it is channels-last

    explicit Channels(const Tensor& x) : t(x) {
        if (x.is_contiguous() || x.dim() < 3) {
            t = contiguous(x);
            return;
        }
        last = lies_last(x);
        if (last) promised = x.dim() > 3 && !x.impl()->free_layout;
        else t = contiguous(x);
    }
    // A result of the same order.
    Tensor result(const Dims& shape, DType dtype) const {
        if (!last) return empty(shape, dtype);
        Tensor y = empty_strided(shape, last_strides(shape), dtype);
        set_free_layout(y, !promised && !y.is_contiguous());
        return y;
    }
};

// `t` in the given order, copied where it is not.
inline Tensor in_order(const Tensor& t, bool last) {
    if (!last) return contiguous(t);
    if (lies_last(t)) return t;
    Tensor result = empty_strided(t.shape(), last_strides(t.shape()), t.dtype(), t.device());
    cpu::copy(result, t);
    return result;
}

}  // namespace fb
