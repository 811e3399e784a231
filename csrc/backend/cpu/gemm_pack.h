// Copying parts of matrices into the order the product kernels read.
#pragma once
#include <cstdint>
#include <cstring>

namespace fb::cpu {

// to[j * to_row + p] = from[p * from_row + j]: an 8 × 8 (float) or 4 × 4 (double) block in registers.
inline void transpose_square(float* to, int64_t to_row, const float* from, int64_t from_row) {
    typedef float V __attribute__((vector_size(32)));
    typedef int M __attribute__((vector_size(32)));
    constexpr M low = {0, 8, 1, 9, 4, 12, 5, 13}, high = {2, 10, 3, 11, 6, 14, 7, 15};
    constexpr M even = {0, 1, 8, 9, 4, 5, 12, 13}, odd = {2, 3, 10, 11, 6, 7, 14, 15};
    constexpr M front = {0, 1, 2, 3, 8, 9, 10, 11}, back = {4, 5, 6, 7, 12, 13, 14, 15};
    V r[8], t[8];
    for (int i = 0; i < 8; i++) std::memcpy(&r[i], from + i * from_row, 32);
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shuffle(r[i], r[i + 1], low);
        t[i + 1] = __builtin_shuffle(r[i], r[i + 1], high);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = __builtin_shuffle(t[i], t[i + 2], even);
        r[i + 1] = __builtin_shuffle(t[i], t[i + 2], odd);
        r[i + 2] = __builtin_shuffle(t[i + 1], t[i + 3], even);
        r[i + 3] = __builtin_shuffle(t[i + 1], t[i + 3], odd);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = __builtin_shuffle(r[i], r[i + 4], front);
        t[i + 4] = __builtin_shuffle(r[i], r[i + 4], back);
    }
    for (int i = 0; i < 8; i++) std::memcpy(to + i * to_row, &t[i], 32);
}
inline void transpose_square(double* to, int64_t to_row, const double* from, int64_t from_row) {
    typedef double V __attribute__((vector_size(32)));
    typedef int64_t M __attribute__((vector_size(32)));
    constexpr M low = {0, 4, 2, 6}, high = {1, 5, 3, 7}, front = {0, 1, 4, 5}, back = {2, 3, 6, 7};
    V r[4], t[4];
    for (int i = 0; i < 4; i++) std::memcpy(&r[i], from + i * from_row, 32);
    for (int i = 0; i < 4; i += 2) {
        t[i] = __builtin_shuffle(r[i], r[i + 1], low);
        t[i + 1] = __builtin_shuffle(r[i], r[i + 1], high);
    }
    r[0] = __builtin_shuffle(t[0], t[2], front);
    r[1] = __builtin_shuffle(t[1], t[3], front);
    r[2] = __builtin_shuffle(t[0], t[2], back);
    r[3] = __builtin_shuffle(t[1], t[3], back);
    for (int i = 0; i < 4; i++) std::memcpy(to + i * to_row, &r[i], 32);
}

// to[j * to_row + p] = from[p * from_row + j] for p < rows, j < cols.
template <class T>
void transpose_copy(T* to, int64_t to_row, const T* from, int64_t from_row, int64_t rows, int64_t cols) {
    constexpr int64_t side = 32 / sizeof(T);
    int64_t p = 0;
    for (; p + side <= rows; p += side) {
        int64_t j = 0;
        for (; j + side <= cols; j += side)
            transpose_square(to + j * to_row + p, to_row, from + p * from_row + j, from_row);
        for (; j < cols; j++) {
            for (int64_t i = p; i < p + side; i++) to[j * to_row + i] = from[i * from_row + j];
        }
    }
    for (; p < rows; p++) {
        for (int64_t j = 0; j < cols; j++) to[j * to_row + p] = from[p * from_row + j];
    }
}

// to[i * to_row + j] = from[i * row + j * col] for i < rows, j < cols.
template <class T>
void pack_rows(T* to, int64_t to_row, const T* from, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    if (col == 1) {
        for (int64_t i = 0; i < rows; i++) std::memcpy(to + i * to_row, from + i * row, cols * sizeof(T));
    } else if (row == 1) {
        transpose_copy(to, to_row, from, col, cols, rows);
    } else {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < cols; j++) to[i * to_row + j] = from[i * row + j * col];
        }
    }
}

}  // namespace fb::cpu
