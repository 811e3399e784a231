// (a - b)² in one pass, for mean squared errors.
#include "ops/pointwise/elementwise.h"

namespace fb {
OP("_squared_error(Tensor input, Tensor target) -> Tensor", FUNCTION | FREE,
   R"((input - target)², the work behind fb.nn.functional.mse_loss().

Args:
    input: of a float dtype.
    target: of the same dtype.

Example:
    >>> fb._squared_error(fb.tensor([1.0, 2.0]), fb.tensor([3.0, 2.0]))
    tensor([4., 0.])
)") {
    return ew::binary(a, a.tensor(0), a.tensor(1), formulas::squared_error);
}
OP("_squared_error_gradient(Tensor grad, Tensor input, Tensor target) -> Tensor", FREE) {
    return ew::ternary(a, a.tensor(0), a.tensor(1), a.tensor(2), formulas::squared_error_gradient);
}
}  // namespace fb
