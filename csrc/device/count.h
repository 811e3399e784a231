// Histograms: counting elements, or summing their weights.
#pragma once
#include "device/table.h"

namespace fb::device {

struct Counting {
    // out.numel() bins of equal width between low and high; float32 or float64, `out` of the same dtype.
    void (*bins)(const Tensor& in, double low, double high, const Tensor& out);
    // int64 integers from 0 to out.numel() - 1; `weights` has the dtype of `out`, float32 or float64, or is undefined
    // for int64 counts. `out` is zero-initialised.
    void (*integers)(const Tensor& in, const Tensor& weights, const Tensor& out);
    // Bins between ascending edges, which are equally spaced if `even`; weights may be undefined. float32 or float64.
    void (*between)(const Tensor& in, const Tensor& edges, const Tensor& weights, bool even, const Tensor& out);
};
inline const Counting& counting(const Tensor& on) { return device::on<Counting>(on.device()); }

}  // namespace fb::device
