// What the writing ops share.
#pragma once
#include "ops/index/gather.h"

namespace fb {

// What the op writes to: the in-place target, or a copy of the first argument.
Tensor write_target(Args& a);
// `source`, copied when it shares memory with what is going to be written.
Tensor apart(const Tensor& source, const Tensor& target);
// The value that changes nothing: 0 for Add, 1 for Multiply, the extremes for Max and Min.
Scalar neutral(device::Combine combine, DType dtype);

struct Reduction {
    device::Combine combine;
    bool mean;
};
// "prod", "mean", "amax", "amin" and, when wanted, "sum".
Reduction reduction_named(const std::string& name, bool with_sum);

}  // namespace fb
