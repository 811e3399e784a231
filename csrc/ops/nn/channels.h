// Tensors of shape (batch, channels, ...) in the two orders that pooling and normalisation work in directly: planes
// (row-major) and channels-last. Results keep the order of the input (Note [Layout freedom]).
#pragma once
#include "device/move.h"
#include "ops/shape/create.h"
#include "ops/table/common.h"
#include "ops/table/free_layout.h"
#include "tensor/layout.h"

namespace fb {

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
        last = is_channels_last(x);
        if (last) promised = x.dim() > 3 && !x.impl()->free_layout;
        else t = contiguous(x);
    }
    // A result of the same order.
    Tensor result(const Dims& shape, DType dtype) const {
        if (!last) return empty(shape, dtype, t.device());
        Tensor y = empty_strided(shape, channels_last_strides(shape), dtype, t.device());
        set_free_layout(y, !promised && !y.is_contiguous());
        return y;
    }
};

// `t` in the given order, copied where it is not.
inline Tensor in_order(const Tensor& t, bool last) {
    if (!last) return contiguous(t);
    if (is_channels_last(t)) return t;
    Tensor result = empty_strided(t.shape(), channels_last_strides(t.shape()), t.dtype(), t.device());
    device::moving(t).copy(result, t);
    return result;
}

// `y` in another dtype, as free in its layout as before.
inline Tensor back(const Tensor& y, DType dtype) {
    Tensor result = to_dtype(y, dtype);
    result.impl()->free_layout = y.impl()->free_layout;
    return result;
}

inline void check_floating(const Tensor& x) {
    if (!is_floating(x.dtype())) fail_dtype(x.dtype(), "a floating point dtype");
}

}  // namespace fb
