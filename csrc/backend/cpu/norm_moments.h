// Mean and sum of squared deviations of runs of numbers, for the normalization kernels.
#pragma once
#include <algorithm>

#include "base/parallel.h"

namespace fb::cpu {

constexpr int64_t chunk = 4096;  // elements of a plane per step

inline int64_t grain_of(int64_t elements) {
    return std::max<int64_t>(1, parallel_grain / 2 / std::max<int64_t>(elements, 1));
}

// Moments of n elements, merged into those of the `count` elements before.
struct Moments {
    double count = 0, mean = 0, spread = 0;
    void merge(double n, double m, double s) {
        double total = count + n, delta = m - mean;
        mean += delta * n / total;
        spread += s + delta * delta * count * n / total;
        count = total;
    }
};

template <class T>
Moments moments_of(const T* x, int64_t size) {
    Moments all;
    for (int64_t at = 0; at < size; at += chunk) {
        int64_t n = std::min(chunk, size - at);
        const T* from = x + at;
        // Distances from a pivot lose no precision: it is the mean of a subset, so its distance from the mean of all is
        // bounded by their deviation.
        T pivot = 0, sum = 0, squares = 0;
        int64_t few = std::min<int64_t>(n, 16);
        for (int64_t i = 0; i < few; i++) pivot += from[i];
        pivot /= T(few);
#pragma omp simd reduction(+ : sum, squares)
        for (int64_t i = 0; i < n; i++) {
            T d = from[i] - pivot;
            sum += d;
            squares += d * d;
        }
        double shift = double(sum) / double(n), mean = double(pivot) + shift;
        double rest = double(squares) - double(sum) * shift;
        squares = T(rest < 0 ? 0 : rest);
        all.merge(double(n), mean, double(squares));
    }
    return all;
}

}  // namespace fb::cpu
