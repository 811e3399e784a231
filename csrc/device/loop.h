// Formulas over tensors that broadcast together.
#pragma once
#include "device/formula.h"
#include "device/table.h"

namespace fb::device {

struct Looping {
    // out = formula(in…): `in` points to as many tensors as the formula has inputs, which broadcast to the shape of
    // `out`. They are converted to the compute type of `common`, the dtype they were promoted to; `out` may have any
    // dtype. `cost` as in Formula.
    void (*run)(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in,
                const Numbers* numbers, double cost);
    // The same for a formula with two results, of a floating point tensor.
    void (*run_pair)(const Formula& formula, const Tensor& first, const Tensor& second, const Tensor& x);
};
inline const Looping& looping(const Tensor& on) { return device::on<Looping>(on.device()); }

}  // namespace fb::device
