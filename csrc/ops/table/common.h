// Used by every op family: conversion, copies, outputs, promotion.
#pragma once
#include "base/parallel.h"
#include "ops/table/registry.h"
#include "tensor/tensor.h"

namespace fb {

// A contiguous tensor (t itself if it is one).
Tensor contiguous(const Tensor& t);
// Always a copy; keeps a dense layout.
Tensor clone(const Tensor& t);
// Converted, or t itself if it has the dtype.
Tensor to_dtype(const Tensor& t, DType dtype);
// to.copy_(from): broadcasts and converts; rejects read-only and self-overlapping targets.
void copy_into(const Tensor& to, const Tensor& from);
// Calls the copy primitive of a device that can access both tensors: copies, broadcasts and converts `from`.
void move_elements(const Tensor& to, const Tensor& from);
// The tensor on another device, with the same layout if it is dense; t itself if it is there already.
Tensor to_device(const Tensor& t, Device device);
// The device on which an op on these tensors computes: numbers and other 0-d tensors on the CPU follow the rest.
Device common_device(Tensors inputs);
Tensor full(const Dims& shape, const Scalar& value, DType dtype, Device device);
inline Tensor zeros(const Dims& shape, DType dtype, Device device) {
    return full(shape, Scalar(int64_t(0)), dtype, device);
}
void fill(const Tensor& t, const Scalar& value);
Tensor reshape(const Tensor& t, const Dims& shape);

// The tensor an op writes to: a.out if it can be used directly (right dtype, no overlap with an input other than being
// the same view; resized if out= has another shape), else a new one on the device of the inputs. In-place targets of
// another shape are an error.
Tensor output(Args& a, const Dims& shape, DType dtype, Tensors inputs);
// Checks shape and dtype of a.out, then copies: used by the dispatcher for results that are not a.out already.
void store_output(const Tensor& out, bool inplace, const Tensor& result);

// The checks of store_output alone.
void check_output(const Tensor& out, bool inplace, const Dims& shape, DType dtype);

// PyTorch's result dtype: tensors with dimensions take priority over 0-d tensors, and these over Python numbers, unless
// the kind is higher.
DType result_type(Tensors tensors);
DType result_type(const std::vector<Tensor>& tensors);
// The default float dtype for integers and bool; others unchanged.
inline DType float_result(DType d) { return is_integral_or_bool(d) ? default_dtype() : d; }

}  // namespace fb
