// What every op family uses: conversion, copies, outputs, promotion.
#pragma once
#include "base/parallel.h"
#include "ops/table/registry.h"
#include "tensor/tensor.h"

namespace fb {

// Contiguous version (itself when it already is one).
Tensor contiguous(const Tensor& t);
// Always a copy; keeps a dense layout.
Tensor clone(const Tensor& t);
// Converted, or itself when nothing changes.
Tensor to_dtype(const Tensor& t, DType dtype);
// to.copy_(from): broadcast and convert; refuses read-only and self-overlapping targets.
void copy_into(const Tensor& to, const Tensor& from);
// The copy primitive of the device that can reach both: the elements of `from`, broadcast and converted.
void move_elements(const Tensor& to, const Tensor& from);
// On another device, with the same layout where that is dense; itself when it is there already.
Tensor to_device(const Tensor& t, Device device);
// Where an op on these computes: numbers and other 0-d tensors on the CPU go with the rest.
Device common_device(Tensors inputs);
Tensor full(const Dims& shape, const Scalar& value, DType dtype, Device device);
inline Tensor zeros(const Dims& shape, DType dtype, Device device) {
    return full(shape, Scalar(int64_t(0)), dtype, device);
}
void fill(const Tensor& t, const Scalar& value);
Tensor reshape(const Tensor& t, const Dims& shape);

// The tensor an op writes to: a.out when it can be used directly (right dtype, no overlap with an input other than
// being the same view; resized when out= has another shape), else a fresh one on the device of the inputs. In-place
// targets of another shape are an error.
Tensor output(Args& a, const Dims& shape, DType dtype, Tensors inputs);
// Checks shape and dtype of a.out, then copies: what the dispatcher does for results that are not a.out already.
void store_output(const Tensor& out, bool inplace, const Tensor& result);

// Only the checks of it.
void check_output(const Tensor& out, bool inplace, const Dims& shape, DType dtype);

// PyTorch's result dtype: tensors with dimensions beat 0-d tensors beat Python numbers, unless the kind is higher.
DType result_type(Tensors tensors);
DType result_type(const std::vector<Tensor>& tensors);
// Integers and bool become the default float dtype; others stay.
inline DType float_result(DType d) { return is_integral_or_bool(d) ? default_dtype() : d; }

}  // namespace fb
