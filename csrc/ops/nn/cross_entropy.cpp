// Cross entropy of scores and classes.
#include "autograd/mode.h"
#include "device/losses.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
OP("_cross_entropy(Tensor input, Tensor target, int ignore_index, float smoothing=0) -> (Tensor loss, Tensor "
   "logsumexp)",
   FUNCTION,
   R"(The work behind fb.nn.functional.cross_entropy() for rows of scores and their classes.

Args:
    input: (N, C) scores.
    target: (N,) classes, int64.
    ignore_index: a class whose loss is 0.
    smoothing: the share of the target that is spread evenly over all classes.

Example:
    >>> fb._cross_entropy(fb.zeros(1, 2), fb.tensor([1]), -100).loss
    tensor([0.6931])
)") {
    OpScope scope("cross_entropy");
    Tensor input = contiguous(a.tensor(0)), target = contiguous(a.tensor(1));
    check(input.dim() == 2 && target.shape() == Dims{input.size(0)} && target.dtype() == DType::I64,
          "expected scores (N, C) and int64 classes (N,), got ", input.shape(), " and ", target.shape());
    Tensor loss = empty(target.shape(), input.dtype(), input.device()),
           logsumexp = empty(target.shape(), input.dtype(), input.device());
    device::losses(input).cross_entropy(input, target, a.integer(2), a.number(3), loss, logsumexp);
    return std::vector<Tensor>{loss, logsumexp};
}

OP("_cross_entropy_backward(Tensor grad, Tensor input, Tensor target, Tensor logsumexp, int ignore_index, "
   "float smoothing) -> Tensor",
   0) {
    Tensor grad = contiguous(a.tensor(0)), input = contiguous(a.tensor(1)), target = contiguous(a.tensor(2)),
           lse = contiguous(a.tensor(3));
    Tensor out = empty(input.shape(), input.dtype(), input.device());
    device::losses(input).cross_entropy_backward(grad, input, target, lse, a.integer(4), a.number(5), out);
    return out;
}
GRAD("_cross_entropy", IN(0) | IN(1) | RESULT(1)) {
    if (!grad_enabled() && !c.has(1)) {
        c.set(0, call<"_cross_entropy_backward">(c.g(0), c.in(0), c.in(1), c.out(1), c.integer(2), c.number(3)));
        return;
    }
    Var x = c.in(0), weights = call<"softmax">(x, 1), ignored = c.in(1) == Var(Scalar(c.integer(2)));
    Var g = unsqueeze(masked_fill(c.g(0), ignored, 0), 1);
    Var index = unsqueeze(masked_fill(c.in(1), ignored, 0), 1);
    double smoothing = c.number(3);
    Var slope = g * (smoothing == 0 ? weights : weights - Var(smoothing / double(c.shape(0)[1])));
    slope = scatter_add(slope, 1, index, g * (smoothing - 1));
    c.set(0, c.has(1) ? slope + unsqueeze(c.g(1), 1) * weights : slope);
}

}  // namespace fb
