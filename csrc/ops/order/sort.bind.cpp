// Names, signatures and docstrings of sorting and selection.
#include "ops/order/sort.h"

#include "ops/table/common.h"

namespace fb {

static Value both(std::pair<Tensor, Tensor> p) { return std::vector<Tensor>{std::move(p.first), std::move(p.second)}; }

OP("sort(Tensor input, int dim=-1, bool descending=False, *, bool? stable=False) -> (Tensor values, Tensor indices)",
   COMMON, R"(Sorts along a dimension. NaN counts as larger than all numbers.

Args:
    input: a real tensor.
    dim: dimension to sort along.
    descending: sort in descending order.
    stable: keep the order of equal elements. The sort is always stable; the argument is accepted for compatibility.

Returns:
    A named tuple (values, indices).

Example:
    >>> values, indices = fb.sort(fb.tensor([3, 1, 2]))
    >>> values
    tensor([1, 2, 3])
    >>> indices
    tensor([1, 2, 0])
)") {
    return both(sort(a.tensor(0), a.integer(1), a.flag(2)));
}
OP("sort(Tensor input, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", COMMON,
   nullptr) {
    return both(sort(a.tensor(0), a.integer(2), a.flag(3)));
}

OP("argsort(Tensor input, int dim=-1, bool descending=False, *, bool? stable=False) -> Tensor", FUNCTION | METHOD | OUT,
   R"(Indices that sort a tensor along a dimension.

Args:
    input: a real tensor.
    dim: dimension to sort along.
    descending: sort in descending order.
    stable: keep the order of equal elements. The sort is always stable; the argument is accepted for compatibility.

Example:
    >>> fb.argsort(fb.tensor([30, 10, 20]))
    tensor([1, 2, 0])
)") {
    return sort(a.tensor(0), a.integer(1), a.flag(2)).second;
}

OP("msort(Tensor input) -> Tensor", COMMON, R"(Sorts along the first dimension.

Args:
    input: a real tensor.

Example:
    >>> fb.msort(fb.tensor([[3, 1], [2, 5]]))
    tensor([[2, 1],
            [3, 5]])
)") {
    return sort(a.tensor(0), 0, false).first;
}

OP("topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
   COMMON, R"(The k largest or smallest elements along a dimension.

Args:
    input: a tensor of integers or floating point numbers.
    k: number of elements.
    dim: dimension to reduce.
    largest: whether to return the largest elements; False for the smallest.
    sorted: whether to return them in order.

Returns:
    A named tuple (values, indices).

Example:
    >>> values, indices = fb.topk(fb.tensor([1, 4, 3, 5]), 2)
    >>> values
    tensor([5, 4])
    >>> indices
    tensor([3, 1])
)") {
    return both(topk(a.tensor(0), a.integer(1), a.integer(2), a.flag(3), a.flag(4)));
}

OP("kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", COMMON,
   R"(The k-th smallest element along a dimension, counted from 1.

Args:
    input: a tensor of integers or floating point numbers.
    k: the rank, counted from 1.
    dim: dimension to reduce.
    keepdim: whether to keep the reduced dimension with size 1.

Returns:
    A named tuple (values, indices).

Example:
    >>> fb.kthvalue(fb.tensor([5, 1, 4]), 2)[0]
    tensor(4)
)") {
    return both(kthvalue(a.tensor(0), a.integer(1), a.integer(2), a.flag(3)));
}

OP("median(Tensor input) -> Tensor", COMMON,
   R"(Median of all elements, or along a dimension: the lower of two middle elements. NaN if any element is NaN.

Args:
    input: a tensor of integers or floating point numbers.
    dim: dimension to reduce.
    keepdim: whether to keep the reduced dimension with size 1.

Returns:
    A tensor, or with ``dim`` a named tuple (values, indices).

Example:
    >>> fb.median(fb.tensor([5, 1, 4, 3]))
    tensor(3)
)") {
    return median(a.tensor(0), false);
}
OP("median(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", COMMON, nullptr) {
    return both(median_along(a.tensor(0), a.integer(1), a.flag(2), false));
}

OP("nanmedian(Tensor input) -> Tensor", COMMON,
   R"(Median of the elements that are not NaN, of all or along a dimension.

Args:
    input: a tensor of integers or floating point numbers.
    dim: dimension to reduce.
    keepdim: whether to keep the reduced dimension with size 1.

Returns:
    A tensor, or with ``dim`` a named tuple (values, indices).

Example:
    >>> fb.nanmedian(fb.tensor([5.0, float('nan'), 4.0, 3.0]))
    tensor(4.)
)") {
    return median(a.tensor(0), true);
}
OP("nanmedian(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", COMMON, nullptr) {
    return both(median_along(a.tensor(0), a.integer(1), a.flag(2), true));
}

OP("mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", COMMON,
   R"(The most frequent element along a dimension; the smallest one if there are several.

Args:
    input: a real tensor.
    dim: dimension to reduce.
    keepdim: whether to keep the reduced dimension with size 1.

Returns:
    A named tuple (values, indices) with the place of the last of the equal elements.

Example:
    >>> fb.mode(fb.tensor([2, 1, 2, 3, 1, 2]))[0]
    tensor(2)
)") {
    return both(mode(a.tensor(0), a.integer(1), a.flag(2)));
}

}  // namespace fb
