// Padding.
#pragma once
#include "ops/table/common.h"

namespace fb {

// `pad` lists (before, after) from the last dimension backwards; negative entries crop.
Tensor constant_pad(const Tensor& t, const Dims& pad, const Scalar& value);

}  // namespace fb
