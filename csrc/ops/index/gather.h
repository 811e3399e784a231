// Reading and writing along one dimension by indices: helpers of gather.cpp, scatter.cpp and index_dim.cpp.
#pragma once
#include "device/index.h"
#include "ops/table/common.h"

namespace fb {

Tensor gather(const Tensor& t, int64_t dim, const Tensor& index, bool wrap = false);

// Raises an error if out= shares memory with an input.
void check_apart(const Args& a, Tensors inputs);
// A 0-d tensor viewed with shape (1,); others unchanged.
Tensor line_view(const Tensor& t);
// A 0-d or 1-d integer tensor as a vector.
Tensor dim_index(const Tensor& index);
// Byte offsets of the slices selected by `index` along `dim`; out of range is an IndexError.
Tensor row_offsets(const Tensor& t, int64_t dim, const Tensor& index, bool wrap);
// Slice 0 along `dim` (which may be empty only if the slice is not read).
Tensor rows_of(const Tensor& t, int64_t dim);

}  // namespace fb
