// Elements kept where a condition holds, zeros elsewhere: the building block of the gradients of relu, clamp and
// others.
#include "ops/pointwise/elementwise.h"
#include "ops/table/gradient.h"

namespace fb {
OP("_masked(Tensor input, Tensor mask) -> Tensor", FREE) {
    const Tensor &x = a.tensor(0), &mask = a.tensor(1);
    check(mask.dtype() == DType::Bool && mask.shape() == x.shape(), "expected a bool mask of shape ", x.shape(),
          ", got ", mask.dtype(), " of shape ", mask.shape());
    return ew::launch(a, formulas::masked, {x, mask}, x.dtype(), x.dtype());
}
GRAD("_masked", IN(1)) { c.set(0, masked(c.g(), c.in(1))); }

// The gradient of relu, from the gradient of its result and the result.
OP("_relu_gradient(Tensor grad, Tensor result) -> Tensor", FREE) {
    return ew::binary(a, a.tensor(0), a.tensor(1), formulas::relu_gradient);
}
GRAD("_relu_gradient", IN(1), CONST) { c.set(0, call<"_relu_gradient">(c.g(), c.in(1))); }

}  // namespace fb
