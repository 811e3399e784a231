// How tensors lie in memory.
#pragma once
#include "tensor/tensor.h"

namespace fb {

// Strides without gaps in the order of dimensions that operands of this shape have in memory: the first operand that
// tells two dimensions apart decides; a stride of 0 (repeated elements) says nothing. PyTorch's rule for results.
Dims dense_strides(const Dims& shape, const Dims* operands, size_t count);

// Whether two tensors begin at one address.
inline bool same_place(const Tensor& a, const Tensor& b) { return a.raw() == b.raw(); }

// Strides of (batch, channels, ...) in memory order (batch, ..., channels), with any number of spatial dimensions.
Dims channels_last_strides(const Dims& shape);
// Whether a tensor lies in that order. The strides of sizes of 1 say nothing.
bool is_channels_last(const Tensor& t);

}  // namespace fb
