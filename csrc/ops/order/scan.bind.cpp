// Names, signatures and docstrings of cumulative ops.
#include "ops/order/scan.h"

#include "base/wording.h"
#include "ops/table/common.h"

namespace fb {

static Value both(std::pair<Tensor, Tensor> p) { return std::vector<Tensor>{std::move(p.first), std::move(p.second)}; }

// Without dtype=, the scan runs in the dtype of the tensor it is written to; bool cannot hold a sum.
static std::optional<DType> wanted_dtype(const Args& a, int i) {
    if (a.given(i) && a.out && !a.inplace && *a.dtype_or_none(i) != a.out.dtype()) {
        fail_type(OutDType{*a.dtype_or_none(i), a.out.dtype()},
                  "; give dtype= and out= the same dtype, or one of them only");
    }
    bool sums = a.inplace || a.tensor(0).dim() > 0;
    if (a.given(i) || !a.out || (a.out.dtype() == DType::Bool && sums)) return a.dtype_or_none(i);
    return a.out.dtype();
}

OP("cumsum(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", POINTWISE, R"(Cumulative sums along a dimension.

Args:
    input: the tensor; bools and integers are summed as int64.
    dim: dimension of the scan.
    dtype: dtype to which the elements are converted first.

Example:
    >>> fb.cumsum(fb.tensor([1, 2, 3]), dim=0)
    tensor([1, 3, 6])
)") {
    return cumsum(a.tensor(0), a.integer(1), wanted_dtype(a, 2));
}

OP("cumprod(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", POINTWISE,
   R"(Cumulative products along a dimension.

Args:
    input: the tensor; bools and integers are multiplied as int64.
    dim: dimension of the scan.
    dtype: dtype to which the elements are converted first.

Example:
    >>> fb.cumprod(fb.tensor([1, 2, 3, 4]), dim=0)
    tensor([ 1,  2,  6, 24])
)") {
    return cumprod(a.tensor(0), a.integer(1), wanted_dtype(a, 2));
}

OP("logcumsumexp(Tensor input, int dim) -> Tensor", COMMON,
   R"(Logarithm of the cumulative sums of exponentials along a dimension.

Args:
    input: a floating point or complex tensor.
    dim: dimension of the scan.

Example:
    >>> fb.logcumsumexp(fb.tensor([0.0, 0.0, 0.0]), dim=0)
    tensor([0.0000, 0.6931, 1.0986])
)") {
    return logcumsumexp(a.tensor(0), a.integer(1));
}

OP("cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)", COMMON,
   R"(Cumulative maximum along a dimension, and its index.

Args:
    input: a real tensor.
    dim: dimension of the scan.

Returns:
    A named tuple (values, indices) with the index of the last of equal elements.

Example:
    >>> fb.cummax(fb.tensor([1, 3, 2, 4]), dim=0)[0]
    tensor([1, 3, 3, 4])
)") {
    return both(cumulative_extreme(a.tensor(0), a.integer(1), true));
}

OP("cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)", COMMON,
   R"(Cumulative minimum along a dimension, and its index.

Args:
    input: a real tensor.
    dim: dimension of the scan.

Returns:
    A named tuple (values, indices) with the index of the last of equal elements.

Example:
    >>> fb.cummin(fb.tensor([3, 4, 1, 2]), dim=0)[0]
    tensor([3, 3, 1, 1])
)") {
    return both(cumulative_extreme(a.tensor(0), a.integer(1), false));
}

}  // namespace fb
