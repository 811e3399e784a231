// Gradients of normalization composed of differentiable ops, for higher-order gradients.
#pragma once
#include "ops/table/values.h"

namespace fb {

// Arguments as in the signatures of _batch_norm_gradient, _group_norm_gradient and _row_norm_gradient.
std::vector<Tensor> composed_batch_norm_gradient(const Args& a);
std::vector<Tensor> composed_group_norm_gradient(const Args& a);
std::vector<Tensor> composed_row_norm_gradient(const Args& a);

}  // namespace fb
