// Vectorised integer division. Processors divide doubles in vectors but integers one by one; below 2⁵³ the double
// quotient, rounded to an integer, is exact.
#pragma once
#include "backend/cpu/loops.h"
#include "device/formula.h"

namespace fb::cpu {

enum class Division { Floor, FloorRemainder, Truncate, TruncateRemainder };

// For int32 and int64; null for other dtypes. Divisors must not be zero.
TileFn division_tile(DType dtype, Division division);
// Adds these kernels to a formula.
void add_divisions(const Formula& formula, Division division);

}  // namespace fb::cpu
