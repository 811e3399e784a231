// Packs parts of matrices into the order the product kernels read.
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

// The same for whole cache lines on both sides: 16 × 16 (float) or 8 × 8 (double). Each line is read and written once,
// so rows whose distance is a power of two do not evict each other.
#ifdef __AVX512F__
inline void transpose_lines(float* to, int64_t to_row, const float* from, int64_t from_row) {
    typedef float V __attribute__((vector_size(64)));
    typedef int M __attribute__((vector_size(64)));
    constexpr M low = {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29};
    constexpr M high = {2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31};
    constexpr M even = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
    constexpr M odd = {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
    // Quarters 0 and 2 of two vectors, and quarters 1 and 3.
    constexpr M front = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
    constexpr M back = {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31};
    V r[16], t[16];
    for (int i = 0; i < 16; i++) std::memcpy(&r[i], from + i * from_row, 64);
    for (int i = 0; i < 16; i += 2) {
        t[i] = __builtin_shuffle(r[i], r[i + 1], low);
        t[i + 1] = __builtin_shuffle(r[i], r[i + 1], high);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = __builtin_shuffle(t[i], t[i + 2], even);
        r[i + 1] = __builtin_shuffle(t[i], t[i + 2], odd);
        r[i + 2] = __builtin_shuffle(t[i + 1], t[i + 3], even);
        r[i + 3] = __builtin_shuffle(t[i + 1], t[i + 3], odd);
    }
    // Quarter q of r[4 * g + m] holds rows 4 * g to 4 * g + 3 of column 4 * q + m.
    for (int m = 0; m < 4; m++) {
        V a = __builtin_shuffle(r[m], r[4 + m], front), b = __builtin_shuffle(r[m], r[4 + m], back);
        V c = __builtin_shuffle(r[8 + m], r[12 + m], front), d = __builtin_shuffle(r[8 + m], r[12 + m], back);
        t[m] = __builtin_shuffle(a, c, front);
        t[4 + m] = __builtin_shuffle(b, d, front);
        t[8 + m] = __builtin_shuffle(a, c, back);
        t[12 + m] = __builtin_shuffle(b, d, back);
    }
    for (int i = 0; i < 16; i++) std::memcpy(to + i * to_row, &t[i], 64);
}
inline void transpose_lines(double* to, int64_t to_row, const double* from, int64_t from_row) {
    typedef double V __attribute__((vector_size(64)));
    typedef int64_t M __attribute__((vector_size(64)));
    constexpr M low = {0, 8, 2, 10, 4, 12, 6, 14}, high = {1, 9, 3, 11, 5, 13, 7, 15};
    constexpr M front = {0, 1, 4, 5, 8, 9, 12, 13}, back = {2, 3, 6, 7, 10, 11, 14, 15};
    V r[8], t[8];
    for (int i = 0; i < 8; i++) std::memcpy(&r[i], from + i * from_row, 64);
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shuffle(r[i], r[i + 1], low);
        t[i + 1] = __builtin_shuffle(r[i], r[i + 1], high);
    }
    // Quarter q of t[2 * g + m] holds rows 2 * g and 2 * g + 1 of column 2 * q + m.
    for (int m = 0; m < 2; m++) {
        V a = __builtin_shuffle(t[m], t[2 + m], front), b = __builtin_shuffle(t[m], t[2 + m], back);
        V c = __builtin_shuffle(t[4 + m], t[6 + m], front), d = __builtin_shuffle(t[4 + m], t[6 + m], back);
        r[m] = __builtin_shuffle(a, c, front);
        r[2 + m] = __builtin_shuffle(b, d, front);
        r[4 + m] = __builtin_shuffle(a, c, back);
        r[6 + m] = __builtin_shuffle(b, d, back);
    }
    for (int i = 0; i < 8; i++) std::memcpy(to + i * to_row, &r[i], 64);
}
#else
template <class T>
void transpose_lines(T* to, int64_t to_row, const T* from, int64_t from_row) {
    constexpr int64_t side = 32 / sizeof(T);
    for (int64_t j = 0; j < 2 * side; j += side) {
        for (int64_t p = 0; p < 2 * side; p += side)
            transpose_square(to + j * to_row + p, to_row, from + p * from_row + j, from_row);
    }
}
#endif

// to[j * to_row + p] = from[p * from_row + j] for p < rows, j < cols.
template <class T>
void transpose_copy(T* to, int64_t to_row, const T* from, int64_t from_row, int64_t rows, int64_t cols) {
    constexpr int64_t line = 64 / sizeof(T), side = line / 2;
    int64_t p = 0;
    for (; p + side <= rows;) {
        int64_t j = 0, high = p + line <= rows ? line : side;
        for (; high == line && j + line <= cols; j += line)
            transpose_lines(to + j * to_row + p, to_row, from + p * from_row + j, from_row);
        for (; j + side <= cols; j += side) {
            for (int64_t i = p; i < p + high; i += side)
                transpose_square(to + j * to_row + i, to_row, from + i * from_row + j, from_row);
        }
        for (; j < cols; j++) {
            for (int64_t i = p; i < p + high; i++) to[j * to_row + i] = from[i * from_row + j];
        }
        p += high;
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
