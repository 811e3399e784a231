// Bessel, Airy and error functions: Chebyshev series near and far, with the leading behaviour taken out.
#include "ops/special_math.h"
#include "ops/special_tables.h"

namespace fb::sp {

// ---- modified Bessel functions
// -----------------------------------------------------------------------------------------

double i0e(double x) {
    x = std::fabs(x);
    if (x <= 8) return chebyshev(table::i0e_small, x / 4 - 1);
    return chebyshev(table::i0e_large, 16 / x - 1) / std::sqrt(x);
}
double i1e(double x) {
    double y = std::fabs(x);
    if (y <= 8) return x * chebyshev(table::i1e_small, y / 4 - 1);
    return std::copysign(chebyshev(table::i1e_large, 16 / y - 1) / std::sqrt(y), x);
}
// exp(x) f in two steps: exp alone overflows before the product does.
static double unscaled(double f, double x) {
    double half = std::exp(x / 2);
    return half * f * half;
}
double i0(double x) { return unscaled(i0e(x), std::fabs(x)); }
double i1(double x) { return unscaled(i1e(x), std::fabs(x)); }

// Common to K0 and K1: poles at zero, nothing below.
static bool outside(double x, double& result) {
    if (x > 0) return false;
    result = x == 0 ? inf : nan;
    return true;
}
double k0(double x) {
    double y;
    if (outside(x, y)) return y;
    if (x <= 2) return chebyshev(table::k0_small, x * x / 2 - 1) - std::log(x / 2) * i0(x);
    return std::exp(-x) * chebyshev(table::k0_large, 4 / x - 1) / std::sqrt(x);
}
double k0e(double x) {
    double y;
    if (outside(x, y)) return y;
    return x <= 2 ? std::exp(x) * k0(x) : chebyshev(table::k0_large, 4 / x - 1) / std::sqrt(x);
}
double k1(double x) {
    double y;
    if (outside(x, y)) return y;
    if (x <= 2) return chebyshev(table::k1_small, x * x / 2 - 1) / x + std::log(x / 2) * i1(x);
    return std::exp(-x) * chebyshev(table::k1_large, 4 / x - 1) / std::sqrt(x);
}
double k1e(double x) {
    double y;
    if (outside(x, y)) return y;
    return x <= 2 ? std::exp(x) * k1(x) : chebyshev(table::k1_large, 4 / x - 1) / std::sqrt(x);
}

// ---- Bessel functions
// --------------------------------------------------------------------------------------------------

double bessel_y0(double x) { return x == 0 ? -inf : x < 0 ? nan : ::y0(x); }
double bessel_y1(double x) { return x == 0 ? -inf : x < 0 ? nan : ::y1(x); }
double spherical_j0(double x) {
    if (std::isinf(x)) return 0;
    if (std::fabs(x) < 0.5) {
        double y = x * x;  // sin(x) / x as its series
        return 1 - y / 6 * (1 - y / 20 * (1 - y / 42 * (1 - y / 72 * (1 - y / 110 * (1 - y / 156)))));
    }
    return std::sin(x) / x;
}

double airy_ai(double x) {
    if (std::isnan(x)) return x;
    if (x > 106 || std::isinf(x)) return 0;  // below the smallest number
    double root = std::sqrt(std::fabs(x)), z = 2 * std::fabs(x) * root / 3;
    if (x > 2) {
        constexpr double z2 = 1.8856180831641267317;  // z at 2
        return std::exp(-z) * chebyshev(table::airy_far, 2 * z2 / z - 1) / (2 * std::sqrt(pi) * std::sqrt(root));
    }
    if (x >= -4) return chebyshev(table::airy_near, (x + 1) / 3);
    constexpr double z4 = 16.0 / 3;  // z at -4
    double t = 2 * (z4 / z) * (z4 / z) - 1, phase = z - pi / 4;
    double p = chebyshev(table::airy_p, t), q = chebyshev(table::airy_q, t) / z;
    return (std::cos(phase) * p + std::sin(phase) * q) / (std::sqrt(pi) * std::sqrt(root));
}

// ---- error function and normal distribution
// ----------------------------------------------------------------------------

double erfcx(double x) {
    if (x < 0) return x < -26.7 ? inf : 2 * std::exp(x * x) - erfcx(-x);
    if (std::isinf(x)) return 0;
    return chebyshev(table::erfcx, (x - 3.75) / (x + 3.75)) / (1 + 2 * x);
}

double erfinv(double x) {
    double a = std::fabs(x);
    if (!(a < 1)) return a == 1 ? std::copysign(inf, x) : nan;
    if (a < 1e-8) return x * 0.88622692545275801365;  // sqrt(pi) / 2
    // Winitzki's formula is right to 0.2 %; each of Halley's steps triples the digits.
    double l = std::log1p(-a * a), b = 2 / (pi * 0.147) + l / 2;
    double y = std::sqrt(std::sqrt(b * b - l / 0.147) - b);
    for (int i = 0; i < 3; i++) {
        double miss = a > 0.5 ? (1 - a) - std::erfc(y) : std::erf(y) - a;
        double step = miss / (1.12837916709551257390 * std::exp(-y * y));  // 2 / sqrt(pi)
        y -= step / (1 + y * step);
    }
    return std::copysign(y, x);
}

constexpr double root_half = 0.70710678118654752440;

double ndtr(double x) { return 0.5 * std::erfc(-x * root_half); }
double log_ndtr(double x) {
    if (x < -1) return std::log(erfcx(-x * root_half) / 2) - x * x / 2;
    return std::log1p(-std::erfc(x * root_half) / 2);
}
double ndtri(double p) {
    if (p == 0) return -inf;
    if (p == 1) return inf;
    if (!(p > 0 && p < 1)) return nan;
    if (p > 0.75) return -ndtri(1 - p);
    if (p > 0.25) return erfinv(2 * p - 1) / root_half;
    // Newton on the logarithm, which is nearly a parabola far out; starts left of the solution and stays there.
    double l = std::log(p), x = -std::sqrt(-2 * l);
    for (int i = 0; i < 8; i++) {
        double f = log_ndtr(x);
        double step = (f - l) / (0.39894228040143267794 * std::exp(-x * x / 2 - f));  // 1 / sqrt(2 pi)
        x -= step;
        if (std::fabs(step) < 1e-15 * std::fabs(x)) break;
    }
    return x;
}

double entr(double x) {
    if (x > 0) return -x * std::log(x);
    return x == 0 ? 0 : x < 0 ? -inf : x;
}

}  // namespace fb::sp
