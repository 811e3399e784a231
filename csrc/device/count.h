// Counting elements, or adding up their weights.
#pragma once
#include "device/table.h"

namespace fb::device {

struct Counting {
    // In out.numel() bins of one width between low and high; float32 or float64, `out` of the same dtype.
    void (*bins)(const Tensor& in, double low, double high, const Tensor& out);
    // Integers from 0 to below out.numel(), int64; `weights` of the dtype of `out`, float32 or float64, or undefined
    // for int64 counts. `out` comes filled with zeros.
    void (*integers)(const Tensor& in, const Tensor& weights, const Tensor& out);
    // Between ascending edges, which may lie at equal distances; weights may be undefined. float32 or float64.
    void (*between)(const Tensor& in, const Tensor& edges, const Tensor& weights, bool even, const Tensor& out);
};
inline const Counting& counting(const Tensor& on) { return device::on<Counting>(on.device()); }

}  // namespace fb::device
