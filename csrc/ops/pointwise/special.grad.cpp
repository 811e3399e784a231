// Gradients of the special functions. Those without one in PyTorch (Bessel and Airy functions, orthogonal polynomials)
// are constants for the graph.
#include <numbers>

#include "ops/table/gradient.h"

namespace fb {

static const double SQRT_PI = 1 / std::numbers::inv_sqrtpi, SQRT_2 = std::numbers::sqrt2;

[[noreturn]] static void no_derivative(const char* op, const char* argument) {
    fail(ErrorKind::NotImplemented, "the derivative for ", op, " with respect to '", argument,
         "' is not implemented; detach that argument");
}

// ---- gamma ----------------------------------------------------------------------------------------------------------

GRAD("lgamma", IN(0)) { c.set(0, c.g() * digamma(c.in(0))); }
GRAD("digamma", IN(0)) { c.set(0, c.g() * call<"polygamma">(1, c.in(0))); }
GRAD("polygamma(int n", IN(1)) { c.set(1, c.g() * call<"polygamma">(c.integer(0) + 1, c.in(1))); }
GRAD("polygamma(Tensor input", IN(0)) { c.set(0, c.g() * call<"polygamma">(c.integer(1) + 1, c.in(0))); }
GRAD("mvlgamma", IN(0)) {
    Var slope = digamma(c.in(0));
    for (int64_t j = 1; j < c.integer(1); j++) slope = slope + digamma(c.in(0) - 0.5 * static_cast<double>(j));
    c.set(0, c.g() * slope);
}
// The integrand of both incomplete gamma functions at their limit.
static Var gamma_density(const Var& shape, const Var& x) { return exp((shape - 1) * log(x) - x - lgamma(shape)); }
GRAD("igamma", 0, IN(0) | IN(1)) {
    if (c.needs(0)) no_derivative("igamma", "input");
    c.set(1, c.g() * gamma_density(c.in(0), c.in(1)));
}
GRAD("igammac", 0, IN(0) | IN(1)) {
    if (c.needs(0)) no_derivative("igammac", "input");
    c.set(1, -(c.g() * gamma_density(c.in(0), c.in(1))));
}
GRAD("special.zeta", 0, IN(0) | IN(1)) {
    if (c.needs(0)) no_derivative("special.zeta", "input");
    Var x = c.in(0);
    c.set(1, -(c.g() * x * call<"special.zeta">(x + 1, c.in(1))));
}

// ---- error function -------------------------------------------------------------------------------------------------

GRAD("erfinv", RESULT(0)) { c.set(0, c.g() * exp(square(c.out())) * (0.5 * SQRT_PI)); }
GRAD("special.erfcx", IN(0) | RESULT(0)) { c.set(0, c.g() * (c.in(0) * c.out() * 2 - 2 / SQRT_PI)); }
GRAD("special.ndtr", IN(0)) { c.set(0, c.g() * exp(square(c.in(0)) * -0.5) * (1 / (SQRT_2 * SQRT_PI))); }
GRAD("special.ndtri", RESULT(0)) { c.set(0, c.g() * exp(square(c.out()) * 0.5) * (SQRT_2 * SQRT_PI)); }
// density / area; the scaled erfc keeps the quotient accurate far to the left.
GRAD("special.log_ndtr", IN(0)) {
    c.set(0, c.g() / call<"special.erfcx">(c.in(0) * (-1 / SQRT_2)) * (SQRT_2 / SQRT_PI));
}

// ---- entropy-like ---------------------------------------------------------------------------------------------------

GRAD("special.entr", IN(0)) { c.set(0, c.g() * (-1 - log(c.in(0)))); }
GRAD("special.xlog1py", IN(0) | IN(1), IN(0) | IN(1)) {
    Var x = c.in(0), y = c.in(1);
    if (c.needs(0)) c.set(0, c.g() * masked_fill(log1p(y), logical_and(x == 0, y <= -1), 0));
    if (c.needs(1)) c.set(1, c.g() * x / (y + 1));
}

// ---- Bessel ---------------------------------------------------------------------------------------------------------

GRAD("i0", IN(0)) { c.set(0, c.g() * call<"special.i1">(c.in(0))); }
GRAD("special.i0e", IN(0) | RESULT(0)) { c.set(0, c.g() * (call<"special.i1e">(c.in(0)) - sgn(c.in(0)) * c.out())); }
// i1(x) / x tends to 1/2 at zero; the quotient is taken where |x| is not tiny.
static Var small(const Var& x) { return logical_not(abs(x) > 1e-15); }
GRAD("special.i1", IN(0) | RESULT(0)) {
    Var x = c.in(0), tiny = small(x), safe = masked_fill(x, tiny, 1);
    Var slope = call<"i0">(safe) - c.out() / safe;
    c.set(0, c.g() * masked_fill(slope, tiny, 0.5));
}
GRAD("special.i1e", IN(0) | RESULT(0)) {
    Var x = c.in(0), tiny = small(x), safe = masked_fill(x, tiny, 1);
    Var slope = call<"special.i0e">(safe) - c.out() * (sgn(safe) + reciprocal(safe));
    c.set(0, c.g() * masked_fill(slope, tiny, 0.5));
}
NO_GRAD(
    "special.bessel_j0|special.bessel_j1|special.bessel_y0|special.bessel_y1|special.modified_bessel_i0|"
    "special.modified_bessel_i1|special.modified_bessel_k0|special.modified_bessel_k1|"
    "special.scaled_modified_bessel_k0|special.scaled_modified_bessel_k1|special.spherical_bessel_j0|special.airy_ai");
NO_GRAD(
    "special.chebyshev_polynomial_t|special.chebyshev_polynomial_u|special.chebyshev_polynomial_v|"
    "special.chebyshev_polynomial_w|special.shifted_chebyshev_polynomial_t|special.shifted_chebyshev_polynomial_u|"
    "special.shifted_chebyshev_polynomial_v|special.shifted_chebyshev_polynomial_w|special.hermite_polynomial_h|"
    "special.hermite_polynomial_he|special.laguerre_polynomial_l|special.legendre_polynomial_p");

// ---- parts of floating point numbers --------------------------------------------------------------------------------

GRAD("frexp", RESULT(1)) {
    if (c.has(0)) c.set(0, c.g() / call<"exp2">(c.out(1)));
}
GRAD("ldexp", IN(1), RESULT(0)) {
    if (c.needs(0)) c.set(0, c.g() * conj(call<"exp2">(c.in(1))));
    if (c.needs(1)) c.set(1, c.g() * conj(c.out()) * std::numbers::ln2);
}
// The step to the neighbour is a constant; where both are equal there is no step.
GRAD("nextafter", IN(0) | IN(1), 0) {
    if (c.needs(0)) c.set(0, masked_fill(c.g(), c.in(0) == c.in(1), 0));
    c.set(1, zeros_like(c.g()));
}

}  // namespace fb
