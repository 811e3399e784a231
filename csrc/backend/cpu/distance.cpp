// Distances between rows, and their derivatives.
#include "backend/cpu/distance.h"

#include <cmath>

#include "backend/cpu/gemm.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

template <class T>
T distance(const T* x, const T* y, int64_t n, double p) {
    T sum = 0;
    if (p == 0) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += x[i] != y[i] ? T(1) : T(0);
        return sum;
    }
    if (p == 1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += std::abs(x[i] - y[i]);
        return sum;
    }
    if (p == 2) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
        return std::sqrt(sum);
    }
    if (std::isinf(p)) {
        for (int64_t i = 0; i < n; i++) {
            T d = std::abs(x[i] - y[i]);
            if (d > sum || d != d) sum = d;
            if (sum != sum) break;
        }
        return sum;
    }
    for (int64_t i = 0; i < n; i++) sum += std::pow(std::abs(x[i] - y[i]), T(p));
    return std::pow(sum, T(1 / p));
}

template <class T>
void square_norms(T* to, const T* x, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; i++, x += cols) {
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < cols; j++) sum += x[j] * x[j];
        to[i] = sum;
    }
}

// |x|² + |y|² - 2 x·y: one matrix product, at the cost of cancellation for close points.
template <class T>
void euclid_by_product(const Tensor& out, const Tensor& x, const Tensor& y) {
    int64_t d = x.dim(), m = x.shape()[d - 2], n = y.shape()[d - 2], k = x.shape()[d - 1],
            batch = out.numel() / (m * n);
    gemm(out, x, transpose(y, -1, -2), Scalar(-2), Scalar(0));
    Tensor nx = empty({batch * m}, x.dtype(), x.device()), ny = empty({batch * n}, x.dtype(), x.device());
    square_norms(nx.data<T>(), x.data<T>(), batch * m, k);
    square_norms(ny.data<T>(), y.data<T>(), batch * n, k);
    parallel_for(batch * m, std::max<int64_t>(1, parallel_grain / n), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
            T* to = out.data<T>() + row * n;
            const T* b = ny.data<T>() + row / m * n;
            T a = nx.data<T>()[row];
#pragma omp simd
            for (int64_t j = 0; j < n; j++) {
                T square = to[j] + a + b[j];
                to[j] = std::sqrt(square < 0 ? T(0) : square);
            }
        }
    });
}

template <class T>
T sign_of(T d) {
    return static_cast<T>((d > 0) - (d < 0));
}

// to += g * derivative of the distance between x and y along each of n coordinates
template <class T>
void add_slopes(T* __restrict to, const T* __restrict x, const T* __restrict y, int64_t n, double p, T g, T distance) {
    if (p == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] += g * sign_of(x[i] - y[i]);
        return;
    }
    if (distance == 0) return;
    if (p == 2) {
        T scale = g / distance;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] += scale * (x[i] - y[i]);
        return;
    }
    if (std::isinf(p)) {
        for (int64_t i = 0; i < n; i++) {
            T d = x[i] - y[i];
            if (std::abs(d) == distance) to[i] += g * sign_of(d);
        }
        return;
    }
    T power = static_cast<T>(p - 1), scale = g / std::pow(distance, power);
    for (int64_t i = 0; i < n; i++) {
        T d = x[i] - y[i];
        if (d != 0) to[i] += scale * sign_of(d) * std::pow(std::abs(d), power);
    }
}

}  // namespace

void distances(const Tensor& out, const Tensor& x, const Tensor& y, double p, bool by_product) {
    int64_t m = x.size(-2), n = y.size(-2), k = x.size(-1);
    dispatch<float, double>(out.dtype(), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (by_product) return euclid_by_product<T>(out, x, y);
        int64_t rows = out.numel() / n;
        parallel_for(rows, std::max<int64_t>(1, parallel_grain / (n * k)), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; row++) {
                const T *a = x.data<T>() + row * k, *b = y.data<T>() + row / m * n * k;
                T* to = out.data<T>() + row * n;
                for (int64_t j = 0; j < n; j++) to[j] = distance(a, b + j * k, k, p);
            }
        });
    });
}

void pair_distances(const Tensor& out, const Tensor& x, double p) {
    int64_t n = x.shape()[0], k = x.shape()[1];
    dispatch<float, double>(x.dtype(), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* to = out.data<T>();
        const T* rows = x.data<T>();
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = i + 1; j < n; j++) *to++ = distance(rows + i * k, rows + j * k, k, p);
        }
    });
}

void distance_slopes(const Tensor& out, const Tensor& a, const Tensor& x, const Tensor& y, double p, const Tensor& d) {
    int64_t m = x.size(-2), n = y.size(-2), k = x.size(-1);
    dispatch<float, double>(out.dtype(), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        parallel_for(out.numel() / k, std::max<int64_t>(1, parallel_grain / (n * k)), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; row++) {
                const T *from = x.data<T>() + row * k, *others = y.data<T>() + row / m * n * k;
                for (int64_t j = 0; j < n; j++)
                    add_slopes<T>(out.data<T>() + row * k, from, others + j * k, k, p, a.data<T>()[row * n + j],
                                  d.data<T>()[row * n + j]);
            }
        });
    });
}

}  // namespace fb::cpu
