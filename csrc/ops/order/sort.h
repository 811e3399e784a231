// Sorting, selection and search for other families.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace fb {

// Sorted values and their original indices (int64); always stable.
std::pair<Tensor, Tensor> sort(const Tensor& t, int64_t dim = -1, bool descending = false);
std::pair<Tensor, Tensor> topk(const Tensor& t, int64_t k, int64_t dim, bool largest, bool sorted);
// k counts from 1.
std::pair<Tensor, Tensor> kthvalue(const Tensor& t, int64_t k, int64_t dim, bool keepdim);
// The lower of the two middle elements; NaN if there is one, unless NaNs are ignored.
std::pair<Tensor, Tensor> median_along(const Tensor& t, int64_t dim, bool keepdim, bool ignore_nan);
Tensor median(const Tensor& t, bool ignore_nan);
std::pair<Tensor, Tensor> mode(const Tensor& t, int64_t dim, bool keepdim);

}  // namespace fb
