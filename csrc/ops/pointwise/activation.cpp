// Activation functions of nn.functional: the rows of activation.def as single-pass kernels, forward and backward.
#include "autograd/mode.h"
#include "device/loop.h"
#include "ops/pointwise/elementwise.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

// ---- functions used by the rows, for differentiable tensors ---------------------------------------------------------

using T = Var;

inline Var number(const Var& like, double value) {
    return full_of(like.shape(), Scalar(value), like.dtype(), like.device());
}
inline Var both(const Var& x, const Var& y) { return logical_and(x, y); }
inline Var density(const Var& x) { return exp(x * x * -0.5) * 0.398942280401432678; }
inline Var below(const Var& x) { return (erf(x * 0.707106781186547524) + 1) * 0.5; }
inline Var mish_gate(const Var& x) { return tanh(call<"logaddexp">(x, number(x, 0))); }

#include "device/formulas/activation_words.h"

void check_floating(const Tensor& x) {
    if (!is_floating(x.dtype()))
        fail(ErrorKind::NotImplemented, "not implemented for dtype ", x.dtype(),
             "; expected a real floating-point one");
}
Value forward(Args& a, const Formula& formula) {
    const Tensor& x = a.tensor(0);
    check_floating(x);
    Numbers p(a.number(1), a.number(2), a.number(3));
    return ew::launch(a, formula, {x}, x.dtype(), x.dtype(), &p);
}
Value backward(Args& a, const Formula& formula) {
    const Tensor &g = a.tensor(0), &x = a.tensor(1);
    check_floating(x);
    Numbers p(a.number(2), a.number(3), a.number(4));
    Tensor out = output(a, broadcast_shapes(g.shape(), x.shape()), x.dtype(), {g, x});
    const Tensor* in[] = {&x, &g};
    device::looping(out).run(formula, x.dtype(), out, in, &p, formula.cost);
    return out;
}

#define ACTIVATION(name, cost, value, rise)                                                                            \
    Var slope_of_##name(const Var& x, [[maybe_unused]] const Numbers& p) { return rise; }                              \
    Value forward_##name(Args& a) { return forward(a, formulas::name); }                                               \
    Value backward_##name(Args& a) { return backward(a, formulas::name##_backward); }                                  \
    const Register register_##name("_nn." #name "(Tensor input, float a=0, float b=0, float c=0) -> Tensor",           \
                                   FUNCTION | FREE | ELEMENTWISE, forward_##name);                                     \
    const Register register_##name##_backward(                                                                         \
        "_" #name "_backward(Tensor grad, Tensor input, float a, float b, float c) -> Tensor", FREE, backward_##name); \
    GRAD("_nn." #name, IN(0)) {                                                                                        \
        Numbers p(c.number(1), c.number(2), c.number(3));                                                              \
        c.set(0, grad_enabled() ? c.g() * slope_of_##name(c.in(0), p)                                                  \
                                : call<"_" #name "_backward">(c.g(), c.in(0), p.a, p.b, p.c));                         \
    }
#include "device/formulas/activation.def"
#undef ACTIVATION

// logsigmoid with its derivative, sigmoid(-x): both are functions of exp(-|x|), and a graph that saves the derivative
// needs no exponential in backward. The derivative is a result too, so it has a gradient.
OP("_logsigmoid(Tensor input) -> (Tensor result, Tensor slope)", FREE) {
    const Tensor& x = a.tensor(0);
    if (x.dtype() != DType::F32 && x.dtype() != DType::F64)
        fail_type("expected float32 or float64, got ", x.dtype(), "; use logsigmoid");
    Tensor y = empty_like(x, x.dtype()), slope = empty_like(x, x.dtype());
    device::looping(x).run_pair(formulas::logsigmoid_slope, y, slope, x);
    return std::vector<Tensor>{y, slope};
}
GRAD("_logsigmoid", RESULT(1)) {
    Var slope = c.out(1);
    if (c.has(1)) c.set(0, (c.has(0) ? c.g(0) * slope : number(slope, 0)) - c.g(1) * slope * (1 - slope));
    else c.set(0, c.g(0) * slope);
}
OP("_nn.logsigmoid_recorded(Tensor input) -> Tensor", FUNCTION | FREE | COMPOSITE | ELEMENTWISE) {
    return call_all<"_logsigmoid">(Var(a.tensor(0)))[0].tensor;
}

// tanh and sigmoid save their result, not x.
OP("_tanh_backward(Tensor grad, Tensor result) -> Tensor", FREE) {
    return ew::binary(a, a.tensor(0), a.tensor(1), formulas::tanh_gradient);
}
OP("_sigmoid_backward(Tensor grad, Tensor result) -> Tensor", FREE) {
    return ew::binary(a, a.tensor(0), a.tensor(1), formulas::sigmoid_gradient);
}

}  // namespace
}  // namespace fb
