// Element conversion between any two dtypes, strides in bytes.
#pragma once
#include "base/dtype.h"

namespace fb::cpu {

void convert_strided(char* to, DType to_dtype, int64_t to_stride, const char* from, DType from_dtype,
                     int64_t from_stride, int64_t n);

}  // namespace fb::cpu
