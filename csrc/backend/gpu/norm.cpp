// Normalization: statistics as reductions, results computed elementwise; rows have kernels of their own.
#include <algorithm>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"

namespace fb::gpu {
namespace {

using namespace device;

// x as (batch, channels, pixels), for either memory order.
Tensor planes_of(const NormShape& s, const Tensor& x) {
    Dims strides = s.last ? Dims{s.channels * s.pixels, 1, s.channels} : Dims{s.channels * s.pixels, s.pixels, 1};
    return view_of(x, {s.batch, s.channels, s.pixels}, strides, x.offset());
}
// x as (batch, groups, channels of a group, pixels).
Tensor groups_of(const NormShape& s, int64_t groups, const Tensor& x) {
    int64_t size = s.channels / groups, row = s.channels * s.pixels;
    Dims strides = s.last ? Dims{row, size, 1, s.channels} : Dims{row, size * s.pixels, s.pixels, 1};
    return view_of(x, {s.batch, groups, size, s.pixels}, strides, x.offset());
}
// One number per channel, shaped to broadcast against planes.
Tensor per_channel(const Tensor& t) { return view_of(t, {1, t.numel(), 1}, {0, 1, 0}, t.offset()); }
// One per channel and one per sample and group, shaped to broadcast against groups.
Tensor per_channel(const Tensor& t, int64_t groups) {
    int64_t size = t.numel() / groups;
    return view_of(t, {1, groups, size, 1}, {0, size, 1, 0}, t.offset());
}
Tensor per_group(const Tensor& t, int64_t batch, int64_t groups) {
    return view_of(t, {batch, groups, 1, 1}, {groups, 1, 0, 0}, t.offset());
}

bool sum(const Tensor& in, const Dims& reduced, const Tensor& out) {
    return run_reduction(Reduction::Sum, in.dtype(), in, reduced, &out, nullptr);
}
bool moments(const Tensor& in, const Dims& reduced, const Tensor& variance, const Tensor& mean) {
    const Tensor outs[] = {variance, mean};
    const double numbers[] = {0, 0};
    return run_reduction(Reduction::Moments, in.dtype(), in, reduced, outs, numbers);
}
Tensor like(const Tensor& t, const Dims& shape) { return empty(shape, t.dtype(), t.device()); }

// The defined tensors, and a text with their names for defined parts.
struct Inputs {
    std::vector<Tensor> all;
    std::string add(const Tensor& t) {
        if (!t.defined()) return "";
        all.push_back(t);
        return std::string(1, "xyzuvws"[all.size() - 1]);
    }
};

}  // namespace

bool run_batch_norm(const NormShape& s, const Tensor& y, const Statistics& made, const Tensor& shift, const Tensor& x,
                    const Affine& affine, const Running& running, bool training, double eps, bool relu) {
    if (!uses_kernels() || !is_floating(x.dtype()) || (training && x.numel() == 0)) return false;
    DType d = x.dtype();
    Tensor variance = running.variance, planes = planes_of(s, x);
    if (training) {
        variance = like(x, {s.channels});
        if (!moments(planes, {1, 0, 1}, variance, made.mean)) return false;
        double count = double(s.batch * s.pixels), factor = count > 1 ? count / (count - 1) : 1;
        auto move = [&](const Tensor& to, const Tensor& now, double by) {
            return !to.defined() || run_elements({{to, "(1 - g.m) * x + g.m * g.f * y", to.dtype()}}, to.dtype(),
                                                 {to, now}, {{"m", running.momentum}, {"f", by}});
        };
        if (!move(running.mean, made.mean, 1) || !move(running.variance, variance, factor)) return false;
    } else if (running.mean.defined()) {
        if (!run_copy(made.mean, running.mean)) return false;
    } else {
        return false;
    }
    Inputs in;
    std::string v = in.add(variance), m = in.add(made.mean), w = in.add(affine.weight), b = in.add(affine.bias);
    std::string text = "const T r = (T)1 / sqrt(" + v + " + g.eps); ";
    text += "const T shift = " + (b.empty() ? "" : b) + " - " + m + " * r" + (w.empty() ? "" : " * " + w) + "; ";
    if (!run_elements({{made.rstd, "r", d}, {shift, "shift", d}}, d, in.all, {{"eps", eps}}, text)) return false;
    Inputs of;
    std::string xs = of.add(planes), ms = of.add(per_channel(made.mean)), rs = of.add(per_channel(made.rstd));
    std::string value = "(" + xs + " - " + ms + ") * " + rs;
    if (affine.weight.defined()) value += " * " + of.add(per_channel(affine.weight));
    if (affine.bias.defined()) value += " + " + of.add(per_channel(affine.bias));
    if (relu) value = "m_max(" + value + ", (T)0)";
    return run_elements({{planes_of(s, y), value, d}}, d, of.all);
}

bool run_batch_norm_gradient(const NormShape& s, const NormGradients& to, const Tensor& g, const Tensor& x,
                             const Tensor& weight, const Statistics& made, const Tensor& shifted, bool training) {
    if (!uses_kernels() || !is_floating(x.dtype()) || x.numel() == 0) return false;
    DType d = x.dtype();
    Tensor planes = planes_of(s, x), grads = planes_of(s, g);
    Tensor gb = to.bias.defined() ? to.bias : like(x, {s.channels}),
           gw = to.weight.defined() ? to.weight : like(x, {s.channels}), factor = like(x, {s.channels});
    if (!run_elements({{factor, weight.defined() ? "x * y" : "x", d}}, d,
                      weight.defined() ? std::vector{made.rstd, weight} : std::vector{made.rstd}))
        return false;
    // The gradient of what the relu let through.
    auto passed = [&](const std::string& grad, const std::string& input, const std::string& by,
                      const std::string& shift, const std::string& zero) {
        return shifted.defined()
                   ? "(" + input + " * " + by + " + " + shift + " <= " + zero + " ? " + zero + " : " + grad + ")"
                   : grad;
    };
    const std::string got = passed("x", "y", "of_factor", "of_shift", "zero");
    std::vector<std::pair<std::string, Tensor>> of_channel{{"mean", made.mean}, {"rstd", made.rstd}};
    if (shifted.defined()) of_channel.insert(of_channel.end(), {{"factor", factor}, {"shift", shifted}});
    if (!run_sums(grads, planes, {1, 0, 1}, {gb, gw}, {got, got + " * ((y - of_mean) * of_rstd)"}, of_channel))
        return false;
    if (!to.input.defined()) return true;
    Inputs in;
    std::string gs = in.add(grads), fs = in.add(per_channel(factor)), xs, ss, value;
    if (training || shifted.defined()) xs = in.add(planes);
    if (shifted.defined()) ss = in.add(per_channel(shifted));
    value = passed(gs, xs, fs, ss, "(T)0") + " * " + fs;
    if (training) {
        // What all elements of a channel get, and what they get for their distance from the mean.
        Tensor rest = like(x, {s.channels}), slope = like(x, {s.channels});
        if (!run_elements({{rest, "x * y * g.share", d}, {slope, "x * z * u * g.share", d}}, d,
                          {factor, gb, gw, made.rstd}, {{"share", -1.0 / double(s.batch * s.pixels)}}))
            return false;
        std::string ms = in.add(per_channel(made.mean)), sl = in.add(per_channel(slope)),
                    rs = in.add(per_channel(rest));
        value += " + ((" + xs + " - " + ms + ") * " + sl + " + " + rs + ")";
    }
    return run_elements({{planes_of(s, to.input), value, d}}, d, in.all);
}

bool run_channel_sum(const NormShape& s, const Tensor& to, const Tensor& x) {
    if (!uses_kernels() || !is_floating(x.dtype())) return false;
    return sum(planes_of(s, x), {1, 0, 1}, to);
}

bool run_group_norm(const NormShape& s, const Tensor& y, const Statistics& made, const Tensor& x, const Affine& affine,
                    int64_t groups, double eps) {
    if (!uses_kernels() || !is_floating(x.dtype()) || x.numel() == 0) return false;
    DType d = x.dtype();
    Tensor in = groups_of(s, groups, x), variance = like(x, {s.batch, groups});
    if (!moments(in, {0, 0, 1, 1}, variance, view_of(made.mean, {s.batch, groups}, {groups, 1}, made.mean.offset())))
        return false;
    Tensor flat = view_of(made.rstd, {s.batch, groups}, {groups, 1}, made.rstd.offset());
    if (!run_elements({{flat, "(T)1 / sqrt(x + g.eps)", d}}, d, {variance}, {{"eps", eps}})) return false;
    Inputs of;
    std::string xs = of.add(in), ms = of.add(per_group(made.mean, s.batch, groups)),
                rs = of.add(per_group(made.rstd, s.batch, groups));
    std::string value = "(" + xs + " - " + ms + ") * " + rs;
    if (affine.weight.defined()) value += " * " + of.add(per_channel(affine.weight, groups));
    if (affine.bias.defined()) value += " + " + of.add(per_channel(affine.bias, groups));
    return run_elements({{groups_of(s, groups, y), value, d}}, d, of.all);
}

bool run_group_norm_gradient(const NormShape& s, const NormGradients& to, const Tensor& g, const Tensor& x,
                             const Tensor& weight, const Statistics& made, int64_t groups) {
    if (!uses_kernels() || !is_floating(x.dtype()) || x.numel() == 0) return false;
    DType d = x.dtype();
    Tensor in = groups_of(s, groups, x), grads = groups_of(s, groups, g), product = like(x, x.shape()),
           products = groups_of(s, groups, product);
    Tensor mean = per_group(made.mean, s.batch, groups), rstd = per_group(made.rstd, s.batch, groups);
    if (!run_elements({{products, "x * ((y - z) * u)", d}}, d, {grads, in, mean, rstd})) return false;
    if (to.bias.defined() && !sum(planes_of(s, g), {1, 0, 1}, to.bias)) return false;
    if (to.weight.defined() && !sum(planes_of(s, product), {1, 0, 1}, to.weight)) return false;
    if (!to.input.defined()) return true;
    Tensor scaled = grads;
    if (weight.defined()) {
        Tensor memory = like(x, x.shape()), w = per_channel(weight, groups);
        scaled = groups_of(s, groups, memory);
        if (!run_elements({{scaled, "x * y", d}}, d, {grads, w}) ||
            !run_elements({{products, "x * y", d}}, d, {products, w}))
            return false;
    }
    Tensor all = like(x, {s.batch, groups}), cross = like(x, {s.batch, groups});
    if (!sum(scaled, {0, 0, 1, 1}, all) || !sum(products, {0, 0, 1, 1}, cross)) return false;
    return run_elements({{groups_of(s, groups, to.input), "(x - v * g.share - (y - z) * u * w * g.share) * u", d}}, d,
                        {scaled, in, mean, rstd, per_group(all, s.batch, groups), per_group(cross, s.batch, groups)},
                        {{"share", double(groups) / double(s.channels * s.pixels)}});
}

// ---- rows -----------------------------------------------------------------------------------------------------------

bool run_row_norm(const Tensor& y, const Statistics& made, const Tensor& x, const Affine& affine, int64_t size,
                  double eps, bool centered) {
    if (!uses_kernels() || !is_floating(x.dtype())) return false;
    if (x.numel() == 0) return true;
    Work work(x.device());
    work.compute(x.dtype()).tensor("x", x).tensor("y", y).tensor("w", affine.weight).tensor("b", affine.bias);
    work.tensor("rstd", made.rstd).number("n", size).real("eps", eps).real("share", 1.0 / double(size)).define("L", 16);
    if (centered) work.tensor("mean", made.mean);
    if (size >= 256) work.large_items();
    std::string lanes = "    for (; i + L <= g.n; i += L) { UNROLL for (int l = 0; l < L; l++) { ";
    auto total = [&](const std::string& name, const std::string& value) {
        std::string each = "const T v = LOAD_x(at + i + l); " + name + "[l] += " + value + "; ";
        return "    T " + name + "[L]; ix i = 0;\n    for (int l = 0; l < L; l++) " + name + "[l] = (T)0;\n" + lanes +
               each + "} }\n    for (; i < g.n; i++) { const int l = 0; " + each +
               "}\n    for (int l = 1; l < L; l++) " + name + "[0] += " + name + "[l];\n";
    };
    std::string text = "    const ix at = item * g.n;\n    T m = (T)0, r;\n";
    if (centered) text += "    {\n" + total("sum", "v") + "    m = sum[0] * g.share;\n    }\n";
    text +=
        "    {\n" + total("square", "(v - m) * (v - m)") + "    r = (T)1 / sqrt(square[0] * g.share + g.eps);\n    }\n";
    if (centered) text += "    STORE_mean(item, m);\n";
    text += "    STORE_rstd(item, r);\n    for (ix k = 0; k < g.n; k++) {\n        T v = (LOAD_x(at + k) - m) * r;\n";
    if (affine.weight.defined()) text += "        v *= LOAD_w(k);\n";
    if (affine.bias.defined()) text += "        v += LOAD_b(k);\n";
    return work.run(text + "        STORE_y(at + k, v);\n    }", x.numel() / size);
}

bool run_row_norm_gradient(const NormGradients& to, const Tensor& g, const Tensor& x, const Tensor& weight,
                           const Statistics& made, int64_t size, bool centered) {
    if (!uses_kernels() || !is_floating(x.dtype()) || x.numel() == 0) return false;
    DType d = x.dtype();
    int64_t rows = x.numel() / size;
    auto matrix = [&](const Tensor& t) { return view_of(t, {rows, size}, {size, 1}, t.offset()); };
    auto column = [&](const Tensor& t) { return view_of(t, {rows, 1}, {1, 0}, t.offset()); };
    Tensor rstd = column(made.rstd), mean = centered ? column(made.mean) : Tensor();
    if (to.weight.defined()) {
        Tensor products = like(x, {rows, size});
        bool ok = centered ? run_elements({{products, "x * ((y - z) * u)", d}}, d, {matrix(g), matrix(x), mean, rstd})
                           : run_elements({{products, "x * (y * z)", d}}, d, {matrix(g), matrix(x), rstd});
        if (!ok || !sum(products, {1, 0}, view_of(to.weight, {size}, {1}, to.weight.offset()))) return false;
    }
    if (to.bias.defined() && !sum(matrix(g), {1, 0}, view_of(to.bias, {size}, {1}, to.bias.offset()))) return false;
    if (!to.input.defined()) return true;
    Work work(x.device());
    work.compute(d)
        .tensor("x", x)
        .tensor("grad", g)
        .tensor("w", weight)
        .tensor("rstd", made.rstd)
        .tensor("to", to.input);
    if (centered) work.tensor("mean", made.mean);
    work.number("n", size).real("share", 1.0 / double(size)).define("L", 16);
    if (size >= 256) work.large_items();
    std::string value = weight.defined() ? "LOAD_grad(at + i + l) * LOAD_w(i + l)" : "LOAD_grad(at + i + l)";
    std::string each = "const T v = " + value + "; all[l] += v; cross[l] += v * (LOAD_x(at + i + l) - m); ";
    std::string text = "    const ix at = item * g.n;\n    const T r = LOAD_rstd(item), m = " +
                       std::string(centered ? "LOAD_mean(item)" : "(T)0") + R"(;
    T all[L], cross[L];
    for (int l = 0; l < L; l++) all[l] = cross[l] = (T)0;
    ix i = 0;
    for (; i + L <= g.n; i += L) { UNROLL for (int l = 0; l < L; l++) { )" +
                       each + R"(} }
    for (; i < g.n; i++) { const int l = 0; )" +
                       each + R"(}
    for (int l = 1; l < L; l++) { all[0] += all[l]; cross[0] += cross[l]; }
    const T shift = )" +
                       (centered ? "-all[0] * g.share * r" : "(T)0") + R"(, slope = -cross[0] * g.share * r * r * r;
    for (ix i = 0; i < g.n; i++) { const int l = 0; STORE_to(at + i, )" +
                       value + R"( * r + (LOAD_x(at + i) - m) * slope + shift); })";
    return work.run(text, rows);
}

}  // namespace fb::gpu
