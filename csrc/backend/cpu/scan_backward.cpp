// Linear recurrences and the backward pass of softmax. Sums run in double for float32.
#include <algorithm>
#include <vector>

#include "backend/cpu/loops.h"
#include "backend/cpu/sandwich.h"
#include "backend/cpu/vector_exp.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t tile = 256;  // columns side by side
constexpr int64_t block = 1024;

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, std::conditional_t<std::is_same_v<T, c64>, c128, T>>;

// `cols` chains side by side, the elements of one `stride` apart.
template <class T>
void chains(const T* x, const T* f, T* y, int64_t n, int64_t stride, int64_t cols, bool reverse) {
    Wide<T> run[tile];
    for (int64_t j = 0; j < cols; j++) run[j] = Wide<T>(0);
    for (int64_t k = 0; k < n; k++) {
        int64_t i = reverse ? n - 1 - k : k;
        const T* __restrict from = x + i * stride;
        T* __restrict to = y + i * stride;
        if (f && k) {
            const T* __restrict factor = f + (reverse ? i + 1 : i) * stride;
            for (int64_t j = 0; j < cols; j++) run[j] = Wide<T>(from[j]) + Wide<T>(factor[j]) * run[j];
        } else {
            for (int64_t j = 0; j < cols; j++) run[j] += Wide<T>(from[j]);
        }
        for (int64_t j = 0; j < cols; j++) to[j] = static_cast<T>(run[j]);
    }
}

// `rows` chains of n elements each, one after the other; several at once, since each waits for its last sum.
constexpr int64_t together = 8;
template <class T, int64_t rows>
void rows_at_once(const T* __restrict x, const T* __restrict f, T* __restrict y, int64_t n, bool reverse) {
    Wide<T> run[rows] = {};
    int64_t step = reverse ? -1 : 1, i = reverse ? n - 1 : 0, behind = reverse ? 1 : 0;
    for (int64_t k = 0; k < n; k++, i += step) {
        bool factors = f && k;
        for (int64_t j = 0; j < rows; j++) {
            if (factors) run[j] *= Wide<T>(f[j * n + i + behind]);
            run[j] += Wide<T>(x[j * n + i]);
            y[j * n + i] = static_cast<T>(run[j]);
        }
    }
}
template <class T>
void row_chains(const T* x, const T* f, T* y, int64_t count, int64_t n, bool reverse) {
    int64_t groups = (count + together - 1) / together;
    parallel_for(groups, std::max<int64_t>(1, parallel_grain / (4 * n * together)), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin * together; row < std::min(count, end * together); row += together) {
            const T *from = x + row * n, *factor = f ? f + row * n : nullptr;
            if (count - row >= together) {
                rows_at_once<T, together>(from, factor, y + row * n, n, reverse);
                continue;
            }
            for (int64_t j = 0; j < count - row; j++)
                rows_at_once<T, 1>(from + j * n, factor ? factor + j * n : nullptr, y + (row + j) * n, n, reverse);
        }
    });
}

// ---- softmax -------------------------------------------------------------------------------------------------------

template <class T, bool logarithm>
void soft_row(const T* __restrict g, const T* __restrict y, T* __restrict out, int64_t n) {
    double total = 0;
    for (int64_t first = 0; first < n; first += block) {
        int64_t end = std::min(n, first + block);
        T part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = first; i < end; i++) part += logarithm ? g[i] : g[i] * y[i];
        total += part;
    }
    T sum = static_cast<T>(total);
    if constexpr (logarithm) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = g[i] - vector_exp(y[i]) * sum;
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = y[i] * (g[i] - sum);
    }
}

template <class T, bool logarithm>
void soft_columns(const T* g, const T* y, T* out, int64_t n, int64_t stride, int64_t cols) {
    alignas(64) T sum[tile];
    for (int64_t j = 0; j < cols; j++) sum[j] = 0;
    for (int64_t i = 0; i < n; i++) {
        const T* __restrict a = g + i * stride, * __restrict b = y + i * stride;
#pragma omp simd
        for (int64_t j = 0; j < cols; j++) sum[j] += logarithm ? a[j] : a[j] * b[j];
    }
    for (int64_t i = 0; i < n; i++) {
        const T* __restrict a = g + i * stride, * __restrict b = y + i * stride;
        T* __restrict to = out + i * stride;
#pragma omp simd
        for (int64_t j = 0; j < cols; j++)
            to[j] = logarithm ? a[j] - vector_exp(b[j]) * sum[j] : b[j] * (a[j] - sum[j]);
    }
}

// Calls f(place of the first element, columns) for every tile of columns.
template <class F>
void each_tile(const Sandwich& s, int64_t cost, F f) {
    int64_t per_row = (s.inner + tile - 1) / tile;
    int64_t work = std::max<int64_t>(1, cost * s.size * std::min(tile, s.inner));
    parallel_for(s.outer * per_row, std::max<int64_t>(1, parallel_grain / work), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; k++) {
            int64_t first = k % per_row * tile;
            f(k / per_row * s.size * s.inner + first, std::min(tile, s.inner - first));
        }
    });
}

template <class T, bool logarithm>
void soft(const T* g, const T* y, T* out, const Sandwich& s) {
    each_tile(s, logarithm ? 4 : 2, [&](int64_t at, int64_t cols) {
        if (s.inner == 1) soft_row<T, logarithm>(g + at, y + at, out + at, s.size);
        else soft_columns<T, logarithm>(g + at, y + at, out + at, s.size, s.inner, cols);
    });
}

template <class T>
void soft(const T* g, const T* y, T* out, const Sandwich& s, bool logarithm) {
    if (logarithm) soft<T, true>(g, y, out, s);
    else soft<T, false>(g, y, out, s);
}

}  // namespace

void linear_scan(const Tensor& in, const Tensor& factor, const Tensor& out, int64_t dim, bool reverse) {
    if (in.numel() == 0) return;
    Sandwich s = around(in, dim);
    dispatch<float, double, c64, c128>(in.dtype(), "a floating point or complex dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T *x = in.data<T>(), *f = factor ? factor.data<T>() : nullptr;
        T* y = out.data<T>();
        if (s.inner == 1) return row_chains<T>(x, f, y, s.outer, s.size, reverse);
        each_tile(s, 4, [&](int64_t at, int64_t cols) {
            chains<T>(x + at, f ? f + at : nullptr, y + at, s.size, s.inner, cols, reverse);
        });
    });
}

void softmax_backward(const Tensor& g, const Tensor& y, const Tensor& out, int64_t dim, bool logarithm) {
    if (y.numel() == 0) return;
    Sandwich s = around(y, dim);
    if (!is_half(y.dtype())) {
        dispatch<float, double>(y.dtype(), "a floating point dtype", [&](auto tag) {
            using T = typename decltype(tag)::type;
            soft<T>(g.data<T>(), y.data<T>(), out.data<T>(), s, logarithm);
        });
        return;
    }
    // Half types: a slab at a time through float.
    int64_t slab = s.size * s.inner, item = y.itemsize();
    DType half = y.dtype();
    parallel_for(s.outer, std::max<int64_t>(1, parallel_grain / (8 * slab)), [&](int64_t begin, int64_t end) {
        std::vector<float> a(static_cast<size_t>(slab)), b(a), to(a);
        auto load = [&](std::vector<float>& v, const Tensor& t, int64_t at) {
            copy_strided(reinterpret_cast<char*>(v.data()), DType::F32, 4, t.raw() + at * item, half, item, slab);
        };
        for (int64_t r = begin; r < end; r++) {
            load(a, g, r * slab);
            load(b, y, r * slab);
            soft<float>(a.data(), b.data(), to.data(), {1, s.size, s.inner}, logarithm);
            copy_strided(out.raw() + r * slab * item, half, item, reinterpret_cast<char*>(to.data()), DType::F32, 4,
                         slab);
        }
    });
}

}  // namespace fb::cpu
