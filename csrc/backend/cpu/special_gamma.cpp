// The gamma function and related functions: lgamma, digamma, polygamma, zeta and the incomplete gamma functions.
#include "backend/cpu/special_math.h"
#include "backend/cpu/special_tables.h"

namespace fb::sp {

// The _r forms leave the global `signgam` alone.
double lgamma(double x) {
    int sign;
    return ::lgamma_r(x, &sign);
}
float lgamma(float x) {
    int sign;
    return ::lgammaf_r(x, &sign);
}

double digamma(double x) {
    if (x == 0) return std::copysign(inf, -x);
    if (x < 0) {
        double whole, part = std::modf(x, &whole);
        if (part == 0) return nan;
        return digamma(1 - x) - pi / std::tan(pi * part);
    }
    double sum = 0;
    for (; x < 10; x += 1) sum -= 1 / x;
    if (std::isinf(x)) return x;
    // Asymptotic series: -B(2k) / (2k x^2k).
    double y = 1 / (x * x);
    double tail =
        y * (1.0 / 12 -
             y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12))))));
    return sum + std::log(x) - 0.5 / x - tail;
}

double trigamma(double x) {
    if (x < 0.5) {
        if (x == 0) return inf;
        double part = x - std::floor(x);
        if (part == 0) return inf;
        double s = pi / std::sin(pi * part);
        return s * s - trigamma(1 - x);
    }
    double sum = 0;
    for (; x < 12; x += 1) sum += 1 / (x * x);
    if (std::isinf(x)) return 0;
    double y = 1 / (x * x);
    double tail =
        1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * (691.0 / 2730 - y * 7.0 / 6)))));
    return sum + (1 + 0.5 / x + y * tail) / x;
}

// Direct terms, then the Euler–Maclaurin formula for the rest.
double zeta(double x, double q) {
    if (std::isnan(x) || std::isnan(q)) return nan;
    if (x == 1) return inf;
    if (x < 1) return nan;
    if (q <= 0) {
        if (q == std::floor(q)) return inf;
        if (x != std::floor(x)) return nan;  // a root of a negative number
    }
    if (std::isinf(q)) return 0;
    if (std::isinf(x)) return q > 1 ? 0 : q == 1 ? 1 : inf;
    double sum = 0, term = 0;
    // Starting far below zero would take forever; the terms there are negligible.
    if (q < -1e6) return nan;
    for (int i = 0; i < 12 || q <= 12; i++, q += 1) {
        term = std::pow(q, -x);
        sum += term;
        if (q > 0 && term < 1e-17 * std::fabs(sum)) return sum;
    }
    term = std::pow(q, -x);
    sum += term * (q / (x - 1) + 0.5);
    double factor = x, power = term / q;
    for (int k = 0; k < 12; k++) {
        double t = table::bernoulli_over_factorial[k] * factor * power;
        sum += t;
        if (std::fabs(t) < 1e-17 * std::fabs(sum)) break;
        factor *= (x + 2 * k + 1) * (x + 2 * k + 2);
        power /= q * q;
    }
    return sum;
}

double polygamma(int64_t n, double x) {
    if (n == 0) return digamma(x);
    if (n == 1) return trigamma(x);
    double order = static_cast<double>(n) + 1;
    double z = zeta(order, x), sign = n % 2 ? 1.0 : -1.0;
    // n! overflows beyond 170 where the product may not.
    if (n > 150 && z > 0) return sign * std::exp(lgamma(order) + std::log(z));
    return sign * std::tgamma(order) * z;
}

// ---- incomplete gamma functions -------------------------------------------------------------------------------------

namespace {

// log(1 + u) - u without cancellation for small u.
double log1p_minus(double u) {
    if (std::fabs(u) > 0.5) return std::log1p(u) - u;
    double r = u / (2 + u), y = r * r, sum = 0;
    for (int k = 18; k >= 0; k--) sum = sum * y + 1.0 / (2 * k + 3);
    return r * (2 * y * sum - u);
}

// log Γ(1 + a) for |a| ≤ 0.5, accurate near zero.
double lgamma1p(double a) {
    constexpr double one_minus_euler = 0.42278433509846713939;
    double sum = 0;
    constexpr int n = sizeof(table::zeta_minus_one) / sizeof(double);
    for (int i = n - 1; i >= 0; i--) sum = sum * -a + table::zeta_minus_one[i] / (i + 2);
    return -std::log1p(a) + a * one_minus_euler + a * a * sum;
}

// x^a exp(-x) / Γ(a + 1).
double prefix(double a, double x) {
    if (a < 10) {
        if (x < 700) return std::pow(x, a) * std::exp(-x) / std::tgamma(a + 1);
        return std::exp(a * std::log(x) - x - lgamma(a + 1));
    }
    // Stirling's series for Γ, with the large parts of the exponent cancelled analytically.
    double u = (x - a) / a, y = 1 / (a * a);
    double stirling = (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y * (1.0 / 1680 - y * (1.0 / 1188))))) / a;
    // Far from a, 1 + u would lose the digits of x.
    double exponent = std::fabs(u) > 0.5 ? std::log(x / a) - u : log1p_minus(u);
    return std::exp(a * exponent - stirling) / std::sqrt(2 * pi * a);
}

constexpr int max_terms = 20000;

double lower_series(double a, double x) {
    double term = 1, sum = 1, n = a;
    for (int i = 0; i < max_terms; i++) {
        n += 1;
        term *= x / n;
        sum += term;
        if (term < 1e-17 * sum) break;
    }
    return prefix(a, x) * sum;
}

// Lentz's method on the continued fraction of Γ(a, x).
double upper_fraction(double a, double x) {
    constexpr double tiny = 1e-300;
    double b = x + 1 - a, c = 1 / tiny, d = 1 / (b == 0 ? tiny : b), h = d;
    for (int i = 1; i < max_terms; i++) {
        double an = -i * (i - a);
        b += 2;
        d = an * d + b;
        if (std::fabs(d) < tiny) d = tiny;
        c = b + an / c;
        if (std::fabs(c) < tiny) c = tiny;
        d = 1 / d;
        double step = d * c;
        h *= step;
        if (std::fabs(step - 1) < 1e-16) break;
    }
    return prefix(a, x) * a * h;
}

// For small a and x, where 1 - P would cancel.
double upper_series(double a, double x) {
    double factor = 1, sum = 0;
    for (int n = 1; n < 200; n++) {
        factor *= -x / n;
        double term = factor / (a + n);
        sum += term;
        if (std::fabs(term) < 1e-17 * std::fabs(sum)) break;
    }
    double log_x = std::log(x), log_gamma = a <= 0.5 ? lgamma1p(a) : lgamma(a + 1);
    double power = a * log_x - log_gamma;
    return -std::expm1(power) - a * std::exp(power) * sum;
}

// Temme's uniform expansion for large a: both tails at once.
double uniform(double a, double x, bool upper) {
    double u = (x - a) / a;
    double half_square = -log1p_minus(u);  // eta² / 2
    double eta = std::copysign(std::sqrt(2 * half_square), u);
    double sign = upper ? 1 : -1;
    double main = 0.5 * std::erfc(sign * eta * std::sqrt(a / 2));
    if (std::fabs(eta) > 1) return main;  // the correction is negligible
    double c =
        chebyshev(table::temme_0, eta) + (chebyshev(table::temme_1, eta) + chebyshev(table::temme_2, eta) / a) / a;
    return main + sign * std::exp(-a * half_square) * c / std::sqrt(2 * pi * a);
}

constexpr double large_a = 2000;

// Cases that need no computation; returns true if `result` is set. `none` is the value of the wanted tail when it is
// empty.
bool incomplete_edge(double a, double x, double none, double& result) {
    double full = 1 - none;
    if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) result = nan;
    else if (a == 0) result = x > 0 ? full : nan;
    else if (x == 0) result = none;
    else if (std::isinf(a)) result = std::isinf(x) ? nan : none;
    else if (std::isinf(x)) result = full;
    else return false;
    return true;
}

}  // namespace

double gammaincc(double a, double x) {
    double result;
    if (incomplete_edge(a, x, 1, result)) return result;
    if (a > large_a) return uniform(a, x, true);
    if (x > 1.1) return x < a ? 1 - lower_series(a, x) : upper_fraction(a, x);
    bool lower_is_small = x <= 0.5 ? -0.4 / std::log(x) < a : 0.75 * x < a;
    return lower_is_small ? 1 - lower_series(a, x) : upper_series(a, x);
}

double gammainc(double a, double x) {
    double result;
    if (incomplete_edge(a, x, 0, result)) return result;
    if (a > large_a) return uniform(a, x, false);
    if (x > 1 && x > a) return 1 - gammaincc(a, x);
    return lower_series(a, x);
}

}  // namespace fb::sp
