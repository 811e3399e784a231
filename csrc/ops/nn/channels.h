// Tensors of shape (batch, channels, ...) in the two orders that pooling and normalization process directly: planes
// (row-major) and channels-last. Results keep the order of the input (Note [Layout freedom]).
#pragma once
#include "device/move.h"
#include "ops/shape/create.h"
#include "ops/table/common.h"
#include "ops/table/free_layout.h"
#include "tensor/layout.h"

namespace fb {

// Whether the strides are in channels-last order, possibly with gaps: a slice of a channels-last tensor.
inline bool lies_channels_last(const Tensor& x) {
    if (x.dim() < 4 || !x.numel()) return false;
    int64_t least = 1;
    auto next = [&](int64_t d) {
        int64_t step = x.strides()[d];
        bool fits = step >= least;
        least = std::max(step, least) * x.shape()[d];
        return fits;
    };
    if (!next(1)) return false;
    for (int64_t d = x.dim() - 1; d >= 2; d--) {
        if (!next(d)) return false;
    }
    return x.strides()[0] != x.strides()[1] && next(0);
}

// `t` in the given order, copied if necessary.
inline Tensor in_order(const Tensor& t, bool last) {
    if (!last) return contiguous(t);
    if (is_channels_last(t)) return t;
    Tensor result = empty_strided(t.shape(), channels_last_strides(t.shape()), t.dtype(), t.device());
    device::moving(t).copy(result, t);
    return result;
}

// An input in one of the two orders.
struct Channels {
    Tensor t;               // in one of the two orders
    bool last = false;      // which one
    bool promised = false;  // the user knows that it is channels-last

    explicit Channels(const Tensor& x) : t(x) {
        if (x.is_contiguous() || x.dim() < 3) {
            t = contiguous(x);
            return;
        }
        last = is_channels_last(x);
        if (last) {
            promised = x.dim() > 3 && !x.impl()->free_layout;
        } else {
            last = promised = lies_channels_last(x);
            t = in_order(x, last);
        }
    }
    // A result of the same order.
    Tensor result(const Dims& shape, DType dtype) const {
        if (!last) return empty(shape, dtype, t.device());
        Tensor y = empty_strided(shape, channels_last_strides(shape), dtype, t.device());
        set_free_layout(y, !promised && !y.is_contiguous());
        return y;
    }
};

// `y` in another dtype, keeping its layout freedom.
inline Tensor back(const Tensor& y, DType dtype) {
    Tensor result = to_dtype(y, dtype);
    result.impl()->free_layout = y.impl()->free_layout;
    return result;
}

inline void check_floating(const Tensor& x) {
    if (!is_floating(x.dtype())) fail_dtype(x.dtype(), "a floating point dtype");
}

}  // namespace fb
