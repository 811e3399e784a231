// What is said of an out= that cannot hold the result; which dtypes it may have is in out_rules.cpp.
#pragma once
#include "base/dtype.h"

namespace fb {

// Raises for an out= of a dtype that the result cannot be cast to; `out` is what the op calls its result.
[[noreturn]] void fail_cast(DType from, DType to, const char* out = "result");

}  // namespace fb
