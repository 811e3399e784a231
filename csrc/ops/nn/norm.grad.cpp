// Gradients of normalization: fused kernels, or plain ops if they are differentiated again.
#include "ops/nn/norm_composed.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

Var mean_over(const Var& x, const Dims& dims) { return call<"mean">(x, dims, true); }

// x standardised over dims, and the factor used.
struct Standard {
    Var value, rstd;
};
Standard standard(const Var& x, const Dims& dims, double eps, bool centered) {
    Var middle = centered ? x - mean_over(x, dims) : x;
    Var rstd = rsqrt(mean_over(middle * middle, dims) + Var(eps));
    return {middle * rstd, rstd};
}
// The gradient of x, from that of its standardised value.
Var through(const Standard& s, const Var& g, const Dims& dims, bool centered) {
    Var rest = g - s.value * mean_over(g * s.value, dims);
    return s.rstd * (centered ? rest - mean_over(g, dims) : rest);
}

Var wide(const Tensor& t) { return cast(Var(t), compute_dtype(t.dtype())); }
Var by_channel(const Var& v, int64_t dim) {
    Dims shape(dim, 1);
    shape[1] = v.numel();
    return reshape(v, shape);
}
Dims all_but_channels(int64_t dim) {
    Dims dims = {0};
    for (int64_t d = 2; d < dim; d++) dims.push_back(d);
    return dims;
}
Dims last_dims(int64_t dim, int64_t count) {
    Dims dims;
    for (int64_t d = dim - count; d < dim; d++) dims.push_back(d);
    return dims;
}

}  // namespace

std::vector<Tensor> composed_batch_norm_gradient(const Args& a) {
    Var g = wide(a.tensor(0)), x = wide(a.tensor(1));
    Dims dims = all_but_channels(x.dim());
    Var scaled = a.given(2) ? g * by_channel(wide(a.tensor(2)), x.dim()) : g;
    if (a.flag(5)) {
        Standard s = standard(x, dims, a.number(6), true);
        return {through(s, scaled, dims, true).tensor, sum(g * s.value, dims).tensor, sum(g, dims).tensor};
    }
    Var mean = by_channel(detached(Var(a.tensor(3))), x.dim()), rstd = by_channel(detached(Var(a.tensor(4))), x.dim());
    return {(scaled * rstd).tensor, sum(g * ((x - mean) * rstd), dims).tensor, sum(g, dims).tensor};
}

std::vector<Tensor> composed_group_norm_gradient(const Args& a) {
    Var g = wide(a.tensor(0)), x = wide(a.tensor(1));
    Dims dims = all_but_channels(x.dim()), shape = x.shape(), within = {2};
    Dims grouped = {shape[0], a.integer(5), x.numel() / std::max<int64_t>(shape[0] * a.integer(5), 1)};
    Var scaled = a.given(2) ? g * by_channel(wide(a.tensor(2)), x.dim()) : g;
    Standard s = standard(reshape(x, grouped), within, a.number(6), true);
    Var gx = through(s, reshape(scaled, grouped), within, true);
    return {reshape(gx, shape).tensor, sum(g * reshape(s.value, shape), dims).tensor, sum(g, dims).tensor};
}

std::vector<Tensor> composed_row_norm_gradient(const Args& a) {
    Var g = wide(a.tensor(0)), x = wide(a.tensor(1));
    bool centered = a.flag(7);
    Dims dims = last_dims(x.dim(), a.integer(5)), shape(x.shape().end() - a.integer(5), x.shape().end());
    Var scaled = a.given(2) ? g * wide(a.tensor(2)) : g;
    Standard s = standard(x, dims, a.number(6), centered);
    return {through(s, scaled, dims, centered).tensor, sum_to(g * s.value, shape).tensor, sum_to(g, shape).tensor};
}

namespace {

Var optional(const GradCall& c, int arg) { return c.count(arg) ? c.in(arg) : Var(); }

}  // namespace

#define ALL IN(0) | RESULT(1) | RESULT(2)

GRAD("_batch_norm", ALL | IN(1) | RESULT(3), ALL | IN(1) | RESULT(3), ALL | IN(1) | RESULT(3)) {
    Var weight = c.needs(0) || c.gated() ? optional(c, 1) : Var();
    std::vector<Var> g = call_all<"_batch_norm_gradient">(c.g(0), c.in(0), weight, c.out(1), c.out(2), c.flag(5),
                                                          c.number(7), c.needs(0), c.gated() ? c.out(3) : Var());
    if (c.needs(0)) c.set(0, g[0]);
    if (c.needs(1)) c.set(1, g[1]);
    if (c.needs(2)) c.set(2, g[2]);
}
GRAD("_channel_sum") { c.set(0, expand(by_channel(c.g(), c.dim(0)), c.shape(0))); }
GRAD("_group_norm", ALL | IN(2), ALL, ALL) {
    Var weight = c.needs(0) ? optional(c, 2) : Var();
    std::vector<Var> g = call_all<"_group_norm_gradient">(c.g(0), c.in(0), weight, c.out(1), c.out(2), c.integer(1),
                                                          c.number(4), c.needs(0));
    if (c.needs(0)) c.set(0, g[0]);
    if (c.needs(2)) c.set(2, g[1]);
    if (c.needs(3)) c.set(3, g[2]);
}
GRAD("_row_norm", ALL | IN(2), ALL, ALL) {
    Var weight = c.needs(0) ? optional(c, 2) : Var();
    std::vector<Var> g = call_all<"_row_norm_gradient">(c.g(0), c.in(0), weight, c.out(1), c.out(2), c.integer(1),
                                                        c.number(4), c.flag(5), c.needs(0), c.needs(2) || c.needs(3));
    if (c.needs(0)) c.set(0, g[0]);
    if (c.needs(2)) c.set(2, g[1]);
    if (c.needs(3)) c.set(3, g[2]);
}

}  // namespace fb
