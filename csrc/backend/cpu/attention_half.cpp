// Attention of float16 and bfloat16: operands are packed directly from the tensors, as floats or as pairs for the
// bfloat16 instruction; scores, sums and gradients that accumulate over tiles are float32.
#include "backend/cpu/attention.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_half.h"
#include "backend/cpu/gemm_half_pack.h"
#include "base/cpu_level.h"

namespace fb::cpu::attention {
namespace {

constexpr int64_t most_queries = 70, tile_row = key_tile + 32;  // of weights as halves

// Queries [begin, end) of tile t: the queries are divided evenly among the tiles.
int64_t tiles_of(int64_t length) { return (length + most_queries - 1) / most_queries; }
struct Tile {
    int64_t begin, end;
    Tile(int64_t length, int64_t t) : begin(length * t / tiles_of(length)), end(length * (t + 1) / tiles_of(length)) {}
    int64_t rows() const { return end - begin; }
};

template <class H, bool Pairs>
struct HalfTiles {
    using L = HalfLanes<H, Pairs>;
    static constexpr int64_t wide = Pairs ? pair_wide : panel_wide, narrow = wide / 2;
    static int64_t lanes(int64_t n) { return (n + L::per - 1) / L::per; }
    static int64_t padded(int64_t n) { return (n + narrow - 1) / narrow * narrow; }

    const Attention& p;

    // c (+)= left @ right: rows of lanes, left_row apart, times panels, which may be longer than the lanes used.
    static void product(int64_t m, int64_t n, int64_t lanes, const float* left, int64_t left_row, const float* right,
                        float* c, int64_t c_row, bool add = false, int64_t step = 0) {
        if constexpr (Pairs)
            pair_panels({m, n, lanes, reinterpret_cast<const uint32_t*>(left), left_row, false,
                         reinterpret_cast<const uint32_t*>(right), c, c_row, add, step});
        else panel_gemm({m, n, lanes, left, right, c, c_row, add, step});
    }
    // c += leftᵀ @ right: lanes of m numbers, panel_row apart.
    static void product_transposed(int64_t m, int64_t n, int64_t lanes, const float* left, const float* right, float* c,
                                   int64_t c_row) {
        if constexpr (Pairs)
            pair_panels({m, n, lanes, reinterpret_cast<const uint32_t*>(left), panel_row, true,
                         reinterpret_cast<const uint32_t*>(right), c, c_row, true, 0});
        else panel_gemm_transposed({m, n, lanes, left, right, c, c_row, true}, panel_row);
    }

    static void pack_left(float* to, const Matrix<H>& from, int64_t rows, int64_t width) {
        for (int64_t r = 0; r < rows; r++) L::along(to + r * panel_row, from.data + r * from.row, width);
    }
    // Packs a matrix into panels; width is a multiple of half a panel.
    static void pack_right(float* to, const Matrix<H>& from, int64_t rows, int64_t width) {
        for (int64_t j = 0; j < width; j += wide) {
            int64_t across = std::min(wide, width - j);
            for (int64_t r = 0; r < rows; r += L::per, to += across)
                L::across(to, from.data + r * from.row + j, from.row, r + 1 >= rows, across);
        }
    }
    // Packs the transpose into panels, padded with zeros to a panel's width.
    static void pack_right_transposed(float* to, const Matrix<H>& from, int64_t rows, int64_t width) {
        for (int64_t j = 0; j < rows; j += wide) {
            int64_t cols = std::min(wide, rows - j), across = padded(cols);
            if (cols < across) std::fill_n(to, across * lanes(width), 0.0f);
            L::transposed(to, across, from.data + j * from.row, from.row, cols, width);
            to += across * lanes(width);
        }
    }

    // A tile of weights or their gradients as a left factor, optionally transposed.
    struct Left {
        const float* rows;
        int64_t row;
        const float* transposed;
    };
    static Left left(const float* tile, int64_t m, int64_t whole, H* halves, float* transposed) {
        if constexpr (Pairs) {
            for (int64_t r = 0; r < m; r++) narrow_to(halves + r * tile_row, tile + r * panel_row, whole);
            for (int64_t r = 0; transposed && r < m; r += 2)
                L::across(transposed + r / 2 * panel_row, halves + r * tile_row, tile_row, r + 1 >= m, whole);
            return {reinterpret_cast<const float*>(halves), tile_row / 2, transposed};
        } else {
            return {tile, panel_row, tile};
        }
    }

    // Keys and values are packed tile by tile, always whole tiles.
    struct Keys {
        int64_t source, begin;
        int64_t rows() const { return std::min(key_tile, source - begin); }
        int64_t columns(int64_t n) const { return std::min(padded(rows()), (n + wide - 1) / wide * wide); }
        int64_t step() const { return lanes(rows()) * wide; }
    };

    // Scores of queries [i, i + m) and the first n keys from j on, padded with -∞ to whole vectors.
    int64_t score(int64_t b, int64_t h, int64_t i, int64_t m, int64_t j, int64_t n, float* scores) const {
        int64_t whole = padded(n);
        auto scale = float(p.scale);
        for (int64_t r = 0; r < m; r++) {
            float* __restrict row = scores + r * panel_row;
#pragma omp simd
            for (int64_t s = 0; s < n; s++) row[s] *= scale;
            std::fill(row + n, row + whole, -std::numeric_limits<float>::infinity());
        }
        hide(p, b, h, i, m, j, n, scores, panel_row);
        return whole;
    }

    void forward(const Tensor& output, const Tensor& logsumexp, int64_t begin, int64_t end) const {
        int64_t tiles = tiles_of(p.length), source = padded(p.source), value = p.value_features;
        Scratch<float> scratch(2 * most_queries * panel_row + source * (p.features + value) +
                               most_queries * (value + tile_row));
        float *queries = scratch.take(most_queries * panel_row), *scores = scratch.take(most_queries * panel_row);
        float *keys = scratch.take(source * p.features), *values = scratch.take(source * value);
        float* sums = scratch.take(most_queries * value);
        auto* halves = reinterpret_cast<H*>(scratch.take(most_queries * tile_row));
        int64_t arranged = -1;
        for (int64_t at = begin; at < end; at++) {
            int64_t b = at / tiles / p.heads, h = at / tiles % p.heads, kh = h / p.shared();
            if (b * p.key_heads + kh != arranged) {
                Matrix<H> k = matrix<H>(p.k, b, kh), v = matrix<H>(p.v, b, kh);
                for (Keys t{p.source, 0}; t.begin < p.source; t.begin += key_tile) {
                    pack_right_transposed(keys + t.begin * lanes(p.features), k.from(t.begin), t.rows(), p.features);
                    pack_right(values + lanes(t.begin) * value, v.from(t.begin), t.rows(), value);
                }
                arranged = b * p.key_heads + kh;
            }
            Tile tile(p.length, at % tiles);
            int64_t i = tile.begin, m = tile.rows(), last = p.visible(tile.end);
            pack_left(queries, matrix<H>(p.q, b, h).from(i), m, p.features);
            Softmax<float, most_queries> running;
            Matrix<float> o{sums, value};
            for (Keys t{p.source, 0}; t.begin < last; t.begin += key_tile) {
                int64_t j = t.begin, n = std::min(key_tile, last - j);
                product(m, t.columns(n), lanes(p.features), queries, panel_row, keys + j * lanes(p.features), scores,
                        panel_row);
                int64_t whole = score(b, h, i, m, j, n, scores);
                running.add(scores, panel_row, m, whole, o, value);
                Left weights = left(scores, m, whole, halves, nullptr);
                product(m, value, lanes(n), weights.rows, weights.row, values + lanes(j) * value, sums, value, j > 0,
                        t.step());
            }
            running.finish(m, o, value, logsumexp.data<float>() + (b * p.heads + h) * p.length + i);
            Matrix<H> to = matrix<H>(output, b, h).from(i);
            for (int64_t r = 0; r < m; r++) narrow_to(to.data + r * to.row, sums + r * value, value);
        }
    }

    // All gradients of the queries that share one head of key and value.
    void backward(int64_t b, int64_t kh, const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                  const Tensor& dq, const Tensor& dk, const Tensor& dv) const {
        int64_t source = padded(p.source), tile_size = most_queries * panel_row, value = p.value_features;
        int64_t across = p.features + value;
        Scratch<float> scratch(6 * tile_size + most_queries * (tile_row + 2 * across) + 2 * padded(p.length) +
                               source * (2 * p.features + value) + p.source * across + 2 * across);
        float *queries = scratch.take(tile_size), *grads = scratch.take(tile_size), *scores = scratch.take(tile_size);
        float *slopes = scratch.take(tile_size), *transposed = scratch.take(tile_size);
        auto* halves = reinterpret_cast<H*>(scratch.take(most_queries * tile_row));
        float *queries_r = scratch.take(most_queries * p.features), *grads_r = scratch.take(most_queries * value);
        float *keys_t = scratch.take(source * p.features), *keys = scratch.take(source * p.features);
        float* values_t = scratch.take(source * value);
        float *sum_q = scratch.take(most_queries * p.features), *dots = scratch.take(p.length);
        float *sum_k = scratch.take(p.source * p.features), *sum_v = scratch.take(p.source * value);
        float *line = scratch.take(value), *other = scratch.take(value);
        std::fill_n(sum_k, p.source * p.features, 0.0f);
        std::fill_n(sum_v, p.source * value, 0.0f);
        Matrix<H> k = matrix<H>(p.k, b, kh), v = matrix<H>(p.v, b, kh);
        for (Keys t{p.source, 0}; t.begin < p.source; t.begin += key_tile) {
            pack_right_transposed(keys_t + t.begin * lanes(p.features), k.from(t.begin), t.rows(), p.features);
            pack_right_transposed(values_t + t.begin * lanes(value), v.from(t.begin), t.rows(), value);
            pack_right(keys + lanes(t.begin) * p.features, k.from(t.begin), t.rows(), p.features);
        }
        for (int64_t h = kh * p.shared(); h < (kh + 1) * p.shared(); h++) {
            Matrix<H> q = matrix<H>(p.q, b, h), g = matrix<H>(grad, b, h), o = matrix<H>(output, b, h),
                      to_q = matrix<H>(dq, b, h);
            const float* lse = logsumexp.data<float>() + (b * p.heads + h) * p.length;
            for (int64_t i = 0; i < p.length; i++) {
                widen(line, g.data + i * g.row, value);
                widen(other, o.data + i * o.row, value);
                row_dots(dots + i, Matrix<float>{line, value}, Matrix<float>{other, value}, 1, value);
            }
            for (int64_t at = 0; at < tiles_of(p.length); at++) {
                Tile tile(p.length, at);
                int64_t i = tile.begin, m = tile.rows(), last = p.visible(tile.end);
                pack_left(queries, q.from(i), m, p.features);
                pack_left(grads, g.from(i), m, value);
                pack_right(queries_r, q.from(i), m, p.features);
                pack_right(grads_r, g.from(i), m, value);
                for (Keys t{p.source, 0}; t.begin < last; t.begin += key_tile) {
                    int64_t j = t.begin, n = std::min(key_tile, last - j), columns = t.columns(n);
                    product(m, columns, lanes(p.features), queries, panel_row, keys_t + j * lanes(p.features), scores,
                            panel_row);
                    int64_t whole = score(b, h, i, m, j, n, scores);
                    weights_again(scores, panel_row, m, whole, lse + i);
                    Left weights = left(scores, m, whole, halves, transposed);
                    product_transposed(n, value, lanes(m), weights.transposed, grads_r, sum_v + j * value, value);
                    product(m, columns, lanes(value), grads, panel_row, values_t + j * lanes(value), slopes, panel_row);
                    score_slopes(slopes, scores, panel_row, m, whole, dots + i);
                    auto scale = float(p.scale);
                    for (int64_t r = 0; r < m; r++)
#pragma omp simd
                        for (int64_t s = 0; s < whole; s++) slopes[r * panel_row + s] *= scale;
                    Left slope = left(slopes, m, whole, halves, transposed);
                    product(m, p.features, lanes(n), slope.rows, slope.row, keys + lanes(j) * p.features, sum_q,
                            p.features, j > 0, t.step());
                    product_transposed(n, p.features, lanes(m), slope.transposed, queries_r, sum_k + j * p.features,
                                       p.features);
                }
                for (int64_t r = 0; r < m; r++)
                    narrow_to(to_q.data + (i + r) * to_q.row, sum_q + r * p.features, p.features);
            }
        }
        Matrix<H> to_k = matrix<H>(dk, b, kh), to_v = matrix<H>(dv, b, kh);
        for (int64_t s = 0; s < p.source; s++) {
            narrow_to(to_k.data + s * to_k.row, sum_k + s * p.features, p.features);
            narrow_to(to_v.data + s * to_v.row, sum_v + s * value, value);
        }
    }
};

// Calls f with the type that fits dtype and processor.
template <class F>
void with_lanes(const Attention& p, F f) {
    if (p.q.dtype() == DType::F16) return f(HalfTiles<Half, false>{p});
    cpu_has(CpuLevel::AVX512_BF16) ? f(HalfTiles<BFloat16, true>{p}) : f(HalfTiles<BFloat16, false>{p});
}

}  // namespace

bool fits_half(const Attention& p) {
    return is_half(p.q.dtype()) && p.features > 0 && p.value_features > 0 && p.length > few_queries &&
           p.source > few_queries && p.features % 16 == 0 && p.value_features % 16 == 0 &&
           std::max(p.features, p.value_features) <= panel_depth;
}

void forward_half(const Attention& p, const Tensor& output, const Tensor& logsumexp) {
    with_lanes(p, [&](auto half) {
        parallel_for(p.batch * p.heads * tiles_of(p.length), 1,
                     [&](int64_t begin, int64_t end) { half.forward(output, logsumexp, begin, end); });
    });
}

void backward_half(const Attention& p, const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                   const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    with_lanes(p, [&](auto half) {
        parallel_for(p.batch * p.key_heads, 1, [&](int64_t begin, int64_t end) {
            for (int64_t at = begin; at < end; at++)
                half.backward(at / p.key_heads, at % p.key_heads, grad, output, logsumexp, dq, dk, dv);
        });
    });
}

}  // namespace fb::cpu::attention
