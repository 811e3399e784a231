// Bessel, Airy and error functions: Chebyshev series near and far, with the leading behaviour factored out.
#include "backend/cpu/special_math.h"

namespace fb::sp {

// ---- modified Bessel functions --------------------------------------------------------------------------------------

// Common to K0 and K1: a pole at zero, undefined below.
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

// ---- Bessel functions -----------------------------------------------------------------------------------------------

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

// ---- error function and normal distribution -------------------------------------------------------------------------

double erfcx(double x) {
    if (x < 0) return x < -26.7 ? inf : 2 * std::exp(x * x) - erfcx(-x);
    if (std::isinf(x)) return 0;
    return chebyshev(table::erfcx, (x - 3.75) / (x + 3.75)) / (1 + 2 * x);
}

double log_ndtr(double x) {
    if (x < -1) return std::log(erfcx(-x * root_half) / 2) - x * x / 2;
    return std::log1p(-std::erfc(x * root_half) / 2);
}
double entr(double x) {
    if (x > 0) return -x * std::log(x);
    return x == 0 ? 0 : x < 0 ? -inf : x;
}

}  // namespace fb::sp
