// (a - b)² in one pass: the body of mean squared errors.
#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace fb {
namespace {

struct SquaredError {
    template <class T>
    static T f(T x, T y) {
        T d = x - y;
        return d * d;
    }
};

}  // namespace

OP("_squared_error(Tensor input, Tensor target) -> Tensor", FUNCTION | FREE,
   R"((input - target)², the work behind fb.nn.functional.mse_loss().

Args:
    input: of a float dtype.
    target: of the same dtype.

Example:
    >>> fb._squared_error(fb.tensor([1.0, 2.0]), fb.tensor([3.0, 2.0]))
    tensor([4., 0.])
)") {
    static const ew::Kernels kernels = ew::binary_kernels<SquaredError, ew::F>();
    return ew::binary(a, a.tensor(0), a.tensor(1), kernels, ew::Result::Same, 1);
}
GRAD("_squared_error", IN(0) | IN(1), IN(0) | IN(1)) {
    Var slope = (c.in(0) - c.in(1)) * (c.g() * 2);
    if (c.needs(0)) c.set(0, slope);
    if (c.needs(1)) c.set(1, -slope);
}

}  // namespace fb
