// Attention of a few queries, as in text generation: keys and values are read in place, once for all queries that share
// them.
#pragma GCC optimize("fp-contract=fast")
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <cstring>

#include "backend/cpu/attention.h"
#include "backend/cpu/halves.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the intrinsics of gcc 12
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace fb::cpu::attention {
namespace {

constexpr int64_t most_rows = 32;  // queries computed together

#ifdef __AVX512F__
constexpr int vector_bytes = 64;
#else
constexpr int vector_bytes = 32;
#endif
template <class T>
struct Lanes {
    typedef T type __attribute__((vector_size(vector_bytes)));
    typedef T loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    static constexpr int64_t width = vector_bytes / sizeof(T);
};
template <class S>
using Vector = typename Lanes<Computed<S>>::type;
template <class S>
constexpr int64_t width = Lanes<Computed<S>>::width;

template <class S>
Vector<S> load(const S* x) {
    if constexpr (!is_half_type<S>) return *reinterpret_cast<const typename Lanes<S>::loose*>(x);
#if defined(__AVX512F__)
    else if constexpr (std::is_same_v<S, Half>)
        return (Vector<S>)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
    else
        return (Vector<S>)_mm512_slli_epi32(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))), 16);
#elif defined(__AVX2__)
    else if constexpr (std::is_same_v<S, Half>)
        return (Vector<S>)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
    else
        return (Vector<S>)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))),
                                            16);
#else
    else {
        Vector<S> to;
        for (int64_t i = 0; i < width<S>; i++) to[i] = static_cast<float>(x[i]);
        return to;
    }
#endif
}

template <class T>
T total(const typename Lanes<T>::type& v) {
    constexpr int64_t lanes = Lanes<T>::width;
    T part[lanes];
    std::memcpy(part, &v, sizeof part);
    for (int64_t half = lanes / 2; half > 0; half /= 2) {
        for (int64_t l = 0; l < half; l++) part[l] += part[l + half];
    }
    return part[0];
}

// to[r][c] = row r of x · row c of y.
template <class S, int rows, int columns>
void dots(const Computed<S>* x, int64_t x_row, const S* y, int64_t y_row, int64_t n, Computed<S>* to, int64_t to_row) {
    Vector<S> sum[rows][columns] = {};
    int64_t e = 0;
    for (; e + width<S> <= n; e += width<S>) {
        Vector<S> line[columns];
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) line[c] = load(y + c * y_row + e);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            Vector<S> part = load(x + r * x_row + e);
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) sum[r][c] += part * line[c];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            auto all = total<Computed<S>>(sum[r][c]);
            for (int64_t i = e; i < n; i++) all += x[r * x_row + i] * static_cast<Computed<S>>(y[c * y_row + i]);
            to[r * to_row + c] = all;
        }
    }
}

// sums[r] += Σ weights[r][s] · row s of y, for `wide` vectors of them.
template <class S, int rows, int wide>
void add_rows(Computed<S>* sums, int64_t sums_row, const Computed<S>* weights, const S* y, int64_t y_row, int64_t n) {
    using Loose = typename Lanes<Computed<S>>::loose;
    Vector<S> sum[rows][wide];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int i = 0; i < wide; i++) sum[r][i] = load(sums + r * sums_row + i * width<S>);
#pragma GCC unroll 1
    for (int64_t s = 0; s < n; s++) {
        Vector<S> line[wide];
#pragma GCC unroll 8
        for (int i = 0; i < wide; i++) line[i] = load(y + s * y_row + i * width<S>);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            Computed<S> weight = weights[r * key_tile + s];
#pragma GCC unroll 8
            for (int i = 0; i < wide; i++) sum[r][i] += weight * line[i];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int i = 0; i < wide; i++) *reinterpret_cast<Loose*>(sums + r * sums_row + i * width<S>) = sum[r][i];
}

// Calls f(rows as a constant, the first) for all rows, four at a time.
template <class F>
void in_fours(int64_t count, F f) {
    int64_t r = 0;
    for (; r + 4 <= count; r += 4) f(std::integral_constant<int, 4>(), r);
    if (count - r >= 2) f(std::integral_constant<int, 2>(), r), r += 2;
    if (r < count) f(std::integral_constant<int, 1>(), r);
}

template <class S>
void score(const Computed<S>* queries, int64_t rows, const Matrix<S>& keys, int64_t n, int64_t features,
           Computed<S>* scores) {
    for (int64_t s = 0; s < n; s += 4) {
        in_fours(std::min<int64_t>(4, n - s), [&](auto columns, int64_t c) {
            in_fours(rows, [&](auto count, int64_t r) {
                dots<S, count.value, columns.value>(queries + r * features, features, keys.from(s + c).data, keys.row,
                                                    features, scores + r * key_tile + s + c, key_tile);
            });
        });
    }
}

template <class S>
void weigh(Computed<S>* sums, const Computed<S>* weights, int64_t rows, const Matrix<S>& values, int64_t n,
           int64_t features) {
    in_fours(rows, [&](auto count, int64_t r) {
        constexpr int most = count.value > 2 ? 4 : 8;
        Computed<S>* to = sums + r * features;
        const Computed<S>* from = weights + r * key_tile;
        int64_t e = 0;
        for (; e + most * width<S> <= features; e += most * width<S>)
            add_rows<S, count.value, most>(to + e, features, from, values.data + e, values.row, n);
        for (; e + width<S> <= features; e += width<S>)
            add_rows<S, count.value, 1>(to + e, features, from, values.data + e, values.row, n);
        for (; e < features; e++) {
            for (int i = 0; i < count.value; i++) {
                Computed<S>& sum = to[i * features + e];
                for (int64_t s = 0; s < n; s++)
                    sum += from[i * key_tile + s] * static_cast<Computed<S>>(values.data[s * values.row + e]);
            }
        }
    });
}

// The queries of `heads` heads from the first on, which share one head of keys and values.
template <class S>
void forward(const Attention& p, const Tensor& output, const Tensor& logsumexp, int64_t b, int64_t first,
             int64_t heads) {
    using T = Computed<S>;
    int64_t rows = heads * p.length, features = p.features, value = p.value_features, last = p.visible(p.length);
    Scratch<T> scratch(rows * (features + key_tile + value));
    T *queries = scratch.take(rows * features), *scores = scratch.take(rows * key_tile);
    T* sums = scratch.take(rows * value);
    for (int64_t r = 0; r < rows; r++) {
        Matrix<S> q = matrix<S>(p.q, b, first + r / p.length).from(r % p.length);
        T* to = queries + r * features;
        if constexpr (is_half_type<S>) widen(to, q.data, features);
        else std::copy_n(q.data, features, to);
        for (int64_t e = 0; e < features; e++) to[e] *= static_cast<T>(p.scale);
    }
    std::fill_n(sums, rows * value, T(0));
    int64_t shared = first / p.shared();
    Matrix<S> keys = matrix<S>(p.k, b, shared), values = matrix<S>(p.v, b, shared);
    Softmax<T, most_rows> running;
    for (int64_t j = 0; j < last; j += key_tile) {
        int64_t n = std::min(key_tile, last - j);
        score<S>(queries, rows, keys.from(j), n, features, scores);
        for (int64_t h = 0; h < heads; h++)
            hide(p, b, first + h, 0, p.length, j, n, scores + h * p.length * key_tile, key_tile);
        running.add(scores, key_tile, rows, n, Matrix<T>{sums, value}, value);
        weigh<S>(sums, scores, rows, values.from(j), n, value);
    }
    running.finish(rows, Matrix<T>{sums, value}, value, logsumexp.data<T>() + (b * p.heads + first) * p.length);
    for (int64_t r = 0; r < rows; r++) {
        Matrix<S> to = matrix<S>(output, b, first + r / p.length).from(r % p.length);
        if constexpr (is_half_type<S>) narrow_to(to.data, sums + r * value, value);
        else std::copy_n(sums + r * value, value, to.data);
    }
}

}  // namespace

bool fits_few(const Attention& p) {
    return p.length > 0 && p.length <= few_queries && p.key_heads > 0 && p.features > 0 && p.value_features > 0;
}

void forward_few(const Attention& p, const Tensor& output, const Tensor& logsumexp) {
    // Heads computed together: as many as share keys, unless threads would be idle.
    int64_t heads = std::clamp<int64_t>(most_rows / p.length, 1, p.shared());
    auto groups = [&] { return (p.shared() + heads - 1) / heads; };
    while (heads > 1 && p.batch * p.key_heads * groups() < num_threads()) heads = (heads + 1) / 2;
    int64_t each = groups(), work = p.source * (p.features + p.value_features) * heads * p.length;
    dispatch<float, double, Half, BFloat16>(p.q.dtype(), "a floating dtype", [&](auto tag) {
        parallel_for(p.batch * p.key_heads * each,
                     std::max<int64_t>(1, 4 * parallel_grain / std::max<int64_t>(1, work)),
                     [&](int64_t begin, int64_t end) {
                         for (int64_t at = begin; at < end; at++) {
                             int64_t b = at / each / p.key_heads, from = at % each * heads;
                             int64_t first = at / each % p.key_heads * p.shared() + from;
                             forward<typename decltype(tag)::type>(p, output, logsumexp, b, first,
                                                                   std::min(heads, p.shared() - from));
                         }
                     });
    });
}

}  // namespace fb::cpu::attention
