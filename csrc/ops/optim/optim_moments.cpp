// Steps of Adam and its relatives, which divide an average of the gradients by the size they usually have.
#include "ops/optim/optim_rows.h"

namespace fb {

using namespace optim;

namespace {

// Numbers of a row: p ← p · shrink - (along_grad · gradient + along_average · m) / (sqrt(v) · root + beside).
enum { along_grad, along_average, root, beside };

// What all rows have in common.
struct Shared {
    double beta1, beta2, decay, shrink, sign;
};

void step_rows(std::vector<Row>& rows, const Shared& shared, bool amsgrad, bool ahead) {
    with_flags(
        [&](auto keep_largest, auto with_gradient) {
            run_all(rows, [&](auto tag, void** data, int64_t n, const double* numbers) {
                using T = typename decltype(tag)::type;
                T* __restrict p = static_cast<T*>(data[0]);
                const T* __restrict g = static_cast<const T*>(data[1]);
                T* __restrict m = static_cast<T*>(data[2]);
                T* __restrict v = static_cast<T*>(data[3]);
                T* __restrict top = static_cast<T*>(data[4]);
                T s = T(shared.sign), wd = T(shared.decay), shrink = T(shared.shrink);
                T w1 = T(1 - shared.beta1), b2 = T(shared.beta2), w2 = T(1 - shared.beta2);
                T size = T(numbers[along_average]), more = T(numbers[along_grad]), r = T(numbers[root]),
                  e = T(numbers[beside]);
#pragma omp simd
                for (int64_t i = 0; i < n; i++) {
                    T x = p[i];
                    T d = s * g[i] + wd * x;
                    T mi = m[i] + w1 * (d - m[i]);
                    T vi = b2 * v[i] + w2 * d * d;
                    m[i] = mi;
                    v[i] = vi;
                    if constexpr (keep_largest) {
                        // A nan stays one.
                        vi = vi > top[i] || vi != vi ? vi : top[i];
                        top[i] = vi;
                    }
                    T way = size * mi;
                    if constexpr (with_gradient) way += more * d;
                    p[i] = x * shrink - way / (r == 0 ? e : std::sqrt(vi) * r + e);
                }
            });
        },
        amsgrad, ahead);
}

}  // namespace

// ---- Adam ----------------------------------------------------------------------------------------------------------

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
    std::vector<Row> rows;
    for (size_t i = 0; i < params.size(); i++) {
        rows.push_back(amsgrad ? make_row({&params, &grads, &firsts, &seconds, &largest}, i)
                               : make_row({&params, &grads, &firsts, &seconds}, i));
        double t = count_step(steps[i]);
        rows.back().numbers[along_average] = lr / (1 - std::pow(beta1, t));
        rows.back().numbers[root] = 1 / std::sqrt(1 - std::pow(beta2, t));
        rows.back().numbers[beside] = eps;
    }
    step_rows(rows, {beta1, beta2, decoupled ? 0 : decay, decoupled ? 1 - lr * decay : 1, sign}, amsgrad, false);
    return {};
}

// ---- NAdam, RAdam, Adamax
// -----------------------------------------------------------------------------------------------

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
    std::vector<Row> rows;
    for (size_t i = 0; i < params.size(); i++) {
        rows.push_back(make_row({&params, &grads, &firsts, &seconds}, i));
        double t = count_step(steps[i]);
        check(products[i].numel() == 1, "a product must have one element, got shape ", products[i].shape());
        double mu = beta1 * (1 - 0.5 * std::pow(0.96, t * fading));
        double next = beta1 * (1 - 0.5 * std::pow(0.96, (t + 1) * fading));
        products[i].will_write();
        fill(products[i], Scalar(item(products[i]).re * mu));
        double product = item(products[i]).re;
        rows.back().numbers[along_grad] = lr * (1 - mu) / (1 - product);
        rows.back().numbers[along_average] = lr * next / (1 - product * next);
        rows.back().numbers[root] = 1 / std::sqrt(1 - std::pow(beta2, t));
        rows.back().numbers[beside] = a.number(11);
    }
    Shared shared{beta1, beta2, decoupled ? 0 : decay, decoupled ? 1 - lr * decay : 1, a.flag(13) ? -1.0 : 1.0};
    step_rows(rows, shared, false, true);
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
    std::vector<Row> rows;
    for (size_t i = 0; i < params.size(); i++) {
        rows.push_back(make_row({&params, &grads, &firsts, &seconds}, i));
        double t = count_step(steps[i]), left = 1 - std::pow(beta2, t), size = lr / (1 - std::pow(beta1, t));
        double length = limit - 2 * t * (1 - left) / left;
        // In the first steps the second average says too little; the denominator is then one.
        bool trusted = length > 5;
        if (trusted)
            size *= std::sqrt(left * (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
        rows.back().numbers[along_average] = size;
        rows.back().numbers[root] = trusted ? 1 : 0;
        rows.back().numbers[beside] = trusted ? a.number(9) : 1;
    }
    Shared shared{beta1, beta2, decoupled ? 0 : decay, decoupled ? 1 - lr * decay : 1, a.flag(11) ? -1.0 : 1.0};
    step_rows(rows, shared, false, false);
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
    std::vector<Row> rows;
    for (size_t i = 0; i < params.size(); i++) {
        rows.push_back(make_row({&params, &grads, &firsts, &largest}, i));
        rows.back().numbers[along_average] = lr / (1 - std::pow(beta1, count_step(steps[i])));
    }
    run_all(rows, [&](auto tag, void** data, int64_t n, const double* numbers) {
        using T = typename decltype(tag)::type;
        T* __restrict p = static_cast<T*>(data[0]);
        const T* __restrict g = static_cast<const T*>(data[1]);
        T* __restrict m = static_cast<T*>(data[2]);
        T* __restrict u = static_cast<T*>(data[3]);
        T s = T(sign), wd = T(decay), w1 = T(1 - beta1), b2 = T(beta2), e = T(eps), size = T(numbers[along_average]);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            T d = s * g[i] + wd * p[i];
            T mi = m[i] + w1 * (d - m[i]), old = u[i] * b2, now = std::abs(d) + e;
            // A nan stays one.
            T top = old > now || old != old ? old : now;
            m[i] = mi;
            u[i] = top;
            p[i] -= size * (mi / top);
        }
    });
    return {};
}

NO_GRAD("_fused_adam|_fused_nadam|_fused_radam|_fused_adamax");

}  // namespace fb
