// Special functions of one number in double precision; thread safe, defined for every input.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

namespace fb::sp {

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Error function and normal distribution.
double erfinv(double x);
double erfcx(double x);  // exp(x²) erfc(x)
double ndtr(double x);   // area under the normal curve left of x
double log_ndtr(double x);
double ndtri(double p);  // inverse of ndtr
double entr(double x);   // -x log x

// Gamma function and its kin.
double lgamma(double x);
float lgamma(float x);
double digamma(double x);
double trigamma(double x);
double zeta(double x, double q);  // Hurwitz
double polygamma(int64_t n, double x);
double gammainc(double a, double x);   // regularised, lower
double gammaincc(double a, double x);  // regularised, upper

// Bessel and Airy functions. The suffix e marks exponential scaling.
double i0(double x);
double i0e(double x);
double i1(double x);
double i1e(double x);
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
    for (int k = n - 1; k > 0; k--) {
        double b = 2 * t * b1 - b2 + c[k];
        b2 = b1;
        b1 = b;
    }
    return t * b1 - b2 + c[0];
}

}  // namespace fb::sp
