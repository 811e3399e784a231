// The gradient of cross entropy.
#include "autograd/mode.h"
#include "ops/table/gradient.h"

namespace fb {

GRAD("_cross_entropy", IN(0) | IN(1) | RESULT(1)) {
    if (!grad_enabled() && !c.has(1)) {
        c.set(0, call<"_cross_entropy_backward">(c.g(0), c.in(0), c.in(1), c.out(1), c.integer(2), c.number(3)));
        return;
    }
    DType dtype = c.dtype(0), inside = compute_dtype(dtype);
    Var x = dtype == inside ? c.in(0) : cast(c.in(0), inside), weights = call<"softmax">(x, 1),
        ignored = c.in(1) == Var(Scalar(c.integer(2)));
    Var g = unsqueeze(masked_fill(c.g(0), ignored, 0), 1);
    Var index = unsqueeze(masked_fill(c.in(1), ignored, 0), 1);
    double smoothing = c.number(3);
    Var slope = g * (smoothing == 0 ? weights : weights - Var(smoothing / double(c.shape(0)[1])));
    slope = scatter_add(slope, 1, index, g * (smoothing - 1));
    if (c.has(1)) slope = slope + unsqueeze(c.g(1), 1) * weights;
    c.set(0, dtype == inside ? slope : cast(slope, dtype));
}

}  // namespace fb
