// Cumulative ops, for other families.
#pragma once
#include <optional>
#include <utility>

#include "tensor/tensor.h"

namespace fb {

Tensor cumsum(const Tensor& t, int64_t dim, std::optional<DType> dtype = {});
Tensor cumprod(const Tensor& t, int64_t dim, std::optional<DType> dtype = {});
Tensor logcumsumexp(const Tensor& t, int64_t dim);
// Cumulative extremes and their indices.
std::pair<Tensor, Tensor> cumulative_extreme(const Tensor& t, int64_t dim, bool largest);

}  // namespace fb
