// The error for a write to a tensor whose elements overlap; it begins with PyTorch's words.
#pragma once

namespace fb {

inline constexpr const char* overlap_text =
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location (an "
    "expanded view?); clone() it first";

}  // namespace fb
