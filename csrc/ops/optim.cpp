// Optimizer steps: one pass over all parameters of a group, which changes them and their state in place.
#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/gradient.h"

namespace fb {
namespace {

constexpr int most_columns = 5;  // parameter, gradient, and up to three tensors of state

// A parameter with its gradient and state, as flat memory of one dtype.
struct Row {
    Tensor given[most_columns];  // what the caller has
    Tensor used[most_columns];   // the same, or copies in a form the kernels take
    int64_t numel = 0;
    double numbers[4] = {};  // what depends on the number of the step
};

using Columns = std::initializer_list<const std::vector<Tensor>*>;

// Collects row i of all lists. Column 1, the gradient, is only read.
Row make_row(Columns columns, size_t i) {
    Row row;
    const Tensor& p = (**columns.begin())[i];
    check(is_floating(p.dtype()), "parameter ", i, " has dtype ", p.dtype(), "; expected a real floating-point one");
    row.numel = p.numel();
    int n = 0;
    bool flat = is_dense(p) && !is_half(p.dtype());
    auto alike = [&](const Tensor& t) {
        return t.dtype() == p.dtype() && (t.strides() == p.strides() || (t.is_contiguous() && p.is_contiguous()));
    };
    for (const std::vector<Tensor>* column : columns) {
        const Tensor& t = (*column)[i];
        check(t.shape() == p.shape(), "parameter ", i, " has shape ", p.shape(), ", but its ",
              n == 1 ? "gradient" : "state", " has shape ", t.shape());
        if (n != 1) flat &= alike(t);
        row.given[n++] = t;
    }
    for (int k = 0; k < n; k++) {
        const Tensor& t = row.given[k];
        if (k != 1) t.will_write();
        if (!flat) {
            row.used[k] = contiguous(to_dtype(t, compute_dtype(p.dtype())));
        } else if (alike(t)) {
            row.used[k] = t;
        } else {
            row.used[k] = empty_like(p, p.dtype());
            copy_into(row.used[k], t);
        }
    }
    return row;
}

void check_lengths(Columns columns) {
    size_t n = (*columns.begin())->size();
    for (const std::vector<Tensor>* column : columns)
        check(column->size() == n, "lists differ in length: ", n, " parameters and ", column->size(), " of another");
}

double count_step(const Tensor& step) {
    check(step.numel() == 1, "a step count must have one element, got shape ", step.shape());
    double t = item(step).re + 1;
    step.will_write();
    fill(step, Scalar(t));
    return t;
}

// Runs kernel(data, n, row's numbers) over all rows, cut into pieces across the threads.
template <class F>
void run_rows(std::vector<Row>& rows, DType dtype, F kernel) {
    std::vector<int64_t> first{0};
    std::vector<Row*> mine;
    for (Row& row : rows) {
        if (row.used[0].dtype() != dtype) continue;
        mine.push_back(&row);
        first.push_back(first.back() + row.numel);
    }
    parallel_for(first.back(), parallel_grain / 4, [&](int64_t begin, int64_t end) {
        size_t r = static_cast<size_t>(std::upper_bound(first.begin(), first.end(), begin) - first.begin()) - 1;
        for (; begin < end; r++) {
            int64_t stop = std::min(end, first[r + 1]);
            if (stop == begin) continue;
            void* data[most_columns] = {};
            for (int k = 0; k < most_columns; k++) {
                const Tensor& t = mine[r]->used[k];
                if (t.defined()) data[k] = t.raw() + (begin - first[r]) * t.itemsize();
            }
            kernel(data, stop - begin, mine[r]->numbers);
            begin = stop;
        }
    });
}

// Both precisions, then copies go back to where they came from.
template <class F>
void run_all(std::vector<Row>& rows, F kernel) {
    run_rows(rows, DType::F32,
             [&](void** data, int64_t n, const double* numbers) { kernel(TypeTag<float>{}, data, n, numbers); });
    run_rows(rows, DType::F64,
             [&](void** data, int64_t n, const double* numbers) { kernel(TypeTag<double>{}, data, n, numbers); });
    for (Row& row : rows) {
        for (int k = 0; k < most_columns; k++) {
            if (k != 1 && row.given[k].defined() && !row.used[k].is_same(row.given[k]))
                copy_into(row.given[k], row.used[k]);
        }
    }
}

// Options that are the same at every element become compile-time constants of the loop.
template <class F>
void with_flags(F f) {
    f();
}
template <class F, class... Rest>
void with_flags(F f, bool flag, Rest... rest) {
    if (flag) with_flags([&](auto... more) { f(std::true_type{}, more...); }, rest...);
    else with_flags([&](auto... more) { f(std::false_type{}, more...); }, rest...);
}

}  // namespace

// ---- SGD -----------------------------------------------------------------------------------------------------------

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
    dampening: how much of the gradient is left out of the direction.
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
    std::vector<Row> rows;
    for (size_t i = 0; i < params.size(); i++)
        rows.push_back(averaging ? make_row({&params, &grads, &buffers}, i) : make_row({&params, &grads}, i));
    with_flags(
        [&](auto with_buffer, auto fresh, auto ahead) {
            run_all(rows, [&](auto tag, void** data, int64_t n, const double*) {
                using T = typename decltype(tag)::type;
                T* __restrict p = static_cast<T*>(data[0]);
                const T* __restrict g = static_cast<const T*>(data[1]);
                T* __restrict b = static_cast<T*>(data[2]);
                T s = T(sign), wd = T(decay), m = T(momentum), keep = T(1 - dampening), rate = T(lr);
#pragma omp simd
                for (int64_t i = 0; i < n; i++) {
                    T d = s * g[i] + wd * p[i];
                    if constexpr (with_buffer) {
                        T v = fresh ? d : m * b[i] + keep * d;
                        b[i] = v;
                        d = ahead ? d + m * v : v;
                    }
                    p[i] -= rate * d;
                }
            });
        },
        averaging, first, a.flag(8));
    return {};
}

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
        rows.back().numbers[0] = lr / (1 - std::pow(beta1, t));
        rows.back().numbers[1] = 1 / std::sqrt(1 - std::pow(beta2, t));
    }
    with_flags(
        [&](auto keep_largest) {
            run_all(rows, [&](auto tag, void** data, int64_t n, const double* numbers) {
                using T = typename decltype(tag)::type;
                T* __restrict p = static_cast<T*>(data[0]);
                const T* __restrict g = static_cast<const T*>(data[1]);
                T* __restrict m = static_cast<T*>(data[2]);
                T* __restrict v = static_cast<T*>(data[3]);
                T* __restrict top = static_cast<T*>(data[4]);
                T s = T(sign), wd = T(decoupled ? 0 : decay), shrink = T(decoupled ? 1 - lr * decay : 1);
                T w1 = T(1 - beta1), b2 = T(beta2), w2 = T(1 - beta2), e = T(eps);
                T size = T(numbers[0]), root = T(numbers[1]);
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
                    p[i] = x * shrink - size * (mi / (std::sqrt(vi) * root + e));
                }
            });
        },
        amsgrad);
    return {};
}

// ---- RMSprop, Adagrad ----------------------------------------------------------------------------------------------

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
    std::vector<Row> rows;
    for (size_t i = 0; i < params.size(); i++) {
        if (centered && averaging) rows.push_back(make_row({&params, &grads, &squares, &means, &buffers}, i));
        else if (centered) rows.push_back(make_row({&params, &grads, &squares, &means}, i));
        else if (averaging) rows.push_back(make_row({&params, &grads, &squares, &buffers}, i));
        else rows.push_back(make_row({&params, &grads, &squares}, i));
        count_step(steps[i]);
    }
    with_flags(
        [&](auto with_mean, auto with_buffer) {
            run_all(rows, [&](auto tag, void** data, int64_t n, const double*) {
                using T = typename decltype(tag)::type;
                T* __restrict p = static_cast<T*>(data[0]);
                const T* __restrict g = static_cast<const T*>(data[1]);
                T* __restrict v = static_cast<T*>(data[2]);
                T* __restrict mean = static_cast<T*>(data[3]);
                T* __restrict b = static_cast<T*>(data[with_mean ? 4 : 3]);
                T s = T(sign), wd = T(decay), keep = T(alpha), w = T(1 - alpha), e = T(eps), m = T(momentum),
                  rate = T(lr);
#pragma omp simd
                for (int64_t i = 0; i < n; i++) {
                    T d = s * g[i] + wd * p[i];
                    T vi = keep * v[i] + w * d * d;
                    v[i] = vi;
                    if constexpr (with_mean) {
                        T a1 = mean[i] + w * (d - mean[i]);
                        mean[i] = a1;
                        vi = vi - a1 * a1;
                    }
                    d = d / (std::sqrt(vi) + e);
                    if constexpr (with_buffer) {
                        d = m * b[i] + d;
                        b[i] = d;
                    }
                    p[i] -= rate * d;
                }
            });
        },
        centered, averaging);
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
    std::vector<Row> rows;
    for (size_t i = 0; i < params.size(); i++) {
        rows.push_back(make_row({&params, &grads, &sums}, i));
        rows.back().numbers[0] = lr / (1 + (count_step(steps[i]) - 1) * lr_decay);
    }
    run_all(rows, [&](auto tag, void** data, int64_t n, const double* numbers) {
        using T = typename decltype(tag)::type;
        T* __restrict p = static_cast<T*>(data[0]);
        const T* __restrict g = static_cast<const T*>(data[1]);
        T* __restrict total = static_cast<T*>(data[2]);
        T s = T(sign), wd = T(decay), e = T(eps), rate = T(numbers[0]);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            T d = s * g[i] + wd * p[i];
            T v = total[i] + d * d;
            total[i] = v;
            p[i] -= rate * (d / (std::sqrt(v) + e));
        }
    });
    return {};
}

NO_GRAD("_fused_sgd|_fused_adam|_fused_rmsprop|_fused_adagrad");

}  // namespace fb
