// softmax, log_softmax and logsumexp.
#include "device/scan.h"
#include "ops/order/reduce.h"
#include "ops/table/common.h"

namespace fb {
namespace {

Tensor along_dim(const Tensor& t, int64_t dim, std::optional<DType> dtype, bool logarithm) {
    DType result = dtype.value_or(t.dtype());
    if (!is_floating(result))
        fail_type("expected a floating point dtype, got ", result, "; convert it, or give dtype=");
    int64_t d = wrap_dim(dim, t.dim());
    Tensor in = to_dtype(t, result);
    int64_t size = t.dim() ? t.shape()[d] : 1, inner = 1;
    for (int64_t k = d + 1; k < t.dim(); k++) inner *= t.shape()[k];
    // Few columns that are long: transpose them to rows.
    if (inner > 1 && inner < 16 && size >= 64) {
        Tensor rows = contiguous(transpose(in, d, t.dim() - 1)), out_rows = empty(rows.shape(), result, t.device());
        device::scanning(t).softmax(rows, out_rows, t.dim() - 1, logarithm);
        return contiguous(transpose(out_rows, d, t.dim() - 1));
    }
    in = contiguous(in);
    Tensor out = empty(t.shape(), result, t.device());
    device::scanning(t).softmax(in, out, d, logarithm);
    return out;
}

}  // namespace

OP("softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor", COMMON,
   R"(Exponentials scaled to sum to one along a dimension.

Args:
    input: a floating point tensor, or any real one with ``dtype`` given.
    dim: dimension along which the result sums to one.
    dtype: dtype to which the elements are converted first.

Example:
    >>> fb.softmax(fb.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
)") {
    return along_dim(a.tensor(0), a.integer(1), a.dtype_or_none(2), false);
}
OP_ALIAS("special.softmax", "softmax");

OP("log_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor", COMMON,
   R"(Logarithm of softmax, without losing digits to the exponential.

Args:
    input: a floating point tensor, or any real one with ``dtype`` given.
    dim: dimension along which the exponentials of the result sum to one.
    dtype: dtype to which the elements are converted first.

Example:
    >>> fb.log_softmax(fb.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
)") {
    return along_dim(a.tensor(0), a.integer(1), a.dtype_or_none(2), true);
}
OP_ALIAS("special.log_softmax", "log_softmax");

OP("logsumexp(Tensor input, int[] dim, bool keepdim=False) -> Tensor", COMMON,
   R"(Logarithm of the sum of exponentials, without overflow.

Args:
    input: a real tensor; integers are converted to the default dtype.
    dim: dimension or dimensions to sum over.
    keepdim: whether to keep reduced dimensions with size 1.

Example:
    >>> fb.logsumexp(fb.tensor([0.0, 0.0]), dim=0)
    tensor(0.6931)
)") {
    return logsumexp(a.tensor(0), a.dims(1), a.flag(2));
}
OP_ALIAS("special.logsumexp", "logsumexp");

}  // namespace fb
