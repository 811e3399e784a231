// Optimizer steps: one pass over all parameters of a group; parameters and state are updated in place.
#include "ops/optim/optim_rows.h"

namespace fb {

using namespace optim;

// ---- SGD ------------------------------------------------------------------------------------------------------------

OP("_fused_sgd(Tensor[] params, Tensor[] grads, Tensor[] buffers, bool first, float lr, float momentum, "
   "float dampening, float weight_decay, bool nesterov, bool maximize) -> None",
   FUNCTION, R"(One step of SGD on lists of tensors, in place; the work behind fb.optim.sgd.sgd().

Args:
    params: parameters.
    grads: their gradients.
    buffers: their momentum buffers; empty without momentum.
    first: whether the buffers are to be filled, not read.
    lr: learning rate.
    momentum: how much of the previous direction is kept.
    dampening: dampening of the momentum.
    weight_decay: strength of the pull towards zero.
    nesterov: look ahead along the new direction.
    maximize: climb instead of descend.

Example:
    >>> p = fb.ones(2)
    >>> fb._fused_sgd([p], [p.clone()], [], False, 0.5, 0.0, 0.0, 0.0, False, False)
    >>> p
    tensor([0.5000, 0.5000])
)") {
    const auto &params = a.tensors(0), &grads = a.tensors(1), &buffers = a.tensors(2);
    bool first = a.flag(3), averaging = !buffers.empty();
    double lr = a.number(4), momentum = a.number(5), dampening = a.number(6), decay = a.number(7);
    double sign = a.flag(9) ? -1 : 1;
    check_lengths({&params, &grads});
    if (averaging) check_lengths({&params, &buffers});
    Rows rows(params.size());
    for (size_t i = 0; i < params.size(); i++) {
        if (averaging) rows.add({&params, &grads, &buffers}, i);
        else rows.add({&params, &grads}, i);
    }
    run(&OptimizerSteps::sgd, rows, SgdStep{sign, decay, momentum, dampening, lr, averaging, first, a.flag(8)});
    return {};
}

// ---- RMSprop, Adagrad, Adadelta -------------------------------------------------------------------------------------

OP("_fused_rmsprop(Tensor[] params, Tensor[] grads, Tensor[] square_avgs, Tensor[] grad_avgs, Tensor[] buffers, "
   "Tensor[] steps, float lr, float alpha, float eps, float weight_decay, float momentum, bool maximize) -> None",
   FUNCTION, R"(One step of RMSprop on lists of tensors, in place; the work behind fb.optim.rmsprop.rmsprop().

Args:
    params: parameters.
    grads: their gradients.
    square_avgs: averages of the squared gradients.
    grad_avgs: averages of the gradients; empty unless centered.
    buffers: momentum buffers; empty without momentum.
    steps: step counts, which grow by one.
    lr: learning rate.
    alpha: decay rate of the averages.
    eps: added to the denominator.
    weight_decay: strength of the pull towards zero.
    momentum: how much of the previous direction is kept.
    maximize: climb instead of descend.

Example:
    >>> p, v, t = fb.ones(2), fb.zeros(2), fb.tensor(0.)
    >>> fb._fused_rmsprop([p], [fb.ones(2)], [v], [], [], [t], 0.5, 0.0, 0.0, 0.0, 0.0, False)
    >>> p
    tensor([0.5000, 0.5000])
)") {
    const auto &params = a.tensors(0), &grads = a.tensors(1), &squares = a.tensors(2), &means = a.tensors(3),
               &buffers = a.tensors(4), &steps = a.tensors(5);
    double lr = a.number(6), alpha = a.number(7), eps = a.number(8), decay = a.number(9), momentum = a.number(10);
    double sign = a.flag(11) ? -1 : 1;
    bool centered = !means.empty(), averaging = !buffers.empty();
    check_lengths({&params, &grads, &squares, &steps});
    if (centered) check_lengths({&params, &means});
    if (averaging) check_lengths({&params, &buffers});
    Rows rows(params.size());
    for (size_t i = 0; i < params.size(); i++) {
        if (centered && averaging) rows.add({&params, &grads, &squares, &means, &buffers}, i);
        else if (centered) rows.add({&params, &grads, &squares, &means}, i);
        else if (averaging) rows.add({&params, &grads, &squares, &buffers}, i);
        else rows.add({&params, &grads, &squares}, i);
        count_step(steps[i]);
    }
    run(&OptimizerSteps::rmsprop, rows, RmspropStep{sign, decay, alpha, eps, momentum, lr, centered, averaging});
    return {};
}

OP("_fused_adagrad(Tensor[] params, Tensor[] grads, Tensor[] sums, Tensor[] steps, float lr, float lr_decay, "
   "float weight_decay, float eps, bool maximize) -> None",
   FUNCTION, R"(One step of Adagrad on lists of tensors, in place; the work behind fb.optim.adagrad.adagrad().

Args:
    params: parameters.
    grads: their gradients.
    sums: sums of the squared gradients.
    steps: step counts, which grow by one.
    lr: learning rate.
    lr_decay: how fast the learning rate falls with the number of steps.
    weight_decay: strength of the pull towards zero.
    eps: added to the denominator.
    maximize: climb instead of descend.

Example:
    >>> p, s, t = fb.ones(2), fb.zeros(2), fb.tensor(0.)
    >>> fb._fused_adagrad([p], [fb.ones(2)], [s], [t], 0.5, 0.0, 0.0, 1e-10, False)
    >>> p
    tensor([0.5000, 0.5000])
)") {
    const auto &params = a.tensors(0), &grads = a.tensors(1), &sums = a.tensors(2), &steps = a.tensors(3);
    double lr = a.number(4), lr_decay = a.number(5), decay = a.number(6), eps = a.number(7);
    double sign = a.flag(8) ? -1 : 1;
    check_lengths({&params, &grads, &sums, &steps});
    Rows rows(params.size());
    for (size_t i = 0; i < params.size(); i++) {
        OptimizerRow& row = rows.add({&params, &grads, &sums}, i);
        row.rate = lr / (1 + (count_step(steps[i]) - 1) * lr_decay);
    }
    run(&OptimizerSteps::adagrad, rows, AdagradStep{sign, decay, eps});
    return {};
}

OP("_fused_adadelta(Tensor[] params, Tensor[] grads, Tensor[] square_avgs, Tensor[] acc_deltas, Tensor[] steps, float "
   "lr, "
   "float rho, float eps, float weight_decay, bool maximize) -> None",
   FUNCTION, R"(One step of Adadelta on lists of tensors, in place; the work behind fb.optim.adadelta.adadelta().

Args:
    params: parameters.
    grads: their gradients.
    square_avgs: averages of the squared gradients.
    acc_deltas: averages of the squared changes.
    steps: step counts, which grow by one.
    lr: learning rate.
    rho: decay rate of the averages.
    eps: added under both roots.
    weight_decay: strength of the pull towards zero.
    maximize: climb instead of descend.

Example:
    >>> p, v, u, t = fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.)
    >>> fb._fused_adadelta([p], [fb.ones(2)], [v], [u], [t], 1.0, 0.0, 1.0, 0.0, False)
    >>> p
    tensor([0.2929, 0.2929])
)") {
    const auto &params = a.tensors(0), &grads = a.tensors(1), &squares = a.tensors(2), &deltas = a.tensors(3),
               &steps = a.tensors(4);
    double lr = a.number(5), rho = a.number(6), eps = a.number(7), decay = a.number(8);
    double sign = a.flag(9) ? -1 : 1;
    check_lengths({&params, &grads, &squares, &deltas, &steps});
    Rows rows(params.size());
    for (size_t i = 0; i < params.size(); i++) {
        rows.add({&params, &grads, &squares, &deltas}, i);
        count_step(steps[i]);
    }
    run(&OptimizerSteps::adadelta, rows, AdadeltaStep{sign, decay, rho, eps, lr});
    return {};
}

NO_GRAD("_fused_sgd|_fused_rmsprop|_fused_adagrad|_fused_adadelta");

}  // namespace fb
