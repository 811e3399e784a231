// The error for an out= that cannot hold the result; out_rules.cpp has the rules for its dtype.
#pragma once
#include "base/dtype.h"

namespace fb {

// Raises for an out= whose dtype the result cannot be cast to; `out` is the op's name for its result.
[[noreturn]] void fail_cast(DType from, DType to, const char* out = "result");

}  // namespace fb
