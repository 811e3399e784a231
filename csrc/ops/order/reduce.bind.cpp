// Names, signatures and docstrings of the reductions to sums and truth values.
#include "ops/order/reduce.h"

#include "base/wording.h"
#include "ops/table/common.h"

namespace fb {

OP("sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", COMMON | FREE,
   R"(Sum of all elements, or along given dimensions.

Bools and integers are summed as int64; float16 and bfloat16 are accumulated in float32.

Args:
    input: the tensor.
    dim: dimension or dimensions to sum over; all by default.
    keepdim: whether to keep reduced dimensions with size 1.
    dtype: dtype to which the elements are converted before they are summed.

Example:
    >>> fb.sum(fb.tensor([[1, 2], [3, 4]]), dim=0)
    tensor([4, 6])
)") {
    return sum(a.tensor(0), a.dims_or_none(1), a.flag(2), a.dtype_or_none(3));
}

OP("nansum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", COMMON,
   R"(Sum with NaN taken as zero.

Args:
    input: the tensor, not complex.
    dim: dimension or dimensions to sum over; all by default.
    keepdim: whether to keep reduced dimensions with size 1.
    dtype: dtype to which the elements are converted before they are summed.

Example:
    >>> fb.nansum(fb.tensor([1.0, float('nan'), 2.0]))
    tensor(3.)
)") {
    auto dtype = a.given(3) || !a.out ? a.dtype_or_none(3) : std::optional(a.out.dtype());
    if (a.out && !a.given(3) && is_floating(a.tensor(0).dtype()) && !is_floating(a.out.dtype()))
        fail_type("result type ", scalar_type(a.tensor(0).dtype()), " can't be cast to the desired output type ",
                  scalar_type(a.out.dtype()), "; give dtype= to convert the elements first");
    return nansum(a.tensor(0), a.dims_or_none(1), a.flag(2), dtype);
}

OP("mean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", COMMON | FREE,
   R"(Arithmetic mean of all elements, or along given dimensions.

Args:
    input: a floating point or complex tensor, or any with ``dtype`` given.
    dim: dimension or dimensions to average over; all by default.
    keepdim: whether to keep reduced dimensions with size 1.
    dtype: dtype to which the elements are converted first.

Example:
    >>> fb.mean(fb.tensor([[1.0, 2.0], [3.0, 6.0]]), 1)
    tensor([1.5000, 4.5000])
)") {
    return mean(a.tensor(0), a.dims_or_none(1), a.flag(2), a.dtype_or_none(3));
}

OP("prod(Tensor input, *, dtype? dtype=None) -> Tensor", COMMON, R"(Product of all elements, or along one dimension.

Args:
    input: the tensor; bools and integers are multiplied as int64.
    dim: dimension to multiply along; all by default.
    keepdim: whether to keep the reduced dimension with size 1.
    dtype: dtype to which the elements are converted first.

Example:
    >>> fb.prod(fb.tensor([[1, 2], [3, 4]]), 0)
    tensor([3, 8])
)") {
    return prod(a.tensor(0), std::nullopt, false, a.dtype_or_none(1));
}
OP("prod(Tensor input, int dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor", COMMON, nullptr) {
    return prod(a.tensor(0), Dims{a.integer(1)}, a.flag(2), a.dtype_or_none(3));
}

OP("count_nonzero(Tensor input, int[]? dim=None) -> Tensor", FUNCTION | METHOD,
   R"(Number of nonzero elements, in total or along given dimensions.

Args:
    input: the tensor.
    dim: dimension or dimensions to count along; all by default.

Example:
    >>> fb.count_nonzero(fb.tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
)") {
    return count_nonzero(a.tensor(0), a.dims_or_none(1));
}

// An empty list of dims reduces nothing here, as in PyTorch: every element is tested separately.
static Tensor truth(Args& a, bool every) {
    const Tensor& t = a.tensor(0);
    if (a.out && a.out.dtype() != DType::Bool && a.out.dtype() != DType::U8) {
        fail_type(every ? "all" : "any", " only supports bool tensor for result, got ", a.out.dtype(),
                  "; give out= the dtype bool or uint8");
    }
    auto dims = a.dims_or_none(1);
    Tensor result;
    if (dims && dims->empty() && t.dim()) {
        Tensor apart = unsqueeze(t, t.dim());
        result = every ? all(apart, Dims{-1}) : any(apart, Dims{-1});
    } else {
        result = every ? all(t, dims, a.flag(2)) : any(t, dims, a.flag(2));
    }
    return a.out && a.out.dtype() == DType::Bool ? to_dtype(result, DType::Bool) : result;
}

OP("all(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor", COMMON,
   R"(Whether all elements are true (not zero).

Args:
    input: the tensor.
    dim: dimension or dimensions to test along; all by default.
    keepdim: whether to keep reduced dimensions with size 1.

Returns:
    A bool tensor; uint8 for a uint8 input.

Example:
    >>> fb.all(fb.tensor([[True, False], [True, True]]), dim=1)
    tensor([False,  True])
)") {
    return truth(a, true);
}

OP("any(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor", COMMON,
   R"(Whether at least one element is true (not zero).

Args:
    input: the tensor.
    dim: dimension or dimensions to test along; all by default.
    keepdim: whether to keep reduced dimensions with size 1.

Returns:
    A bool tensor; uint8 for a uint8 input.

Example:
    >>> fb.any(fb.tensor([[0, 0], [0, 3]]), dim=1)
    tensor([False,  True])
)") {
    return truth(a, false);
}

}  // namespace fb
