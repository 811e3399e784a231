// Special functions as ops: the rows of special.def, and those with parameters.
#include "backend/cpu/special_math.h"
#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

constexpr unsigned NAMED = FUNCTION | OUT;

// float computes in double and rounds once. These functions branch and loop: no vectors, so no padded tails either.
template <class Fn, class T>
void special_tile(char** data, int64_t n, const void*) {
    T* y = reinterpret_cast<T*>(data[0]);
    const T* x = reinterpret_cast<const T*>(data[1]);
    for (int64_t i = 0; i < n; i++) y[i] = Fn::f(x[i]);
}
template <class Fn>
Kernels special_kernels() {
    return make_kernels<F>([]<class T>(TypeTag<T>) -> TileFn { return special_tile<Fn, T>; });
}
template <class Fn, class T>
void special_pair_tile(char** data, int64_t n, const void*) {
    T* z = reinterpret_cast<T*>(data[0]);
    const T *x = reinterpret_cast<const T*>(data[1]), *y = reinterpret_cast<const T*>(data[2]);
    for (int64_t i = 0; i < n; i++) z[i] = Fn::f(x[i], y[i]);
}
// Fn::f(x, p) with a whole number p.
template <class Fn, class T>
void special_order_tile(char** data, int64_t n, const void* context) {
    int64_t order = *static_cast<const int64_t*>(context);
    T* y = reinterpret_cast<T*>(data[0]);
    const T* x = reinterpret_cast<const T*>(data[1]);
    for (int64_t i = 0; i < n; i++) y[i] = Fn::f(x[i], order);
}
template <class Fn>
Kernels special_order_kernels() {
    return make_kernels<F>([]<class T>(TypeTag<T>) -> TileFn { return special_order_tile<Fn, T>; });
}

#define SPECIAL_(id, kernels_of, name, flags, formula, summary, example, shown)                                      \
    struct FB_CONCAT(Row, id) {                                                                                      \
        template <class T>                                                                                           \
        static T f(T element) {                                                                                      \
            using namespace fb::sp;                                                                                  \
            double x = static_cast<double>(element);                                                                 \
            return static_cast<T>(formula);                                                                          \
        }                                                                                                            \
    };                                                                                                               \
    Value FB_CONCAT(call, id)(Args & a) {                                                                            \
        static const Kernels kernels = kernels_of;                                                                   \
        return unary(a, a.tensor(0), kernels, Result::Float, 40);                                                    \
    }                                                                                                                \
    const Register FB_CONCAT(register, id)(#name "(Tensor input) -> Tensor", flags, FB_CONCAT(call, id),             \
                                           summary "\n\nArgs:\n    input: the tensor.\n\nExample:\n    >>> " example \
                                                   "\n    " shown "\n");
#define SPECIAL_LOOP(id, ...) SPECIAL_(id, special_kernels<FB_CONCAT(Row, id)>(), __VA_ARGS__)
#define SPECIAL_VECTOR(id, ...) SPECIAL_(id, (unary_kernels<FB_CONCAT(Row, id), F>()), __VA_ARGS__)
#define SPECIAL(...) SPECIAL_LOOP(__COUNTER__, __VA_ARGS__)
#define VECTOR(...) SPECIAL_VECTOR(__COUNTER__, __VA_ARGS__)
#include "ops/pointwise/special.def"
#undef SPECIAL
#undef VECTOR

OP_ALIAS("special.erfinv", "erfinv");
OP_ALIAS("special.digamma", "digamma");
OP_ALIAS("special.psi", "digamma");
OP_ALIAS("special.i0", "i0");

struct LogGamma {
    template <class T>
    static T f(T x) {
        return sp::lgamma(x);
    }
};
OP("lgamma(Tensor input) -> Tensor", POINTWISE, R"(Logarithm of the absolute value of the gamma function.

Args:
    input: the tensor.

Example:
    >>> fb.lgamma(fb.tensor([1., 5.]))
    tensor([0.0000, 3.1781])
)") {
    static const Kernels kernels = special_kernels<LogGamma>();
    return unary(a, a.tensor(0), kernels, Result::Float, 20);
}
OP_ALIAS("special.gammaln", "lgamma");

// ---- with a whole number
// -------------------------------------------------------------------------------------------------

struct Polygamma {
    template <class T>
    static T f(T x, const int64_t& n) {
        return static_cast<T>(sp::polygamma(n, static_cast<double>(x)));
    }
};
Value polygamma(Args& a, int64_t n, const Tensor& x) {
    check(n < INT32_MAX, "n must be less than 2**31 - 1, got ", n);
    static const Kernels kernels = special_order_kernels<Polygamma>();
    check(n >= 0, "the order must not be negative, got n = ", n);
    return unary(a, x, kernels, Result::Float, 60, &n);
}
OP("polygamma(int n, Tensor input) -> Tensor", FUNCTION | OUT, R"(The n-th derivative of digamma.

Args:
    n: the order, 0 or more.
    input: the tensor.

Example:
    >>> fb.polygamma(1, fb.tensor([1., 0.5]))
    tensor([1.6449, 4.9348])
)") {
    return polygamma(a, a.integer(0), a.tensor(1));
}
OP("polygamma(Tensor input, int n) -> Tensor", METHOD | INPLACE) { return polygamma(a, a.integer(1), a.tensor(0)); }
OP_ALIAS("special.polygamma", "polygamma");

struct MultiGamma {
    template <class T>
    static T f(T x, const int64_t& p) {
        double sum = static_cast<double>(p) * static_cast<double>(p - 1) / 4 * 1.14472988584940017414;  // log(pi)
        for (int64_t j = 0; j < p; j++) sum += sp::lgamma(static_cast<double>(x) - 0.5 * static_cast<double>(j));
        return static_cast<T>(sum);
    }
};
OP("mvlgamma(Tensor input, int p) -> Tensor", POINTWISE, R"(Logarithm of the multivariate gamma function of dimension p.

Args:
    input: the tensor.
    p: the dimension, 1 or more.

Example:
    >>> fb.mvlgamma(fb.tensor([2., 3.]), 2)
    tensor([0.4516, 1.5502])
)") {
    static const Kernels kernels = special_order_kernels<MultiGamma>();
    int64_t p = a.integer(1);
    check(p >= 1, "p has to be greater than or equal to 1, got ", p);
    check(p <= 100000, "p must be at most 100000, got ", p);
    return unary(a, a.tensor(0), kernels, Result::Float, 20.0 * static_cast<double>(p), &p);
}
OP_ALIAS("special.multigammaln", "mvlgamma");

// ---- of two numbers
// ------------------------------------------------------------------------------------------------------

#define PAIR(Row, expression)                  \
    struct Row {                               \
        template <class T>                     \
        static T f(T first, T second) {        \
            double x = first, y = second;      \
            return static_cast<T>(expression); \
        }                                      \
    };
PAIR(LowerGamma, sp::gammainc(x, y))
PAIR(UpperGamma, sp::gammaincc(x, y))
PAIR(Zeta, sp::zeta(x, y))
struct XLog1pY {
    template <class T>
    static T f(T x, T y) {
        return m::where(m::isnan(y), y, m::where(x == T(0), T(0), x * m::log1p(y)));
    }
};

template <class Row>
Value pair(Args& a, Result result = Result::Float) {
    static const Kernels kernels =
        make_kernels<F>([]<class T>(TypeTag<T>) -> TileFn { return special_pair_tile<Row, T>; });
    return binary(a, a.tensor(0), a.tensor(1), kernels, result, 60);
}

OP("igamma(Tensor input, Tensor other) -> Tensor", POINTWISE, R"(Regularised lower incomplete gamma function.

Args:
    input: the shape parameter, not negative.
    other: the upper end of the integral, not negative.

Example:
    >>> fb.igamma(fb.tensor([4.]), fb.tensor([3., 4., 5.]))
    tensor([0.3528, 0.5665, 0.7350])
)") {
    return pair<LowerGamma>(a, Result::Same);
}
OP_ALIAS("special.gammainc", "igamma");
OP("igammac(Tensor input, Tensor other) -> Tensor", POINTWISE,
   R"(Regularised upper incomplete gamma function: 1 - igamma.

Args:
    input: the shape parameter, not negative.
    other: the lower end of the integral, not negative.

Example:
    >>> fb.igammac(fb.tensor([4.]), fb.tensor([3., 4., 5.]))
    tensor([0.6472, 0.4335, 0.2650])
)") {
    return pair<UpperGamma>(a, Result::Same);
}
OP_ALIAS("special.gammaincc", "igammac");

OP("special.zeta(Tensor input, Operand other) -> Tensor", NAMED,
   R"(Hurwitz's zeta function: the sum of (k + other) ** -input over k = 0, 1, …

Args:
    input: the exponent, above 1.
    other: where the sum begins.

Example:
    >>> fb.special.zeta(fb.tensor([2., 4.]), 1)
    tensor([1.6449, 1.0823])
)") {
    return pair<Zeta>(a);
}
OP("special.zeta(Operand input, Tensor other) -> Tensor", NAMED) { return pair<Zeta>(a); }

Value xlog1py(Args& a) {
    static const Kernels kernels = binary_kernels<XLog1pY, F>();
    return binary(a, a.tensor(0), a.tensor(1), kernels, Result::Float, 8);
}
OP("special.xlog1py(Tensor input, Operand other) -> Tensor", NAMED, R"(input * log1p(other), and 0 where input is 0.

Args:
    input: the factor.
    other: the argument of log1p.

Example:
    >>> fb.special.xlog1py(fb.tensor([0., 2.]), fb.tensor([-1., 1.]))
    tensor([0.0000, 1.3863])
)") {
    return xlog1py(a);
}
OP("special.xlog1py(Operand input, Tensor other) -> Tensor", NAMED) { return xlog1py(a); }

// ---- orthogonal polynomials
// ----------------------------------------------------------------------------------------------

// Degrees come as floats; what does not fit an integer is far beyond every loop.
int64_t degree(double n) {
    return n >= 9e18 ? int64_t(9e18) : n <= -9e18 || std::isnan(n) ? -1 : static_cast<int64_t>(n);
}

using PolynomialFn = double (*)(double, int64_t);
// float overflows long before double does: Hermite's polynomials beyond this degree are NaN, as in PyTorch.
template <class T>
constexpr int64_t hermite_limit = std::is_same_v<T, float> ? 128 : 512;

template <PolynomialFn fn, bool shifted, bool hermite>
struct Polynomial {
    template <class T>
    static T f(T x, T n) {
        int64_t k = degree(static_cast<double>(n));
        if constexpr (hermite) {
            if (k > hermite_limit<T>) return std::numeric_limits<T>::quiet_NaN();
        }
        double at = static_cast<double>(x);
        return static_cast<T>(fn(shifted ? 2 * at - 1 : at, k));
    }
};

struct RegisterPolynomial {
    RegisterPolynomial(const char* name, OpFn fn, const char* what, const char* shown) {
        std::string head = std::string("special.") + name, doc = what;
        doc +=
            "\n\nArgs:\n    input: where to evaluate.\n    n: the degree; the result is 0 for a negative "
            "one.\n\nExample:\n    >>> fb.special." +
            std::string(name) + "(fb.tensor([0.25, 2.]), 3)\n    " + shown + "\n";
        Register((head + "(Tensor input, Operand n) -> Tensor").c_str(), NAMED, fn, doc.c_str());
        Register((head + "(Operand input, Tensor n) -> Tensor").c_str(), NAMED, fn);
    }
};
#define POLYNOMIAL(name, fn, shifted, hermite, what, shown)                              \
    Value call_##name(Args& a) { return pair<Polynomial<sp::fn, shifted, hermite>>(a); } \
    const RegisterPolynomial register_##name(#name, call_##name, what, shown);

POLYNOMIAL(chebyshev_polynomial_t, chebyshev_t, false, false, "Chebyshev polynomial of the first kind.",
           "tensor([-0.6875, 26.0000])")
POLYNOMIAL(chebyshev_polynomial_u, chebyshev_u, false, false, "Chebyshev polynomial of the second kind.",
           "tensor([-0.8750, 56.0000])")
POLYNOMIAL(chebyshev_polynomial_v, chebyshev_v, false, false, "Chebyshev polynomial of the third kind.",
           "tensor([-0.1250, 41.0000])")
POLYNOMIAL(chebyshev_polynomial_w, chebyshev_w, false, false, "Chebyshev polynomial of the fourth kind.",
           "tensor([-1.6250, 71.0000])")
POLYNOMIAL(shifted_chebyshev_polynomial_t, chebyshev_t, true, false,
           "Chebyshev polynomial of the first kind in 2 x - 1.", "tensor([ 1., 99.])")
POLYNOMIAL(shifted_chebyshev_polynomial_u, chebyshev_u, true, false,
           "Chebyshev polynomial of the second kind in 2 x - 1.", "tensor([  1., 204.])")
POLYNOMIAL(shifted_chebyshev_polynomial_v, chebyshev_v, true, false,
           "Chebyshev polynomial of the third kind in 2 x - 1.", "tensor([  1., 169.])")
POLYNOMIAL(shifted_chebyshev_polynomial_w, chebyshev_w, true, false,
           "Chebyshev polynomial of the fourth kind in 2 x - 1.", "tensor([  1., 239.])")
POLYNOMIAL(hermite_polynomial_h, hermite_h, false, true, "Hermite polynomial of physics.", "tensor([-2.8750, 40.0000])")
POLYNOMIAL(hermite_polynomial_he, hermite_he, false, true, "Hermite polynomial of probability.",
           "tensor([-0.7344,  2.0000])")
POLYNOMIAL(laguerre_polynomial_l, laguerre_l, false, false, "Laguerre polynomial.", "tensor([ 0.3411, -0.3333])")
POLYNOMIAL(legendre_polynomial_p, legendre_p, false, false, "Legendre polynomial.", "tensor([-0.3359, 17.0000])")

}  // namespace
}  // namespace fb::ew
