// Small and thin float products, directly on the operands: nothing is packed, edges are masked.
#pragma GCC optimize("fp-contract=fast")
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <numeric>
#include <utility>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_pack.h"

namespace fb::cpu {
namespace {

#ifdef __AVX512F__
constexpr int vector_bytes = 64, tall = 8;
#else
constexpr int vector_bytes = 32, tall = 6;
#endif
constexpr int64_t first_level = 32768, ways = 8;  // of the cache

template <class T>
struct Lanes {
    typedef T type __attribute__((vector_size(vector_bytes), may_alias));
    typedef T loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    static constexpr int64_t width = vector_bytes / sizeof(T);
};
template <class T>
using V = typename Lanes<T>::type;

// Loads the first n elements of a vector, 0 ≤ n ≤ width; the others are zero, and not read.
#if defined(__AVX512F__)
inline V<float> load_part(const float* p, int64_t n) {
    return (V<float>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
}
inline V<double> load_part(const double* p, int64_t n) {
    return (V<double>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
}
inline void store_part(float* p, int64_t n, V<float> v) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), (__m512)v);
}
inline void store_part(double* p, int64_t n, V<double> v) {
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), (__m512d)v);
}
#elif defined(__AVX2__)
template <class T>
inline __m256i mask(int64_t n) {
    alignas(32) static constexpr int32_t window[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(window + 8 - n * int64_t(sizeof(T) / 4)));
}
inline V<float> load_part(const float* p, int64_t n) { return (V<float>)_mm256_maskload_ps(p, mask<float>(n)); }
inline V<double> load_part(const double* p, int64_t n) { return (V<double>)_mm256_maskload_pd(p, mask<double>(n)); }
inline void store_part(float* p, int64_t n, V<float> v) { _mm256_maskstore_ps(p, mask<float>(n), (__m256)v); }
inline void store_part(double* p, int64_t n, V<double> v) { _mm256_maskstore_pd(p, mask<double>(n), (__m256d)v); }
#else
template <class T>
inline V<T> load_part(const T* p, int64_t n) {
    V<T> v = {};
    std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
    return v;
}
template <class T>
inline void store_part(T* p, int64_t n, V<T> v) {
    std::memcpy(p, &v, static_cast<size_t>(n) * sizeof(T));
}
#endif

// alpha * sum + beta * old, rounded after every operation: otherwise the compiler would choose which product to fuse,
// with different results for whole and partial vectors.
template <class T>
__attribute__((noinline, optimize("fp-contract=off"))) void finish(V<T>& sum, T alpha, T beta, const V<T>& old) {
    sum = alpha * sum + beta * old;
}

template <class T>
struct Direct {
    int64_t m, n, k;
    const T* a;
    int64_t a_row, a_col;
    const T* b;
    int64_t b_row;
    T* c;
    int64_t c_row;
    T alpha, beta;
};

// `rows` rows of c at a, `Wide` vectors from column j; with Tail the last vector has `last` elements.
template <class T, int rows, int Wide, bool Tail>
void block(const Direct<T>& g, const T* __restrict a, const T* __restrict b, T* __restrict c, int64_t last) {
    using Loose = typename Lanes<T>::loose;
    constexpr int64_t width = Lanes<T>::width;
    V<T> sum[rows][Wide] = {};
    const T* at[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) at[r] = a + r * g.a_row;
    int64_t step = g.a_col, p = 0;
#pragma GCC unroll 1
    for (int64_t i = 0; i < g.k; i++, p += step, b += g.b_row) {
        V<T> line[Wide];
#pragma GCC unroll 2
        for (int v = 0; v < Wide; v++) {
            if (Tail && v == Wide - 1) line[v] = load_part(b + v * width, last);
            else line[v] = *reinterpret_cast<const Loose*>(b + v * width);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            T x = at[r][p];
#pragma GCC unroll 2
            for (int v = 0; v < Wide; v++) sum[r][v] += x * line[v];
        }
    }
    bool plain = g.alpha == T(1) && g.beta == T(0);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < Wide; v++) {
            T* to = c + r * g.c_row + v * width;
            V<T> value = sum[r][v];
            bool part = Tail && v == Wide - 1;
            if (!plain) {
                V<T> old = {};
                if (g.beta != T(0)) old = part ? load_part(to, last) : V<T>(*reinterpret_cast<const Loose*>(to));
                finish(value, g.alpha, g.beta, old);
            }
            if (part) store_part(to, last, value);
            else *reinterpret_cast<Loose*>(to) = value;
        }
    }
}

// `rows` rows from a on times the columns from j on of a panel of up to two vectors.
template <class T, int rows>
void row_block(const Direct<T>& g, const T* a, T* c, int64_t j) {
    constexpr int64_t width = Lanes<T>::width;
    int64_t left = g.n - j;
    if (left >= 2 * width) block<T, rows, 2, false>(g, a, g.b + j, c + j, 0);
    else if (left > width) block<T, rows, 2, true>(g, a, g.b + j, c + j, left - width);
    else if (left == width) block<T, rows, 1, false>(g, a, g.b + j, c + j, 0);
    else block<T, rows, 1, true>(g, a, g.b + j, c + j, left);
}

template <class T>
using RowBlock = void (*)(const Direct<T>&, const T*, T*, int64_t);
template <class T, size_t... i>
RowBlock<T> pick(int64_t rows, std::index_sequence<i...>) {
    static constexpr RowBlock<T> table[] = {row_block<T, int(i) + 1>...};
    return table[rows - 1];
}

template <class T>
void one(const Direct<T>& g) {
    constexpr int64_t wide = 2 * Lanes<T>::width, group = 96;
    // b stays in the first-level cache, or else one panel of it while a group of rows is processed.
    int64_t together = g.k * g.n * int64_t(sizeof(T)) <= first_level / 2 ? tall : group;
    for (int64_t top = 0; top < g.m; top += together) {
        int64_t bottom = std::min(g.m, top + together);
        for (int64_t j = 0; j < g.n; j += wide) {
            for (int64_t i = top; i < bottom; i += tall) {
                int64_t rows = std::min<int64_t>(tall, bottom - i);
                const T* a = g.a + i * g.a_row;
                T* c = g.c + i * g.c_row;
                if (rows == tall) row_block<T, tall>(g, a, c, j);
                else pick<T>(rows, std::make_index_sequence<tall>())(g, a, c, j);
            }
        }
    }
}

// Whether `count` rows at this distance evict each other from the first-level cache.
bool clashes(int64_t bytes, int64_t count) {
    constexpr int64_t way = first_level / ways;
    int64_t sets = bytes % way == 0 ? 1 : way / std::gcd(bytes, way);
    return bytes >= 64 && count > ways * std::min<int64_t>(sets, way / 64);
}

template <class T>
void multiply_each(const OwnGemm& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
    Direct<T> d{g.m,
                g.n,
                g.k,
                reinterpret_cast<const T*>(g.a),
                g.a_row,
                g.a_col,
                reinterpret_cast<const T*>(g.b),
                g.b_row,
                reinterpret_cast<T*>(g.c),
                g.c_row,
                g.alpha.to<T>(),
                g.beta.to<T>()};
    const T* b = d.b;
    thread_local std::vector<T> rows;
    // Rows at distances that map to the same cache sets are copied apart.
    bool clash = g.m >= 16 && clashes(g.b_row * int64_t(sizeof(T)), 2 * g.k);
    bool pack = (g.b_col != 1 && g.n > 1) || clash;
    int64_t across = g.n + (g.n * int64_t(sizeof(T)) % 512 == 0 ? 64 / int64_t(sizeof(T)) : 0);
    if (pack) {
        if (rows.size() < static_cast<size_t>(g.k * across)) rows.resize(static_cast<size_t>(g.k * across));
        d.b = rows.data();
        d.b_row = across;
    }
    for (int64_t i = 0; i < count; i++) {
        if (pack && (i == 0 || b_step != 0)) pack_rows(rows.data(), across, b, g.b_row, g.b_col, g.k, g.n);
        one(d);
        d.a += a_step;
        d.c += c_step;
        b += b_step;
        if (!pack) d.b = b;
    }
}

}  // namespace

bool direct_gemm_fits(DType dtype, int64_t n, int64_t k, int64_t b_col) {
    int64_t size = itemsize(dtype);
    return k * n * size <= 65536 || (b_col == 1 && n * size <= 2 * vector_bytes);
}

void direct_gemm(const OwnGemm& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
    if (g.dtype == DType::F32) multiply_each<float>(g, count, a_step, b_step, c_step);
    else multiply_each<double>(g, count, a_step, b_step, c_step);
}

}  // namespace fb::cpu
