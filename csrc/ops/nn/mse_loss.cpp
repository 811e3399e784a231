// (a - b)² in one pass: the body of mean squared errors.
#include "ops/pointwise/elementwise.h"

namespace fb {
namespace {

struct SquaredError {
    template <class T>
    static T f(T x, T y) {
        T d = x - y;
        return d * d;
    }
};

struct SquaredErrorSlope {
    template <class T>
    static T f(T g, T x, T y) {
        return (x - y) * (g + g);
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
OP("_squared_error_gradient(Tensor grad, Tensor input, Tensor target) -> Tensor", FREE) {
    static const ew::Kernels kernels = ew::ternary_kernels<SquaredErrorSlope, ew::F>();
    return ew::ternary(a, a.tensor(0), a.tensor(1), a.tensor(2), kernels, 1);
}
}  // namespace fb
