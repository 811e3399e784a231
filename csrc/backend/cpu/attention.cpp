// Tiled attention: scores exist for one tile of queries and keys at a time, so memory grows with the lengths and not
// with their product. The gradient recomputes the tiles.
#include "backend/cpu/attention.h"

#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/loops.h"

namespace fb::cpu {
namespace {

using namespace attention;

constexpr int64_t query_tile = 64;

template <class T>
void product(const Matrix<T>& c, const Matrix<T>& a, const Matrix<T>& b, int64_t m, int64_t n, int64_t k, double alpha,
             double beta) {
    float_gemm({dtype_of<T>(), m, n, k, reinterpret_cast<const char*>(a.data), a.row, a.col,
                reinterpret_cast<const char*>(b.data), b.row, b.col, reinterpret_cast<char*>(c.data), c.row,
                Scalar(alpha), Scalar(beta)});
}

// Scores of queries [i, i + m) and keys [j, j + n), masked.
template <class T>
void score_tile(const Attention& p, int64_t b, int64_t h, int64_t i, int64_t m, int64_t j, int64_t n, T* scores) {
    Matrix<T> q = matrix<T>(p.q, b, h).from(i), k = matrix<T>(p.k, b, h / p.shared()).from(j);
    product<T>({scores, key_tile}, q, k.t(), m, n, p.features, p.scale, 0);
    hide(p, b, h, i, m, j, n, scores, key_tile);
}

template <class T>
void forward_tile(const Attention& p, int64_t b, int64_t h, int64_t i, const Tensor& output, T* logsumexp, T* scores) {
    int64_t m = std::min(query_tile, p.length - i), last = p.visible(i + m);
    Matrix<T> o = matrix<T>(output, b, h).from(i), v = matrix<T>(p.v, b, h / p.shared());
    Softmax<T, query_tile> running;
    for (int64_t j = 0; j < last; j += key_tile) {
        int64_t n = std::min(key_tile, last - j);
        score_tile(p, b, h, i, m, j, n, scores);
        running.add(scores, key_tile, m, n, o, p.value_features);
        product<T>(o, {scores, key_tile}, v.from(j), m, p.value_features, n, 1, 1);
    }
    running.finish(m, o, p.value_features, logsumexp + i);
}

// All gradients of the queries that share one head of key and value.
template <class T>
void backward_head(const Attention& p, int64_t b, int64_t kh, const Tensor& grad, const Tensor& output,
                   const Tensor& logsumexp, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    std::vector<T> scores(query_tile * key_tile), slopes(query_tile * key_tile), dots(p.length);
    Matrix<T> k = matrix<T>(p.k, b, kh), v = matrix<T>(p.v, b, kh), to_k = matrix<T>(dk, b, kh),
              to_v = matrix<T>(dv, b, kh);
    for (int64_t h = kh * p.shared(); h < (kh + 1) * p.shared(); h++) {
        Matrix<T> q = matrix<T>(p.q, b, h), g = matrix<T>(grad, b, h), o = matrix<T>(output, b, h),
                  to_q = matrix<T>(dq, b, h);
        const T* lse = logsumexp.data<T>() + (b * p.heads + h) * p.length;
        row_dots(dots.data(), g, o, p.length, p.value_features);
        for (int64_t i = 0; i < p.length; i += query_tile) {
            int64_t m = std::min(query_tile, p.length - i), last = p.visible(i + m);
            for (int64_t j = 0; j < last; j += key_tile) {
                int64_t n = std::min(key_tile, last - j);
                score_tile(p, b, h, i, m, j, n, scores.data());
                weights_again(scores.data(), key_tile, m, n, lse + i);
                Matrix<T> weights{scores.data(), key_tile}, slope{slopes.data(), key_tile};
                product<T>(to_v.from(j), weights.t(), g.from(i), n, p.value_features, m, 1, 1);
                product<T>(slope, g.from(i), v.from(j).t(), m, n, p.value_features, 1, 0);
                score_slopes(slopes.data(), scores.data(), key_tile, m, n, dots.data() + i);
                product<T>(to_q.from(i), slope, k.from(j), m, p.features, n, p.scale, 1);
                product<T>(to_k.from(j), slope.t(), q.from(i), n, p.features, m, p.scale, 1);
            }
        }
    }
}

Tensor as_float(const Tensor& x) {
    Tensor result = empty(x.shape(), DType::F32, x.device());
    copy(result, x);
    return result;
}
Attention as_float(Attention p) {
    p.q = as_float(p.q), p.k = as_float(p.k), p.v = as_float(p.v);
    return p;
}

void attention_forward(const Attention& p, const Tensor& output, const Tensor& logsumexp) {
    if (fits_few(p)) return forward_few(p, output, logsumexp);
    if (fits_half(p)) return forward_half(p, output, logsumexp);
    if (is_half(p.q.dtype())) {
        Tensor wide = as_float(output);
        attention_forward(as_float(p), wide, logsumexp);
        return copy(output, wide);
    }
    if (fits_panels(p)) {
        forward_panels(p, output, logsumexp);
        return;
    }
    int64_t tiles = (p.length + query_tile - 1) / query_tile;
    dispatch<float, double>(p.q.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t work = query_tile * std::max<int64_t>(1, p.source) * (p.features + p.value_features);
        parallel_for(p.batch * p.heads * tiles, std::max<int64_t>(1, parallel_grain / std::max<int64_t>(1, work)),
                     [&](int64_t begin, int64_t end) {
                         std::vector<T> scores(query_tile * key_tile);
                         for (int64_t at = begin; at < end; at++) {
                             int64_t head = at / tiles;
                             forward_tile<T>(p, head / p.heads, head % p.heads, at % tiles * query_tile, output,
                                             logsumexp.data<T>() + head * p.length, scores.data());
                         }
                     });
    });
}

void attention_backward(const Attention& p, const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                        const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    if (fits_half(p)) return backward_half(p, grad, output, logsumexp, dq, dk, dv);
    if (is_half(p.q.dtype())) {
        Tensor wide[] = {as_float(dq), as_float(dk), as_float(dv)};
        attention_backward(as_float(p), as_float(grad), as_float(output), logsumexp, wide[0], wide[1], wide[2]);
        copy(dq, wide[0]), copy(dk, wide[1]), copy(dv, wide[2]);
        return;
    }
    if (fits_panels(p)) {
        backward_panels(p, grad, output, logsumexp, dq, dk, dv);
        return;
    }
    dispatch<float, double>(p.q.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        parallel_for(p.batch * p.key_heads, 1, [&](int64_t begin, int64_t end) {
            for (int64_t at = begin; at < end; at++)
                backward_head<T>(p, at / p.key_heads, at % p.key_heads, grad, output, logsumexp, dq, dk, dv);
        });
    });
}

const device::Provide<device::Attending> provided(DeviceType::CPU,
                                                  {.forward = attention_forward, .backward = attention_backward});

}  // namespace
}  // namespace fb::cpu
