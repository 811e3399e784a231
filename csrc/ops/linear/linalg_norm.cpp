// linalg.vector_norm: the reduction is implemented with the other reductions.
#include "ops/linear/linalg.h"
#include "ops/order/reduce.h"

namespace fb {

OP("linalg.vector_norm(Tensor x, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
   FUNCTION | OUT,
   R"(Norm of vectors: (sum of |x|**ord) ** (1 / ord).

Args:
    x: a floating point or complex tensor.
    ord: the order: 2 is the Euclidean norm, 0 counts non-zero elements, inf and -inf give the largest and the smallest.
    dim: the dimensions of the vectors; all if not given.
    keepdim: whether to keep these dimensions with size 1.
    dtype: computes and returns in this dtype.

Example:
    >>> fb.linalg.vector_norm(fb.tensor([3., 4.]))
    tensor(5.)
)") {
    const Tensor& x = a.tensor(0);
    check(is_floating(x.dtype()) || is_complex(x.dtype()), "needs a floating point or complex tensor, got ", x.dtype());
    check(a.scalar(1).kind != Kind::Complex, "Expected a non-complex scalar as the order of norm, ord");
    if (auto dtype = a.dtype_or_none(4)) {
        check(is_floating(*dtype) || is_complex(*dtype), "dtype must be floating point or complex, got ", *dtype);
        check(!is_complex(x.dtype()) || is_complex(*dtype), "dtype must be complex for a complex tensor, got ", *dtype);
        check(is_complex(x.dtype()) || !is_complex(*dtype), "dtype must be real for a real tensor, got ", *dtype);
        check(promote(x.dtype(), *dtype) == *dtype, "dtype ", *dtype, " is narrower than the tensor's ", x.dtype());
    }
    return vector_norm(x, a.number(1), a.dims_or_none(2), a.flag(3), a.dtype_or_none(4));
}

}  // namespace fb
