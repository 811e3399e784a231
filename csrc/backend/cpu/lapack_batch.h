// Cholesky factors of many small matrices, sixteen at a time: one in each lane of a vector.
#pragma once
#include <cmath>
#include <cstdint>

#include "base/parallel.h"

namespace fb::cpu::lapack {

inline constexpr int64_t batch_lanes = 16, batch_most = 16;  // matrices at a time; the largest size

// Lower factors of `count` row-major matrices, column-major with zeros above the diagonal. info: the first column whose
// pivot is not positive, counted from one, or zero.
template <class T>
void cholesky_batch(T* to, const T* from, int64_t count, int64_t n, int* info) {
    constexpr int64_t lanes = batch_lanes;
    int64_t groups = (count + lanes - 1) / lanes, work = lanes * (n * n * (n + 6) / 6 + 1);
    parallel_for(groups, std::max<int64_t>(1, parallel_grain / work), [&](int64_t begin, int64_t end) {
        alignas(64) T x[batch_most][batch_most][lanes];
        for (int64_t g = begin; g < end; g++) {
            int64_t first = g * lanes, used = std::min(lanes, count - first);
            int code[lanes] = {};
            for (int64_t l = 0; l < lanes; l++) {  // the last matrix fills the unused lanes of its group
                const T* a = from + (first + std::min(l, used - 1)) * n * n;
                for (int64_t i = 0; i < n; i++) {
                    for (int64_t j = 0; j <= i; j++) x[i][j][l] = a[i * n + j];
                }
            }
            for (int64_t j = 0; j < n; j++) {
                for (int64_t i = j; i < n; i++) {
                    T* y = x[i][j];
                    for (int64_t k = 0; k < j; k++) {
#pragma omp simd
                        for (int64_t l = 0; l < lanes; l++) y[l] -= x[i][k][l] * x[j][k][l];
                    }
                    if (i == j) {
                        for (int64_t l = 0; l < lanes; l++) {
                            if (!(y[l] > T(0)) && code[l] == 0) code[l] = static_cast<int>(j) + 1;
                        }
#pragma omp simd
                        for (int64_t l = 0; l < lanes; l++) y[l] = std::sqrt(y[l]);
                    } else {
#pragma omp simd
                        for (int64_t l = 0; l < lanes; l++) y[l] /= x[j][j][l];
                    }
                }
            }
            for (int64_t l = 0; l < used; l++) {
                T* a = to + (first + l) * n * n;
                for (int64_t j = 0; j < n; j++) {
                    for (int64_t i = 0; i < j; i++) a[j * n + i] = T(0);
                    for (int64_t i = j; i < n; i++) a[j * n + i] = x[i][j][l];
                }
                info[first + l] = code[l];
            }
        }
    });
}

}  // namespace fb::cpu::lapack
