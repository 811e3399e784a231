// Gradients of cumulative sums and products.
#include "device/scan.h"

#include <limits>

#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {

static constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- one linear recurrence ------------------------------------------------------------------------------------------

// y[i] = x[i] + f[i] * y[i - 1], or in reverse y[i] = x[i] + f[i + 1] * y[i + 1]: each is the other's transpose.
// Without factors: cumulative sums. It gives the gradients of cumprod and related ops without division.
OP("_linear_scan(Tensor input, Tensor? factor, int dim, bool reverse) -> Tensor", 0) {
    const Tensor& x = a.tensor(0);
    Tensor f = a.given(1) ? a.tensor(1) : Tensor();
    if (f) check(f.shape() == x.shape() && f.dtype() == x.dtype(), "factors differ from the input in shape or dtype");
    if (x.dim() == 0) return clone(x);
    Tensor in = contiguous(to_dtype(x, compute_dtype(x.dtype()))), out = empty(x.shape(), in.dtype(), x.device());
    device::scanning(x).linear(in, f ? contiguous(to_dtype(f, in.dtype())) : f, out, wrap_dim(a.integer(2), x.dim()),
                               a.flag(3));
    return to_dtype(out, x.dtype());
}
// The element before (or after) each along `dim`; `value` at the end.
static Var neighbour(const Var& x, int64_t dim, bool behind, double value = 0) {
    if (x.dim() == 0) return full_of({}, Scalar(value), x.dtype(), x.device());
    Dims pad(2 * (x.dim() - wrap_dim(dim, x.dim())));
    pad[pad.size() - 2] = behind ? -1 : 1;
    pad[pad.size() - 1] = behind ? 1 : -1;
    return call<"constant_pad_nd">(x, pad, Scalar(value));
}
static Var linear_scan(const Var& x, const Var& factor, int64_t dim, bool reverse) {
    return call<"_linear_scan">(x, factor, dim, reverse);
}
GRAD("_linear_scan", IN(1), IN(1) | RESULT(0)) {
    int64_t dim = c.integer(2);
    bool reverse = c.flag(3);
    Var transposed = linear_scan(c.g(), c.given(1) ? conj(c.in(1)) : Var(), dim, !reverse);
    c.set(0, transposed);
    if (!c.given(1) || !c.needs(1)) return;
    Var y = conj(c.out());
    c.set(1, reverse ? neighbour(transposed, dim, false) * y : transposed * neighbour(y, dim, false));
}

GRAD("cumsum") { c.set(0, linear_scan(cast(c.g(), c.dtype(0)), Var(), c.integer(1), true)); }
GRAD("cumprod", IN(0) | RESULT(0)) {
    // The product before an element, times the accumulated gradients of the products that follow.
    int64_t dim = c.integer(1);
    Var x = conj(cast(c.in(0), c.out_dtype()));
    c.set(0, neighbour(conj(c.out()), dim, false, 1) * linear_scan(c.g(), x, dim, true));
}
GRAD("logcumsumexp", IN(0) | RESULT(0)) {
    // exp(y[i] - y[i + 1]) is at most 1, so that nothing overflows. Where y is -inf the weight is zero.
    int64_t dim = c.integer(1);
    Var x = c.in(0), y = c.out(), none = (is_complex(y.dtype()) ? real(y) : y) == -infinity;
    auto weight = [&](const Var& part, const Var& without) {
        return conj(masked_fill(exp(part - masked_fill(y, without, 0)), without, 0));
    };
    Var step = weight(neighbour(y, dim, false, -infinity), logical_not(call<"isfinite">(y)));
    c.set(0, weight(x, none) * linear_scan(c.g(), step, dim, true));
}
GRAD("cummax|cummin", RESULT(1)) {
    if (c.dim(0) == 0) return c.set(0, c.g());
    int64_t dim = wrap_dim(c.integer(1), c.dim(0));
    c.set(0, call<"_place">(c.g(), c.out(1), dim, c.shape(0)[dim], true));
}

}  // namespace fb
