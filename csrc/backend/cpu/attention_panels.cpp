// Attention in float32 on the panel kernels: operands are packed once, and a tile of scores is stored where the next
// product reads it.
#include "backend/cpu/attention.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_pack.h"

namespace fb::cpu::attention {
namespace {

using Rows = Matrix<float>;

constexpr int64_t half = panel_wide / 2, most_queries = 70;
static_assert(key_tile <= panel_depth);

int64_t padded(int64_t n) { return (n + half - 1) / half * half; }
int64_t tiles_of(int64_t length) { return (length + most_queries - 1) / most_queries; }

// Queries [begin, end) of tile t: the queries are divided evenly among the tiles.
struct Tile {
    int64_t begin, end;
    Tile(int64_t length, int64_t t) : begin(length * t / tiles_of(length)), end(length * (t + 1) / tiles_of(length)) {}
    int64_t rows() const { return end - begin; }
};

// Packs rows at the distance at which the kernels expect their left operand.
void pack_left(float* to, const Rows& from, int64_t rows, int64_t width, float scale) {
    for (int64_t r = 0; r < rows; r++) {
        const float* x = from.data + r * from.row;
#pragma omp simd
        for (int64_t e = 0; e < width; e++) to[r * panel_row + e] = x[e] * scale;
    }
}

// Packs a matrix into panels; width is a multiple of half a panel.
void pack_right(float* __restrict to, const Rows& from, int64_t rows, int64_t width, float scale) {
    for (int64_t j = 0; j < width; j += panel_wide) {
        int64_t across = std::min(panel_wide, width - j);
        for (int64_t r = 0; r < rows; r++, to += across) {
            const float* __restrict x = from.data + r * from.row + j;
#pragma omp simd
            for (int64_t e = 0; e < across; e++) to[e] = x[e] * scale;
        }
    }
}

// Packs the transpose into panels, padded with zeros to a panel's width.
void pack_right_transposed(float* to, const Rows& from, int64_t rows, int64_t width) {
    for (int64_t j = 0; j < rows; j += panel_wide) {
        int64_t cols = std::min(panel_wide, rows - j), across = padded(cols);
        if (cols < across) std::fill_n(to, across * width, 0.0f);
        transpose_copy(to, across, from.data + j * from.row, from.row, cols, width);
        to += across * width;
    }
}

// Keys and values of one head are packed tile by tile, always whole tiles.
struct Keys {
    int64_t source, begin;
    int64_t rows() const { return std::min(key_tile, source - begin); }
    // Number of columns of the transpose to compute for the first n keys.
    int64_t columns(int64_t n) const {
        return std::min(padded(rows()), (n + panel_wide - 1) / panel_wide * panel_wide);
    }
    int64_t step() const { return rows() * panel_wide; }  // between panels of the untransposed keys
};

// Masks the scores of the first n keys and pads with -∞ to whole vectors: weights of zero.
int64_t hide_rest(const Attention& p, int64_t b, int64_t h, int64_t i, int64_t m, int64_t j, int64_t n, float* scores) {
    hide(p, b, h, i, m, j, n, scores, panel_row);
    int64_t whole = padded(n);
    for (int64_t r = 0; n < whole && r < m; r++)
        std::fill(scores + r * panel_row + n, scores + r * panel_row + whole, -std::numeric_limits<float>::infinity());
    return whole;
}

}  // namespace

bool fits_panels(const Attention& p) {
    return p.q.dtype() == DType::F32 && p.length >= 16 && p.source >= 16 && p.features % half == 0 &&
           p.value_features % half == 0 && p.features > 0 && p.value_features > 0 &&
           std::max(p.features, p.value_features) <= panel_depth;
}

void forward_panels(const Attention& p, const Tensor& output, const Tensor& logsumexp) {
    int64_t tiles = tiles_of(p.length), source = padded(p.source);
    parallel_for(p.batch * p.heads * tiles, 1, [&](int64_t begin, int64_t end) {
        Scratch<float> scratch(2 * most_queries * panel_row + source * (p.features + p.value_features));
        float *queries = scratch.take(most_queries * panel_row), *scores = scratch.take(most_queries * panel_row);
        float *keys = scratch.take(source * p.features), *values = scratch.take(source * p.value_features);
        int64_t arranged = -1;
        for (int64_t at = begin; at < end; at++) {
            int64_t b = at / tiles / p.heads, h = at / tiles % p.heads, kh = h / p.shared();
            if (b * p.key_heads + kh != arranged) {
                Rows k = matrix<float>(p.k, b, kh), v = matrix<float>(p.v, b, kh);
                for (Keys t{p.source, 0}; t.begin < p.source; t.begin += key_tile) {
                    pack_right_transposed(keys + t.begin * p.features, k.from(t.begin), t.rows(), p.features);
                    pack_right(values + t.begin * p.value_features, v.from(t.begin), t.rows(), p.value_features, 1);
                }
                arranged = b * p.key_heads + kh;
            }
            Tile tile(p.length, at % tiles);
            Rows o = matrix<float>(output, b, h).from(tile.begin);
            int64_t m = tile.rows(), last = p.visible(tile.end);
            pack_left(queries, matrix<float>(p.q, b, h).from(tile.begin), m, p.features, float(p.scale));
            Softmax<float, most_queries> running;
            for (Keys t{p.source, 0}; t.begin < last; t.begin += key_tile) {
                int64_t j = t.begin, n = std::min(key_tile, last - j);
                panel_gemm({m, t.columns(n), p.features, queries, keys + j * p.features, scores, panel_row});
                int64_t whole = hide_rest(p, b, h, tile.begin, m, j, n, scores);
                running.add(scores, panel_row, m, whole, o, p.value_features);
                panel_gemm(
                    {m, p.value_features, n, scores, values + j * p.value_features, o.data, o.row, j > 0, t.step()});
            }
            running.finish(m, o, p.value_features, logsumexp.data<float>() + (b * p.heads + h) * p.length + tile.begin);
        }
    });
}

// All gradients of the queries that share one head of key and value.
static void backward_head(const Attention& p, int64_t b, int64_t kh, const Tensor& grad, const Tensor& output,
                          const Tensor& logsumexp, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    int64_t source = padded(p.source), left = most_queries * panel_row;
    Scratch<float> scratch(4 * left + most_queries * (p.features + p.value_features) + padded(p.length) +
                           source * (2 * p.features + p.value_features));
    float *queries = scratch.take(left), *grads = scratch.take(left), *scores = scratch.take(left);
    float *slopes = scratch.take(left), *keys_t = scratch.take(source * p.features);
    float *values_t = scratch.take(source * p.value_features), *keys = scratch.take(source * p.features);
    float *queries_r = scratch.take(most_queries * p.features),
          *grads_r = scratch.take(most_queries * p.value_features);
    float* dots = scratch.take(p.length);
    float scale = float(p.scale);
    Rows k = matrix<float>(p.k, b, kh), v = matrix<float>(p.v, b, kh), to_k = matrix<float>(dk, b, kh),
         to_v = matrix<float>(dv, b, kh);
    for (Keys t{p.source, 0}; t.begin < p.source; t.begin += key_tile) {
        pack_right_transposed(keys_t + t.begin * p.features, k.from(t.begin), t.rows(), p.features);
        pack_right_transposed(values_t + t.begin * p.value_features, v.from(t.begin), t.rows(), p.value_features);
        pack_right(keys + t.begin * p.features, k.from(t.begin), t.rows(), p.features, scale);
    }
    for (int64_t h = kh * p.shared(); h < (kh + 1) * p.shared(); h++) {
        Rows q = matrix<float>(p.q, b, h), g = matrix<float>(grad, b, h), to_q = matrix<float>(dq, b, h);
        const float* lse = logsumexp.data<float>() + (b * p.heads + h) * p.length;
        row_dots(dots, g, matrix<float>(output, b, h), p.length, p.value_features);
        for (int64_t at = 0; at < tiles_of(p.length); at++) {
            Tile tile(p.length, at);
            int64_t i = tile.begin, m = tile.rows(), last = p.visible(tile.end);
            pack_left(queries, q.from(i), m, p.features, scale);
            pack_left(grads, g.from(i), m, p.value_features, 1);
            pack_right(queries_r, q.from(i), m, p.features, scale);
            pack_right(grads_r, g.from(i), m, p.value_features, 1);
            for (Keys t{p.source, 0}; t.begin < last; t.begin += key_tile) {
                int64_t j = t.begin, n = std::min(key_tile, last - j), columns = t.columns(n);
                panel_gemm({m, columns, p.features, queries, keys_t + j * p.features, scores, panel_row});
                int64_t whole = hide_rest(p, b, h, i, m, j, n, scores);
                weights_again(scores, panel_row, m, whole, lse + i);
                panel_gemm_transposed({n, p.value_features, m, scores, grads_r, to_v.from(j).data, to_v.row, true},
                                      panel_row);
                panel_gemm({m, columns, p.value_features, grads, values_t + j * p.value_features, slopes, panel_row});
                score_slopes(slopes, scores, panel_row, m, whole, dots + i);
                panel_gemm(
                    {m, p.features, n, slopes, keys + j * p.features, to_q.from(i).data, to_q.row, j > 0, t.step()});
                panel_gemm_transposed({n, p.features, m, slopes, queries_r, to_k.from(j).data, to_k.row, true},
                                      panel_row);
            }
        }
    }
}

void backward_panels(const Attention& p, const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                     const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    parallel_for(p.batch * p.key_heads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; at++)
            backward_head(p, at / p.key_heads, at % p.key_heads, grad, output, logsumexp, dq, dk, dv);
    });
}

}  // namespace fb::cpu::attention
