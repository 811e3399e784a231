// Quantized weights: arguments of ops, checked.
#pragma once
#include "device/quantized.h"
#include "ops/table/common.h"

namespace fb {

// From the arguments weight, scale, zero, format, group and columns, the first of which has the index `first`.
device::QuantWeight quant_weight(const Args& a, int first);

}  // namespace fb
