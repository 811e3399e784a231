// GRU: all steps of a layer as one op, where the gradient of the weight is one product over all steps, and one step.
#include "autograd/mode.h"
#include "device/recurrent.h"
#include "ops/linear/matmul.h"
#include "ops/nn/rnn_cells.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

Tensor joined_steps(const Tensor& t) { return view(t, {t.size(0) * t.size(1), t.size(2)}); }

}  // namespace

// gates: (steps, N, 3H), what the inputs give to the gates r, z, n. In reverse the last step comes first.
OP("_gru(Tensor gates, Tensor weight, Tensor? bias, Tensor h, bool reverse) -> (Tensor output, Tensor h, Tensor saved)",
   0) {
    OpScope scope("gru");
    Tensor x = contiguous(a.tensor(0)), h = contiguous(a.tensor(3));
    const Tensor& w = a.tensor(1);
    check(x.dim() == 3 && w.dim() == 2 && h.dim() == 2 && x.size(1) == h.size(0) && w.size(0) == 3 * h.size(1) &&
              w.size(1) == h.size(1) && x.size(2) == w.size(0),
          "gates ", x.shape(), ", weight ", w.shape(), " and state ", h.shape(), " do not fit");
    check(w.dtype() == x.dtype() && h.dtype() == x.dtype(), "tensors differ in dtype");
    int64_t steps = x.size(0), rows = h.size(0), n = h.size(1);
    bool reverse = a.flag(4);
    Tensor output = empty({steps, rows, n}, x.dtype()), saved = empty({steps, rows, 4 * n}, x.dtype());
    Tensor part = empty({rows, 3 * n}, x.dtype());
    device::recurrent(x).gru(x, w, a.tensor_or_none(2), h, reverse, output, saved);
    if (steps > 0) h = select(output, 0, reverse ? 0 : steps - 1);
    return std::vector<Tensor>{output, clone(h), saved};
}

OP("_gru_backward(Tensor grad, Tensor grad_h, Tensor weight, Tensor h, bool reverse, Tensor output, Tensor saved) "
   "-> (Tensor gates, Tensor weight, Tensor bias, Tensor h)",
   0) {
    Tensor grad = contiguous(a.tensor(0)), dh = clone(contiguous(a.tensor(1))), w = a.tensor(2);
    Tensor h0 = contiguous(a.tensor(3)), output = contiguous(a.tensor(5)), saved = contiguous(a.tensor(6));
    bool reverse = a.flag(4);
    int64_t steps = saved.size(0), rows = h0.size(0), n = h0.size(1);
    Tensor dx = empty({steps, rows, 3 * n}, w.dtype()), ds = empty({steps, rows, 3 * n}, w.dtype());
    Tensor dw = zeros(w.shape(), w.dtype());
    device::recurrent(saved).gru_backward(grad, dh, w, h0, reverse, output, saved, dx, ds);
    if (steps > 0) gemm(dw, transpose(select(ds, 0, reverse ? steps - 1 : 0), 0, 1), h0);
    if (steps > 1)
        gemm(dw, transpose(joined_steps(narrow(ds, 0, reverse ? 0 : 1, steps - 1)), 0, 1),
             joined_steps(narrow(output, 0, reverse ? 1 : 0, steps - 1)), Scalar(1), Scalar(1));
    Var db = sum(Var(joined_steps(ds)), Dims{0}, false);
    return std::vector<Tensor>{dx, dw, db.tensor, dh};
}

// The same with differentiable ops.
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

// Outputs of all steps, and the last state.
OP("_nn.gru(Tensor gates, Tensor weight, Tensor? bias, Tensor h, bool reverse) -> Tensor[]", FUNCTION | COMPOSITE) {
    Var bias = a.given(2) ? Var(a.tensor(2)) : Var();
    auto all = call_all<"_gru">(Var(a.tensor(0)), Var(a.tensor(1)), bias, Var(a.tensor(3)), a.flag(4));
    return std::vector<Tensor>{all[0].tensor, all[1].tensor};
}

// ---- one step -------------------------------------------------------------------------------------------------------

OP("_gru_cell(Tensor x, Tensor hidden, Tensor h) -> (Tensor h, Tensor gates)", FUNCTION,
   R"(One step of a GRU from what input and state give to the gates.

Args:
    x: (N, 3H), the input's part of the gates r, z, n.
    hidden: (N, 3H), the state's part.
    h: (N, H), the state.

Returns:
    The new h, and r, z, n and the state's part of n, which the gradient needs.

Example:
    >>> fb._gru_cell(fb.zeros(1, 3), fb.zeros(1, 3), fb.ones(1, 1))[0]
    tensor([[0.5000]])
)") {
    check_cell(a.tensor(0), a.tensor(1), a.tensor(2), 3);
    Tensor x = contiguous(a.tensor(0)), hidden = contiguous(a.tensor(1)), h = contiguous(a.tensor(2));
    int64_t n = h.size(1);
    Tensor next = empty(h.shape(), h.dtype()), gates = empty({h.size(0), 4 * n}, h.dtype());
    device::recurrent(x).gru_cell(x, hidden, h, next, gates);
    return std::vector<Tensor>{next, gates};
}

OP("_gru_cell_backward(Tensor grad, Tensor h, Tensor gates) -> (Tensor x, Tensor hidden, Tensor h)", 0) {
    Tensor grad = contiguous(a.tensor(0)), h = contiguous(a.tensor(1)), gates = contiguous(a.tensor(2));
    int64_t n = h.size(1);
    Tensor dx = empty({h.size(0), 3 * n}, h.dtype()), dhidden = empty({h.size(0), 3 * n}, h.dtype()),
           dh = empty(h.shape(), h.dtype());
    device::recurrent(h).gru_cell_backward(grad, h, gates, dx, dhidden, dh);
    return std::vector<Tensor>{dx, dhidden, dh};
}

constexpr uint32_t of_gru_cell = IN(2) | RESULT(1);
GRAD("_gru_cell", of_gru_cell, of_gru_cell, of_gru_cell) {
    Var old = c.in(2), gates = c.out(1);
    if (!grad_enabled() && !c.has(1)) {
        auto slopes = call_all<"_gru_cell_backward">(c.g(0), old, gates);
        for (int k = 0; k < 3; k++) c.set(k, slopes[static_cast<size_t>(k)]);
        return;
    }
    int64_t n = c.shape(2)[1];
    Var g = c.g(0), r = part(gates, 0, n), z = part(gates, 1, n), m = part(gates, 2, n), hn = part(gates, 3, n);
    Var dm = g * (1 - z), dz = g * (old - m), dr, dhn;
    if (c.has(1)) dm = dm + part(c.g(1), 2, n), dz = dz + part(c.g(1), 1, n);
    dm = dm * (1 - m * m), dr = dm * hn, dhn = dm * r;
    if (c.has(1)) dr = dr + part(c.g(1), 0, n), dhn = dhn + part(c.g(1), 3, n);
    dr = dr * r * (1 - r), dz = dz * z * (1 - z);
    c.set(0, joined({dr, dz, dm}));
    c.set(1, joined({dr, dz, dhn}));
    c.set(2, g * z);
}

}  // namespace fb
