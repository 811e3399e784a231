// Words of special functions, which are computed in double, as on the CPU: the same series, without recursion.
#include "backend/gpu/source.h"

namespace fb::gpu {

const char* special_words() {
    return R"(
FN T m_entr(T x) { return x > 0 ? -x * log(x) : x == 0 ? (T)0 : x != x ? x : -INF; }
FN T m_ndtr(T x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
FN T inverse_erf(T a, T rest, int steps) {
    const T l = log(rest * (1 + a)), b = 2 / (3.14159265358979323846 * 0.147) + l / 2;
    T y = sqrt(fabs(sqrt(b * b - l / 0.147) - b));
    for (int i = 0; i < steps; i++) {
        const T miss = a > 0.5 ? rest - erfc(y) : erf(y) - a;
        const T step = miss / (1.12837916709551257390 * exp(-y * y));
        y -= step / (1 + y * step);
    }
    return rest == 0 ? INF : y;
}
FN T m_erfinv(T x) {
    const T a = fabs(x);
    return copysign(inverse_erf(a, 1 - a, 3), x);
}
FN T m_ndtri(T p) {
    const T rest = 2 * (p < 0.5 ? p : 1 - p), y = inverse_erf(1 - rest, rest, 5) / 0.70710678118654752440;
    return p < 0.5 ? -y : y;
}
FN T m_digamma(T x) {
    T sum = (T)0, y;
    if (x == 0) return copysign(INF, -x);
    if (x < 0) {
        const T part = x - trunc(x);
        if (part == 0 || x == -INF) return INF - INF;
        sum = -3.14159265358979323846 / tan(3.14159265358979323846 * part);
        x = 1 - x;
    }
    for (; x < 10; x += 1) sum -= 1 / x;
    if (fabs(x) == INF || x != x) return x;
    y = 1 / (x * x);
    y = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12))))));
    return sum + log(x) - 0.5 / x - y;
}
FN T trigamma(T x) {
    T sum = (T)0, mirrored = (T)0, sign = (T)1, y;
    if (x < 0.5) {
        const T part = x - floor(x);
        if (part == 0) return INF;
        y = 3.14159265358979323846 / sin(3.14159265358979323846 * part);
        mirrored = y * y;
        sign = (T)-1;
        x = 1 - x;
    }
    for (; x < 12; x += 1) sum += 1 / (x * x);
    if (x == INF) return mirrored;
    y = 1 / (x * x);
    y *= 1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * (691.0 / 2730 - y * 7.0 / 6)))));
    return mirrored + sign * (sum + (1 + 0.5 / x + y) / x);
}
// Bernoulli numbers over factorials.
CONSTANT f64 bernoulli[] = {
    0.08333333333333333,   -0.001388888888888889,  3.306878306878307e-05,  -8.267195767195768e-07,
    2.08767569878681e-08,  -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.586062056277845e-15, -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19};
// Direct terms, then Euler and Maclaurin's formula for the rest.
FN T m_zeta(T x, T q) {
    T sum = (T)0, term, factor, power;
    if (x != x || q != q) return INF - INF;
    if (x == 1) return INF;
    if (x < 1) return INF - INF;
    if (q <= 0) {
        if (q == floor(q)) return INF;
        if (x != floor(x)) return INF - INF;
    }
    if (fabs(q) == INF) return (T)0;
    if (x == INF) return q > 1 ? (T)0 : q == 1 ? (T)1 : INF;
    if (q < -1e6) return INF - INF;
    for (int i = 0; i < 12 || q <= 12; i++, q += 1) {
        term = pow(q, -x);
        sum += term;
        if (q > 0 && term < 1e-17 * fabs(sum)) return sum;
    }
    term = pow(q, -x);
    sum += term * (q / (x - 1) + 0.5);
    factor = x;
    power = term / q;
    for (int k = 0; k < 12; k++) {
        sum += bernoulli[k] * factor * power;
        factor *= (x + 2 * k + 1) * (x + 2 * k + 2);
        power /= q * q;
    }
    return sum;
}
FN T m_polygamma(T n, T x) {
    const T order = n + 1, sign = fmod(n, (T)2) == 1 ? (T)1 : (T)-1;
    T z;
    if (n == 0) return m_digamma(x);
    if (n == 1) return trigamma(x);
    z = m_zeta(order, x);
    if (n > 150 && z > 0) return sign * exp(lgamma(order) + log(z));
    return sign * tgamma(order) * z;
}
FN T m_multigamma(T p, T x) {
    T sum = p * (p - 1) / 4 * 1.14472988584940017414;
    for (int j = 0; j < p; j++) sum += lgamma(x - 0.5 * j);
    return sum;
}
)";
}

}  // namespace fb::gpu
