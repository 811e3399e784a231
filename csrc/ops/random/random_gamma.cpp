// Gamma and Dirichlet samples, and how a sample moves with the parameters it was drawn for.
//
// A sample x of a distribution with density p and distribution function F(x; a) moves, at a fixed quantile, by
// dx/da = -(dF/da) / p(x). Both families are of exponential form in a statistic T with mean E, so
// dF/da = ∫_{-∞}^{x} (T(t) - E) p(t) dt, and the integral over everything is zero: either tail will do. On a scale
// where p has its mode at the mean (log t for gamma, logit t for beta) the tail that leaves the mode falls steadily,
// which makes one quadrature rule serve every parameter.
#include <cmath>
#include <limits>

#include "ops/pointwise/special_math.h"
#include "ops/random/random_kernels.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

// ∫_0^∞ f(s) ds by the trapezium rule after s = width · exp(π/2 sinh τ); the step in τ decides the precision.
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

const Rule& rule_for(DType dtype) {
    static const Rule fine(1.0 / 32), coarse(1.0 / 10);
    return dtype == DType::F64 ? fine : coarse;
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

double standard_normal(cpu::PhiloxStream& stream) {
    double radius = std::sqrt(-2 * std::log(stream.uniform()));
    return radius * std::cos(2 * sp::pi * stream.uniform());
}

// Logarithm of a sample of Gamma(a, 1), by Marsaglia and Tsang; below 1 by way of a + 1, where only the logarithm keeps
// tiny samples apart.
double log_gamma_sample(cpu::PhiloxStream& stream, double a) {
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

Tensor check_shapes(const char* which, const Tensor& shapes) {
    if (!is_floating(shapes.dtype())) fail_type(which, " must be a floating point tensor, got ", shapes.dtype());
    Tensor wide = contiguous(to_dtype(shapes, DType::F64));
    const double* a = wide.data<double>();
    for (int64_t i = 0; i < wide.numel(); i++)
        check(!(a[i] < 0) && !std::isinf(a[i]), which, " must be finite and not negative, got ", a[i]);
    return wide;
}

Tensor log_gamma_samples(const Tensor& wide, Generator& generator) {
    Tensor out = empty(wide.shape(), DType::F64);
    int64_t n = out.numel();
    auto [seed, first] = generator.draw(static_cast<uint64_t>(n));
    const double* a = wide.data<double>();
    double* to = out.data<double>();
    parallel_for(n, 256, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            cpu::PhiloxStream stream(seed, first + static_cast<uint64_t>(i));
            to[i] = log_gamma_sample(stream, a[i]);
        }
    });
    return out;
}

// Samples lie inside the support: where a dtype would round one to its border, it stays at the number next to it, and
// densities and gradients stay finite.
struct Border {
    double tiny, below_one;
};
Border border(DType dtype) {
    switch (dtype) {
        case DType::F64:
            return {std::numeric_limits<double>::min(), 1 - 0x1p-53};
        case DType::F16:
            return {0x1p-14, 1 - 0x1p-11};
        case DType::BF16:
            return {std::numeric_limits<float>::min(), 1 - 0x1p-8};
        default:
            return {std::numeric_limits<float>::min(), 1 - 0x1p-24};
    }
}

// out[i] = f(parameter i …) over tensors that broadcast together, computed in double.
template <class F>
Tensor each_of(std::initializer_list<const Tensor*> inputs, F f) {
    Dims shape;
    DType dtype = (*inputs.begin())->dtype();
    for (const Tensor* t : inputs) {
        if (!is_floating(t->dtype())) fail_type("needs floating point tensors, got ", t->dtype());
        shape = broadcast_shapes(shape, t->shape());
        dtype = promote(dtype, t->dtype());
    }
    std::vector<Tensor> wide;
    for (const Tensor* t : inputs) wide.push_back(contiguous(expand(to_dtype(*t, DType::F64), shape)));
    Tensor out = empty(shape, DType::F64);
    double* to = out.data<double>();
    std::vector<const double*> from;
    for (const Tensor& t : wide) from.push_back(t.data<double>());
    const Rule& rule = rule_for(dtype);
    parallel_for(out.numel(), 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) to[i] = f(from, i, rule);
    });
    return to_dtype(out, dtype);
}

}  // namespace

OP("_standard_gamma(Tensor input, Generator? generator=None) -> Tensor", FUNCTION,
   R"(Samples of gamma distributions with rate 1; gradients move each sample at its quantile.

Args:
    input: the shape parameters, not negative.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> fb._standard_gamma(fb.zeros(2))
    tensor([1.1755e-38, 1.1755e-38])
)") {
    Tensor log_samples = log_gamma_samples(check_shapes("input", a.tensor(0)), *a.generator(1));
    double* x = log_samples.data<double>();
    double tiny = border(a.tensor(0).dtype()).tiny;
    for (int64_t i = 0; i < log_samples.numel(); i++) x[i] = std::exp(x[i]) < tiny ? tiny : std::exp(x[i]);
    return to_dtype(log_samples, a.tensor(0).dtype());
}

OP("_standard_gamma_grad(Tensor input, Tensor output) -> Tensor", FUNCTION,
   R"(How samples of gamma distributions with rate 1 move with the shape parameter.

Args:
    input: the shape parameters.
    output: the samples.

Example:
    >>> fb._standard_gamma_grad(fb.ones(1), fb.zeros(1))
    tensor([0.])
)") {
    return each_of({&a.tensor(0), &a.tensor(1)},
                   [](const std::vector<const double*>& from, int64_t i, const Rule& rule) {
                       return gamma_slope(from[0][i], from[1][i], rule);
                   });
}

OP("_sample_dirichlet(Tensor input, Generator? generator=None) -> Tensor", FUNCTION,
   R"(Samples of Dirichlet distributions over the last dimension; gradients move each part at its quantile.

Args:
    input: the concentrations, positive.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> fb._sample_dirichlet(fb.ones(1)).round()
    tensor([1.])
)") {
    const Tensor& input = a.tensor(0);
    check(input.dim() > 0, "input must have at least one dimension, got a 0-d tensor");
    Tensor samples = log_gamma_samples(check_shapes("input", input), *a.generator(1));
    int64_t parts = input.shape().back();
    double* x = samples.data<double>();
    auto inside = [b = border(input.dtype())](double p) {
        return p < b.tiny ? b.tiny : p > b.below_one ? b.below_one : p;
    };
    for (double* row = x; row < x + samples.numel(); row += parts) {
        double most = *std::max_element(row, row + parts), sum = 0;
        for (int64_t j = 0; j < parts; j++) sum += row[j] = std::exp(row[j] - most);
        for (int64_t j = 0; j < parts; j++) row[j] = inside(row[j] / sum);
    }
    return to_dtype(samples, input.dtype());
}

OP("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", FUNCTION,
   R"(How parts of Dirichlet samples move with their own concentration, divided by one minus the part.

Args:
    x: the parts, from 0 to 1.
    alpha: their concentrations.
    total: the sum of the concentrations.

Example:
    >>> fb._dirichlet_grad(fb.zeros(1), fb.ones(1), fb.tensor([2.]))
    tensor([0.])
)") {
    return each_of({&a.tensor(0), &a.tensor(1), &a.tensor(2)},
                   [](const std::vector<const double*>& from, int64_t i, const Rule& rule) {
                       return beta_slope(from[1][i], from[2][i] - from[1][i], from[0][i], rule);
                   });
}

GRAD("_standard_gamma", IN(0) | RESULT(0)) { c.set(0, c.g() * call<"_standard_gamma_grad">(c.in(0), c.out())); }
// When one part grows, the others shrink in proportion.
GRAD("_sample_dirichlet", IN(0) | RESULT(0)) {
    Var x = c.out(), total = call<"sum">(c.in(0), Dims{-1}, true);
    Var slope = call<"_dirichlet_grad">(x, c.in(0), total);
    c.set(0, slope * (c.g() - call<"sum">(x * c.g(), Dims{-1}, true)));
}
GRAD("_standard_gamma_grad|_dirichlet_grad") {
    fail(ErrorKind::NotImplemented,
         "second derivatives of gamma and Dirichlet samples are not implemented; detach() the parameters");
}

}  // namespace fb
