// Names, signatures and docstrings of variance, standard deviation and norms.
#include "ops/linear/linalg.h"
#include "ops/order/reduce.h"
#include "ops/table/common.h"

namespace fb {

// The three signatures: var(x, unbiased), var(x, dim, unbiased, keepdim), var(x, dim, correction=, keepdim=).
static std::pair<Tensor, Tensor> from_flag(Args& a, bool root) {
    return moments(a.tensor(0), std::nullopt, a.flag(1) ? 1 : 0, false, root);
}
static std::pair<Tensor, Tensor> from_dim(Args& a, bool root) {
    return moments(a.tensor(0), a.dims_or_none(1), a.flag(2) ? 1 : 0, a.flag(3), root);
}
static std::pair<Tensor, Tensor> from_correction(Args& a, bool root) {
    return moments(a.tensor(0), a.dims_or_none(1), a.number_or_none(2).value_or(1), a.flag(3), root);
}
static Value both(std::pair<Tensor, Tensor> p) { return std::vector<Tensor>{std::move(p.first), std::move(p.second)}; }

OP("var(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", COMMON,
   R"(Variance of all elements, or along given dimensions.

Args:
    input: a floating point or complex tensor.
    dim: dimension or dimensions to reduce; all by default.
    correction: number subtracted from the number of elements in the divisor; 1 by default.
    keepdim: whether to keep reduced dimensions with size 1.
    unbiased: older form of correction: True means 1, False means 0.

Example:
    >>> fb.var(fb.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(1.6667)
)") {
    return from_correction(a, false).first;
}
OP("var(Tensor input, bool unbiased) -> Tensor", COMMON, nullptr) { return from_flag(a, false).first; }
OP("var(Tensor input, int[]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", COMMON, nullptr) {
    return from_dim(a, false).first;
}

OP("std(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", COMMON,
   R"(Standard deviation of all elements, or along given dimensions.

Args:
    input: a floating point or complex tensor.
    dim: dimension or dimensions to reduce; all by default.
    correction: number subtracted from the number of elements in the divisor; 1 by default.
    keepdim: whether to keep reduced dimensions with size 1.
    unbiased: older form of correction: True means 1, False means 0.

Example:
    >>> fb.std(fb.tensor([[1.0, 3.0], [2.0, 6.0]]), dim=1)
    tensor([1.4142, 2.8284])
)") {
    return from_correction(a, true).first;
}
OP("std(Tensor input, bool unbiased) -> Tensor", COMMON, nullptr) { return from_flag(a, true).first; }
OP("std(Tensor input, int[]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", COMMON, nullptr) {
    return from_dim(a, true).first;
}

OP("var_mean(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor[]", FUNCTION,
   R"(Variance and mean in one pass.

Args:
    input: a floating point or complex tensor.
    dim: dimension or dimensions to reduce; all by default.
    correction: number subtracted from the number of elements in the divisor; 1 by default.
    keepdim: whether to keep reduced dimensions with size 1.
    unbiased: older form of correction: True means 1, False means 0.

Returns:
    A tuple (variance, mean).

Example:
    >>> fb.var_mean(fb.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
)") {
    return both(from_correction(a, false));
}
OP("var_mean(Tensor input, bool unbiased) -> Tensor[]", FUNCTION, nullptr) { return both(from_flag(a, false)); }
OP("var_mean(Tensor input, int[]? dim, bool unbiased=True, bool keepdim=False) -> Tensor[]", FUNCTION, nullptr) {
    return both(from_dim(a, false));
}

OP("std_mean(Tensor input, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor[]", FUNCTION,
   R"(Standard deviation and mean in one pass.

Args:
    input: a floating point or complex tensor.
    dim: dimension or dimensions to reduce; all by default.
    correction: number subtracted from the number of elements in the divisor; 1 by default.
    keepdim: whether to keep reduced dimensions with size 1.
    unbiased: older form of correction: True means 1, False means 0.

Returns:
    A tuple (standard deviation, mean).

Example:
    >>> fb.std_mean(fb.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
)") {
    return both(from_correction(a, true));
}
OP("std_mean(Tensor input, bool unbiased) -> Tensor[]", FUNCTION, nullptr) { return both(from_flag(a, true)); }
OP("std_mean(Tensor input, int[]? dim, bool unbiased=True, bool keepdim=False) -> Tensor[]", FUNCTION, nullptr) {
    return both(from_dim(a, true));
}

OP("norm(Tensor input, Scalar p, int[]? dim=None, bool keepdim=False, dtype? dtype=None) -> Tensor", COMMON,
   R"(Norm of all elements, or of the vectors along given dimensions.

Args:
    input: a floating point or complex tensor.
    p: order of the norm: a number (also inf or -inf), ``'fro'`` for the root of the sum of squares, ``'nuc'`` for the sum of singular values.
    dim: dimension or dimensions to reduce; all by default. ``'nuc'`` needs two.
    keepdim: whether to keep reduced dimensions with size 1.
    dtype: dtype to which the elements are converted first.

Example:
    >>> fb.norm(fb.tensor([3.0, 4.0]))
    tensor(5.)
    >>> fb.norm(fb.tensor([[3.0, -4.0], [1.0, 0.0]]), 1, dim=1)
    tensor([7., 1.])
)") {
    return vector_norm(a.tensor(0), a.number(1), a.dims_or_none(2), a.flag(3), a.dtype_or_none(4));
}

OP("norm(Tensor input, str? p='fro', int[]? dim=None, bool keepdim=False, dtype? dtype=None) -> Tensor", COMMON,
   nullptr) {
    std::string p = a.text_or_none(1).value_or("fro");
    check(p == "fro" || p == "nuc", "p must be a number, 'fro' or 'nuc', got '", p, "'");
    if (p == "fro") return vector_norm(a.tensor(0), 2, a.dims_or_none(2), a.flag(3), a.dtype_or_none(4));
    Tensor t = a.given(4) ? to_dtype(a.tensor(0), *a.dtype_or_none(4)) : a.tensor(0);
    Dims dims = a.dims_or_none(2).value_or(Dims{0, 1});
    check(a.given(2) ? dims.size() == 2 : t.dim() == 2,
          "'nuc' is a norm of matrices: dim must name two dimensions, got dim ", dims, " and shape ", t.shape());
    dims = wrap_dims(dims, t.dim());
    Dims order;
    for (int64_t d = 0; d < t.dim(); d++) {
        if (!dims.contains(d)) order.push_back(d);
    }
    order.push_back(dims[0]);
    order.push_back(dims[1]);
    Tensor result = sum(svd(permute(t, order), false, false).s, Dims{-1});
    if (!a.flag(3)) return result;
    return unsqueeze(unsqueeze(result, std::min(dims[0], dims[1])), std::max(dims[0], dims[1]));
}

}  // namespace fb
