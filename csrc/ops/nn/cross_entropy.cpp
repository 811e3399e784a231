// Cross entropy of scores and classes.
#include "device/losses.h"
#include "ops/table/common.h"

namespace fb {
OP("_cross_entropy(Tensor input, Tensor target, int ignore_index, float smoothing=0) -> (Tensor loss, Tensor "
   "logsumexp)",
   FUNCTION,
   R"(The work behind fb.nn.functional.cross_entropy() for rows of scores and their classes.

Args:
    input: (N, C) scores; of a half type the losses are float32.
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
    DType compute = compute_dtype(input.dtype());
    Tensor loss = empty(target.shape(), compute, input.device()),
           logsumexp = empty(target.shape(), compute, input.device());
    device::losses(input).cross_entropy(input, target, a.integer(2), a.number(3), loss, logsumexp);
    return std::vector<Tensor>{loss, logsumexp};
}

OP("_cross_entropy_backward(Tensor grad, Tensor input, Tensor target, Tensor logsumexp, int ignore_index, "
   "float smoothing) -> Tensor",
   0) {
    Tensor grad = contiguous(a.tensor(0)), input = contiguous(a.tensor(1)), target = contiguous(a.tensor(2)),
           lse = contiguous(a.tensor(3));
    check(grad.dtype() == lse.dtype() && lse.dtype() == compute_dtype(input.dtype()),
          "the dtypes of the loss were changed");
    Tensor out = empty(input.shape(), input.dtype(), input.device());
    device::losses(input).cross_entropy_backward(grad, input, target, lse, a.integer(4), a.number(5), out);
    return out;
}
}  // namespace fb
