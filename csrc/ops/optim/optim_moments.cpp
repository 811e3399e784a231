// Steps of Adam and its relatives, which divide an average of the gradients by their typical size.
#include "ops/optim/optim_rows.h"

namespace fb {

using namespace optim;

// ---- Adam -----------------------------------------------------------------------------------------------------------

OP("_fused_adam(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, "
   "Tensor[] steps, float lr, float beta1, float beta2, float weight_decay, float eps, bool decoupled, "
   "bool maximize) -> None",
   FUNCTION, R"(One step of Adam on lists of tensors, in place; the work behind fb.optim.adam.adam().

Args:
    params: parameters.
    grads: their gradients.
    exp_avgs: averages of the gradients.
    exp_avg_sqs: averages of the squared gradients.
    max_exp_avg_sqs: the largest of these so far; empty without amsgrad.
    steps: step counts, which grow by one.
    lr: learning rate.
    beta1: decay rate of the first average.
    beta2: decay rate of the second average.
    weight_decay: strength of the pull towards zero.
    eps: added to the denominator.
    decoupled: shrink parameters directly, as AdamW does.
    maximize: climb instead of descend.

Example:
    >>> p, g, m, v, t = fb.ones(2), fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.)
    >>> fb._fused_adam([p], [g], [m], [v], [], [t], 0.5, 0.9, 0.999, 0.0, 1e-8, False, False)
    >>> p
    tensor([0.5000, 0.5000])
)") {
    const auto &params = a.tensors(0), &grads = a.tensors(1), &firsts = a.tensors(2), &seconds = a.tensors(3),
               &largest = a.tensors(4), &steps = a.tensors(5);
    double lr = a.number(6), beta1 = a.number(7), beta2 = a.number(8), decay = a.number(9), eps = a.number(10);
    bool decoupled = a.flag(11), amsgrad = !largest.empty();
    double sign = a.flag(12) ? -1 : 1;
    check_lengths({&params, &grads, &firsts, &seconds, &steps});
    if (amsgrad) check_lengths({&params, &largest});
    Rows rows(params.size());
    for (size_t i = 0; i < params.size(); i++) {
        OptimizerRow& row = amsgrad ? rows.add({&params, &grads, &firsts, &seconds, &largest}, i)
                                    : rows.add({&params, &grads, &firsts, &seconds}, i);
        double t = count_step(steps[i]);
        row.rate = lr / (1 - std::pow(beta1, t));
        row.root = 1 / std::sqrt(1 - std::pow(beta2, t));
        row.eps = eps;
    }
    run(&OptimizerSteps::adam, rows,
        AdamStep{beta1, beta2, decoupled ? 0 : decay, decoupled ? 1 - lr * decay : 1, sign, amsgrad, false});
    return {};
}

// ---- NAdam, RAdam, Adamax -------------------------------------------------------------------------------------------

OP("_fused_nadam(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] mu_products, "
   "Tensor[] steps, float lr, float beta1, float beta2, float weight_decay, float momentum_decay, float eps, "
   "bool decoupled, bool maximize) -> None",
   FUNCTION, R"(One step of NAdam on lists of tensors, in place; the work behind fb.optim.nadam.nadam().

Args:
    params: parameters.
    grads: their gradients.
    exp_avgs: averages of the gradients.
    exp_avg_sqs: averages of the squared gradients.
    mu_products: products of the momentum factors so far.
    steps: step counts, which grow by one.
    lr: learning rate.
    beta1: decay rate of the first average.
    beta2: decay rate of the second average.
    weight_decay: strength of the pull towards zero.
    momentum_decay: how fast the momentum factor approaches beta1.
    eps: added to the denominator.
    decoupled: shrink parameters directly, as AdamW does.
    maximize: climb instead of descend.

Example:
    >>> p, g, m, v, mu, t = fb.ones(2), fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(1.), fb.tensor(0.)
    >>> fb._fused_nadam([p], [g], [m], [v], [mu], [t], 0.5, 0.9, 0.999, 0.0, 0.004, 1e-8, False, False)
    >>> t
    tensor(1.)
)") {
    const auto &params = a.tensors(0), &grads = a.tensors(1), &firsts = a.tensors(2), &seconds = a.tensors(3),
               &products = a.tensors(4), &steps = a.tensors(5);
    double lr = a.number(6), beta1 = a.number(7), beta2 = a.number(8), decay = a.number(9), fading = a.number(10);
    bool decoupled = a.flag(12);
    check_lengths({&params, &grads, &firsts, &seconds, &products, &steps});
    Rows rows(params.size());
    for (size_t i = 0; i < params.size(); i++) {
        OptimizerRow& row = rows.add({&params, &grads, &firsts, &seconds}, i);
        double t = count_step(steps[i]);
        check(products[i].numel() == 1, "a product must have one element, got shape ", products[i].shape());
        double mu = beta1 * (1 - 0.5 * std::pow(0.96, t * fading));
        double next = beta1 * (1 - 0.5 * std::pow(0.96, (t + 1) * fading));
        products[i].will_write();
        fill(products[i], Scalar(item(products[i]).re * mu));
        double product = item(products[i]).re;
        row.grad_rate = lr * (1 - mu) / (1 - product);
        row.rate = lr * next / (1 - product * next);
        row.root = 1 / std::sqrt(1 - std::pow(beta2, t));
        row.eps = a.number(11);
    }
    double sign = a.flag(13) ? -1.0 : 1.0;
    run(&OptimizerSteps::adam, rows,
        AdamStep{beta1, beta2, decoupled ? 0 : decay, decoupled ? 1 - lr * decay : 1, sign, false, true});
    return {};
}

OP("_fused_radam(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] steps, float lr, "
   "float beta1, float beta2, float weight_decay, float eps, bool decoupled, bool maximize) -> None",
   FUNCTION, R"(One step of RAdam on lists of tensors, in place; the work behind fb.optim.radam.radam().

Args:
    params: parameters.
    grads: their gradients.
    exp_avgs: averages of the gradients.
    exp_avg_sqs: averages of the squared gradients.
    steps: step counts, which grow by one.
    lr: learning rate.
    beta1: decay rate of the first average.
    beta2: decay rate of the second average.
    weight_decay: strength of the pull towards zero.
    eps: added to the denominator.
    decoupled: shrink parameters directly, as AdamW does.
    maximize: climb instead of descend.

Example:
    >>> p, g, m, v, t = fb.ones(2), fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.)
    >>> fb._fused_radam([p], [g], [m], [v], [t], 0.5, 0.9, 0.999, 0.0, 1e-8, False, False)
    >>> p
    tensor([0.5000, 0.5000])
)") {
    const auto &params = a.tensors(0), &grads = a.tensors(1), &firsts = a.tensors(2), &seconds = a.tensors(3),
               &steps = a.tensors(4);
    double lr = a.number(5), beta1 = a.number(6), beta2 = a.number(7), decay = a.number(8), limit = 2 / (1 - beta2) - 1;
    bool decoupled = a.flag(10);
    check_lengths({&params, &grads, &firsts, &seconds, &steps});
    Rows rows(params.size());
    for (size_t i = 0; i < params.size(); i++) {
        OptimizerRow& row = rows.add({&params, &grads, &firsts, &seconds}, i);
        double t = count_step(steps[i]), left = 1 - std::pow(beta2, t), size = lr / (1 - std::pow(beta1, t));
        double length = limit - 2 * t * (1 - left) / left;
        // In the first steps the second average is not reliable; the denominator is then one.
        bool trusted = length > 5;
        if (trusted)
            size *= std::sqrt(left * (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
        row.rate = size;
        row.root = trusted ? 1 : 0;
        row.eps = trusted ? a.number(9) : 1;
    }
    double sign = a.flag(11) ? -1.0 : 1.0;
    run(&OptimizerSteps::adam, rows,
        AdamStep{beta1, beta2, decoupled ? 0 : decay, decoupled ? 1 - lr * decay : 1, sign, false, false});
    return {};
}

OP("_fused_adamax(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_infs, Tensor[] steps, float lr, "
   "float beta1, float beta2, float weight_decay, float eps, bool maximize) -> None",
   FUNCTION, R"(One step of Adamax on lists of tensors, in place; the work behind fb.optim.adamax.adamax().

Args:
    params: parameters.
    grads: their gradients.
    exp_avgs: averages of the gradients.
    exp_infs: largest gradients, which fade.
    steps: step counts, which grow by one.
    lr: learning rate.
    beta1: decay rate of the average.
    beta2: how fast the largest gradient fades.
    weight_decay: strength of the pull towards zero.
    eps: added to the size of the gradient.
    maximize: climb instead of descend.

Example:
    >>> p, g, m, u, t = fb.ones(2), fb.ones(2), fb.zeros(2), fb.zeros(2), fb.tensor(0.)
    >>> fb._fused_adamax([p], [g], [m], [u], [t], 0.5, 0.9, 0.999, 0.0, 1e-8, False)
    >>> p
    tensor([0.5000, 0.5000])
)") {
    const auto &params = a.tensors(0), &grads = a.tensors(1), &firsts = a.tensors(2), &largest = a.tensors(3),
               &steps = a.tensors(4);
    double lr = a.number(5), beta1 = a.number(6), beta2 = a.number(7), decay = a.number(8), eps = a.number(9);
    double sign = a.flag(10) ? -1 : 1;
    check_lengths({&params, &grads, &firsts, &largest, &steps});
    Rows rows(params.size());
    for (size_t i = 0; i < params.size(); i++) {
        OptimizerRow& row = rows.add({&params, &grads, &firsts, &largest}, i);
        row.rate = lr / (1 - std::pow(beta1, count_step(steps[i])));
    }
    run(&OptimizerSteps::adamax, rows, AdamaxStep{sign, decay, beta1, beta2, eps});
    return {};
}

NO_GRAD("_fused_adam|_fused_nadam|_fused_radam|_fused_adamax");

}  // namespace fb
