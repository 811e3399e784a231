// Gradients of reductions: sums, products, extremes, moments and norms.
#include <cmath>
#include <limits>

#include "ops/table/gradient.h"

namespace fb {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The reduced dimensions; all of them if none are given.
Dims reduced(const GradCall& c, int arg) {
    int64_t n = c.dim(0);
    if (n && c.given(arg)) {
        const Dims& dims = c.dims(arg);
        if (!dims.empty()) return wrap_dims(dims, n);
    }
    Dims all(n);
    for (int64_t d = 0; d < n; d++) all[d] = d;
    return all;
}
Dims every(const GradCall& c) {
    Dims all(c.dim(0));
    for (int64_t d = 0; d < all.size(); d++) all[d] = d;
    return all;
}
double count(const Dims& shape, const Dims& dims) {
    double n = 1;
    for (int64_t d : dims) n *= static_cast<double>(shape[d]);
    return n;
}
// Restores reduced dimensions with size 1, unless broadcasting works without.
Var restore(const Var& t, const Dims& shape, const Dims& dims) {
    bool leading = t.dim() + dims.size() == shape.size();
    for (int64_t d : dims) leading &= d < dims.size();
    if (leading) return t;
    Dims kept = shape;
    for (int64_t d : dims) kept[d] = 1;
    return t.shape() == kept ? t : reshape(t, kept);
}
const Var no_var;

}  // namespace

// ---- sums -----------------------------------------------------------------------------------------------------------

GRAD("sum") {
    Var g = cast(c.g(), c.dtype(0));
    c.set(0, expand(restore(g, c.shape(0), reduced(c, 1)), c.shape(0)));
}
GRAD("nansum", IN(0)) {
    Var g = cast(c.g(), c.dtype(0));
    c.set(0, masked_fill(expand(restore(g, c.shape(0), reduced(c, 1)), c.shape(0)), isnan(c.in(0)), 0));
}
GRAD("mean") {
    Dims dims = reduced(c, 1);
    Var g = cast(c.g() / count(c.shape(0), dims), c.dtype(0));
    c.set(0, expand(restore(g, c.shape(0), dims), c.shape(0)));
}
NO_GRAD("count_nonzero|all|any");

// ---- products -------------------------------------------------------------------------------------------------------

// Shifts each element by one along `dim`; the first becomes 1.
static Var neighbour(const Var& x, int64_t dim) {
    Dims pad(2 * (x.dim() - dim));
    pad[pad.size() - 2] = 1;
    pad[pad.size() - 1] = -1;
    return call<"constant_pad_nd">(x, pad, Scalar(1));
}
// g and y broadcast with x. If there are zeros, the product of the others is computed without a division.
static Var product_gradient(const Var& g, const Var& x, const Var& y, int64_t dim) {
    if (!is_true(any(x == 0))) return g * conj(y / x);
    Dims flipped{dim};
    Var before = neighbour(cumprod(x, dim), dim);
    Var after = flip(neighbour(cumprod(flip(x, flipped), dim), dim), flipped);
    return g * conj(before * after);
}
GRAD("prod(Tensor input, *", IN(0) | RESULT(0)) {
    Var x = cast(c.in(0), c.out_dtype());
    if (x.dim() == 0) c.set(0, c.g());
    else c.set(0, reshape(product_gradient(c.g(), reshape(x, Dims{-1}), c.out(), 0), c.shape(0)));
}
GRAD("prod(Tensor input, int dim", IN(0) | RESULT(0)) {
    if (c.dim(0) == 0) return c.set(0, c.g());
    Dims dims{wrap_dim(c.integer(1), c.dim(0))};
    const Dims& shape = c.shape(0);
    c.set(0, product_gradient(restore(c.g(), shape, dims), cast(c.in(0), c.out_dtype()), restore(c.out(), shape, dims),
                              dims[0]));
}

// ---- extremes -------------------------------------------------------------------------------------------------------

// The elements equal to the extreme share its gradient equally.
static Var share(const Var& g, const Var& x, const Var& extreme, const Dims& dims) {
    Var at = x == restore(extreme, x.shape(), dims);
    return at * (restore(g, x.shape(), dims) / sum(at, dims, true));
}
GRAD("amax|amin", IN(0) | RESULT(0)) { c.set(0, share(c.g(), c.in(0), c.out(), reduced(c, 1))); }
GRAD("aminmax", IN(0) | RESULT(0) | RESULT(1)) {
    Dims dims = every(c);
    if (c.given(1) && c.dim(0)) dims = Dims{wrap_dim(c.integer(1), c.dim(0))};
    Var x = c.in(0), low, high;
    if (c.has(0)) low = share(c.g(0), x, c.out(0), dims);
    if (c.has(1)) high = share(c.g(1), x, c.out(1), dims);
    c.set(0, low.defined() && high.defined() ? low + high : low.defined() ? low : high);
}
// ---- moments --------------------------------------------------------------------------------------------------------

namespace {

// The options of var and related ops, from any of their signatures.
struct Moments {
    Dims dims;
    double correction;
};
Moments from_correction(const GradCall& c) { return {reduced(c, 1), c.number_or_none(2).value_or(1)}; }
Moments from_flag(const GradCall& c) { return {every(c), c.flag(1) ? 1.0 : 0.0}; }
Moments from_dim(const GradCall& c) { return {reduced(c, 1), c.flag(2) ? 1.0 : 0.0}; }

Var var_gradient(const Var& g, const Var& x, const Moments& m, const Var& mean = no_var) {
    double freedom = count(x.shape(), m.dims) - m.correction;
    Var centre = mean.defined() ? restore(mean, x.shape(), m.dims) : call<"mean">(x, m.dims, true);
    Var spread = restore(g, x.shape(), m.dims);
    // Division by zero; elements at the mean do not change the variance, but 0 / 0 is undefined.
    if (freedom <= 0)
        return spread * where(x == centre, full_of({}, std::nan(""), g.dtype(), g.device()),
                              full_of({}, infinity, g.dtype(), g.device()));
    return (spread * (2 / freedom)) * (x - centre);
}
Var std_gradient(const Var& g, const Var& x, const Var& deviation, const Moments& m, const Var& mean = no_var) {
    return var_gradient(masked_fill(g / (deviation * 2), deviation == 0, 0), x, m, mean);
}
void both_gradients(GradCall& c, const Moments& m, bool root) {
    Var x = c.in(0), gradient;
    if (c.has(0))
        gradient = root ? std_gradient(c.g(0), x, c.out(0), m, c.out(1)) : var_gradient(c.g(0), x, m, c.out(1));
    if (c.has(1)) {
        Var part = expand(restore(c.g(1) / count(x.shape(), m.dims), x.shape(), m.dims), x.shape());
        gradient = gradient.defined() ? gradient + part : part;
    }
    c.set(0, gradient);
}

}  // namespace

GRAD("var(Tensor input, int[]? dim=None", IN(0)) { c.set(0, var_gradient(c.g(), c.in(0), from_correction(c))); }
GRAD("var(Tensor input, bool", IN(0)) { c.set(0, var_gradient(c.g(), c.in(0), from_flag(c))); }
GRAD("var(Tensor input, int[]? dim, ", IN(0)) { c.set(0, var_gradient(c.g(), c.in(0), from_dim(c))); }
GRAD("std(Tensor input, int[]? dim=None", IN(0) | RESULT(0)) {
    c.set(0, std_gradient(c.g(), c.in(0), c.out(), from_correction(c)));
}
GRAD("std(Tensor input, bool", IN(0) | RESULT(0)) { c.set(0, std_gradient(c.g(), c.in(0), c.out(), from_flag(c))); }
GRAD("std(Tensor input, int[]? dim, ", IN(0) | RESULT(0)) {
    c.set(0, std_gradient(c.g(), c.in(0), c.out(), from_dim(c)));
}
GRAD("var_mean(Tensor input, int[]? dim=None", IN(0) | RESULT(1)) { both_gradients(c, from_correction(c), false); }
GRAD("var_mean(Tensor input, bool", IN(0) | RESULT(1)) { both_gradients(c, from_flag(c), false); }
GRAD("var_mean(Tensor input, int[]? dim, ", IN(0) | RESULT(1)) { both_gradients(c, from_dim(c), false); }
GRAD("std_mean(Tensor input, int[]? dim=None", IN(0) | RESULT(0) | RESULT(1)) {
    both_gradients(c, from_correction(c), true);
}
GRAD("std_mean(Tensor input, bool", IN(0) | RESULT(0) | RESULT(1)) { both_gradients(c, from_flag(c), true); }
GRAD("std_mean(Tensor input, int[]? dim, ", IN(0) | RESULT(0) | RESULT(1)) { both_gradients(c, from_dim(c), true); }

// ---- norms ----------------------------------------------------------------------------------------------------------

// At zero, where a norm is not differentiable, the gradient is zero.
static void norm_gradient(GradCall& c, double p) {
    Dims dims = reduced(c, 2);
    Var x = c.in(0), g = restore(c.g(), c.shape(0), dims), norm = restore(c.out(), c.shape(0), dims);
    if (real_of(x.dtype()) != norm.dtype())
        x = cast(x, is_complex(x.dtype()) ? complex_of(norm.dtype()) : norm.dtype());
    if (p == 0) return c.set(0, zeros_of(c.shape(0), c.dtype(0), c.device()));
    if (p == 1) return c.set(0, g * sgn(x));
    // 1 instead of 0 where a factor of zero is next to it, so that no 0 / 0 appears in higher-order gradients.
    Var zero = norm == 0, safe = masked_fill(norm, zero, 1);
    if (p == 2) return c.set(0, x * masked_fill(g / safe, zero, 0));
    Var size = abs(x);
    if (std::isinf(p)) {
        Var at = logical_or(size == norm, logical_and(isnan(size), isnan(norm)));
        return c.set(0, sgn(x) * (at * (g / sum(at, dims, true))));
    }
    Var scale = masked_fill(g / pow(safe, p - 1), zero, 0);
    if (p > 2) return c.set(0, x * (p == 3 ? size : pow(size, p - 2)) * scale);
    c.set(0, sgn(x) * pow(masked_fill(size, size == 0, 1), p - 1) * scale);
}
GRAD("norm(Tensor input, Scalar p|linalg.vector_norm", IN(0) | RESULT(0)) { norm_gradient(c, c.number(1)); }
GRAD("norm(Tensor input, str? p", IN(0) | RESULT(0)) {
    if (!c.given(1) || c.text(1) == "fro") return norm_gradient(c, 2);
    // The sum of the singular values.
    Dims dims = c.given(2) ? wrap_dims(c.dims(2), c.dim(0)) : Dims{c.dim(0) - 2, c.dim(0) - 1};
    Var x = cast(c.in(0), is_complex(c.dtype(0)) ? complex_of(c.out_dtype()) : c.out_dtype());
    auto parts = call_all<"linalg.svd">(movedim(x, dims, Dims{-2, -1}), false);
    Var g = c.g();
    if (!c.flag(3)) g = unsqueeze(unsqueeze(g, -1), -1);
    else g = movedim(g, dims, Dims{-2, -1});
    c.set(0, movedim(matmul(parts[0] * g, parts[2]), Dims{-2, -1}, dims));
}
GRAD("logsumexp", IN(0) | RESULT(0)) {
    Dims dims = reduced(c, 1);
    Var y = restore(c.out(), c.shape(0), dims);
    c.set(0, restore(c.g(), c.shape(0), dims) * conj(exp(c.in(0) - y)));
}

}  // namespace fb
