// LSTM: all steps of a layer as one op, where the gradient of the weight is one product over all steps, and one step.
#include "device/recurrent.h"
#include "ops/linear/linear.h"
#include "ops/linear/matmul.h"
#include "ops/nn/rnn_cells.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
// gates: (steps, N, 4H), the inputs' contribution to the gates i, f, g, o. Returns outputs and last state, and the
// activated gates and the cell states of all steps, which the gradient needs. In reverse, the last step comes first.
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
    Tensor gates = empty(x.shape(), x.dtype(), x.device()), output = empty(shape, x.dtype(), x.device()),
           cells = empty(shape, x.dtype(), x.device());
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
    Tensor slopes = empty(gates.shape(), gates.dtype(), gates.device()), dw = zeros(w.shape(), w.dtype(), w.device());
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
    Tensor h = empty(c.shape(), c.dtype(), c.device()), next = empty(c.shape(), c.dtype(), c.device()),
           gates = empty(x.shape(), x.dtype(), x.device());
    device::recurrent(x).lstm_cell(x, hidden, c, h, next, gates);
    return std::vector<Tensor>{h, next, gates};
}

OP("_lstm_cell_backward(Tensor gh, Tensor gc, Tensor c, Tensor next, Tensor gates) -> (Tensor gates, Tensor c)", 0) {
    Tensor gh = contiguous(a.tensor(0)), gc = contiguous(a.tensor(1)), c = contiguous(a.tensor(2)),
           next = contiguous(a.tensor(3)), gates = contiguous(a.tensor(4));
    Tensor dgates = empty(gates.shape(), gates.dtype(), gates.device()), dc = empty(c.shape(), c.dtype(), c.device());
    device::recurrent(c).lstm_cell_backward(gh, gc, c, next, gates, dgates, dc);
    return std::vector<Tensor>{dgates, dc};
}

}  // namespace fb
