// A few rows times a matrix of half types stored by columns: converted in registers, nothing is packed.
#pragma GCC optimize("fp-contract=fast")
#include <utility>

#include "backend/cpu/gemm_half.h"
#include "backend/cpu/halves.h"

namespace fb::cpu {
namespace {

constexpr int tall = 2, across = 4;
constexpr int64_t rows_together = 16;

// sums[r][c] += row r of a times column c of b over n elements, a whole number of pairs of vectors. Prefetches what is
// `ahead` of the columns.
template <class H, int rows, int columns>
void dot_products(const float* a, int64_t a_row, const H* b, int64_t b_col, int64_t n, int64_t ahead, Floats8* sums) {
    typedef float Loose __attribute__((vector_size(32), aligned(4), may_alias));
    Floats8 sum[rows][columns];
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) sum[r][c] = sums[r * across + c];
#pragma GCC unroll 1
    for (int64_t p = 0; p < n; p += pair_lanes) {
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            Floats8 low, high;
            load_pair(b + c * b_col + p, low, high);
            __builtin_prefetch(b + c * b_col + p + ahead);
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) {
                const float* x = a + r * a_row + p;
                sum[r][c] += *reinterpret_cast<const Loose*>(x) * low;
                sum[r][c] += *reinterpret_cast<const Loose*>(x + 8) * high;
            }
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) sums[r * across + c] = sum[r][c];
}

template <class H>
using DotProducts = void (*)(const float*, int64_t, const H*, int64_t, int64_t, int64_t, Floats8*);
template <class H, size_t... i>
DotProducts<H> pick(int64_t rows, int64_t columns, std::index_sequence<i...>) {
    static constexpr DotProducts<H> table[] = {dot_products<H, int(i) / across + 1, int(i) % across + 1>...};
    return table[(rows - 1) * across + columns - 1];
}

}  // namespace

template <class H>
void half_rows(const float* a, int64_t a_row, int64_t m, const H* b, int64_t b_col, int64_t n, int64_t k, float* sums) {
    constexpr auto all = std::make_index_sequence<tall * across>();
    constexpr int64_t depth = 1024;  // of columns that stay in the first-level cache while the rows are processed
    Floats8 parts[rows_together * across];
    int64_t whole = k / pair_lanes * pair_lanes;
    for (int64_t j = 0; j < n; j += across) {
        int64_t columns = std::min<int64_t>(across, n - j);
        for (int64_t i = 0; i < m * across; i++) parts[i] = Floats8{};
        for (int64_t p = 0; p < whole; p += depth) {
            int64_t next = p + depth < whole ? depth : across * b_col - p;
            for (int64_t i = 0; i < m; i += tall)
                pick<H>(std::min<int64_t>(tall, m - i), columns, all)(a + i * a_row + p, a_row, b + j * b_col + p,
                                                                      b_col, std::min(depth, whole - p),
                                                                      i == 0 ? next : 0, parts + i * across);
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t c = 0; c < columns; c++) {
                Floats8 lanes = parts[i * across + c];
                for (int half = 4; half > 0; half /= 2)
                    for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
                float sum = lanes[0];
                for (int64_t p = whole; p < k; p++) sum += a[i * a_row + p] * float(b[(j + c) * b_col + p]);
                sums[i * n + j + c] = sum;
            }
    }
}
template void half_rows(const float*, int64_t, int64_t, const Half*, int64_t, int64_t, int64_t, float*);
template void half_rows(const float*, int64_t, int64_t, const BFloat16*, int64_t, int64_t, int64_t, float*);

}  // namespace fb::cpu
