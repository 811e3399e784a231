// LSTM: all steps of a layer as one op, where the gradient of the weight is one product over all steps, and one step.
#include "autograd/mode.h"
#include "device/recurrent.h"
#include "ops/linear/matmul.h"
#include "ops/nn/rnn_cells.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

Dims matrix_shape(const Dims& shape) {
    int64_t rows = 1;
    for (int64_t d = 0; d + 1 < shape.size(); d++) rows *= shape[d];
    return {rows, shape.back()};
}
Tensor all_rows(const Tensor& x) { return reshape(x, matrix_shape(x.shape())); }

}  // namespace

// gates: (steps, N, 4H), what the inputs give to the gates i, f, g, o. Returns outputs and last state, and the
// activated gates and the cell states of all steps, which the gradient needs. In reverse the last step comes first.
OP("_lstm(Tensor gates, Tensor weight, Tensor h, Tensor c, bool reverse) -> (Tensor output, Tensor h, Tensor c, "
   "Tensor gates, Tensor cells)",
   0) {
    OpScope scope("lstm");
    const Tensor &x = a.tensor(0), &w = a.tensor(1);
    Tensor h = contiguous(a.tensor(2)), cell = contiguous(a.tensor(3));
    check(x.dim() == 3 && w.dim() == 2 && h.dim() == 2 && x.size(1) == h.size(0) && h.shape() == cell.shape() &&
              w.size(0) == 4 * h.size(1) && w.size(1) == h.size(1) && x.size(2) == w.size(0),
          "gates ", x.shape(), ", weight ", w.shape(), " and state ", h.shape(), ", ", cell.shape(), " do not fit");
    check(w.dtype() == x.dtype() && h.dtype() == x.dtype() && cell.dtype() == x.dtype(), "tensors differ in dtype");
    int64_t steps = x.size(0);
    bool reverse = a.flag(4);
    Dims shape{steps, h.size(0), h.size(1)};
    Tensor gates = empty(x.shape(), x.dtype()), output = empty(shape, x.dtype()), cells = empty(shape, x.dtype());
    copy_into(gates, x);
    device::recurrent(x).lstm(gates, w, h, cell, reverse, output, cells);
    if (steps > 0) {
        int64_t last = reverse ? 0 : steps - 1;
        h = select(output, 0, last), cell = select(cells, 0, last);
    }
    return std::vector<Tensor>{output, clone(h), clone(cell), gates, cells};
}

OP("_lstm_backward(Tensor grad, Tensor grad_h, Tensor grad_c, Tensor weight, Tensor h, Tensor c, bool reverse, "
   "Tensor output, Tensor gates, Tensor cells) -> (Tensor gates, Tensor weight, Tensor h, Tensor c)",
   0) {
    Tensor grad = contiguous(a.tensor(0)), dh = clone(contiguous(a.tensor(1))), dc = clone(contiguous(a.tensor(2)));
    Tensor w = a.tensor(3), h0 = contiguous(a.tensor(4)), c0 = contiguous(a.tensor(5));
    Tensor output = contiguous(a.tensor(7)), gates = contiguous(a.tensor(8)), cells = contiguous(a.tensor(9));
    bool reverse = a.flag(6);
    int64_t steps = gates.size(0);
    Tensor slopes = empty(gates.shape(), gates.dtype()), dw = zeros(w.shape(), w.dtype());
    device::recurrent(gates).lstm_backward(grad, dh, dc, w, c0, reverse, gates, cells, slopes);
    if (steps > 0) {
        Tensor first = select(slopes, 0, reverse ? steps - 1 : 0);
        gemm(dw, transpose(first, 0, 1), h0);
    }
    if (steps > 1) {
        Tensor later = all_rows(narrow(slopes, 0, reverse ? 0 : 1, steps - 1));
        gemm(dw, transpose(later, 0, 1), all_rows(narrow(output, 0, reverse ? 1 : 0, steps - 1)), Scalar(1), Scalar(1));
    }
    return std::vector<Tensor>{slopes, dw, dh, dc};
}

// The same with differentiable ops.
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

// Outputs of all steps, and the last state.
OP("_nn.lstm(Tensor gates, Tensor weight, Tensor h, Tensor c, bool reverse) -> Tensor[]", FUNCTION | COMPOSITE) {
    std::vector<Tensor> results;
    for (const Var& v :
         call_all<"_lstm">(Var(a.tensor(0)), Var(a.tensor(1)), Var(a.tensor(2)), Var(a.tensor(3)), a.flag(4)))
        if (results.size() < 3) results.push_back(v.tensor);
    return results;
}

// ---- one step -------------------------------------------------------------------------------------------------------

OP("_lstm_cell(Tensor x, Tensor hidden, Tensor c) -> (Tensor h, Tensor c, Tensor gates)", FUNCTION,
   R"(One step of an LSTM from what input and state give to the gates.

Args:
    x: (N, 4H), the input's part of the gates i, f, g, o.
    hidden: (N, 4H), the state's part.
    c: (N, H), the cell state.

Returns:
    The new h and c, and the gates, which the gradient needs.

Example:
    >>> fb._lstm_cell(fb.zeros(1, 4), fb.zeros(1, 4), fb.ones(1, 1))[1]
    tensor([[0.5000]])
)") {
    check_cell(a.tensor(0), a.tensor(1), a.tensor(2), 4);
    Tensor x = contiguous(a.tensor(0)), hidden = contiguous(a.tensor(1)), c = contiguous(a.tensor(2));
    Tensor h = empty(c.shape(), c.dtype()), next = empty(c.shape(), c.dtype()), gates = empty(x.shape(), x.dtype());
    device::recurrent(x).lstm_cell(x, hidden, c, h, next, gates);
    return std::vector<Tensor>{h, next, gates};
}

OP("_lstm_cell_backward(Tensor gh, Tensor gc, Tensor c, Tensor next, Tensor gates) -> (Tensor gates, Tensor c)", 0) {
    Tensor gh = contiguous(a.tensor(0)), gc = contiguous(a.tensor(1)), c = contiguous(a.tensor(2)),
           next = contiguous(a.tensor(3)), gates = contiguous(a.tensor(4));
    Tensor dgates = empty(gates.shape(), gates.dtype()), dc = empty(c.shape(), c.dtype());
    device::recurrent(c).lstm_cell_backward(gh, gc, c, next, gates, dgates, dc);
    return std::vector<Tensor>{dgates, dc};
}

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
    Var i = part(gates, 0, n), f = part(gates, 1, n), g = part(gates, 2, n), o = part(gates, 3, n), t = tanh(now);
    Var d = c.g(1) + c.g(0) * o * (1 - t * t);
    Var di = d * g, df = d * old, dg = d * i, d_o = c.g(0) * t;
    if (c.has(2)) {
        Var extra = c.g(2);
        di = di + part(extra, 0, n), df = df + part(extra, 1, n), dg = dg + part(extra, 2, n),
        d_o = d_o + part(extra, 3, n);
    }
    Var slope = joined({di * i * (1 - i), df * f * (1 - f), dg * (1 - g * g), d_o * o * (1 - o)});
    c.set(0, slope);
    c.set(1, slope);
    c.set(2, d * f);
}

}  // namespace fb
