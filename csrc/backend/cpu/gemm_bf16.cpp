// Kernels of bfloat16 products with the instruction that accumulates products of pairs in floats.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <utility>

#include "backend/cpu/gemm_half.h"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

namespace fb::cpu {
namespace {

constexpr int tall = 14;

inline __m512 add_pairs(__m512 sum, __m512i x, __m512i y) { return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y); }

// Rows of a times one panel of b, `Wide` vectors of columns.
template <int rows, int Wide, bool Transposed>
void panel(int64_t lanes, const uint32_t* a, int64_t a_step, const uint32_t* b, float* c, int64_t c_row, bool add) {
    const uint32_t* at[(rows + 3) / 4];
#pragma GCC unroll 4
    for (int i = 0; i < (rows + 3) / 4; i++) at[i] = a + 4 * i * (Transposed ? 1 : a_step);
    __m512 sum[rows][Wide];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < Wide; v++) sum[r][v] = _mm512_setzero_ps();
#pragma GCC unroll 1
    for (int64_t p = 0; p < lanes; p++) {
        __m512i line[Wide];
#pragma GCC unroll 2
        for (int v = 0; v < Wide; v++) line[v] = _mm512_loadu_si512(b + (p * Wide + v) * 16);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            __m512i x = _mm512_set1_epi32(int(Transposed ? at[r / 4][r % 4] : at[r / 4][r % 4 * a_step]));
#pragma GCC unroll 2
            for (int v = 0; v < Wide; v++) sum[r][v] = add_pairs(sum[r][v], x, line[v]);
        }
#pragma GCC unroll 4
        for (auto& row : at) row += Transposed ? a_step : 1;
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < Wide; v++) {
            float* to = c + r * c_row + v * 16;
            _mm512_storeu_ps(to, add ? _mm512_add_ps(sum[r][v], _mm512_loadu_ps(to)) : sum[r][v]);
        }
}

using Panel = void (*)(int64_t, const uint32_t*, int64_t, const uint32_t*, float*, int64_t, bool);
template <int Wide, bool Transposed, size_t... i>
Panel pick(int64_t rows, std::index_sequence<i...>) {
    static constexpr Panel table[] = {panel<int(i) + 1, Wide, Transposed>...};
    return table[rows - 1];
}

// Adds halves of x and y: `low` and `high` select the elements.
#define FB_FOLD(x, y, low, high) (__builtin_shuffle(x, y, low) + __builtin_shuffle(x, y, high))

// The sum over the lanes of each of sixteen vectors, in order.
inline __m512 sums_of(const __m512* v) {
    typedef int Places __attribute__((vector_size(64)));
    constexpr Places even = {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29}, odd = even + 2;
    constexpr Places left = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29}, right = left + 2;
    constexpr Places first = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27}, second = first + 4;
    __m512 t[8], u[4];
    for (int i = 0; i < 8; i++) t[i] = FB_FOLD(v[2 * i], v[2 * i + 1], even, odd);
    for (int i = 0; i < 4; i++) u[i] = FB_FOLD(t[2 * i], t[2 * i + 1], left, right);
    for (int i = 0; i < 2; i++) t[i] = FB_FOLD(u[2 * i], u[2 * i + 1], first, second);
    return FB_FOLD(t[0], t[1], first, second);
}
#undef FB_FOLD

constexpr int across = 8;  // columns of b that are multiplied with all rows before the next ones

// sums[r * across + c] += row r of a times column c of b over n elements. Prefetches what is `ahead` of the columns,
// which are too short for the hardware prefetcher.
template <int rows, int columns>
void dot_products(const BFloat16* a, int64_t a_row, const BFloat16* b, int64_t b_col, int64_t n, int64_t ahead,
                  __m512* sums) {
    __m512 sum[rows][columns];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++) sum[r][c] = sums[r * across + c];
    auto step = [&](auto load, int64_t p) __attribute__((always_inline)) {
        __m512i line[columns];
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++) {
            line[c] = load(b + c * b_col + p);
            _mm_prefetch(b + c * b_col + p + ahead, _MM_HINT_T0);
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            __m512i x = load(a + r * a_row + p);
#pragma GCC unroll 8
            for (int c = 0; c < columns; c++) sum[r][c] = add_pairs(sum[r][c], x, line[c]);
        }
    };
    int64_t p = 0;
#pragma GCC unroll 1
    for (; p + 32 <= n; p += 32) step([](const BFloat16* x) { return _mm512_loadu_si512(x); }, p);
    if (p < n) {
        auto some = static_cast<__mmask32>((uint64_t(1) << (n - p)) - 1);
        step([some](const BFloat16* x) { return _mm512_maskz_loadu_epi16(some, x); }, p);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < columns; c++) sums[r * across + c] = sum[r][c];
}

using DotProducts = void (*)(const BFloat16*, int64_t, const BFloat16*, int64_t, int64_t, int64_t, __m512*);
template <size_t... i>
DotProducts pick(int64_t rows, int64_t columns, std::index_sequence<i...>) {
    static constexpr DotProducts table[] = {
        dot_products<int(i) / across + 1, int(i) % across % (i < 2 * across ? 8 : 4) + 1>...};
    return table[(rows - 1) * across + columns - 1];
}
// Up to four rows with four columns, or two with eight: as many as fit the registers.
void dot_products_group(const BFloat16* a, int64_t a_row, int64_t rows, const BFloat16* b, int64_t b_col,
                        int64_t columns, int64_t n, int64_t ahead, __m512* sums) {
    constexpr auto all = std::make_index_sequence<4 * across>();
    int64_t most = rows > 2 ? 4 : 8;
    for (int64_t c = 0; c < columns; c += most)
        pick(rows, columns - c < most ? columns - c : most, all)(a, a_row, b + c * b_col, b_col, n, ahead, sums + c);
}

}  // namespace

void pair_panels(const PairPanels& g) {
    constexpr auto heights = std::make_index_sequence<tall>();
    int64_t blocks = (g.m + tall - 1) / tall;
    for (int64_t j = 0; j < g.n; j += pair_wide) {
        const uint32_t* b = g.b + j / pair_wide * (g.b_step ? g.b_step : g.lanes * pair_wide);
        bool narrow = g.n - j <= pair_wide / 2;
        for (int64_t q = 0; q < blocks; q++) {
            int64_t r = g.m * q / blocks, rows = g.m * (q + 1) / blocks - r;
            Panel run = g.transposed ? (narrow ? pick<1, true>(rows, heights) : pick<2, true>(rows, heights))
                                     : (narrow ? pick<1, false>(rows, heights) : pick<2, false>(rows, heights));
            run(g.lanes, g.a + (g.transposed ? r : r * g.a_step), g.a_step, b, g.c + r * g.c_row + j, g.c_row, g.add);
        }
    }
}

void bf16_rows(const BFloat16* a, int64_t a_row, int64_t m, const BFloat16* b, int64_t b_col, int64_t n, int64_t k,
               float* sums) {
    __m512 parts[rows_most * across];
    // All columns of a group stay in the first-level cache while the rows are processed.
    int64_t depth = m <= 4 ? k : 1024, tiles = (m + 3) / 4;
    for (int64_t j = 0; j < n; j += across) {
        int64_t columns = n - j < across ? n - j : across;
        for (int64_t i = 0; i < m * across; i++) parts[i] = _mm512_setzero_ps();
        for (int64_t p = 0; p < k; p += depth) {
            int64_t some = k - p < depth ? k - p : depth, next = p + depth < k ? depth : across * b_col - p;
            for (int64_t t = 0; t < tiles; t++) {
                int64_t i = m * t / tiles, rows = m * (t + 1) / tiles - i;
                dot_products_group(a + i * a_row + p, a_row, rows, b + j * b_col + p, b_col, columns, some,
                                   t == 0 ? next : 0, parts + i * across);
            }
        }
        auto some = static_cast<__mmask16>((1u << columns) - 1);
        int64_t i = 0;
        for (; i + 2 <= m; i += 2) {
            __m512 both = sums_of(parts + i * across);
            _mm512_mask_storeu_ps(sums + i * n + j, some, both);
            both = _mm512_castpd_ps(_mm512_permutex2var_pd(
                _mm512_castps_pd(both), _mm512_set_epi64(3, 2, 1, 0, 7, 6, 5, 4), _mm512_castps_pd(both)));
            _mm512_mask_storeu_ps(sums + (i + 1) * n + j, some, both);
        }
        if (i < m) {
            __m512 last[2 * across] = {};
            for (int c = 0; c < across; c++) last[c] = parts[i * across + c];
            _mm512_mask_storeu_ps(sums + i * n + j, some, sums_of(last));
        }
    }
}

}  // namespace fb::cpu

#else

namespace fb::cpu {
void pair_panels(const PairPanels&) {}  // never called: cpu_has() returns false
void bf16_rows(const BFloat16*, int64_t, int64_t, const BFloat16*, int64_t, int64_t, int64_t, float*) {}
}  // namespace fb::cpu

#endif
