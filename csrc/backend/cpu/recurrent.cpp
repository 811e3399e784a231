// Recurrent layers: the steps of LSTM and GRU, forward and backward, on rows of the batch.
#include "device/recurrent.h"

#include <cmath>

#include "backend/cpu/curves.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/vector_exp.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

// Calls f(row) for all rows of a state.
template <class F>
void each_row(const Tensor& state, F f) {
    int64_t grain = std::max<int64_t>(1, parallel_grain / 64 / std::max<int64_t>(1, state.size(1)));
    parallel_for(state.size(0), grain, [&](int64_t r, int64_t end) {
        for (; r < end; r++) f(r);
    });
}

// ---- LSTM -----------------------------------------------------------------------------------------------------------

// The part of a step after the product: gates are overwritten by their activations.
template <class T>
void lstm_step(const Tensor& gates, const Tensor& before, const Tensor& cells, const Tensor& hidden) {
    int64_t n = before.size(1);
    each_row(before, [&](int64_t r) {
        T* __restrict i = gates.data<T>() + r * 4 * n;
        T* __restrict f = i + n;
        T* __restrict g = f + n;
        T* __restrict o = g + n;
        const T* __restrict old = before.data<T>() + r * n;
        T* __restrict cell = cells.data<T>() + r * n;
        T* __restrict h = hidden.data<T>() + r * n;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            i[k] = curve::sigmoid(i[k]), f[k] = curve::sigmoid(f[k]);
            g[k] = curve::tanh(g[k]), o[k] = curve::sigmoid(o[k]);
            cell[k] = f[k] * old[k] + i[k] * g[k];
            h[k] = o[k] * curve::tanh(cell[k]);
        }
    });
}

// Gradients of the gates before activation; dc becomes the gradient of the cell state before the step.
template <class T>
void lstm_step_back(const Tensor& grad, const Tensor& dh, const Tensor& dc, const Tensor& gates, const Tensor& cells,
                    const Tensor& before, const Tensor& slopes) {
    int64_t n = before.size(1);
    each_row(before, [&](int64_t r) {
        const T* __restrict from = gates.data<T>() + r * 4 * n;
        const T* __restrict g0 = grad.data<T>() + r * n;
        const T* __restrict g1 = dh.data<T>() + r * n;
        const T* __restrict now = cells.data<T>() + r * n;
        const T* __restrict old = before.data<T>() + r * n;
        T* __restrict to = slopes.data<T>() + r * 4 * n;
        T* __restrict d = dc.data<T>() + r * n;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            T i = from[k], f = from[n + k], g = from[2 * n + k], o = from[3 * n + k], t = curve::tanh(now[k]);
            T up = g0[k] + g1[k], cell = d[k] + up * o * (1 - t * t);
            to[k] = cell * g * i * (1 - i);
            to[n + k] = cell * old[k] * f * (1 - f);
            to[2 * n + k] = cell * i * (1 - g * g);
            to[3 * n + k] = up * t * o * (1 - o);
            d[k] = cell * f;
        }
    });
}

void lstm(const Tensor& gates, const Tensor& weight, const Tensor& h, const Tensor& c, bool reverse,
          const Tensor& output, const Tensor& cells) {
    int64_t steps = gates.size(0);
    Tensor state = h, cell = c;
    dispatch<float, double>(gates.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        RightFactor factor(transpose(weight, 0, 1));
        for (int64_t s = 0; s < steps; s++) {
            int64_t t = reverse ? steps - 1 - s : s;
            Tensor g = select(gates, 0, t), to_h = select(output, 0, t), to_c = select(cells, 0, t);
            factor.times(g, state, 1);
            lstm_step<T>(g, cell, to_c, to_h);
            state = to_h, cell = to_c;
        }
    });
}

void lstm_backward(const Tensor& grad, const Tensor& dh, const Tensor& dc, const Tensor& weight, const Tensor& c,
                   bool reverse, const Tensor& gates, const Tensor& cells, const Tensor& slopes) {
    int64_t steps = gates.size(0);
    dispatch<float, double>(gates.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        RightFactor factor(weight);
        for (int64_t s = steps - 1; s >= 0; s--) {
            int64_t t = reverse ? steps - 1 - s : s, before = reverse ? t + 1 : t - 1;
            Tensor slope = select(slopes, 0, t);
            lstm_step_back<T>(select(grad, 0, t), dh, dc, select(gates, 0, t), select(cells, 0, t),
                              s ? select(cells, 0, before) : c, slope);
            factor.times(dh, slope, 0);
        }
    });
}

// ---- GRU ------------------------------------------------------------------------------------------------------------

// From the contributions of input and state to the gates r, z, n: the new state, and r, z, n and the state's
// contribution to n.
template <class T>
void gru_step(const Tensor& inputs, const Tensor& states, const Tensor& before, const Tensor& saved,
              const Tensor& next) {
    int64_t n = before.size(1);
    each_row(before, [&](int64_t row) {
        const T* __restrict x = inputs.data<T>() + row * 3 * n;
        const T* __restrict h = states.data<T>() + row * 3 * n;
        const T* __restrict old = before.data<T>() + row * n;
        T* __restrict to = saved.data<T>() + row * 4 * n;
        T* __restrict to_h = next.data<T>() + row * n;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            T r = curve::sigmoid(x[k] + h[k]), z = curve::sigmoid(x[n + k] + h[n + k]), part = h[2 * n + k];
            T m = curve::tanh(x[2 * n + k] + r * part);
            to[k] = r, to[n + k] = z, to[2 * n + k] = m, to[3 * n + k] = part;
            to_h[k] = m + z * (old[k] - m);
        }
    });
}

// Gradients of both contributions to the gates; dh becomes the part of the state's gradient that bypasses the gates.
template <class T>
void gru_step_back(const Tensor& grad, const Tensor& dh, const Tensor& saved, const Tensor& before, const Tensor& dx,
                   const Tensor& ds) {
    int64_t n = before.size(1);
    each_row(before, [&](int64_t row) {
        const T* __restrict from = saved.data<T>() + row * 4 * n;
        const T* __restrict g = grad.data<T>() + row * n;
        const T* __restrict old = before.data<T>() + row * n;
        T* __restrict to_x = dx.data<T>() + row * 3 * n;
        T* __restrict to = ds.data<T>() + row * 3 * n;
        T* __restrict d = dh.data<T>() + row * n;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            T r = from[k], z = from[n + k], m = from[2 * n + k], part = from[3 * n + k], up = g[k] + d[k];
            T dm = up * (1 - z) * (1 - m * m), dz = up * (old[k] - m) * z * (1 - z), dr = dm * part * r * (1 - r);
            to_x[k] = dr, to_x[n + k] = dz, to_x[2 * n + k] = dm;
            to[k] = dr, to[n + k] = dz, to[2 * n + k] = dm * r;
            d[k] = up * z;
        }
    });
}

void gru(const Tensor& gates, const Tensor& weight, const Tensor& bias, const Tensor& h, bool reverse,
         const Tensor& output, const Tensor& saved) {
    int64_t steps = gates.size(0);
    Tensor state = h, part = empty({h.size(0), 3 * h.size(1)}, gates.dtype(), gates.device());
    dispatch<float, double>(gates.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        RightFactor factor(transpose(weight, 0, 1));
        for (int64_t s = 0; s < steps; s++) {
            int64_t t = reverse ? steps - 1 - s : s;
            Tensor next = select(output, 0, t);
            if (bias) copy(part, expand(bias, part.shape()));
            factor.times(part, state, bias ? 1 : 0);
            gru_step<T>(select(gates, 0, t), part, state, select(saved, 0, t), next);
            state = next;
        }
    });
}

void gru_backward(const Tensor& grad, const Tensor& dh, const Tensor& weight, const Tensor& h, bool reverse,
                  const Tensor& output, const Tensor& saved, const Tensor& dx, const Tensor& ds) {
    int64_t steps = saved.size(0);
    dispatch<float, double>(weight.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        RightFactor factor(weight);
        for (int64_t s = steps - 1; s >= 0; s--) {
            int64_t t = reverse ? steps - 1 - s : s, before = reverse ? t + 1 : t - 1;
            gru_step_back<T>(select(grad, 0, t), dh, select(saved, 0, t), s ? select(output, 0, before) : h,
                             select(dx, 0, t), select(ds, 0, t));
            factor.times(dh, select(ds, 0, t), 1);
        }
    });
}

// ---- one step -------------------------------------------------------------------------------------------------------

template <class T>
inline T sigmoid_of(T x) {
    return 1 / (1 + vector_exp(-x));
}
// A short series near zero, accurate enough and without cancellation.
template <class T>
inline T tanh_of(T x) {
    T y = std::abs(x), e = vector_exp(-2 * y), far = (1 - e) / (1 + e), q = x * x;
    T near = y * (1 + q * (T(-1.0 / 3) + q * (T(2.0 / 15) + q * (T(-17.0 / 315) + q * T(62.0 / 2835)))));
    T limit = sizeof(T) == 4 ? T(0.1) : T(0.004);
    return std::copysign(y < limit ? near : far, x);
}

// Calls f(row) for all rows.
template <class F>
void each_cell_row(int64_t rows, int64_t width, F f) {
    parallel_for(rows, std::max<int64_t>(1, parallel_grain / 8 / std::max<int64_t>(1, width)),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; r++) f(r);
                 });
}

void lstm_cell(const Tensor& x, const Tensor& hidden, const Tensor& c, const Tensor& h, const Tensor& next,
               const Tensor& gates) {
    int64_t n = c.size(1);
    dispatch<float, double>(x.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_cell_row(c.size(0), n * 8, [&](int64_t r) {
            const T* __restrict px = x.data<T>() + r * 4 * n;
            const T* __restrict ph = hidden.data<T>() + r * 4 * n;
            const T* __restrict pc = c.data<T>() + r * n;
            T* __restrict to_h = h.data<T>() + r * n;
            T* __restrict to_c = next.data<T>() + r * n;
            T* __restrict to = gates.data<T>() + r * 4 * n;
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
}

void lstm_cell_backward(const Tensor& gh, const Tensor& gc, const Tensor& c, const Tensor& next, const Tensor& gates,
                        const Tensor& dgates, const Tensor& dc) {
    int64_t n = c.size(1);
    dispatch<float, double>(c.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_cell_row(c.size(0), n * 8, [&](int64_t r) {
            const T* __restrict ph = gh.data<T>() + r * n;
            const T* __restrict pc = gc.data<T>() + r * n;
            const T* __restrict old = c.data<T>() + r * n;
            const T* __restrict now = next.data<T>() + r * n;
            const T* __restrict from = gates.data<T>() + r * 4 * n;
            T* __restrict to = dgates.data<T>() + r * 4 * n;
            T* __restrict to_c = dc.data<T>() + r * n;
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
}

void gru_cell(const Tensor& x, const Tensor& hidden, const Tensor& h, const Tensor& next, const Tensor& gates) {
    int64_t n = h.size(1);
    dispatch<float, double>(x.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_cell_row(h.size(0), n * 6, [&](int64_t row) {
            const T* __restrict px = x.data<T>() + row * 3 * n;
            const T* __restrict ph = hidden.data<T>() + row * 3 * n;
            const T* __restrict old = h.data<T>() + row * n;
            T* __restrict to_h = next.data<T>() + row * n;
            T* __restrict to = gates.data<T>() + row * 4 * n;
#pragma omp simd
            for (int64_t k = 0; k < n; k++) {
                T r = sigmoid_of(px[k] + ph[k]), z = sigmoid_of(px[n + k] + ph[n + k]), hn = ph[2 * n + k];
                T m = tanh_of(px[2 * n + k] + r * hn);
                to[k] = r, to[n + k] = z, to[2 * n + k] = m, to[3 * n + k] = hn;
                to_h[k] = m + z * (old[k] - m);
            }
        });
    });
}

void gru_cell_backward(const Tensor& grad, const Tensor& h, const Tensor& gates, const Tensor& dx,
                       const Tensor& dhidden, const Tensor& dh) {
    int64_t n = h.size(1);
    dispatch<float, double>(h.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_cell_row(h.size(0), n * 8, [&](int64_t row) {
            const T* __restrict pg = grad.data<T>() + row * n;
            const T* __restrict old = h.data<T>() + row * n;
            const T* __restrict from = gates.data<T>() + row * 4 * n;
            T* __restrict to_x = dx.data<T>() + row * 3 * n;
            T* __restrict to = dhidden.data<T>() + row * 3 * n;
            T* __restrict to_h = dh.data<T>() + row * n;
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
}

const device::Provide<device::Recurrent> provided(DeviceType::CPU, {.lstm = lstm,
                                                                    .lstm_backward = lstm_backward,
                                                                    .lstm_cell = lstm_cell,
                                                                    .lstm_cell_backward = lstm_cell_backward,
                                                                    .gru = gru,
                                                                    .gru_backward = gru_backward,
                                                                    .gru_cell = gru_cell,
                                                                    .gru_cell_backward = gru_cell_backward});

}  // namespace
}  // namespace fb::cpu
