// softmax, log_softmax, their gradients and log-sum-exp: the maximum first, then exponentials of the differences from
// it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/around_dim.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/reduce.h"
#include "backend/cpu/vector_exp.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t tile = 128;        // columns at a time
constexpr int64_t wide_tile = 1024;  // for short columns
constexpr int64_t gradient_tile = 256;
constexpr int64_t block = 1024;
constexpr int64_t short_row = 24;

// NaN is not checked here: it reappears through the sum.
template <class T>
T largest(const T* __restrict x, int64_t n) {
    constexpr int64_t width = 256 / static_cast<int64_t>(sizeof(T));
    T top = -std::numeric_limits<T>::infinity();
    int64_t i = 0;
    if (n >= width) {
        alignas(64) T lanes[width];
        for (int64_t j = 0; j < width; j++) lanes[j] = x[j];
        for (i = width; i + width <= n; i += width) {
#pragma omp simd
            for (int64_t j = 0; j < width; j++) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
        }
        for (int64_t left = width; left > 8; left /= 2) {
#pragma omp simd
            for (int64_t j = 0; j < left / 2; j++)
                lanes[j] = lanes[j + left / 2] > lanes[j] ? lanes[j + left / 2] : lanes[j];
        }
        for (int64_t j = 0; j < 8; j++) top = lanes[j] > top ? lanes[j] : top;
    }
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

// y = exp(x - top) unless y is null; returns the sum.
template <class T>
double exp_sum(const T* __restrict x, T* __restrict y, int64_t n, T top) {
    double total = 0;
    for (int64_t first = 0; first < n; first += block) {
        int64_t m = std::min(block, n - first);
        const T* __restrict from = x + first;
        T part = 0;
        if (y) {
            T* __restrict to = y + first;
#pragma omp simd reduction(+ : part)
            for (int64_t i = 0; i < m; i++) {
                T e = vector_exp(from[i] - top);
                to[i] = e;
                part += e;
            }
        } else {
#pragma omp simd reduction(+ : part)
            for (int64_t i = 0; i < m; i++) part += vector_exp(from[i] - top);
        }
        total += part;
    }
    return total;
}

template <class T>
void softmax_row(const T* __restrict x, T* __restrict y, int64_t n, bool logarithm) {
    T top = largest(x, n);
    double total = exp_sum<T>(x, logarithm ? nullptr : y, n, top);
    if (logarithm) {
        T shift = static_cast<T>(std::log(total));
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - top) - shift;
    } else {
        T scale = static_cast<T>(1 / total);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] *= scale;
    }
}

// Adjacent columns together; rows are `stride` elements apart.
template <class T>
void softmax_columns(const T* x, T* y, int64_t n, int64_t stride, int64_t cols, bool logarithm) {
    alignas(64) T top[wide_tile], total[wide_tile];
    for (int64_t j = 0; j < cols; j++) {
        top[j] = -std::numeric_limits<T>::infinity();
        total[j] = 0;
    }
    for (int64_t r = 0; r < n; r++) {
        const T* __restrict from = x + r * stride;
#pragma omp simd
        for (int64_t j = 0; j < cols; j++) top[j] = from[j] > top[j] ? from[j] : top[j];
    }
    for (int64_t r = 0; r < n; r++) {
        const T* __restrict from = x + r * stride;
        T* __restrict to = y + r * stride;
        if (logarithm) {
#pragma omp simd
            for (int64_t j = 0; j < cols; j++) total[j] += vector_exp(from[j] - top[j]);
        } else {
#pragma omp simd
            for (int64_t j = 0; j < cols; j++) {
                T e = vector_exp(from[j] - top[j]);
                to[j] = e;
                total[j] += e;
            }
        }
    }
    for (int64_t j = 0; j < cols; j++) total[j] = logarithm ? std::log(total[j]) : 1 / total[j];
    for (int64_t r = 0; r < n; r++) {
        const T* __restrict from = x + r * stride;
        T* __restrict to = y + r * stride;
        if (logarithm) {
#pragma omp simd
            for (int64_t j = 0; j < cols; j++) to[j] = (from[j] - top[j]) - total[j];
        } else {
#pragma omp simd
            for (int64_t j = 0; j < cols; j++) to[j] *= total[j];
        }
    }
}

// Many short rows: transposed into columns in a small buffer.
template <class T>
void softmax_short(const T* x, T* y, int64_t rows, int64_t n, bool logarithm) {
    alignas(64) T columns[short_row * tile];
    for (int64_t first = 0; first < rows; first += tile) {
        int64_t m = std::min(tile, rows - first);
        const T* from = x + first * n;
        T* to = y + first * n;
        for (int64_t r = 0; r < m; r++) {
            for (int64_t i = 0; i < n; i++) columns[i * tile + r] = from[r * n + i];
        }
        softmax_columns<T>(columns, columns, n, tile, m, logarithm);
        for (int64_t r = 0; r < m; r++) {
            for (int64_t i = 0; i < n; i++) to[r * n + i] = columns[i * tile + r];
        }
    }
}

template <class T>
void forward(const T* x, T* y, const AroundDim& s, bool logarithm) {
    constexpr int64_t cost = 8;
    if (s.inner > 1) {
        int64_t width = std::clamp<int64_t>(65536 / s.size, tile, wide_tile);
        each_column_tile(s, width, cost, [&](int64_t at, int64_t cols) {
            softmax_columns<T>(x + at, y + at, s.size, s.inner, cols, logarithm);
        });
        return;
    }
    parallel_for(s.outer, std::max<int64_t>(1, parallel_grain / (cost * s.size)), [&](int64_t begin, int64_t end) {
        if (s.size < short_row && end - begin >= 8) {
            softmax_short<T>(x + begin * s.size, y + begin * s.size, end - begin, s.size, logarithm);
            return;
        }
        for (int64_t r = begin; r < end; r++) softmax_row<T>(x + r * s.size, y + r * s.size, s.size, logarithm);
    });
}

// ---- gradients ------------------------------------------------------------------------------------------------------

template <class T, bool logarithm>
void backward_row(const T* __restrict g, const T* __restrict y, T* __restrict out, int64_t n) {
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
void backward_columns(const T* g, const T* y, T* out, int64_t n, int64_t stride, int64_t cols) {
    alignas(64) T sum[gradient_tile];
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

template <class T, bool logarithm>
void backward(const T* g, const T* y, T* out, const AroundDim& s) {
    each_column_tile(s, gradient_tile, logarithm ? 4 : 2, [&](int64_t at, int64_t cols) {
        if (s.inner == 1) backward_row<T, logarithm>(g + at, y + at, out + at, s.size);
        else backward_columns<T, logarithm>(g + at, y + at, out + at, s.size, s.inner, cols);
    });
}

template <class T>
void backward(const T* g, const T* y, T* out, const AroundDim& s, bool logarithm) {
    if (logarithm) backward<T, true>(g, y, out, s);
    else backward<T, false>(g, y, out, s);
}

// ---- log-sum-exp as a reduction -------------------------------------------------------------------------------------

struct Peak {
    double top, sum;  // Σ exp = sum · exp(top)
};

inline void join(Peak& a, double top, double sum) {
    if (sum == 0) return;
    if (a.sum == 0) a = {top, sum};
    else if (top <= a.top) a.sum += sum * std::exp(top - a.top);
    else a = {top, sum + a.sum * std::exp(a.top - top)};
}

template <class T>
struct LogSumExp {
    static void init(char* acc, int64_t n) {
        for (int64_t i = 0; i < n; i++) reinterpret_cast<Peak*>(acc)[i] = {0, 0};
    }
    static void row(char* acc, const char* p, int64_t n) {
        const T* x = reinterpret_cast<const T*>(p);
        T top = largest(x, n);
        if (!std::isfinite(top)) top = 0;
        join(*reinterpret_cast<Peak*>(acc), top, exp_sum<T>(x, nullptr, n, top));
    }
    static void rows(char* acc, const char* p, int64_t stride, int64_t rows, int64_t cols) {
        alignas(64) T top[tile], sum[tile];
        Peak* a = reinterpret_cast<Peak*>(acc);
        for (int64_t first = 0; first < cols; first += tile) {
            int64_t n = std::min(tile, cols - first);
            for (int64_t j = 0; j < n; j++) {
                top[j] = -std::numeric_limits<T>::infinity();
                sum[j] = 0;
            }
            for (int64_t r = 0; r < rows; r++) {
                const T* __restrict x = reinterpret_cast<const T*>(p + r * stride) + first;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) top[j] = x[j] > top[j] ? x[j] : top[j];
            }
            for (int64_t j = 0; j < n; j++) top[j] = std::isfinite(top[j]) ? top[j] : T(0);
            for (int64_t r = 0; r < rows; r++) {
                const T* __restrict x = reinterpret_cast<const T*>(p + r * stride) + first;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) sum[j] += vector_exp(x[j] - top[j]);
            }
            for (int64_t j = 0; j < n; j++) join(a[first + j], top[j], sum[j]);
        }
    }
    static void merge(char* acc, const char* other, int64_t n) {
        const Peak* b = reinterpret_cast<const Peak*>(other);
        for (int64_t i = 0; i < n; i++) join(reinterpret_cast<Peak*>(acc)[i], b[i].top, b[i].sum);
    }
    static void finish(char* const* out, const char* acc, int64_t n, const void*) {
        const Peak* a = reinterpret_cast<const Peak*>(acc);
        for (int64_t i = 0; i < n; i++) reinterpret_cast<T*>(out[0])[i] = static_cast<T>(a[i].top + std::log(a[i].sum));
    }
};

}  // namespace

void softmax(const Tensor& in, const Tensor& out, int64_t dim, bool logarithm) {
    if (in.numel() == 0) return;
    AroundDim s = around(in, dim);
    if (!is_half(in.dtype())) {
        dispatch<float, double>(in.dtype(), "a floating point dtype", [&](auto tag) {
            using T = typename decltype(tag)::type;
            forward<T>(in.data<T>(), out.data<T>(), s, logarithm);
        });
        return;
    }
    // Half types: converted to float a slab at a time.
    int64_t slab = s.size * s.inner, item = in.itemsize();
    parallel_for(s.outer, std::max<int64_t>(1, parallel_grain / (8 * slab)), [&](int64_t begin, int64_t end) {
        std::vector<float> x(static_cast<size_t>(slab)), y(static_cast<size_t>(slab));
        for (int64_t r = begin; r < end; r++) {
            copy_strided(reinterpret_cast<char*>(x.data()), DType::F32, 4, in.raw() + r * slab * item, in.dtype(), item,
                         slab);
            forward<float>(x.data(), y.data(), {1, s.size, s.inner}, logarithm);
            copy_strided(out.raw() + r * slab * item, in.dtype(), item, reinterpret_cast<char*>(y.data()), DType::F32,
                         4, slab);
        }
    });
}

void softmax_backward(const Tensor& g, const Tensor& y, const Tensor& out, int64_t dim, bool logarithm) {
    if (y.numel() == 0) return;
    AroundDim s = around(y, dim);
    if (!is_half(y.dtype())) {
        dispatch<float, double>(y.dtype(), "a floating point dtype", [&](auto tag) {
            using T = typename decltype(tag)::type;
            backward<T>(g.data<T>(), y.data<T>(), out.data<T>(), s, logarithm);
        });
        return;
    }
    // Half types: converted to float a slab at a time.
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
            backward<float>(a.data(), b.data(), to.data(), {1, s.size, s.inner}, logarithm);
            copy_strided(out.raw() + r * slab * item, half, item, reinterpret_cast<char*>(to.data()), DType::F32, 4,
                         slab);
        }
    });
}

ReduceKernel logsumexp_kernel(DType d) {
    return dispatch<float, double>(compute_dtype(d), "a floating point dtype", [](auto tag) {
        using T = typename decltype(tag)::type;
        using L = LogSumExp<T>;
        return ReduceKernel{dtype_of<T>(), dtype_of<T>(), sizeof(Peak), 1,        L::init,
                            L::row,        L::rows,       L::merge,     L::finish};
    });
}

}  // namespace fb::cpu
