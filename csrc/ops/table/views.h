// Views in the graph. A view is a way to read its base's memory: shape, strides, offset, dtype.
#pragma once
#include "autograd/node.h"

namespace fb {

// The history of a view whose base was written to: its gradient is at the same places of the base's.
Ref<Node> view_node(const Tensor& base, const Tensor& view);
// `change` is the history of a view of `base` that was just changed in place; returns the new history of the base.
Ref<Node> change_of_view(const Tensor& base, const Tensor& view, const Ref<Node>& change);
// as_strided as a recorded operation.
Tensor recorded_as_strided(const Tensor& t, const Dims& size, const Dims& stride, std::optional<int64_t> offset);
// `t` with its view `part` replaced by `source`, of the same shape, as recorded operations.
Tensor recorded_as_strided_scatter(const Tensor& t, const Tensor& part, const Tensor& source);

}  // namespace fb
