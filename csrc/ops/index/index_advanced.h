// Masks and index tensors, applied to the view made by the basic items.
#pragma once
#include "ops/table/common.h"

namespace fb {

// A mask covers as many dimensions of the base as it has, from `dim` on; an integer tensor covers only `dim`.
struct AdvancedItem {
    int64_t dim;
    Tensor indices;
};

Tensor advanced_get(const Tensor& base, const std::vector<AdvancedItem>& items);
void advanced_set(const Tensor& base, const std::vector<AdvancedItem>& items, const Tensor& value, bool accumulate);

// Removes leading dimensions of size one from `value` until it has at most `dim` dimensions.
Tensor drop_leading_ones(const Tensor& value, int64_t dim);

}  // namespace fb
