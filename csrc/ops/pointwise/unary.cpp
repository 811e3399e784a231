// Unary elementwise ops: the rows of unary.def, and those with arguments.
#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

using namespace fb::m;

// Words that only these rows use.
template <class T>
inline T sign(T x) {
    return static_cast<T>((x > T(0)) - (std::is_unsigned_v<T> ? 0 : (x < T(0))));
}
template <class T>
inline T sgn(T x) {
    if constexpr (is_cx<T>) {
        auto r = std::abs(x);
        return r == 0 ? T(0) : x / r;
    } else return sign(x);
}
template <class T>
inline T floor_any(T x) {
    if constexpr (std::is_floating_point_v<T>) return floor(x);
    else return x;
}
template <class T>
inline T ceil_any(T x) {
    if constexpr (std::is_floating_point_v<T>) return ceil(x);
    else return x;
}
template <class T>
inline T trunc_any(T x) {
    if constexpr (std::is_floating_point_v<T>) return trunc(x);
    else return x;
}
template <class T>
inline T not_bits(T x) {
    if constexpr (std::is_same_v<T, bool>) return !x;
    else return static_cast<T>(~x);
}
template <class T>
inline auto angle(T x) {
    using R = real_t<T>;
    if constexpr (is_cx<T>) return std::arg(x);
    else if constexpr (std::is_floating_point_v<T>) return isnan(x) ? x : x < 0 ? R(3.14159265358979323846) : R(0);
    else return x;
}
template <class T>
inline auto imag_part(T x) {
    if constexpr (is_cx<T>) return x.imag();
    else return 0;
}
template <class T>
inline bool sign_bit(T x) {
    if constexpr (std::is_floating_point_v<T>) return std::signbit(x);
    else if constexpr (std::is_signed_v<T>) return x < 0;
    else return false;
}

#define UNARY(name, domain, result, cost, formula, keeps, gradient, summary, example, shown)                 \
    struct Row_##name {                                                                                      \
        template <class T>                                                                                   \
        static auto f(T x) {                                                                                 \
            return formula;                                                                                  \
        }                                                                                                    \
    };                                                                                                       \
    Value call_##name(Args& a) {                                                                             \
        static const Kernels kernels = unary_kernels<Row_##name, domain>();                                  \
        return unary(a, a.tensor(0), kernels, Result::result, cost);                                         \
    }                                                                                                        \
    const Register register_##name(#name "(Tensor input) -> Tensor", POINTWISE | FREE, call_##name,          \
                                   summary "\n\nArgs:\n    input: the tensor.\n\nExample:\n    >>> " example \
                                           "\n    " shown "\n");
#include "ops/pointwise/unary.def"
#undef UNARY

OP_ALIAS("arcsin", "asin");
OP_ALIAS("arccos", "acos");
OP_ALIAS("arctan", "atan");
OP_ALIAS("arcsinh", "asinh");
OP_ALIAS("arccosh", "acosh");
OP_ALIAS("arctanh", "atanh");
OP_ALIAS("absolute", "abs");
OP_ALIAS("negative", "neg");
OP_ALIAS("fix", "trunc");
OP_ALIAS("special.expit", "sigmoid");
OP_ALIAS("special.exp2", "exp2");
OP_ALIAS("special.expm1", "expm1");
OP_ALIAS("special.log1p", "log1p");
OP_ALIAS("special.erf", "erf");
OP_ALIAS("special.erfc", "erfc");

// ---- rows with arguments
// -------------------------------------------------------------------------------------------------

struct Round {
    // Halves go to the even neighbour. With decimals, scale, round and scale back.
    template <class T>
    static T f(T x, const int64_t& decimals) {
        if constexpr (std::is_integral_v<T>) return x;
        else {
            if (decimals == 0) return rint(x);
            T scale = static_cast<T>(std::pow(10.0, std::abs(static_cast<double>(decimals))));
            return decimals > 0 ? rint(x * scale) / scale : rint(x / scale) * scale;
        }
    }
};
struct RoundPlain {
    template <class T>
    static T f(T x) {
        if constexpr (std::is_integral_v<T>) return x;
        else return rint(x);
    }
};

OP("round(Tensor input, *, int decimals=0) -> Tensor", POINTWISE, R"(Nearest integer, halves to the even one.

Args:
    input: the tensor.
    decimals: places after the decimal point to keep; negative ones round before it.

Example:
    >>> fb.round(fb.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])
)") {
    static const Kernels plain = unary_kernels<RoundPlain, IF>(), scaled = context_kernels<Round, int64_t, F>();
    int64_t decimals = a.integer(1);
    if (decimals == 0) return unary(a, a.tensor(0), plain, Result::Same);
    if (is_integral_or_bool(a.tensor(0).dtype()))
        fail(ErrorKind::NotImplemented, "decimals other than 0 need a floating point tensor, got ",
             a.tensor(0).dtype());
    return unary(a, a.tensor(0), scaled, Result::Same, 2, &decimals);
}
OP_ALIAS("special.round", "round");

OP("positive(Tensor input) -> Tensor", FUNCTION | METHOD, R"(The tensor itself; an error for bool.

Args:
    input: the tensor.

Example:
    >>> fb.positive(fb.tensor([1, -2]))
    tensor([ 1, -2])
)") {
    if (a.tensor(0).dtype() == DType::Bool) fail_type("the + operator is not supported on bool tensors");
    return a.tensor(0);
}

struct Conj {
    template <class T>
    static T f(T x) {
        return std::conj(x);
    }
};

OP("conj(Tensor input) -> Tensor", FUNCTION | METHOD, R"(Complex conjugate; a real tensor is returned unchanged.

Args:
    input: the tensor.

Example:
    >>> fb.conj(fb.tensor([1 + 2j]))
    tensor([1.-2.j])
)") {
    static const Kernels kernels = unary_kernels<Conj, C>();
    if (!is_complex(a.tensor(0).dtype())) return a.tensor(0);
    return unary(a, a.tensor(0), kernels, Result::Same);
}
OP("conj_physical(Tensor input) -> Tensor", POINTWISE,
   R"(Complex conjugate in new memory (conj() returns real tensors unchanged).

Args:
    input: the tensor.

Example:
    >>> fb.conj_physical(fb.tensor([1 + 2j]))
    tensor([1.-2.j])
)") {
    static const Kernels kernels = unary_kernels<Conj, C>();
    if (!is_complex(a.tensor(0).dtype())) return a.tensor(0);
    return unary(a, a.tensor(0), kernels, Result::Same);
}

struct NanToNumContext {
    double nan, positive, negative;
};
struct NanToNum {
    template <class T>
    static T f(T x, const NanToNumContext& c) {
        if constexpr (is_cx<T>) return T(f(x.real(), c), f(x.imag(), c));
        else {
            T high = c.positive == INFINITY ? std::numeric_limits<T>::max() : static_cast<T>(c.positive);
            T low = c.negative == -INFINITY ? std::numeric_limits<T>::lowest() : static_cast<T>(c.negative);
            T y = where(isnan(x), static_cast<T>(c.nan), x);
            y = where(x == std::numeric_limits<T>::infinity(), high, y);
            return where(x == -std::numeric_limits<T>::infinity(), low, y);
        }
    }
};

OP("nan_to_num(Tensor input, float? nan=0.0, float? posinf=None, float? neginf=None) -> Tensor", POINTWISE,
   R"(Replaces NaN and infinities by numbers.

Args:
    input: the tensor.
    nan: what NaN becomes.
    posinf: what +inf becomes; the largest finite number of the dtype by default.
    neginf: what -inf becomes; the lowest finite number of the dtype by default.

Example:
    >>> fb.nan_to_num(fb.tensor([fb.nan, 1., fb.inf]), posinf=9.)
    tensor([0., 1., 9.])
)") {
    static const Kernels kernels = context_kernels<NanToNum, NanToNumContext, FC>();
    const Tensor& x = a.tensor(0);
    if (is_integral_or_bool(x.dtype())) return clone(x);
    NanToNumContext context{a.number_or_none(1).value_or(0.0), a.number_or_none(2).value_or(INFINITY),
                            a.number_or_none(3).value_or(-INFINITY)};
    // Half types compute in float but must saturate at their own limits.
    double limit = x.dtype() == DType::F16 ? 65504.0 : x.dtype() == DType::BF16 ? 3.3895313892515355e38 : 0;
    if (limit != 0) {
        if (!a.given(2)) context.positive = limit;
        if (!a.given(3)) context.negative = -limit;
    }
    return unary(a, x, kernels, Result::Same, 2, &context);
}

struct Logit {
    template <class T>
    static T f(T x, const double& eps) {
        T e = static_cast<T>(eps);
        T z = eps < 0 ? x : x < e ? e : x > T(1) - e ? T(1) - e : x;
        return log(z / (T(1) - z));
    }
};
OP("logit(Tensor input, float? eps=None) -> Tensor", POINTWISE, R"(The inverse of sigmoid: log(x / (1 - x)).

Args:
    input: the tensor, elements from 0 to 1.
    eps: clamps elements to [eps, 1 - eps] first.

Example:
    >>> fb.logit(fb.tensor([0.5, 0.75]))
    tensor([0.0000, 1.0986])
)") {
    static const Kernels kernels = context_kernels<Logit, double, F>();
    double eps = a.number_or_none(1).value_or(-1.0);
    return unary(a, a.tensor(0), kernels, Result::Float, 8, &eps);
}
OP_ALIAS("special.logit", "logit");

struct Sinc {
    template <class T>
    static T f(T x) {
        T y = x * static_cast<real_t<T>>(3.14159265358979323846);
        return x == T(0) ? T(1) : sin(y) / y;
    }
};
OP("sinc(Tensor input) -> Tensor", POINTWISE, R"(sin(pi x) / (pi x), and 1 at zero.

Args:
    input: the tensor.

Example:
    >>> fb.sinc(fb.tensor([0., 0.5]))
    tensor([1.0000, 0.6366])
)") {
    static const Kernels kernels = unary_kernels<Sinc, FC>();
    return unary(a, a.tensor(0), kernels, Result::Float, 10);
}
OP_ALIAS("special.sinc", "sinc");

}  // namespace
}  // namespace fb::ew
