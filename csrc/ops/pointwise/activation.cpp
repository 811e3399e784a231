// Activation functions of nn.functional: the rows of activation.def as kernels of one pass, forward and backward.
#include "autograd/mode.h"
#include "backend/cpu/curves.h"
#include "ops/pointwise/elementwise.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

struct Parameters {
    double a, b, c;
    explicit Parameters(const Args& args, int first)
        : a(args.number(first)), b(args.number(first + 1)), c(args.number(first + 2)) {}
    explicit Parameters(const GradCall& c) : a(c.number(1)), b(c.number(2)), c(c.number(3)) {}
};

// ---- words of the rows ---------------------------------------------------------------------------------------------

using curve::below, curve::density, curve::exp, curve::mish_gate, curve::sigmoid;
using m::abs, m::expm1, m::log1p, m::where;

template <class T>
    requires std::is_floating_point_v<T>
inline T number(T, double value) {
    return T(value);
}
inline Var number(const Var& like, double value) { return full_of(like.shape(), Scalar(value), like.dtype()); }
inline bool both(bool x, bool y) { return x && y; }
inline Var both(const Var& x, const Var& y) { return logical_and(x, y); }

inline Var density(const Var& x) { return exp(x * x * -0.5) * 0.398942280401432678; }
inline Var below(const Var& x) { return (erf(x * 0.707106781186547524) + 1) * 0.5; }
inline Var mish_gate(const Var& x) { return tanh(call<"logaddexp">(x, number(x, 0))); }

// Twice the argument of tanh in its approximation of gelu, and the slope of that: (1 + tanh(u)) / 2 = sigmoid(2u).
constexpr double bend1 = 1.5957691216057308, bend3 = 0.044715 * bend1;
template <class T>
[[gnu::always_inline]] inline T bend(const T& x) {
    return x * (T(bend1) + T(bend3) * x * x);
}
template <class T>
[[gnu::always_inline]] inline T tanh_gelu_slope(const T& x, const T& s) {
    return s * (T(1) + x * (T(1) - s) * (T(bend1) + T(3 * bend3) * x * x));
}
template <class T>
[[gnu::always_inline]] inline T silu_slope(const T& x, const T& s) {
    return s * (T(1) + x * (T(1) - s));
}
template <class T>
[[gnu::always_inline]] inline T mish_slope(const T& x, const T& gate) {
    return gate + x * (T(1) - gate * gate) * sigmoid(x);
}
template <class T>
[[gnu::always_inline]] inline T ramp(T x) {
    return where(x <= T(-3), T(0), where(x >= T(3), T(6), x + T(3)));
}

// ---- tiles ---------------------------------------------------------------------------------------------------------

template <class Row, class T>
void forward_tile(char** data, int64_t n, const void* context) {
    const Parameters p = *static_cast<const Parameters*>(context);
    const T* in[] = {reinterpret_cast<const T*>(data[1])};
    ew::in_blocks<T, T, 1>(reinterpret_cast<T*>(data[0]), in, n, [&p](T* y, const T* const(&from)[1], int64_t count) {
        const T* x = from[0];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] = Row::y(x[i], p);
    });
}
template <class Row, class T>
void backward_tile(char** data, int64_t n, const void* context) {
    const Parameters p = *static_cast<const Parameters*>(context);
    const T* in[] = {reinterpret_cast<const T*>(data[1]), reinterpret_cast<const T*>(data[2])};
    ew::in_blocks<T, T, 2>(reinterpret_cast<T*>(data[0]), in, n, [&p](T* to, const T* const(&from)[2], int64_t count) {
        const T *g = from[0], *x = from[1];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) to[i] = g[i] * Row::slope(x[i], p);
    });
}

template <template <class, class> class Tile, class Row>
ew::TileFn tile_for(DType compute, DType shown) {
    if (compute == DType::F32) return Tile<Row, float>::run;
    if (compute == DType::F64) return Tile<Row, double>::run;
    fail(ErrorKind::NotImplemented, "not implemented for dtype ", shown, "; expected a real floating-point one");
}
template <class Row, class T>
struct Forward {
    static void run(char** data, int64_t n, const void* context) { forward_tile<Row, T>(data, n, context); }
};
template <class Row, class T>
struct Backward {
    static void run(char** data, int64_t n, const void* context) { backward_tile<Row, T>(data, n, context); }
};

template <class Row>
Value forward(Args& a, double cost) {
    const Tensor& x = a.tensor(0);
    DType compute = compute_dtype(x.dtype());
    Parameters p(a, 1);
    return ew::launch(a, {x}, x.dtype(), compute, {compute}, tile_for<Forward, Row>(compute, x.dtype()), &p, cost);
}
template <class Row>
Value backward(Args& a, double cost) {
    const Tensor &g = a.tensor(0), &x = a.tensor(1);
    DType compute = compute_dtype(x.dtype());
    Parameters p(a, 2);
    return ew::launch(a, {g, x}, x.dtype(), compute, {compute, compute}, tile_for<Backward, Row>(compute, x.dtype()),
                      &p, cost);
}

#define ACTIVATION(name, cost, value, rise)                                                                            \
    struct Row_##name {                                                                                                \
        template <class T>                                                                                             \
        static T y(T x, [[maybe_unused]] const Parameters& p) {                                                        \
            return value;                                                                                              \
        }                                                                                                              \
        template <class T>                                                                                             \
        static T slope(T x, [[maybe_unused]] const Parameters& p) {                                                    \
            return rise;                                                                                               \
        }                                                                                                              \
    };                                                                                                                 \
    Value forward_##name(Args& a) { return forward<Row_##name>(a, cost); }                                             \
    Value backward_##name(Args& a) { return backward<Row_##name>(a, cost); }                                           \
    const Register register_##name("_nn." #name "(Tensor input, float a=0, float b=0, float c=0) -> Tensor",           \
                                   FUNCTION | FREE, forward_##name);                                                   \
    const Register register_##name##_backward(                                                                         \
        "_" #name "_backward(Tensor grad, Tensor input, float a, float b, float c) -> Tensor", FREE, backward_##name); \
    GRAD("_nn." #name, IN(0)) {                                                                                        \
        Parameters p(c);                                                                                               \
        c.set(0, grad_enabled() ? c.g() * Row_##name::slope(c.in(0), p)                                                \
                                : call<"_" #name "_backward">(c.g(), c.in(0), p.a, p.b, p.c));                         \
    }
#include "ops/pointwise/activation.def"
#undef ACTIVATION

// logsigmoid with its slope, sigmoid(-x): both are of exp(-|x|), and a graph that keeps the slope needs no exponential
// on its way back. The slope is a result like the other, so it has a gradient, too.
template <class T>
void logsigmoid_tile(char** data, int64_t n, const void*) {
    auto run = [](T* y, T* slope, const T* x, int64_t count) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            T e = exp(-abs(x[i]));
            y[i] = where(x[i] < T(0), x[i], T(0)) - log1p(e);
            slope[i] = where(x[i] < T(0), T(1), e) / (T(1) + e);
        }
    };
    T *y = reinterpret_cast<T*>(data[0]), *slope = reinterpret_cast<T*>(data[1]);
    const T* x = reinterpret_cast<const T*>(data[2]);
    int64_t whole = n / ew::block * ew::block;
    run(y, slope, x, whole);
    if (whole == n) return;
    T tail[3][ew::block] = {};  // Note [Tails]
    std::copy(x + whole, x + n, tail[2]);
    run(tail[0], tail[1], tail[2], ew::block);
    std::copy(tail[0], tail[0] + (n - whole), y + whole);
    std::copy(tail[1], tail[1] + (n - whole), slope + whole);
}
OP("_logsigmoid(Tensor input) -> (Tensor result, Tensor slope)", FREE) {
    const Tensor& x = a.tensor(0);
    if (x.dtype() != DType::F32 && x.dtype() != DType::F64)
        fail_type("expected float32 or float64, got ", x.dtype(), "; use logsigmoid");
    Tensor y = empty_like(x, x.dtype()), slope = empty_like(x, x.dtype());
    const Tensor* operands[] = {&y, &slope, &x};
    LoopPlan plan;
    make_plan(plan, x.shape(), operands, 3);
    DType dtypes[] = {x.dtype(), x.dtype(), x.dtype()};
    cpu::run_tiles(plan, dtypes, 2, x.dtype() == DType::F32 ? logsigmoid_tile<float> : logsigmoid_tile<double>, nullptr,
                   10);
    return std::vector<Tensor>{y, slope};
}
GRAD("_logsigmoid", RESULT(1)) {
    Var slope = c.out(1);
    if (c.has(1)) c.set(0, (c.has(0) ? c.g(0) * slope : number(slope, 0)) - c.g(1) * slope * (1 - slope));
    else c.set(0, c.g(0) * slope);
}
OP("_nn.logsigmoid_recorded(Tensor input) -> Tensor", FUNCTION | FREE | COMPOSITE) {
    return call_all<"_logsigmoid">(Var(a.tensor(0)))[0].tensor;
}

// tanh and sigmoid keep their result, not x.
struct TanhSlope {
    template <class T>
    static T f(T g, T y) {
        return g * (T(1) - y * y);
    }
};
struct SigmoidSlope {
    template <class T>
    static T f(T g, T y) {
        return g * ((T(1) - y) * y);
    }
};
OP("_tanh_backward(Tensor grad, Tensor result) -> Tensor", FREE) {
    static const ew::Kernels kernels = ew::binary_kernels<TanhSlope, ew::F>();
    return ew::binary(a, a.tensor(0), a.tensor(1), kernels, ew::Result::Same);
}
OP("_sigmoid_backward(Tensor grad, Tensor result) -> Tensor", FREE) {
    static const ew::Kernels kernels = ew::binary_kernels<SigmoidSlope, ew::F>();
    return ew::binary(a, a.tensor(0), a.tensor(1), kernels, ew::Result::Same);
}

}  // namespace
}  // namespace fb
