// Special functions as ops: the rows of special.def, and those with parameters.
#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

constexpr unsigned NAMED = FUNCTION | OUT;

#define SPECIAL(name, op, flags, text, summary, example, shown)                                              \
    Value call_##name(Args& a) { return unary(a, a.tensor(0), formulas::name); }                             \
    const Register register_##name(#op "(Tensor input) -> Tensor", flags | ELEMENTWISE, call_##name,         \
                                   summary "\n\nArgs:\n    input: the tensor.\n\nExample:\n    >>> " example \
                                           "\n    " shown "\n");
#define VECTOR SPECIAL
#include "device/formulas/special.def"
#undef SPECIAL
#undef VECTOR

OP_ALIAS("special.erfinv", "erfinv");
OP_ALIAS("special.digamma", "digamma");
OP_ALIAS("special.psi", "digamma");
OP_ALIAS("special.i0", "i0");

OP("lgamma(Tensor input) -> Tensor", POINTWISE | ELEMENTWISE, R"(Logarithm of the absolute value of the gamma function.

Args:
    input: the tensor.

Example:
    >>> fb.lgamma(fb.tensor([1., 5.]))
    tensor([0.0000, 3.1781])
)") {
    return unary(a, a.tensor(0), formulas::lgamma);
}
OP_ALIAS("special.gammaln", "lgamma");

// ---- with an integer argument ---------------------------------------------------------------------------------------

Value polygamma(Args& a, int64_t n, const Tensor& x) {
    check(n < INT32_MAX, "n must be less than 2**31 - 1, got ", n);
    check(n >= 0, "the order must not be negative, got n = ", n);
    Numbers numbers(static_cast<double>(n));
    return unary(a, x, formulas::polygamma, &numbers);
}
OP("polygamma(int n, Tensor input) -> Tensor", FUNCTION | OUT | ELEMENTWISE, R"(The n-th derivative of digamma.

Args:
    n: the order, 0 or more.
    input: the tensor.

Example:
    >>> fb.polygamma(1, fb.tensor([1., 0.5]))
    tensor([1.6449, 4.9348])
)") {
    return polygamma(a, a.integer(0), a.tensor(1));
}
OP("polygamma(Tensor input, int n) -> Tensor", METHOD | INPLACE | ELEMENTWISE) {
    return polygamma(a, a.integer(1), a.tensor(0));
}
OP_ALIAS("special.polygamma", "polygamma");

OP("mvlgamma(Tensor input, int p) -> Tensor", POINTWISE | ELEMENTWISE,
   R"(Logarithm of the multivariate gamma function of dimension p.

Args:
    input: the tensor.
    p: the dimension, 1 or more.

Example:
    >>> fb.mvlgamma(fb.tensor([2., 3.]), 2)
    tensor([0.4516, 1.5502])
)") {
    int64_t p = a.integer(1);
    check(p >= 1, "p has to be greater than or equal to 1, got ", p);
    check(p <= 100000, "p must be at most 100000, got ", p);
    Numbers numbers(static_cast<double>(p));
    return unary(a, a.tensor(0), formulas::mvlgamma, &numbers);
}
OP_ALIAS("special.multigammaln", "mvlgamma");

// ---- of two numbers -------------------------------------------------------------------------------------------------

Value pair(Args& a, const Formula& formula) { return binary(a, a.tensor(0), a.tensor(1), formula); }

OP("igamma(Tensor input, Tensor other) -> Tensor", POINTWISE | ELEMENTWISE,
   R"(Regularised lower incomplete gamma function.

Args:
    input: the shape parameter, not negative.
    other: the upper end of the integral, not negative.

Example:
    >>> fb.igamma(fb.tensor([4.]), fb.tensor([3., 4., 5.]))
    tensor([0.3528, 0.5665, 0.7350])
)") {
    return pair(a, formulas::igamma);
}
OP_ALIAS("special.gammainc", "igamma");
OP("igammac(Tensor input, Tensor other) -> Tensor", POINTWISE | ELEMENTWISE,
   R"(Regularised upper incomplete gamma function: 1 - igamma.

Args:
    input: the shape parameter, not negative.
    other: the lower end of the integral, not negative.

Example:
    >>> fb.igammac(fb.tensor([4.]), fb.tensor([3., 4., 5.]))
    tensor([0.6472, 0.4335, 0.2650])
)") {
    return pair(a, formulas::igammac);
}
OP_ALIAS("special.gammaincc", "igammac");

OP("special.zeta(Tensor input, Operand other) -> Tensor", NAMED | ELEMENTWISE,
   R"(Hurwitz's zeta function: the sum of (k + other) ** -input over k = 0, 1, …

Args:
    input: the exponent, above 1.
    other: where the sum begins.

Example:
    >>> fb.special.zeta(fb.tensor([2., 4.]), 1)
    tensor([1.6449, 1.0823])
)") {
    return pair(a, formulas::zeta);
}
OP("special.zeta(Operand input, Tensor other) -> Tensor", NAMED | ELEMENTWISE) { return pair(a, formulas::zeta); }

Value xlog1py(Args& a) { return pair(a, formulas::xlog1py); }
OP("special.xlog1py(Tensor input, Operand other) -> Tensor", NAMED | ELEMENTWISE,
   R"(input * log1p(other), and 0 where input is 0.

Args:
    input: the factor.
    other: the argument of log1p.

Example:
    >>> fb.special.xlog1py(fb.tensor([0., 2.]), fb.tensor([-1., 1.]))
    tensor([0.0000, 1.3863])
)") {
    return xlog1py(a);
}
OP("special.xlog1py(Operand input, Tensor other) -> Tensor", NAMED | ELEMENTWISE) { return xlog1py(a); }

// ---- orthogonal polynomials -----------------------------------------------------------------------------------------

struct RegisterPolynomial {
    RegisterPolynomial(const char* name, OpFn fn, const char* what, const char* shown) {
        std::string head = std::string("special.") + name, doc = what;
        doc +=
            "\n\nArgs:\n    input: where to evaluate.\n    n: the degree; the result is 0 for a negative "
            "one.\n\nExample:\n    >>> fb.special." +
            std::string(name) + "(fb.tensor([0.25, 2.]), 3)\n    " + shown + "\n";
        Register((head + "(Tensor input, Operand n) -> Tensor").c_str(), NAMED | ELEMENTWISE, fn, doc.c_str());
        Register((head + "(Operand input, Tensor n) -> Tensor").c_str(), NAMED | ELEMENTWISE, fn);
    }
};
#define POLYNOMIAL(name, what, shown)                              \
    Value call_##name(Args& a) { return pair(a, formulas::name); } \
    const RegisterPolynomial register_##name(#name, call_##name, what, shown);

POLYNOMIAL(chebyshev_polynomial_t, "Chebyshev polynomial of the first kind.", "tensor([-0.6875, 26.0000])")
POLYNOMIAL(chebyshev_polynomial_u, "Chebyshev polynomial of the second kind.", "tensor([-0.8750, 56.0000])")
POLYNOMIAL(chebyshev_polynomial_v, "Chebyshev polynomial of the third kind.", "tensor([-0.1250, 41.0000])")
POLYNOMIAL(chebyshev_polynomial_w, "Chebyshev polynomial of the fourth kind.", "tensor([-1.6250, 71.0000])")
POLYNOMIAL(shifted_chebyshev_polynomial_t, "Chebyshev polynomial of the first kind in 2 x - 1.", "tensor([ 1., 99.])")
POLYNOMIAL(shifted_chebyshev_polynomial_u, "Chebyshev polynomial of the second kind in 2 x - 1.",
           "tensor([  1., 204.])")
POLYNOMIAL(shifted_chebyshev_polynomial_v, "Chebyshev polynomial of the third kind in 2 x - 1.", "tensor([  1., 169.])")
POLYNOMIAL(shifted_chebyshev_polynomial_w, "Chebyshev polynomial of the fourth kind in 2 x - 1.",
           "tensor([  1., 239.])")
POLYNOMIAL(hermite_polynomial_h, "Hermite polynomial of physics.", "tensor([-2.8750, 40.0000])")
POLYNOMIAL(hermite_polynomial_he, "Hermite polynomial of probability.", "tensor([-0.7344,  2.0000])")
POLYNOMIAL(laguerre_polynomial_l, "Laguerre polynomial.", "tensor([ 0.3411, -0.3333])")
POLYNOMIAL(legendre_polynomial_p, "Legendre polynomial.", "tensor([-0.3359, 17.0000])")

}  // namespace
}  // namespace fb::ew
