// Optimizer steps: a pass over all parameters of a group, as rows of flat memory.
#include "device/optimizer.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/halves.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

using namespace device;

// Runs kernel(data, n, row) over all rows, split into pieces across the threads.
template <class F>
void run_rows(const OptimizerRows& rows, DType dtype, F kernel) {
    std::vector<int64_t> first{0};
    std::vector<const OptimizerRow*> mine;
    for (const OptimizerRow& row : rows) {
        if (row.columns[0].dtype() != dtype) continue;
        mine.push_back(&row);
        first.push_back(first.back() + row.numel);
    }
    parallel_for(first.back(), parallel_grain / 4, [&](int64_t begin, int64_t end) {
        size_t r = static_cast<size_t>(std::upper_bound(first.begin(), first.end(), begin) - first.begin()) - 1;
        for (; begin < end; r++) {
            int64_t stop = std::min(end, first[r + 1]);
            if (stop == begin) continue;
            void* data[most_optimizer_columns] = {};
            for (int k = 0; k < most_optimizer_columns; k++) {
                const Tensor& t = mine[r]->columns[k];
                if (t.defined()) data[k] = t.raw() + (begin - first[r]) * t.itemsize();
            }
            kernel(data, stop - begin, *mine[r]);
            begin = stop;
        }
    });
}

// Converts half types to pieces of floats. The second column, the gradient, is only read.
template <class H, class F>
void run_halves(const OptimizerRows& rows, F kernel) {
    constexpr int64_t piece = 1024;
    run_rows(rows, dtype_of<H>(), [&](void** data, int64_t n, const OptimizerRow& row) {
        std::vector<float> floats(static_cast<size_t>(most_optimizer_columns * piece));
        for (int64_t done = 0; done < n; done += piece) {
            int64_t some = std::min(piece, n - done);
            void* used[most_optimizer_columns] = {};
            for (int k = 0; k < most_optimizer_columns; k++) {
                if (!data[k]) continue;
                used[k] = floats.data() + k * piece;
                widen(static_cast<float*>(used[k]), static_cast<const H*>(data[k]) + done, some);
            }
            kernel(TypeTag<float>{}, used, some, row);
            for (int k = 0; k < most_optimizer_columns; k++) {
                if (data[k] && k != 1) narrow_to(static_cast<H*>(data[k]) + done, static_cast<float*>(used[k]), some);
            }
        }
    });
}

// For all precisions.
template <class F>
void run_all(const OptimizerRows& rows, F kernel) {
    run_halves<Half>(rows, kernel);
    run_halves<BFloat16>(rows, kernel);
    run_rows(rows, DType::F32,
             [&](void** data, int64_t n, const OptimizerRow& row) { kernel(TypeTag<float>{}, data, n, row); });
    run_rows(rows, DType::F64,
             [&](void** data, int64_t n, const OptimizerRow& row) { kernel(TypeTag<double>{}, data, n, row); });
}

// Options that are the same for every element become compile-time constants of the loop.
template <class F>
void with_flags(F f) {
    f();
}
template <class F, class... Rest>
void with_flags(F f, bool flag, Rest... rest) {
    if (flag) with_flags([&](auto... more) { f(std::true_type{}, more...); }, rest...);
    else with_flags([&](auto... more) { f(std::false_type{}, more...); }, rest...);
}

void sgd(const OptimizerRows& rows, const SgdStep& step) {
    with_flags(
        [&](auto with_buffer, auto fresh, auto ahead) {
            run_all(rows, [&](auto tag, void** data, int64_t n, const OptimizerRow&) {
                using T = typename decltype(tag)::type;
                T* __restrict p = static_cast<T*>(data[0]);
                const T* __restrict g = static_cast<const T*>(data[1]);
                T* __restrict b = static_cast<T*>(data[2]);
                T s = T(step.sign), wd = T(step.decay), m = T(step.momentum), keep = T(1 - step.dampening),
                  rate = T(step.lr);
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
        step.averaging, step.first, step.nesterov);
}

void rmsprop(const OptimizerRows& rows, const RmspropStep& step) {
    with_flags(
        [&](auto with_mean, auto with_buffer) {
            run_all(rows, [&](auto tag, void** data, int64_t n, const OptimizerRow&) {
                using T = typename decltype(tag)::type;
                T* __restrict p = static_cast<T*>(data[0]);
                const T* __restrict g = static_cast<const T*>(data[1]);
                T* __restrict v = static_cast<T*>(data[2]);
                T* __restrict mean = static_cast<T*>(data[3]);
                T* __restrict b = static_cast<T*>(data[with_mean ? 4 : 3]);
                T s = T(step.sign), wd = T(step.decay), keep = T(step.alpha), w = T(1 - step.alpha), e = T(step.eps),
                  m = T(step.momentum), rate = T(step.lr);
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
        step.centered, step.averaging);
}

void adagrad(const OptimizerRows& rows, const AdagradStep& step) {
    run_all(rows, [&](auto tag, void** data, int64_t n, const OptimizerRow& row) {
        using T = typename decltype(tag)::type;
        T* __restrict p = static_cast<T*>(data[0]);
        const T* __restrict g = static_cast<const T*>(data[1]);
        T* __restrict total = static_cast<T*>(data[2]);
        T s = T(step.sign), wd = T(step.decay), e = T(step.eps), rate = T(row.rate);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            T d = s * g[i] + wd * p[i];
            T v = total[i] + d * d;
            total[i] = v;
            p[i] -= rate * (d / (std::sqrt(v) + e));
        }
    });
}

void adadelta(const OptimizerRows& rows, const AdadeltaStep& step) {
    run_all(rows, [&](auto tag, void** data, int64_t n, const OptimizerRow&) {
        using T = typename decltype(tag)::type;
        T* __restrict p = static_cast<T*>(data[0]);
        const T* __restrict g = static_cast<const T*>(data[1]);
        T* __restrict v = static_cast<T*>(data[2]);
        T* __restrict u = static_cast<T*>(data[3]);
        T s = T(step.sign), wd = T(step.decay), keep = T(step.rho), w = T(1 - step.rho), e = T(step.eps),
          rate = T(step.lr);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            T d = s * g[i] + wd * p[i];
            T vi = keep * v[i] + w * d * d;
            v[i] = vi;
            T delta = std::sqrt(u[i] + e) / std::sqrt(vi + e) * d;
            u[i] = keep * u[i] + w * delta * delta;
            p[i] -= rate * delta;
        }
    });
}

void adam(const OptimizerRows& rows, const AdamStep& step) {
    with_flags(
        [&](auto keep_largest, auto with_gradient) {
            run_all(rows, [&](auto tag, void** data, int64_t n, const OptimizerRow& row) {
                using T = typename decltype(tag)::type;
                T* __restrict p = static_cast<T*>(data[0]);
                const T* __restrict g = static_cast<const T*>(data[1]);
                T* __restrict m = static_cast<T*>(data[2]);
                T* __restrict v = static_cast<T*>(data[3]);
                T* __restrict top = static_cast<T*>(data[4]);
                T s = T(step.sign), wd = T(step.decay), shrink = T(step.shrink);
                T w1 = T(1 - step.beta1), b2 = T(step.beta2), w2 = T(1 - step.beta2);
                T size = T(row.rate), more = T(row.grad_rate), r = T(row.root), e = T(row.eps);
#pragma omp simd
                for (int64_t i = 0; i < n; i++) {
                    T x = p[i];
                    T d = s * g[i] + wd * x;
                    T mi = m[i] + w1 * (d - m[i]);
                    T vi = b2 * v[i] + w2 * d * d;
                    m[i] = mi;
                    v[i] = vi;
                    if constexpr (keep_largest) {
                        // NaN is kept.
                        vi = vi > top[i] || vi != vi ? vi : top[i];
                        top[i] = vi;
                    }
                    T way = size * mi;
                    if constexpr (with_gradient) way += more * d;
                    p[i] = x * shrink - way / (r == 0 ? e : std::sqrt(vi) * r + e);
                }
            });
        },
        step.amsgrad, step.with_gradient);
}

void adamax(const OptimizerRows& rows, const AdamaxStep& step) {
    run_all(rows, [&](auto tag, void** data, int64_t n, const OptimizerRow& row) {
        using T = typename decltype(tag)::type;
        T* __restrict p = static_cast<T*>(data[0]);
        const T* __restrict g = static_cast<const T*>(data[1]);
        T* __restrict m = static_cast<T*>(data[2]);
        T* __restrict u = static_cast<T*>(data[3]);
        T s = T(step.sign), wd = T(step.decay), w1 = T(1 - step.beta1), b2 = T(step.beta2), e = T(step.eps),
          size = T(row.rate);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            T d = s * g[i] + wd * p[i];
            T mi = m[i] + w1 * (d - m[i]), old = u[i] * b2, now = std::abs(d) + e;
            // NaN is kept.
            T top = old > now || old != old ? old : now;
            m[i] = mi;
            u[i] = top;
            p[i] -= size * (mi / top);
        }
    });
}

const Provide<OptimizerSteps> provided(
    DeviceType::CPU,
    {.sgd = sgd, .rmsprop = rmsprop, .adagrad = adagrad, .adadelta = adadelta, .adam = adam, .adamax = adamax});

}  // namespace
}  // namespace fb::cpu
