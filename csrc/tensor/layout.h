// Memory layouts of tensors.
#pragma once
#include "tensor/tensor.h"

namespace fb {

// Dense strides in the dimension order of the operands in memory, where all have this shape: the first operand that
// orders two dimensions decides; a stride of 0 (repeated elements) does not. PyTorch's rule for results.
Dims dense_strides(const Dims& shape, const Dims* operands, size_t count);

// Whether two tensors begin at the same address.
inline bool same_place(const Tensor& a, const Tensor& b) { return a.raw() == b.raw(); }

// Strides of (batch, channels, ...) in memory order (batch, ..., channels), with any number of spatial dimensions.
Dims channels_last_strides(const Dims& shape);
// Whether a tensor has that order in memory. The strides of dimensions of size 1 are ignored.
bool is_channels_last(const Tensor& t);

}  // namespace fb
