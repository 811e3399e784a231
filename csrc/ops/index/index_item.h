// x[...] and x[...] = value as recorded operations.
#pragma once
#include "ops/index/index.h"

namespace fb {

Tensor getitem(const Tensor& t, const std::vector<IndexItem>& items);
void setitem(const Tensor& t, const std::vector<IndexItem>& items, const Tensor& value);

}  // namespace fb
