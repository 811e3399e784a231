// Cells of recurrent layers and the loss of classifiers: several pointwise steps in one pass.
#include <cmath>
#include <limits>

#include "autograd/mode.h"
#include "ops/order/scan_exp.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

template <class T>
inline T sigmoid_of(T x) {
    return 1 / (1 + vector_exp(-x));
}
// Exact enough and without cancellation near zero: a short series there.
template <class T>
inline T tanh_of(T x) {
    T y = std::abs(x), e = vector_exp(-2 * y), far = (1 - e) / (1 + e), q = x * x;
    T near = y * (1 + q * (T(-1.0 / 3) + q * (T(2.0 / 15) + q * (T(-17.0 / 315) + q * T(62.0 / 2835)))));
    T limit = sizeof(T) == 4 ? T(0.1) : T(0.004);
    return std::copysign(y < limit ? near : far, x);
}

void check_cell(const Tensor& x, const Tensor& hidden, const Tensor& state, int64_t gates) {
    check(x.dim() == 2 && state.dim() == 2 && x.shape() == hidden.shape() && x.size(0) == state.size(0) &&
              x.size(1) == gates * state.size(1),
          "gates ", x.shape(), " and ", hidden.shape(), " do not fit the state ", state.shape());
    check(x.dtype() == hidden.dtype() && x.dtype() == state.dtype(), "gates and state differ in dtype: ", x.dtype(),
          ", ", hidden.dtype(), " and ", state.dtype());
}

template <class F>
void each_row(int64_t rows, int64_t width, F f) {
    parallel_for(rows, std::max<int64_t>(1, parallel_grain / 8 / std::max<int64_t>(1, width)),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; r++) f(r);
                 });
}

Var part(const Var& x, int64_t k, int64_t size) { return narrow(x, 1, k * size, size); }
Var joined(const std::vector<Var>& parts) { return call<"cat">(parts, 1); }

}  // namespace

// ---- LSTM ----------------------------------------------------------------------------------------------------------

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
    int64_t n = c.size(1);
    dispatch<float, double>(x.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_row(c.size(0), n * 8, [&](int64_t r) {
            const T* __restrict px = x.data<T>() + r * 4 * n, * __restrict ph = hidden.data<T>() + r * 4 * n, * __restrict pc = c.data<T>() + r * n;
            T *__restrict to_h = h.data<T>() + r * n, *__restrict to_c = next.data<T>() + r * n,
              *__restrict to = gates.data<T>() + r * 4 * n;
#pragma omp simd
            for (int64_t k = 0; k < n; k++) {
                T i = sigmoid_of(px[k] + ph[k]), f = sigmoid_of(px[n + k] + ph[n + k]);
                T g = tanh_of(px[2 * n + k] + ph[2 * n + k]), o = sigmoid_of(px[3 * n + k] + ph[3 * n + k]);
                T cell = f * pc[k] + i * g;
                to[k] = i, to[n + k] = f, to[2 * n + k] = g, to[3 * n + k] = o;
                to_c[k] = cell;
                to_h[k] = o * tanh_of(cell);
            }
        });
    });
    return std::vector<Tensor>{h, next, gates};
}

OP("_lstm_cell_backward(Tensor gh, Tensor gc, Tensor c, Tensor next, Tensor gates) -> (Tensor gates, Tensor c)", 0) {
    Tensor gh = contiguous(a.tensor(0)), gc = contiguous(a.tensor(1)), c = contiguous(a.tensor(2)),
           next = contiguous(a.tensor(3)), gates = contiguous(a.tensor(4));
    Tensor dgates = empty(gates.shape(), gates.dtype()), dc = empty(c.shape(), c.dtype());
    int64_t n = c.size(1);
    dispatch<float, double>(c.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_row(c.size(0), n * 8, [&](int64_t r) {
            const T *__restrict ph = gh.data<T>() + r * n, *__restrict pc = gc.data<T>() + r * n,
                    *__restrict old = c.data<T>() + r * n, *__restrict now = next.data<T>() + r * n,
                    *__restrict from = gates.data<T>() + r * 4 * n;
            T* __restrict to = dgates.data<T>() + r * 4 * n, * __restrict to_c = dc.data<T>() + r * n;
#pragma omp simd
            for (int64_t k = 0; k < n; k++) {
                T i = from[k], f = from[n + k], g = from[2 * n + k], o = from[3 * n + k], t = tanh_of(now[k]);
                T d = pc[k] + ph[k] * o * (1 - t * t);
                to[k] = d * g * i * (1 - i);
                to[n + k] = d * old[k] * f * (1 - f);
                to[2 * n + k] = d * i * (1 - g * g);
                to[3 * n + k] = ph[k] * t * o * (1 - o);
                to_c[k] = d * f;
            }
        });
    });
    return std::vector<Tensor>{dgates, dc};
}

constexpr uint32_t of_lstm = IN(2) | RESULT(1) | RESULT(2);
GRAD("_lstm_cell", of_lstm, of_lstm, of_lstm) {
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

// ---- GRU -----------------------------------------------------------------------------------------------------------

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
    dispatch<float, double>(x.dtype(), "float32 or float64",
                            [&](auto tag) {
                                using T = typename decltype(tag)::type;
                                each_row(h.size(0), n * 6,
                                         [&](int64_t row) {
                                             const T *__restrict px = x.data<T>() + row * 3 * n, *__restrict ph = hidden.data<T>() + row * 3 * n,
                    *__restrict old = h.data<T>() + row * n;
                                             T* __restrict to_h = next.data<T>() + row * n, * __restrict to =
                                                                                                gates.data<T>() +
                                                                                                row * 4 * n;
#pragma omp simd
                                             for (int64_t k = 0; k < n; k++) {
                                                 T r = sigmoid_of(px[k] + ph[k]), z = sigmoid_of(px[n + k] + ph[n + k]),
                                                   hn = ph[2 * n + k];
                                                 T m = tanh_of(px[2 * n + k] + r * hn);
                                                 to[k] = r, to[n + k] = z, to[2 * n + k] = m, to[3 * n + k] = hn;
                                                 to_h[k] = m + z * (old[k] - m);
                                             }
                                         });
                            });
    return std::vector<Tensor>{next, gates};
}

OP("_gru_cell_backward(Tensor grad, Tensor h, Tensor gates) -> (Tensor x, Tensor hidden, Tensor h)", 0) {
    Tensor grad = contiguous(a.tensor(0)), h = contiguous(a.tensor(1)), gates = contiguous(a.tensor(2));
    int64_t n = h.size(1);
    Tensor dx = empty({h.size(0), 3 * n}, h.dtype()), dhidden = empty({h.size(0), 3 * n}, h.dtype()),
           dh = empty(h.shape(), h.dtype());
    dispatch<float, double>(h.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_row(h.size(0), n * 8, [&](int64_t row) {
            const T *__restrict pg = grad.data<T>() + row * n, *__restrict old = h.data<T>() + row * n,
                    *__restrict from = gates.data<T>() + row * 4 * n;
            T* __restrict to_x = dx.data<T>() + row * 3 * n, * __restrict to = dhidden.data<T>() + row * 3 * n, * __restrict to_h = dh.data<T>() + row * n;
#pragma omp simd
            for (int64_t k = 0; k < n; k++) {
                T g = pg[k], r = from[k], z = from[n + k], m = from[2 * n + k], hn = from[3 * n + k];
                T dm = g * (1 - z) * (1 - m * m), dz = g * (old[k] - m) * z * (1 - z), dr = dm * hn * r * (1 - r);
                to_x[k] = dr, to_x[n + k] = dz, to_x[2 * n + k] = dm;
                to[k] = dr, to[n + k] = dz, to[2 * n + k] = dm * r;
                to_h[k] = g * z;
            }
        });
    });
    return std::vector<Tensor>{dx, dhidden, dh};
}

constexpr uint32_t of_gru = IN(2) | RESULT(1);
GRAD("_gru_cell", of_gru, of_gru, of_gru) {
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

// ---- cross entropy -------------------------------------------------------------------------------------------------

OP("_cross_entropy(Tensor input, Tensor target, int ignore_index, float smoothing=0) -> (Tensor loss, Tensor "
   "logsumexp)",
   FUNCTION,
   R"(The work behind fb.nn.functional.cross_entropy() for rows of scores and their classes.

Args:
    input: (N, C) scores.
    target: (N,) classes, int64.
    ignore_index: a class whose loss is 0.
    smoothing: the share of the target that is spread evenly over all classes.

Example:
    >>> fb._cross_entropy(fb.zeros(1, 2), fb.tensor([1]), -100).loss
    tensor([0.6931])
)") {
    OpScope scope("cross_entropy");
    Tensor input = contiguous(a.tensor(0)), target = contiguous(a.tensor(1));
    check(input.dim() == 2 && target.shape() == Dims{input.size(0)} && target.dtype() == DType::I64,
          "expected scores (N, C) and int64 classes (N,), got ", input.shape(), " and ", target.shape());
    int64_t rows = input.size(0), classes = input.size(1), ignored = a.integer(2);
    double smoothing = a.number(3);
    const int64_t* y = target.data<int64_t>();
    for (int64_t r = 0; r < rows; r++) {
        if (y[r] != ignored && (y[r] < 0 || y[r] >= classes))
            fail_index("target ", y[r], " is out of bounds for ", classes, " classes");
    }
    Tensor loss = empty({rows}, input.dtype()), logsumexp = empty({rows}, input.dtype());
    dispatch<float, double>(input.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_row(rows, classes * 8, [&](int64_t r) {
            const T* __restrict x = input.data<T>() + r * classes;
            T top = -std::numeric_limits<T>::infinity();
            double total = 0, scores = 0;
#pragma omp simd reduction(max : top)
            for (int64_t k = 0; k < classes; k++) top = x[k] > top ? x[k] : top;
            for (int64_t first = 0; first < classes; first += 1024) {
                int64_t last = std::min(classes, first + 1024);
                T part = 0;
#pragma omp simd reduction(+ : part)
                for (int64_t k = first; k < last; k++) part += vector_exp(x[k] - top);
                total += part;
                if (smoothing == 0) continue;
                T sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t k = first; k < last; k++) sum += x[k] - top;
                scores += sum;
            }
            T log_total = static_cast<T>(std::log(total));
            logsumexp.data<T>()[r] = top + log_total;
            if (y[r] == ignored) {
                loss.data<T>()[r] = 0;
                return;
            }
            T exact = log_total - (x[y[r]] - top);
            // Mean of the losses of all classes.
            T spread = smoothing == 0 ? T(0) : static_cast<T>(std::log(total) - scores / double(classes));
            loss.data<T>()[r] = smoothing == 0 ? exact : T(1 - smoothing) * exact + T(smoothing) * spread;
        });
    });
    return std::vector<Tensor>{loss, logsumexp};
}

OP("_cross_entropy_backward(Tensor grad, Tensor input, Tensor target, Tensor logsumexp, int ignore_index, "
   "float smoothing) -> Tensor",
   0) {
    Tensor grad = contiguous(a.tensor(0)), input = contiguous(a.tensor(1)), target = contiguous(a.tensor(2)),
           lse = contiguous(a.tensor(3));
    int64_t rows = input.size(0), classes = input.size(1), ignored = a.integer(4);
    double smoothing = a.number(5);
    const int64_t* y = target.data<int64_t>();
    Tensor out = empty(input.shape(), input.dtype());
    dispatch<float, double>(input.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_row(rows, classes * 8, [&](int64_t r) {
            const T* __restrict x = input.data<T>() + r * classes;
            T* __restrict to = out.data<T>() + r * classes;
            if (y[r] == ignored) {
                std::fill_n(to, classes, T(0));
                return;
            }
            T g = grad.data<T>()[r], shift = lse.data<T>()[r], share = T(smoothing / double(classes));
#pragma omp simd
            for (int64_t k = 0; k < classes; k++) to[k] = g * (vector_exp(x[k] - shift) - share);
            check(y[r] >= 0 && y[r] < classes, "classes were changed between the loss and its gradient");
            to[y[r]] -= g * T(1 - smoothing);
        });
    });
    return out;
}
GRAD("_cross_entropy", IN(0) | IN(1) | RESULT(1)) {
    if (!grad_enabled() && !c.has(1)) {
        c.set(0, call<"_cross_entropy_backward">(c.g(0), c.in(0), c.in(1), c.out(1), c.integer(2), c.number(3)));
        return;
    }
    Var x = c.in(0), weights = call<"softmax">(x, 1), ignored = c.in(1) == Var(Scalar(c.integer(2)));
    Var g = unsqueeze(masked_fill(c.g(0), ignored, 0), 1);
    Var index = unsqueeze(masked_fill(c.in(1), ignored, 0), 1);
    double smoothing = c.number(3);
    Var slope = g * (smoothing == 0 ? weights : weights - Var(smoothing / double(c.shape(0)[1])));
    slope = scatter_add(slope, 1, index, g * (smoothing - 1));
    c.set(0, c.has(1) ? slope + unsqueeze(c.g(1), 1) * weights : slope);
}

}  // namespace fb
