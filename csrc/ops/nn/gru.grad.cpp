// Gradients of GRU layers and cells.
#include "autograd/mode.h"
#include "ops/table/gradient.h"

namespace fb {

// Composed of differentiable ops, for higher-order gradients.
static void composed_gru(GradCall& c) {
    Var w = c.in(1), output = c.out(0), saved = c.out(2), dh = c.g(1), dw, db;
    int64_t steps = c.shape(0)[0], n = c.shape(3)[1];
    bool reverse = c.flag(4);
    auto join = [](const std::vector<Var>& parts) { return call<"cat">(parts, 1); };
    std::vector<Var> slopes(static_cast<size_t>(steps));
    for (int64_t s = steps - 1; s >= 0; s--) {
        int64_t t = reverse ? steps - 1 - s : s, before = reverse ? t + 1 : t - 1;
        Var all = select(saved, 0, t), r = narrow(all, 1, 0, n), z = narrow(all, 1, n, n), m = narrow(all, 1, 2 * n, n),
            part = narrow(all, 1, 3 * n, n), old = s ? select(output, 0, before) : c.in(3);
        Var up = select(c.g(0), 0, t) + dh, dm = up * (1 - z), dz = up * (old - m), dr, dpart;
        Var extra = c.has(2) ? select(c.g(2), 0, t) : Var();
        if (extra.defined()) dm = dm + narrow(extra, 1, 2 * n, n), dz = dz + narrow(extra, 1, n, n);
        dm = dm * (1 - m * m), dr = dm * part, dpart = dm * r;
        if (extra.defined()) dr = dr + narrow(extra, 1, 0, n), dpart = dpart + narrow(extra, 1, 3 * n, n);
        dr = dr * r * (1 - r), dz = dz * z * (1 - z);
        slopes[static_cast<size_t>(t)] = join({dr, dz, dm});
        Var slope = join({dr, dz, dpart}), more = mm(transpose(slope, 0, 1), old), rows = sum(slope, Dims{0}, false);
        dw = dw.defined() ? dw + more : more;
        db = db.defined() ? db + rows : rows;
        dh = up * z + mm(slope, w);
    }
    if (steps > 0) {
        c.set(0, call<"stack">(slopes, 0));
        c.set(1, dw);
        if (c.given(2)) c.set(2, db);
    }
    c.set(3, dh);
}

constexpr uint32_t of_gru = IN(1) | IN(3) | RESULT(0) | RESULT(2);
GRAD("_gru", of_gru, of_gru, of_gru, of_gru) {
    if (grad_enabled() || c.has(2)) return composed_gru(c);
    auto all = call_all<"_gru_backward">(c.g(0), c.g(1), c.in(1), c.in(3), c.flag(4), c.out(0), c.out(2));
    c.set(0, all[0]);
    c.set(1, all[1]);
    if (c.given(2)) c.set(2, all[2]);
    c.set(3, all[3]);
}

// ---- one step -------------------------------------------------------------------------------------------------------

static Var gate(const Var& x, int64_t k, int64_t size) { return narrow(x, 1, k * size, size); }
static Var joined(const std::vector<Var>& parts) { return call<"cat">(parts, 1); }

constexpr uint32_t of_gru_cell = IN(2) | RESULT(1);
GRAD("_gru_cell", of_gru_cell, of_gru_cell, of_gru_cell) {
    Var old = c.in(2), gates = c.out(1);
    if (!grad_enabled() && !c.has(1)) {
        auto slopes = call_all<"_gru_cell_backward">(c.g(0), old, gates);
        for (int k = 0; k < 3; k++) c.set(k, slopes[static_cast<size_t>(k)]);
        return;
    }
    int64_t n = c.shape(2)[1];
    Var g = c.g(0), r = gate(gates, 0, n), z = gate(gates, 1, n), m = gate(gates, 2, n), hn = gate(gates, 3, n);
    Var dm = g * (1 - z), dz = g * (old - m), dr, dhn;
    if (c.has(1)) dm = dm + gate(c.g(1), 2, n), dz = dz + gate(c.g(1), 1, n);
    dm = dm * (1 - m * m), dr = dm * hn, dhn = dm * r;
    if (c.has(1)) dr = dr + gate(c.g(1), 0, n), dhn = dhn + gate(c.g(1), 3, n);
    dr = dr * r * (1 - r), dz = dz * z * (1 - z);
    c.set(0, joined({dr, dz, dm}));
    c.set(1, joined({dr, dz, dhn}));
    c.set(2, g * z);
}

}  // namespace fb
