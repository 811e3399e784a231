// Views and rearrangements called by other families.
#pragma once
#include "ops/table/common.h"

namespace fb {

Tensor flatten(const Tensor& t, int64_t start = 0, int64_t end = -1);
Tensor movedim(const Tensor& t, const Dims& source, const Dims& destination);
Tensor squeeze_dims(const Tensor& t, const std::optional<Dims>& dims);
Tensor diagonal(const Tensor& t, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
Tensor view_as_real(const Tensor& t);
Tensor view_as_complex(const Tensor& t);
// The same bytes as another dtype; item sizes may differ if the last dimension allows it.
Tensor view_dtype(const Tensor& t, DType dtype);
// Any shape and strides over the storage of `t`; raises an error if an element is outside it.
Tensor as_strided(const Tensor& t, const Dims& size, const Dims& stride, std::optional<int64_t> offset);
Tensor unfold(const Tensor& t, int64_t dim, int64_t size, int64_t step);
std::vector<Tensor> unbind(const Tensor& t, int64_t dim);
std::vector<Tensor> split(const Tensor& t, int64_t size, int64_t dim);
std::vector<Tensor> split(const Tensor& t, const Dims& sizes, int64_t dim);

Tensor flip(const Tensor& t, const Dims& dims);
Tensor roll(const Tensor& t, const Dims& shifts, const Dims& dims);
Tensor repeat(const Tensor& t, const Dims& repeats);
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim);
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim);
Tensor index_select(const Tensor& t, int64_t dim, const Tensor& index);

// Gives the handle `t` the shape and strides of `view`, a view of the same storage, as transpose_() and others do.
// Returns t.
Tensor become(const Tensor& t, const Tensor& view);

}  // namespace fb
