// Kernels of normalization over rows. Half types are converted row by row.
#include <cmath>

#include "backend/cpu/halves.h"
#include "backend/cpu/norm.h"
#include "backend/cpu/norm_moments.h"

namespace fb::cpu {

static constexpr int64_t row_parts = 16;  // fixed places where sums over rows are split

void row_norm(const Tensor& output, const Tensor& means, const Tensor& rstds, const Tensor& input, const Tensor& weight,
              const Tensor& bias, int64_t size, double eps, bool centered) {
    if (output.numel() == 0) return;
    dispatch_floating(input.dtype(), [&](auto tag) {
        using S = typename decltype(tag)::type;
        using T = Computed<S>;
        const T* w = weight.defined() ? weight.data<T>() : nullptr;
        const T* b = bias.defined() ? bias.data<T>() : nullptr;
        parallel_for(input.numel() / size, grain_of(size), [&](int64_t begin, int64_t end) {
            Line<S> from(size), to(size);
            for (int64_t row = begin; row < end; row++) {
                const T* x = from.read(input.data<S>() + row * size);
                T* __restrict y = to.written(output.data<S>() + row * size);
                Moments all = moments_of(x, size);
                double mean = centered ? all.mean : 0;
                double square = all.spread / double(size) + (centered ? 0 : all.mean * all.mean);
                T r = T(1 / std::sqrt(square + eps)), shift = T(-mean) * r;
                if (centered) means.data<T>()[row] = T(mean);
                rstds.data<T>()[row] = r;
                if (w && b) {
#pragma omp simd
                    for (int64_t i = 0; i < size; i++) y[i] = (x[i] * r + shift) * w[i] + b[i];
                } else if (w) {
#pragma omp simd
                    for (int64_t i = 0; i < size; i++) y[i] = (x[i] * r + shift) * w[i];
                } else {
#pragma omp simd
                    for (int64_t i = 0; i < size; i++) y[i] = x[i] * r + shift;
                    for (int64_t i = 0; b && i < size; i++) y[i] += b[i];
                }
                to.store(output.data<S>() + row * size);
            }
        });
    });
}

void row_norm_gradient(const Tensor& gx, const Tensor& gw, const Tensor& gb, const Tensor& grad, const Tensor& input,
                       const Tensor& weight, const Tensor& means, const Tensor& rstds, int64_t size, bool centered) {
    dispatch_floating(input.dtype(), [&](auto tag) {
        using S = typename decltype(tag)::type;
        using T = Computed<S>;
        int64_t rows = size ? input.numel() / size : 0, parts = std::min(row_parts, std::max<int64_t>(rows, 1));
        bool sums = gw.defined() || gb.defined();
        std::vector<T> table(sums ? static_cast<size_t>(2 * parts * size) : 0, T(0));
        const T* w = weight.defined() ? weight.data<T>() : nullptr;
        auto one_part = [&](int64_t part) {
            T* __restrict to_w = table.data() + 2 * part * size, * __restrict to_b = to_w + size;
            Line<S> of_x(size), of_g(size), of_to(size);
            for (int64_t row = part * rows / parts; row < (part + 1) * rows / parts; row++) {
                const T *x = of_x.read(input.data<S>() + row * size), *g = of_g.read(grad.data<S>() + row * size);
                T m = centered ? means.data<T>()[row] : T(0), r = rstds.data<T>()[row];
                if (gx.defined()) {
                    T* __restrict to = of_to.written(gx.data<S>() + row * size);
                    T all = 0, cross = 0;
                    if (w) {
#pragma omp simd reduction(+ : all, cross)
                        for (int64_t i = 0; i < size; i++) {
                            all += g[i] * w[i];
                            cross += g[i] * w[i] * (x[i] - m);
                        }
                    } else {
#pragma omp simd reduction(+ : all, cross)
                        for (int64_t i = 0; i < size; i++) {
                            all += g[i];
                            cross += g[i] * (x[i] - m);
                        }
                    }
                    T shift = centered ? -all / T(size) * r : T(0), slope = -cross / T(size) * r * r * r;
                    if (w) {
#pragma omp simd
                        for (int64_t i = 0; i < size; i++) to[i] = g[i] * w[i] * r + (x[i] - m) * slope + shift;
                    } else {
#pragma omp simd
                        for (int64_t i = 0; i < size; i++) to[i] = g[i] * r + (x[i] - m) * slope + shift;
                    }
                    of_to.store(gx.data<S>() + row * size);
                }
                if (sums) {
#pragma omp simd
                    for (int64_t i = 0; i < size; i++) {
                        to_w[i] += g[i] * ((x[i] - m) * r);
                        to_b[i] += g[i];
                    }
                }
            }
        };
        parallel_for(parts, grain_of(rows / parts * size), [&](int64_t begin, int64_t end) {
            for (int64_t part = begin; part < end; part++) one_part(part);
        });
        for (int64_t i = 0; sums && i < size; i++) {
            double sum_w = 0, sum_b = 0;
            for (int64_t part = 0; part < parts; part++) {
                sum_w += double(table[static_cast<size_t>(2 * part * size + i)]);
                sum_b += double(table[static_cast<size_t>((2 * part + 1) * size + i)]);
            }
            if (gw.defined()) gw.data<T>()[i] = T(sum_w);
            if (gb.defined()) gb.data<T>()[i] = T(sum_b);
        }
    });
}

}  // namespace fb::cpu
