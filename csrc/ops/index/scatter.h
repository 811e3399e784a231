// Shared by the ops that write by index.
#pragma once
#include "ops/index/gather.h"

namespace fb {

// The tensor the op writes to: the in-place target, or a copy of the first argument.
Tensor write_target(Args& a);
// `source`, copied if it shares memory with the target.
Tensor apart(const Tensor& source, const Tensor& target);
// The identity of the operation: 0 for Add, 1 for Multiply, the extremes for Max and Min.
Scalar neutral(device::Combine combine, DType dtype);

struct Reduction {
    device::Combine combine;
    bool mean;
};
// "prod", "mean", "amax", "amin" and, if `with_sum`, "sum".
Reduction reduction_named(const std::string& name, bool with_sum);

}  // namespace fb
