// Shared by linear maps and recurrent layers.
#pragma once
#include "ops/table/common.h"

namespace fb {

// All but the last dimension as rows of a matrix.
Tensor all_rows(const Tensor& x);
// Whether x is a transposed view: (L, N, E) of memory in the order (N, L, E). Results then get the same layout, and
// nothing is copied.
bool is_transposed_view(const Tensor& x);

}  // namespace fb
