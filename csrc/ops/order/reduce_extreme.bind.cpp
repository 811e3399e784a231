// Names, signatures and docstrings of the extremes.
#include "ops/order/reduce.h"
#include "ops/table/common.h"

namespace fb {

static Value pair_of(std::pair<Tensor, Tensor> p) {
    return std::vector<Tensor>{std::move(p.first), std::move(p.second)};
}

// The elementwise form belongs to another family and is looked up in the table.
static Value elementwise(const char* name, Args& a) {
    const OpEntry& entry = op_entry(name);
    check(!entry.overloads.empty(), "needs the op ", name, ", which this build does not have");
    return entry.overloads.front().fn(a);
}

OP("amax(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor", COMMON,
   R"(Maximum of all elements, or along given dimensions; NaN if any element is NaN.

Args:
    input: a real tensor.
    dim: dimension or dimensions to reduce; all by default.
    keepdim: whether to keep reduced dimensions with size 1.

Example:
    >>> fb.amax(fb.tensor([[1, 5], [7, 2]]), 1)
    tensor([5, 7])
)") {
    return amax(a.tensor(0), a.dims_or_none(1), a.flag(2));
}

OP("amin(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor", COMMON,
   R"(Minimum of all elements, or along given dimensions; NaN if any element is NaN.

Args:
    input: a real tensor.
    dim: dimension or dimensions to reduce; all by default.
    keepdim: whether to keep reduced dimensions with size 1.

Example:
    >>> fb.amin(fb.tensor([[1, 5], [7, 2]]), 1)
    tensor([1, 2])
)") {
    return amin(a.tensor(0), a.dims_or_none(1), a.flag(2));
}

OP("aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", COMMON,
   R"(Minimum and maximum in one pass.

Args:
    input: a real tensor.
    dim: dimension to reduce; all by default.
    keepdim: whether to keep the reduced dimension with size 1.

Returns:
    A named tuple (min, max).

Example:
    >>> low, high = fb.aminmax(fb.tensor([3, 1, 4]))
    >>> low, high
    (tensor(1), tensor(4))
)") {
    auto dim = a.integer_or_none(1);
    return pair_of(aminmax(a.tensor(0), dim ? std::optional(Dims{*dim}) : std::nullopt, a.flag(2)));
}

OP("max(Tensor input) -> Tensor", COMMON,
   R"(Maximum of all elements; with ``dim``, the maxima along it and their indices; with two tensors, their elementwise maximum.

Args:
    input: a real tensor.
    dim: dimension to reduce.
    keepdim: whether to keep the reduced dimension with size 1.
    other: second tensor of the elementwise form, the same as ``maximum``.

Returns:
    A tensor, or with ``dim`` a named tuple (values, indices) with the index of the first largest element.

Example:
    >>> fb.max(fb.tensor([[1, 5], [7, 2]]))
    tensor(7)
    >>> values, indices = fb.max(fb.tensor([[1, 5], [7, 2]]), dim=1)
    >>> indices
    tensor([1, 0])
)") {
    return amax(a.tensor(0));
}
// Must precede the next form: a 0-d integer tensor could also be a dim.
OP("max(Tensor input, Tensor other) -> Tensor", COMMON, nullptr) { return elementwise("maximum", a); }
OP("max(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", COMMON, nullptr) {
    return pair_of(extreme_along(a.tensor(0), a.integer(1), a.flag(2), true));
}

OP("min(Tensor input) -> Tensor", COMMON,
   R"(Minimum of all elements; with ``dim``, the minima along it and their indices; with two tensors, their elementwise minimum.

Args:
    input: a real tensor.
    dim: dimension to reduce.
    keepdim: whether to keep the reduced dimension with size 1.
    other: second tensor of the elementwise form, the same as ``minimum``.

Returns:
    A tensor, or with ``dim`` a named tuple (values, indices) with the index of the first smallest element.

Example:
    >>> fb.min(fb.tensor([[1, 5], [7, 2]]))
    tensor(1)
    >>> values, indices = fb.min(fb.tensor([[1, 5], [7, 2]]), dim=1)
    >>> indices
    tensor([0, 1])
)") {
    return amin(a.tensor(0));
}
// Must precede the next form: a 0-d integer tensor could also be a dim.
OP("min(Tensor input, Tensor other) -> Tensor", COMMON, nullptr) { return elementwise("minimum", a); }
OP("min(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", COMMON, nullptr) {
    return pair_of(extreme_along(a.tensor(0), a.integer(1), a.flag(2), false));
}

OP("argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor", COMMON,
   R"(Index of the first maximum, in the flattened tensor or along a dimension.

Args:
    input: a tensor of integers or floating point numbers.
    dim: dimension to reduce; the flattened tensor by default.
    keepdim: whether to keep the reduced dimension with size 1.

Example:
    >>> fb.argmax(fb.tensor([[1, 5], [7, 2]]), dim=1)
    tensor([1, 0])
)") {
    return arg_extreme(a.tensor(0), a.integer_or_none(1), a.flag(2), true);
}

OP("argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor", COMMON,
   R"(Index of the first minimum, in the flattened tensor or along a dimension.

Args:
    input: a tensor of integers or floating point numbers.
    dim: dimension to reduce; the flattened tensor by default.
    keepdim: whether to keep the reduced dimension with size 1.

Example:
    >>> fb.argmin(fb.tensor([[1, 5], [7, 2]]))
    tensor(0)
)") {
    return arg_extreme(a.tensor(0), a.integer_or_none(1), a.flag(2), false);
}

}  // namespace fb
