// Recursive triangular solves and LU, so that nearly all work is our own matrix product: faster than OpenBLAS at medium
// sizes, on several threads, and with the same bits for every thread count. Column-major, float and double.
#pragma once
#include <cmath>

#include "backend/cpu/gemm.h"
#include "base/parallel.h"

namespace fb::cpu::lapack {

// c -= a b, with a of m × k, b of k × n.
template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                      int64_t ldc) {
    if (m == 0 || n == 0 || k == 0) return;
    // The transposes are row-major: cᵀ -= bᵀ aᵀ.
    float_gemm({dtype_of<T>(), n, m, k, reinterpret_cast<const char*>(b), ldb, 1, reinterpret_cast<const char*>(a), lda,
                1, reinterpret_cast<char*>(c), ldc, Scalar(-1), Scalar(1)});
}

inline constexpr int64_t leaf = 16;

// Columns of B in groups of four, as independent work; i runs over rows that depend on row j.
template <class T>
void substitute(bool upper, bool unit, int64_t n, int64_t k, const T* a, int64_t lda, T* b, int64_t ldb) {
    for (int64_t c = 0; c < k; c += 4) {
        int64_t cols = std::min<int64_t>(4, k - c);
        for (int64_t step = 0; step < n; step++) {
            int64_t j = upper ? n - 1 - step : step, first = upper ? 0 : j + 1, last = upper ? j : n;
            const T* column = a + j * lda;
            for (int64_t q = 0; q < cols; q++) {
                T* x = b + (c + q) * ldb;
                if (!unit) x[j] /= column[j];
                T value = x[j];
#pragma omp simd
                for (int64_t i = first; i < last; i++) x[i] -= value * column[i];
            }
        }
    }
}

// With many right-hand sides, multiplies by the inverse of the small triangle.
template <class T>
void multiply_inverse(bool upper, bool unit, int64_t n, int64_t k, const T* a, int64_t lda, T* b, int64_t ldb) {
    T inverse[leaf * leaf] = {};
    for (int64_t j = 0; j < n; j++) inverse[j * n + j] = T(1);
    // Columns of the identity, four at a time; the zero side stays zero.
    for (int64_t c = 0; c < n; c += 4) {
        int64_t cols = std::min<int64_t>(4, n - c), size = upper ? c + cols : n - c, skip = upper ? 0 : c;
        substitute(upper, unit, size, cols, a + skip + skip * lda, lda, inverse + c * n + skip, n);
    }
    constexpr int64_t group = 256;
    T old[leaf * group];
    for (int64_t c = 0; c < k; c += group) {
        int64_t cols = std::min(group, k - c);
        for (int64_t j = 0; j < cols; j++) std::copy(b + (c + j) * ldb, b + (c + j) * ldb + n, old + j * n);
        float_gemm({dtype_of<T>(), cols, n, n, reinterpret_cast<const char*>(old), n, 1,
                    reinterpret_cast<const char*>(inverse), n, 1, reinterpret_cast<char*>(b + c * ldb), ldb, Scalar(1),
                    Scalar(0)});
    }
}

// B = A⁻¹ B for a triangular A of n × n.
template <class T>
void solve_triangle(bool upper, bool unit, int64_t n, int64_t k, const T* a, int64_t lda, T* b, int64_t ldb) {
    if (n <= leaf) return (k >= leaf ? multiply_inverse<T> : substitute<T>)(upper, unit, n, k, a, lda, b, ldb);
    int64_t top = n / 2 / leaf * leaf;
    if (top == 0) top = leaf;
    int64_t rest = n - top;
    const T* corner = a + top + top * lda;
    if (upper) {
        solve_triangle(true, unit, rest, k, corner, lda, b + top, ldb);
        subtract_product(top, k, rest, a + top * lda, lda, b + top, ldb, b, ldb);
        solve_triangle(true, unit, top, k, a, lda, b, ldb);
    } else {
        solve_triangle(false, unit, top, k, a, lda, b, ldb);
        subtract_product(rest, k, top, a + top, lda, b, ldb, b + top, ldb);
        solve_triangle(false, unit, rest, k, corner, lda, b + top, ldb);
    }
}

// Exchanges in a column depend on each other; eight columns at a time keep the processor busy.
template <class T>
void swap_rows(T* a, int64_t lda, int64_t cols, const int* pivots, int64_t count) {
    constexpr int64_t together = 8;
    int64_t groups = (cols + together - 1) / together;
    parallel_for(groups, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, count)), [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; g++) {
            T* first = a + g * together * lda;
            int64_t width = std::min(together, cols - g * together);
            for (int64_t i = 0; i < count; i++) {
                int64_t other = pivots[i] - 1;
                if (other == i) continue;
                if (width == together) {
                    T x[together], y[together];
                    for (int64_t q = 0; q < together; q++) {
                        x[q] = first[i + q * lda];
                        y[q] = first[other + q * lda];
                    }
                    for (int64_t q = 0; q < together; q++) {
                        first[i + q * lda] = y[q];
                        first[other + q * lda] = x[q];
                    }
                } else {
                    for (int64_t q = 0; q < width; q++) std::swap(first[i + q * lda], first[other + q * lda]);
                }
            }
        }
    });
}

template <class T>
int64_t largest(const T* x, int64_t n) {
    T most = -1;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) most = std::max(most, std::abs(x[i]));
    for (int64_t i = 0; i < n; i++) {
        if (std::abs(x[i]) == most) return i;
    }
    return 0;  // only nan
}

// A few columns, one after another.
template <class T>
int factor_columns(int64_t m, int64_t n, T* a, int64_t lda, int* pivots) {
    int info = 0;
    for (int64_t j = 0; j < std::min(m, n); j++) {
        T* column = a + j * lda;
        int64_t p = j + largest(column + j, m - j);
        pivots[j] = static_cast<int>(p) + 1;
        if (column[p] == T(0)) {
            if (info == 0) info = static_cast<int>(j) + 1;
            continue;
        }
        if (p != j) {
            for (int64_t c = 0; c < n; c++) std::swap(a[j + c * lda], a[p + c * lda]);
        }
        T pivot = column[j];
#pragma omp simd
        for (int64_t i = j + 1; i < m; i++) column[i] /= pivot;
        for (int64_t c = j + 1; c < n; c++) {
            T value = a[j + c * lda];
            T* to = a + c * lda;
#pragma omp simd
            for (int64_t i = j + 1; i < m; i++) to[i] -= value * column[i];
        }
    }
    return info;
}

// LAPACK's getrf.
template <class T>
int factor_lu(int64_t m, int64_t n, T* a, int64_t lda, int* pivots) {
    int64_t small = std::min(m, n);
    if (small <= leaf / 2 || n <= leaf / 2) return factor_columns(m, n, a, lda, pivots);
    int64_t left = std::max<int64_t>(leaf / 2, small / 2 / (leaf / 2) * (leaf / 2)), right = n - left;
    int info = factor_lu(m, left, a, lda, pivots);
    T *top = a + left * lda, *corner = top + left;
    swap_rows(top, lda, right, pivots, left);
    // Fixed groups of right-hand sides for the threads.
    constexpr int64_t group = 128;
    int64_t groups = (right + group - 1) / group;
    parallel_for(groups, std::max<int64_t>(1, 32768 / (left * left)), [&](int64_t begin, int64_t end) {
        for (int64_t first = begin * group; first < std::min(right, end * group); first += group)
            solve_triangle(false, true, left, std::min(group, right - first), a, lda, top + first * lda, lda);
    });
    subtract_product(m - left, right, left, a + left, lda, top, lda, corner, lda);
    int below = factor_lu(m - left, right, corner, lda, pivots + left);
    if (info == 0 && below > 0) info = below + static_cast<int>(left);
    swap_rows(a + left, lda, left, pivots + left, small - left);
    for (int64_t i = left; i < small; i++) pivots[i] += static_cast<int>(left);
    return info;
}

// LAPACK's getrs for the matrix itself, not its transpose.
template <class T>
void solve_lu(int64_t n, int64_t k, const T* lu, int64_t lda, const int* pivots, T* b, int64_t ldb) {
    swap_rows(b, ldb, k, pivots, n);
    solve_triangle(false, true, n, k, lu, lda, b, ldb);
    solve_triangle(true, false, n, k, lu, lda, b, ldb);
}

}  // namespace fb::cpu::lapack
