// Gamma and Dirichlet samples, and the derivatives of samples with respect to their parameters.
//
// A sample x of a distribution with density p and distribution function F(x; a) moves, at a fixed quantile, by dx/da =
// -(dF/da) / p(x). Both families are exponential in a statistic T with mean E, so dF/da = ∫_{-∞}^{x} (T(t) - E) p(t)
// dt, and the integral over the whole support is zero: either tail can be used. On a scale where p has its mode at the
// mean (log t for gamma, logit t for beta) the tail away from the mode decreases monotonically, so one quadrature rule
// works for every parameter.
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/philox.h"
#include "backend/cpu/random_sample.h"
#include "backend/cpu/special_math.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

// ∫_0^∞ f(s) ds by the trapezium rule after s = width · exp(π/2 sinh τ); the step in τ determines the precision.
struct Rule {
    std::vector<double> at, weight;  // for width 1
    explicit Rule(double step) {
        for (double tau = -3.4; tau < 2.9; tau += step) {  // s from 1e-10 to 1e6 widths
            at.push_back(std::exp(0.5 * sp::pi * std::sinh(tau)));
            weight.push_back(step * 0.5 * sp::pi * std::cosh(tau) * at.back());
        }
    }
    template <class F>
    double integrate(double width, F f) const {
        double sum = 0;
        for (size_t i = 0; i < at.size(); i++) sum += weight[i] * f(width * at[i]);
        return sum * width;
    }
};

const Rule& rule_for(bool precise) {
    static const Rule fine(1.0 / 32), coarse(1.0 / 10);
    return precise ? fine : coarse;
}

// dx/da of a sample x of Gamma(a, 1).
double gamma_slope(double a, double x, const Rule& rule) {
    if (!(a > 0) || !(x >= 0)) return sp::nan;
    if (x == 0 || std::isinf(x)) return 0;
    double above_mean = std::log(x) - sp::digamma(a);
    if (x < a) {  // t = x exp(-s)
        double width = 1 / std::max(a - x, std::min(a, std::sqrt(a)));
        return -x * rule.integrate(width,
                                   [=](double s) { return (above_mean - s) * std::exp(-a * s - x * std::expm1(-s)); });
    }
    double width = x > 1 ? 1 / std::max(x - a, std::sqrt(x)) : 1 - std::log(x);  // t = x exp(s)
    return x * rule.integrate(width, [=](double s) {
        double weight = std::exp(a * s - x * std::expm1(s));
        return weight == 0 ? 0 : (above_mean + s) * weight;
    });
}

double softplus(double l) { return l > 0 ? l + std::log1p(std::exp(-l)) : std::log1p(std::exp(l)); }

// dx/da / (1 - x) of a sample x of Beta(a, b).
double beta_slope(double a, double b, double x, const Rule& rule) {
    if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return sp::nan;
    if (x == 0) return 0;
    x = std::min(x, 1 - 0x1p-53);
    double logit = std::log(x) - std::log1p(-x), log_x = std::log(x), log_rest = std::log1p(-x);
    double mean = sp::digamma(a) - sp::digamma(a + b);
    double lean = a - (a + b) * x, outward = lean > 0 ? -1 : 1, rate = lean > 0 ? a : b;
    double width = 1 / std::max(std::abs(lean), std::min(rate, std::sqrt(rate)));
    return outward * x * rule.integrate(width, [=](double s) {
        double l = logit + outward * s, log_t = -softplus(-l), log_u = -softplus(l);
        double weight = std::exp(a * (log_t - log_x) + b * (log_u - log_rest));
        return weight == 0 ? 0 : (log_t - mean) * weight;
    });
}

double standard_normal(PhiloxStream& stream) {
    double radius = std::sqrt(-2 * std::log(stream.uniform()));
    return radius * std::cos(2 * sp::pi * stream.uniform());
}

// Logarithm of a sample of Gamma(a, 1), by Marsaglia and Tsang; for a below 1 by way of a + 1, where only the logarithm
// resolves tiny samples.
double log_gamma_sample(PhiloxStream& stream, double a) {
    if (std::isnan(a)) return sp::nan;
    if (a == 0) return -sp::inf;
    double boost = 0;
    if (a < 1) {
        boost = std::log(stream.uniform()) / a;
        a += 1;
    }
    double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
        double z = standard_normal(stream), root = 1 + c * z;
        if (root <= 0) continue;
        double v = root * root * root, u = stream.uniform();
        if (std::log(u) < 0.5 * z * z + d - d * v + d * std::log(v)) return std::log(d * v) + boost;
    }
}

void check_shapes(const Tensor& wide) {
    const double* a = wide.data<double>();
    for (int64_t i = 0; i < wide.numel(); i++)
        check(!(a[i] < 0) && !std::isinf(a[i]), "input", " must be finite and not negative, got ", a[i]);
}

void log_gamma_samples(const Tensor& out, const Tensor& wide, Generator& generator) {
    check_shapes(wide);
    int64_t n = out.numel();
    auto [seed, first] = generator.draw(static_cast<uint64_t>(n));
    const double* a = wide.data<double>();
    double* to = out.data<double>();
    parallel_for(n, 256, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            PhiloxStream stream(seed, first + static_cast<uint64_t>(i));
            to[i] = log_gamma_sample(stream, a[i]);
        }
    });
}

// out[i] = f(i, rule) in double.
template <class F>
void each_slope(const Tensor& out, bool fine, F f) {
    double* to = out.data<double>();
    const Rule& rule = rule_for(fine);
    parallel_for(out.numel(), 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) to[i] = f(i, rule);
    });
}

}  // namespace

void sample_gamma(const Tensor& out, const Tensor& shape, double tiny, Generator& generator) {
    log_gamma_samples(out, shape, generator);
    double* x = out.data<double>();
    for (int64_t i = 0; i < out.numel(); i++) x[i] = std::exp(x[i]) < tiny ? tiny : std::exp(x[i]);
}

void sample_dirichlet(const Tensor& samples, const Tensor& shape, int64_t parts, double tiny, double most_part,
                      Generator& generator) {
    log_gamma_samples(samples, shape, generator);
    double* x = samples.data<double>();
    auto inside = [=](double p) { return p < tiny ? tiny : p > most_part ? most_part : p; };
    for (double* row = x; row < x + samples.numel(); row += parts) {
        double most = *std::max_element(row, row + parts), sum = 0;
        for (int64_t j = 0; j < parts; j++) sum += row[j] = std::exp(row[j] - most);
        for (int64_t j = 0; j < parts; j++) row[j] = inside(row[j] / sum);
    }
}

void gamma_slopes(const Tensor& out, const Tensor& shape, const Tensor& sample, bool fine) {
    const double *a = shape.data<double>(), *x = sample.data<double>();
    each_slope(out, fine, [=](int64_t i, const Rule& rule) { return gamma_slope(a[i], x[i], rule); });
}

void dirichlet_slopes(const Tensor& out, const Tensor& sample, const Tensor& shape, const Tensor& total, bool fine) {
    const double *x = sample.data<double>(), *a = shape.data<double>(), *sum = total.data<double>();
    each_slope(out, fine, [=](int64_t i, const Rule& rule) { return beta_slope(a[i], sum[i] - a[i], x[i], rule); });
}

}  // namespace fb::cpu
