// Gradients of softmax and log_softmax.
#include "device/scan.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {

static Tensor soft_backward(const Args& a, bool logarithm) {
    const Tensor &g = a.tensor(0), &y = a.tensor(1);
    check(g.shape() == y.shape() && g.dtype() == y.dtype(), "gradient and result differ in shape or dtype");
    Tensor out = empty(y.shape(), y.dtype(), y.device());
    device::scanning(y).softmax_backward(contiguous(g), contiguous(y), out, wrap_dim(a.integer(2), y.dim()), logarithm);
    return out;
}
// y * (g - Σ g y)
OP("_softmax_backward(Tensor grad, Tensor output, int dim) -> Tensor", 0) { return soft_backward(a, false); }
// g - exp(y) Σ g
OP("_log_softmax_backward(Tensor grad, Tensor output, int dim) -> Tensor", 0) { return soft_backward(a, true); }

GRAD("_softmax_backward", IN(1), IN(0) | IN(1)) {
    Var h = c.g(), y = c.in(1);
    Dims dims{c.integer(2)};
    if (c.needs(0)) c.set(0, call<"_softmax_backward">(h, y, c.integer(2)));
    if (c.needs(1)) {
        Var g = c.in(0);
        c.set(1, h * (g - sum(g * y, dims, true)) - g * sum(h * y, dims, true));
    }
}
GRAD("_log_softmax_backward", IN(1), IN(0) | IN(1)) {
    Var h = c.g(), weights = exp(c.in(1));
    Dims dims{c.integer(2)};
    if (c.needs(0)) c.set(0, h - sum(h * weights, dims, true));
    if (c.needs(1)) c.set(1, -(h * weights * sum(c.in(0), dims, true)));
}
GRAD("softmax", RESULT(0)) { c.set(0, call<"_softmax_backward">(c.g(), c.out(), c.integer(1))); }
GRAD("log_softmax", RESULT(0)) { c.set(0, call<"_log_softmax_backward">(c.g(), c.out(), c.integer(1))); }

}  // namespace fb
