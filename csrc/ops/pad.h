// Padding.
#pragma once
#include "ops/common.h"

namespace fb {

// `pad` lists (before, after) from the last dimension backwards; negative entries crop.
Tensor constant_pad(const Tensor& t, const Dims& pad, const Scalar& value);
// Padding with the tensor's own elements: "reflect", "replicate" or "circular" over the last pad.size() / 2 dimensions.
Tensor pad_mode(const Tensor& t, const Dims& pad, const std::string& mode);

}  // namespace fb
