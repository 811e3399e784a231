// GRU: all steps of a layer as one op, where the gradient of the weight is one product over all steps, and one step.
#include "device/recurrent.h"
#include "ops/linear/matmul.h"
#include "ops/nn/rnn_cells.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

Tensor joined_steps(const Tensor& t) { return view(t, {t.size(0) * t.size(1), t.size(2)}); }

}  // namespace

// gates: (steps, N, 3H), the inputs' contribution to the gates r, z, n. In reverse, the last step comes first.
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
    Tensor output = empty({steps, rows, n}, x.dtype(), x.device()),
           saved = empty({steps, rows, 4 * n}, x.dtype(), x.device());
    Tensor part = empty({rows, 3 * n}, x.dtype(), x.device());
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
    Tensor dx = empty({steps, rows, 3 * n}, w.dtype(), w.device()),
           ds = empty({steps, rows, 3 * n}, w.dtype(), w.device());
    Tensor dw = zeros(w.shape(), w.dtype(), w.device());
    device::recurrent(saved).gru_backward(grad, dh, w, h0, reverse, output, saved, dx, ds);
    if (steps > 0) gemm(dw, transpose(select(ds, 0, reverse ? steps - 1 : 0), 0, 1), h0);
    if (steps > 1)
        gemm(dw, transpose(joined_steps(narrow(ds, 0, reverse ? 0 : 1, steps - 1)), 0, 1),
             joined_steps(narrow(output, 0, reverse ? 1 : 0, steps - 1)), Scalar(1), Scalar(1));
    Var db = sum(Var(joined_steps(ds)), Dims{0}, false);
    return std::vector<Tensor>{dx, dw, db.tensor, dh};
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
    Tensor next = empty(h.shape(), h.dtype(), h.device()), gates = empty({h.size(0), 4 * n}, h.dtype(), h.device());
    device::recurrent(x).gru_cell(x, hidden, h, next, gates);
    return std::vector<Tensor>{next, gates};
}

OP("_gru_cell_backward(Tensor grad, Tensor h, Tensor gates) -> (Tensor x, Tensor hidden, Tensor h)", 0) {
    Tensor grad = contiguous(a.tensor(0)), h = contiguous(a.tensor(1)), gates = contiguous(a.tensor(2));
    int64_t n = h.size(1);
    Tensor dx = empty({h.size(0), 3 * n}, h.dtype(), h.device()),
           dhidden = empty({h.size(0), 3 * n}, h.dtype(), h.device()), dh = empty(h.shape(), h.dtype(), h.device());
    device::recurrent(h).gru_cell_backward(grad, h, gates, dx, dhidden, dh);
    return std::vector<Tensor>{dx, dhidden, dh};
}

}  // namespace fb
