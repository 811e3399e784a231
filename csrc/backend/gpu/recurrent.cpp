// Recurrent layers: for every step a matrix product, followed by a kernel. An item computes one number of the state of
// one sample.
#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"

namespace fb::gpu {
namespace {

bool takes(const Tensor& t) { return uses_kernels() && (t.dtype() == DType::F32 || t.dtype() == DType::F64); }

// Rows of n numbers; `four` and `three` are the offsets of the row's gates.
Work& each(Work& work, const Tensor& state) { return work.compute(state.dtype()).number("n", state.shape()[1]); }
constexpr const char* begin =
    "    const ix row = item / g.n, k = item - row * g.n, four = row * 4 * g.n + k, three = row * 3 * g.n + k;\n"
    "    (void)four; (void)three;\n";
constexpr const char* sigmoid = "FN T logistic(T x) { return (T)1 / ((T)1 + exp(-x)); }\n";

bool product(const Tensor& c, const Tensor& a, const Tensor& b, int beta) {
    return run_product(c, a, b, Scalar(1), Scalar(beta));
}

bool lstm_step(const Tensor& gates, const Tensor& before, const Tensor& cells, const Tensor& hidden) {
    Work work(gates.device());
    each(work, before).tensor("x", gates).tensor("old", before).tensor("cell", cells).tensor("h", hidden);
    work.text(sigmoid);
    return work.run(std::string(begin) + R"(    const T i = logistic(x[four]), f = logistic(x[four + g.n]);
    const T m = tanh(x[four + 2 * g.n]), o = logistic(x[four + 3 * g.n]), c = f * old[item] + i * m;
    x[four] = i;
    x[four + g.n] = f;
    x[four + 2 * g.n] = m;
    x[four + 3 * g.n] = o;
    cell[item] = c;
    h[item] = o * tanh(c);)",
                    before.numel());
}

constexpr const char* lstm_slopes =
    R"(    const T i = from[four], f = from[four + g.n], m = from[four + 2 * g.n], o = from[four + 3 * g.n];
    const T t = tanh(now[item]), d = dc[item] + up * o * ((T)1 - t * t);
    to[four] = d * m * i * ((T)1 - i);
    to[four + g.n] = d * old[item] * f * ((T)1 - f);
    to[four + 2 * g.n] = d * i * ((T)1 - m * m);
    to[four + 3 * g.n] = up * t * o * ((T)1 - o);
    to_c[item] = d * f;)";

bool lstm_step_back(const Tensor& grad, const Tensor& dh, const Tensor& dc, const Tensor& gates, const Tensor& cells,
                    const Tensor& before, const Tensor& slopes) {
    Work work(gates.device());
    each(work, before)
        .tensor("grad", grad)
        .tensor("dh", dh)
        .tensor("dc", dc)
        .tensor("from", gates)
        .tensor("now", cells);
    work.tensor("old", before).tensor("to", slopes).tensor("to_c", dc);
    return work.run(std::string(begin) + "    const T up = grad[item] + dh[item];\n" + lstm_slopes, before.numel());
}

// From the contributions of input (x) and state (s) to the gates.
constexpr const char* gru_gates =
    R"(    const T r = logistic(x[three] + s[three]), z = logistic(x[three + g.n] + s[three + g.n]);
    const T part = s[three + 2 * g.n], m = tanh(x[three + 2 * g.n] + r * part);
    to[four] = r;
    to[four + g.n] = z;
    to[four + 2 * g.n] = m;
    to[four + 3 * g.n] = part;
    h[item] = m + z * (old[item] - m);)";
bool gru_step(const Tensor& inputs, const Tensor& states, const Tensor& before, const Tensor& saved,
              const Tensor& next) {
    Work work(before.device());
    each(work, before)
        .tensor("x", inputs)
        .tensor("s", states)
        .tensor("old", before)
        .tensor("to", saved)
        .tensor("h", next);
    work.text(sigmoid);
    return work.run(std::string(begin) + gru_gates, before.numel());
}

constexpr const char* gru_slopes =
    R"(    const T r = from[four], z = from[four + g.n], m = from[four + 2 * g.n], part = from[four + 3 * g.n];
    const T dm = up * ((T)1 - z) * ((T)1 - m * m), dz = up * (old[item] - m) * z * ((T)1 - z);
    const T dr = dm * part * r * ((T)1 - r);
    dx[three] = dr;
    dx[three + g.n] = dz;
    dx[three + 2 * g.n] = dm;
    ds[three] = dr;
    ds[three + g.n] = dz;
    ds[three + 2 * g.n] = dm * r;
    to[item] = up * z;)";
bool gru_step_back(const Tensor& grad, const Tensor& dh, const Tensor& saved, const Tensor& before, const Tensor& dx,
                   const Tensor& ds) {
    Work work(before.device());
    each(work, before).tensor("grad", grad).tensor("dh", dh).tensor("from", saved).tensor("old", before);
    work.tensor("dx", dx).tensor("ds", ds).tensor("to", dh);
    return work.run(std::string(begin) + "    const T up = grad[item] + dh[item];\n" + gru_slopes, before.numel());
}

}  // namespace

bool run_lstm(const Tensor& gates, const Tensor& weight, const Tensor& h, const Tensor& c, bool reverse,
              const Tensor& output, const Tensor& cells) {
    if (!takes(gates)) return false;
    int64_t steps = gates.shape()[0];
    Tensor state = h, cell = c, factor = transpose(weight, 0, 1);
    for (int64_t s = 0; s < steps; s++) {
        int64_t t = reverse ? steps - 1 - s : s;
        Tensor g = select(gates, 0, t), to_h = select(output, 0, t), to_c = select(cells, 0, t);
        if (!product(g, state, factor, 1) || !lstm_step(g, cell, to_c, to_h)) return false;
        state = to_h, cell = to_c;
    }
    return true;
}

bool run_lstm_backward(const Tensor& grad, const Tensor& dh, const Tensor& dc, const Tensor& weight, const Tensor& c,
                       bool reverse, const Tensor& gates, const Tensor& cells, const Tensor& slopes) {
    if (!takes(gates)) return false;
    int64_t steps = gates.shape()[0];
    for (int64_t s = steps - 1; s >= 0; s--) {
        int64_t t = reverse ? steps - 1 - s : s, before = reverse ? t + 1 : t - 1;
        Tensor slope = select(slopes, 0, t);
        if (!lstm_step_back(select(grad, 0, t), dh, dc, select(gates, 0, t), select(cells, 0, t),
                            s ? select(cells, 0, before) : c, slope) ||
            !product(dh, slope, weight, 0))
            return false;
    }
    return true;
}

bool run_lstm_cell(const Tensor& x, const Tensor& hidden, const Tensor& c, const Tensor& h, const Tensor& next,
                   const Tensor& gates) {
    return takes(x) && run_elements({{gates, "x + y", x.dtype()}}, x.dtype(), {x, hidden}) &&
           lstm_step(gates, c, next, h);
}

bool run_lstm_cell_backward(const Tensor& gh, const Tensor& gc, const Tensor& c, const Tensor& next,
                            const Tensor& gates, const Tensor& dgates, const Tensor& dc) {
    if (!takes(c)) return false;
    Work work(c.device());
    each(work, c).tensor("grad", gh).tensor("dc", gc).tensor("from", gates).tensor("now", next).tensor("old", c);
    work.tensor("to", dgates).tensor("to_c", dc);
    return work.run(std::string(begin) + "    const T up = grad[item];\n" + lstm_slopes, c.numel());
}

bool run_gru(const Tensor& gates, const Tensor& weight, const Tensor& bias, const Tensor& h, bool reverse,
             const Tensor& output, const Tensor& saved) {
    if (!takes(gates)) return false;
    int64_t steps = gates.shape()[0];
    Tensor state = h, part = empty({h.shape()[0], 3 * h.shape()[1]}, gates.dtype(), gates.device());
    Tensor factor = transpose(weight, 0, 1);
    for (int64_t s = 0; s < steps; s++) {
        int64_t t = reverse ? steps - 1 - s : s;
        Tensor next = select(output, 0, t);
        if (bias.defined() && !run_copy(part, expand(bias, part.shape()))) return false;
        if (!product(part, state, factor, bias.defined()) ||
            !gru_step(select(gates, 0, t), part, state, select(saved, 0, t), next))
            return false;
        state = next;
    }
    return true;
}

bool run_gru_backward(const Tensor& grad, const Tensor& dh, const Tensor& weight, const Tensor& h, bool reverse,
                      const Tensor& output, const Tensor& saved, const Tensor& dx, const Tensor& ds) {
    if (!takes(weight)) return false;
    int64_t steps = saved.shape()[0];
    for (int64_t s = steps - 1; s >= 0; s--) {
        int64_t t = reverse ? steps - 1 - s : s, before = reverse ? t + 1 : t - 1;
        if (!gru_step_back(select(grad, 0, t), dh, select(saved, 0, t), s ? select(output, 0, before) : h,
                           select(dx, 0, t), select(ds, 0, t)) ||
            !product(dh, select(ds, 0, t), weight, 1))
            return false;
    }
    return true;
}

bool run_gru_cell(const Tensor& x, const Tensor& hidden, const Tensor& h, const Tensor& next, const Tensor& gates) {
    return takes(x) && gru_step(x, hidden, h, gates, next);
}

bool run_gru_cell_backward(const Tensor& grad, const Tensor& h, const Tensor& gates, const Tensor& dx,
                           const Tensor& dhidden, const Tensor& dh) {
    if (!takes(h)) return false;
    Work work(h.device());
    each(work, h).tensor("grad", grad).tensor("from", gates).tensor("old", h).tensor("dx", dx).tensor("ds", dhidden);
    work.tensor("to", dh);
    return work.run(std::string(begin) + "    const T up = grad[item];\n" + gru_slopes, h.numel());
}

}  // namespace fb::gpu
