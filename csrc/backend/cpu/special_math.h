// Special functions of one number in double precision; thread safe, defined for every input.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cpu/math.h"
#include "backend/cpu/special_tables.h"

namespace fb::sp {

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Error function and normal distribution.
double erfcx(double x);  // exp(x²) erfc(x)
double log_ndtr(double x);
double entr(double x);  // -x log x

// The gamma function and related functions.
double lgamma(double x);
float lgamma(float x);
double digamma(double x);
double trigamma(double x);
double zeta(double x, double q);  // Hurwitz
double polygamma(int64_t n, double x);
double gammainc(double a, double x);   // regularised, lower
double gammaincc(double a, double x);  // regularised, upper

// Bessel and Airy functions. The suffix e marks exponential scaling.
double k0(double x);
double k0e(double x);
double k1(double x);
double k1e(double x);
double bessel_y0(double x);
double bessel_y1(double x);
double spherical_j0(double x);
double airy_ai(double x);

// Orthogonal polynomials of degree n; 0 for a negative degree.
double chebyshev_t(double x, int64_t n);
double chebyshev_u(double x, int64_t n);
double chebyshev_v(double x, int64_t n);
double chebyshev_w(double x, int64_t n);
double hermite_h(double x, int64_t n);
double hermite_he(double x, int64_t n);
double laguerre_l(double x, int64_t n);
double legendre_p(double x, int64_t n);

// Sum of c[k] T_k(t) by Clenshaw's recurrence.
template <int n>
inline double chebyshev(const double (&c)[n], double t) {
    double b1 = 0, b2 = 0;
#pragma GCC unroll 40
    for (int k = n - 1; k > 0; k--) {
        double b = 2 * t * b1 - b2 + c[k];
        b2 = b1;
        b1 = b;
    }
    return t * b1 - b2 + c[0];
}

// ---- functions without branches, which loops vectorise --------------------------------------------------------------

inline constexpr double root_half = 0.70710678118654752440;

// Area under the normal curve left of x.
inline double ndtr(double x) { return 0.5 * m::erfc(-x * root_half); }

// The y ≥ 0 with erf(y) = a, where rest = 1 - a is given to full precision. Winitzki's formula is accurate to 0.2 %
// (less in the tail); each Halley step about triples the number of digits.
template <int steps>
inline double invert_erf(double a, double rest) {
    double l = m::log(rest * (1 + a)), b = 2 / (pi * 0.147) + l / 2;
    double y = m::sqrt(m::fabs(m::sqrt(b * b - l / 0.147) - b));
    for (int i = 0; i < steps; i++) {
        double miss = m::where(a > 0.5, rest - m::erfc(y), m::erf(y) - a);
        double step = miss / (1.12837916709551257390 * m::exp(-y * y));  // 2 / sqrt(pi)
        y -= step / (1 + y * step);
    }
    return m::where(rest == 0, inf, y);
}
inline double erfinv(double x) {
    double a = m::fabs(x);
    return std::copysign(invert_erf<3>(a, 1 - a), x);
}
// Inverse of ndtr.
inline double ndtri(double p) {
    double rest = 2 * m::where(p < 0.5, p, 1 - p);
    double y = invert_erf<5>(1 - rest, rest) / root_half;
    return m::where(p < 0.5, -y, y);
}

// Modified Bessel functions: a series up to 8 and one beyond.
inline double i0e(double x) {
    double y = m::fabs(x), far = m::where(y > 8, y, 8.0);
    double small = chebyshev(table::i0e_small, m::where(y > 8, 8.0, y) / 4 - 1);
    double large = chebyshev(table::i0e_large, 16 / far - 1) / m::sqrt(far);
    return m::where(y > 8, large, small);
}
inline double i1e(double x) {
    double y = m::fabs(x), far = m::where(y > 8, y, 8.0);
    double small = y * chebyshev(table::i1e_small, m::where(y > 8, 8.0, y) / 4 - 1);
    double large = chebyshev(table::i1e_large, 16 / far - 1) / m::sqrt(far);
    return std::copysign(m::where(y > 8, large, small), x);
}
// exp(x) f in two steps: exp alone overflows before the product does.
inline double unscaled(double f, double x) {
    double half = m::exp(x / 2);
    return half * f * half;
}
inline double i0(double x) { return unscaled(i0e(x), m::fabs(x)); }
inline double i1(double x) { return unscaled(i1e(x), m::fabs(x)); }

}  // namespace fb::sp
