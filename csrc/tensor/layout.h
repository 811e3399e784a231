// How results are laid out in memory.
#pragma once
#include "base/shape.h"

namespace fb {

// Strides without gaps in the order of dimensions that operands of this shape have in memory: the first operand that
// tells two dimensions apart decides; a stride of 0 (repeated elements) says nothing. PyTorch's rule for results.
Dims dense_strides(const Dims& shape, const Dims* operands, size_t count);

}  // namespace fb
