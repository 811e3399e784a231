// Recurrent layers: all steps of a layer, and single steps. Tensors are contiguous except for weights, of one dtype,
// float32 or float64. N is the batch size, H the hidden size.
#pragma once
#include "device/table.h"

namespace fb::device {

struct Recurrent {
    // gates: (steps, N, 4H), the inputs' contribution to the gates i, f, g, o; overwritten by the activated gates.
    // weight: (4H, H). h, c: the initial state. output and cells: (steps, N, H), the states after each step. In
    // reverse, the last step comes first.
    void (*lstm)(const Tensor& gates, const Tensor& weight, const Tensor& h, const Tensor& c, bool reverse,
                 const Tensor& output, const Tensor& cells);
    // slopes: gradients of the gates before activation. dh, dc: gradients of the last state, overwritten by those of
    // the first.
    void (*lstm_backward)(const Tensor& grad, const Tensor& dh, const Tensor& dc, const Tensor& weight, const Tensor& c,
                          bool reverse, const Tensor& gates, const Tensor& cells, const Tensor& slopes);
    // x: (N, 4H), the input's contribution to the gates, hidden: the state's; c: the cell state. h, next: the new
    // state.
    void (*lstm_cell)(const Tensor& x, const Tensor& hidden, const Tensor& c, const Tensor& h, const Tensor& next,
                      const Tensor& gates);
    void (*lstm_cell_backward)(const Tensor& gh, const Tensor& gc, const Tensor& c, const Tensor& next,
                               const Tensor& gates, const Tensor& dgates, const Tensor& dc);
    // gates: (steps, N, 3H), the inputs' contribution to the gates r, z, n. bias broadcasts to (N, 3H) and may be
    // undefined. saved: (steps, N, 4H), r, z, n and the state's contribution to n.
    void (*gru)(const Tensor& gates, const Tensor& weight, const Tensor& bias, const Tensor& h, bool reverse,
                const Tensor& output, const Tensor& saved);
    // dx, ds: gradients of the input's and the state's contributions to the gates.
    void (*gru_backward)(const Tensor& grad, const Tensor& dh, const Tensor& weight, const Tensor& h, bool reverse,
                         const Tensor& output, const Tensor& saved, const Tensor& dx, const Tensor& ds);
    void (*gru_cell)(const Tensor& x, const Tensor& hidden, const Tensor& h, const Tensor& next, const Tensor& gates);
    void (*gru_cell_backward)(const Tensor& grad, const Tensor& h, const Tensor& gates, const Tensor& dx,
                              const Tensor& dhidden, const Tensor& dh);
};
inline const Recurrent& recurrent(const Tensor& on) { return device::on<Recurrent>(on.device()); }

}  // namespace fb::device
