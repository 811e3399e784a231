// Gradients of LSTM layers and cells.
#include "autograd/mode.h"
#include "ops/table/gradient.h"

namespace fb {

// Composed of differentiable ops, for higher-order gradients.
static void composed_lstm(GradCall& c) {
    Var w = c.in(1), output = c.out(0), gates = c.out(3), cells = c.out(4), dh = c.g(1), dc = c.g(2), dw;
    int64_t steps = c.shape(0)[0], n = c.shape(2)[1];
    bool reverse = c.flag(4);
    std::vector<Var> slopes(static_cast<size_t>(steps));
    for (int64_t s = steps - 1; s >= 0; s--) {
        int64_t t = reverse ? steps - 1 - s : s, before = reverse ? t + 1 : t - 1;
        Var all = select(gates, 0, t), i = narrow(all, 1, 0, n), f = narrow(all, 1, n, n), g = narrow(all, 1, 2 * n, n),
            o = narrow(all, 1, 3 * n, n), y = tanh(select(cells, 0, t)), old = s ? select(cells, 0, before) : c.in(3);
        Var up = select(c.g(0), 0, t) + dh, cell = dc + up * o * (1 - y * y);
        if (c.has(4)) cell = cell + select(c.g(4), 0, t);
        Var active = call<"cat">(std::vector<Var>{cell * g, cell * old, cell * i, up * y}, 1);
        if (c.has(3)) active = active + select(c.g(3), 0, t);
        Var slope = active * call<"cat">(std::vector<Var>{i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)}, 1);
        slopes[static_cast<size_t>(t)] = slope;
        Var part = mm(transpose(slope, 0, 1), s ? select(output, 0, before) : c.in(2));
        dw = dw.defined() ? dw + part : part;
        dh = mm(slope, w), dc = cell * f;
    }
    if (steps > 0) {
        c.set(0, call<"stack">(slopes, 0));
        c.set(1, dw);
    }
    c.set(2, dh);
    c.set(3, dc);
}

constexpr uint32_t of_lstm = IN(1) | IN(2) | IN(3) | RESULT(0) | RESULT(3) | RESULT(4);
GRAD("_lstm", of_lstm, of_lstm, of_lstm, of_lstm) {
    if (grad_enabled() || c.has(3) || c.has(4)) return composed_lstm(c);
    auto all = call_all<"_lstm_backward">(c.g(0), c.g(1), c.g(2), c.in(1), c.in(2), c.in(3), c.flag(4), c.out(0),
                                          c.out(3), c.out(4));
    for (int i = 0; i < 4; i++) c.set(i, all[static_cast<size_t>(i)]);
}

// ---- one step -------------------------------------------------------------------------------------------------------

static Var gate(const Var& x, int64_t k, int64_t size) { return narrow(x, 1, k * size, size); }
static Var joined(const std::vector<Var>& parts) { return call<"cat">(parts, 1); }

constexpr uint32_t of_lstm_cell = IN(2) | RESULT(1) | RESULT(2);
GRAD("_lstm_cell", of_lstm_cell, of_lstm_cell, of_lstm_cell) {
    Var old = c.in(2), now = c.out(1), gates = c.out(2);
    if (!grad_enabled() && !c.has(2)) {
        auto slopes = call_all<"_lstm_cell_backward">(c.g(0), c.g(1), old, now, gates);
        c.set(0, slopes[0]);
        c.set(1, slopes[0]);
        c.set(2, slopes[1]);
        return;
    }
    int64_t n = c.shape(2)[1];
    Var i = gate(gates, 0, n), f = gate(gates, 1, n), g = gate(gates, 2, n), o = gate(gates, 3, n), t = tanh(now);
    Var d = c.g(1) + c.g(0) * o * (1 - t * t);
    Var di = d * g, df = d * old, dg = d * i, d_o = c.g(0) * t;
    if (c.has(2)) {
        Var extra = c.g(2);
        di = di + gate(extra, 0, n), df = df + gate(extra, 1, n), dg = dg + gate(extra, 2, n),
        d_o = d_o + gate(extra, 3, n);
    }
    Var slope = joined({di * i * (1 - i), df * f * (1 - f), dg * (1 - g * g), d_o * o * (1 - o)});
    c.set(0, slope);
    c.set(1, slope);
    c.set(2, d * f);
}

}  // namespace fb
