// Orthogonal polynomials: three-term recurrences for small degrees, closed or asymptotic forms where the recurrence
// would take too long.
#include "backend/cpu/special_math.h"

namespace fb::sp {
namespace {

// p(k+1) = 2 x p(k) - p(k-1), from the first two.
double chebyshev_recurrence(double p0, double p1, double x, int64_t n) {
    if (n == 0) return p0;
    for (int64_t k = 1; k < n; k++) {
        double p2 = 2 * x * p1 - p0;
        p0 = p1;
        p1 = p2;
    }
    return p1;
}

constexpr int64_t loop_degree = 6;
constexpr int64_t asymptotic_degree = 100000;

// Outside [-1, 1] these grow like exp(n acosh|x|): the sign is that of x^n.
double growing(double value, double x, int64_t n) { return x < 0 && n % 2 ? -value : value; }

}  // namespace

double chebyshev_t(double x, int64_t n) {
    if (n < 0) return 0;
    if (std::isnan(x)) return x;
    if (n <= loop_degree) return chebyshev_recurrence(1, x, x, n);
    double degree = static_cast<double>(n), a = std::fabs(x);
    if (a <= 1) return a == 1 ? growing(1, x, n) : std::cos(degree * std::acos(x));
    return growing(std::cosh(degree * std::acosh(a)), x, n);
}
double chebyshev_u(double x, int64_t n) {
    if (n < 0) return 0;
    if (std::isnan(x)) return x;
    if (n <= loop_degree) return chebyshev_recurrence(1, 2 * x, x, n);
    double degree = static_cast<double>(n), a = std::fabs(x);
    if (a == 1) return growing(degree + 1, x, n);
    if (a < 1) {
        double angle = std::acos(x);
        return std::sin((degree + 1) * angle) / std::sin(angle);
    }
    if (std::isinf(a)) return growing(inf, x, n);
    double angle = std::acosh(a);
    return growing(std::sinh((degree + 1) * angle) / std::sinh(angle), x, n);
}
double chebyshev_v(double x, int64_t n) {
    if (n < 0) return 0;
    if (std::isnan(x)) return x;
    if (n <= loop_degree) return chebyshev_recurrence(1, 2 * x - 1, x, n);
    double degree = static_cast<double>(n);
    if (x == 1) return 1;
    if (x == -1) return growing(2 * degree + 1, x, n);
    if (std::fabs(x) < 1) {
        double angle = std::acos(x);
        return std::cos((degree + 0.5) * angle) / std::cos(angle / 2);
    }
    double angle = std::acosh(std::fabs(x));
    if (std::isinf(x)) return growing(inf, x, n);
    if (x > 0) return std::cosh((degree + 0.5) * angle) / std::cosh(angle / 2);
    return growing(std::sinh((degree + 0.5) * angle) / std::sinh(angle / 2), x, n);
}
// W(x) = (-1)^n V(-x).
double chebyshev_w(double x, int64_t n) { return n > 0 && n % 2 ? -chebyshev_v(-x, n) : chebyshev_v(-x, n); }

double hermite_h(double x, int64_t n) {
    if (n < 0) return 0;
    if (n == 0) return 1;
    double p0 = 1, p1 = 2 * x;
    for (int64_t k = 1; k < n && std::isfinite(p1); k++) {
        double p2 = 2 * (x * p1 - static_cast<double>(k) * p0);
        p0 = p1;
        p1 = p2;
        if (k > 4096) return nan;
    }
    return p1;
}
double hermite_he(double x, int64_t n) {
    if (n < 0) return 0;
    if (n == 0) return 1;
    double p0 = 1, p1 = x;
    for (int64_t k = 1; k < n && std::isfinite(p1); k++) {
        double p2 = x * p1 - static_cast<double>(k) * p0;
        p0 = p1;
        p1 = p2;
        if (k > 4096) return nan;
    }
    return p1;
}

double laguerre_l(double x, int64_t n) {
    if (n < 0) return 0;
    if (x == 0 || n == 0) return 1;
    if (n > asymptotic_degree) {
        double phase = 2 * std::sqrt((static_cast<double>(n) + 0.5) * std::fabs(x));
        return std::exp(x / 2) * (x > 0 ? ::j0(phase) : i0(phase));
    }
    double p0 = 1, p1 = 1 - x;
    for (int64_t k = 1; k < n && std::isfinite(p1); k++) {
        double d = static_cast<double>(k);
        double p2 = ((2 * d + 1 - x) * p1 - d * p0) / (d + 1);
        p0 = p1;
        p1 = p2;
    }
    return p1;
}

double legendre_p(double x, int64_t n) {
    if (n < 0) return 0;
    if (n == 0) return 1;
    if (std::fabs(x) == 1) return growing(1, x, n);
    if (n > asymptotic_degree && std::fabs(x) < 1) {
        double angle = std::acos(std::fabs(x));
        return growing(std::sqrt(angle / std::sin(angle)) * ::j0((static_cast<double>(n) + 0.5) * angle), x, n);
    }
    double p0 = 1, p1 = x;
    for (int64_t k = 1; k < n && std::isfinite(p1); k++) {
        double d = static_cast<double>(k);
        double p2 = ((2 * d + 1) * x * p1 - d * p0) / (d + 1);
        p0 = p1;
        p1 = p2;
    }
    return p1;
}

}  // namespace fb::sp
