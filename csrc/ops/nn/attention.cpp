// softmax(query · keyᵀ · scale + mask) · value in tiles: scores exist for one tile of queries and keys at a time, so
// memory grows with the lengths and not with their product. The gradient computes the tiles again.
#include "ops/nn/attention.h"

#include <cmath>
#include <limits>

#include "autograd/mode.h"
#include "backend/cpu/gemm.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

using namespace attention;

constexpr int64_t query_tile = 64;

// Zeros of shape (N, H, length, features) in the order of x: as they stand, or in memory as (N, length, H, features),
// where the heads of a position were one vector, and will be again.
Tensor ordered_like(const Tensor& x, const Dims& shape) {
    if (x.is_contiguous()) return zeros(shape, x.dtype());
    return transpose(zeros({shape[0], shape[2], shape[1], shape[3]}, x.dtype()), 1, 2);
}

template <class T>
void product(const Matrix<T>& c, const Matrix<T>& a, const Matrix<T>& b, int64_t m, int64_t n, int64_t k, double alpha,
             double beta) {
    cpu::float_gemm({dtype_of<T>(), m, n, k, reinterpret_cast<const char*>(a.data), a.row, a.col,
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

}  // namespace

OP("_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale) "
   "-> (Tensor output, Tensor logsumexp)",
   FUNCTION, R"(The work behind fb.nn.functional.scaled_dot_product_attention().

Args:
    query: (N, H, L, E).
    key: (N, H or a divisor of it, S, E).
    value: (N, H or a divisor of it, S, Ev).
    mask: broadcasts to (N, H, L, S): True where a key takes part, or a number to add.
    causal: whether query i sees the keys up to i only.
    scale: factor of the scores.

Example:
    >>> x = fb.ones(1, 1, 2, 3)
    >>> fb._attention(x, x, x, None, False, 1.0).output.shape
    flambeau.Size([1, 1, 2, 3])
)") {
    OpScope scope("scaled_dot_product_attention");
    Attention p(a, 0);
    Tensor output = ordered_like(p.q, {p.batch, p.heads, p.length, p.value_features});
    Tensor logsumexp = empty({p.batch, p.heads, p.length}, p.q.dtype());
    if (attention::fits_panels(p)) {
        attention::forward_panels(p, output, logsumexp);
        return std::vector<Tensor>{output, logsumexp};
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
    return std::vector<Tensor>{output, logsumexp};
}

OP("_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale, "
   "Tensor output, Tensor logsumexp) -> (Tensor query, Tensor key, Tensor value)",
   0) {
    Attention p(a, 1);
    Tensor grad = Attention::rows(a.tensor(0)), output = Attention::rows(a.tensor(7)),
           logsumexp = contiguous(a.tensor(8));
    check(grad.shape() == output.shape() && logsumexp.numel() == p.batch * p.heads * p.length,
          "results of the forward pass do not fit");
    Tensor dq = ordered_like(p.q, p.q.shape()), dk = ordered_like(p.k, p.k.shape()),
           dv = ordered_like(p.v, p.v.shape());
    if (attention::fits_panels(p)) {
        attention::backward_panels(p, grad, output, logsumexp, dq, dk, dv);
        return std::vector<Tensor>{dq, dk, dv};
    }
    dispatch<float, double>(p.q.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        parallel_for(p.batch * p.key_heads, 1, [&](int64_t begin, int64_t end) {
            for (int64_t at = begin; at < end; at++)
                backward_head<T>(p, at / p.key_heads, at % p.key_heads, grad, output, logsumexp, dq, dk, dv);
        });
    });
    return std::vector<Tensor>{dq, dk, dv};
}

// With all scores at once: for gradients of gradients, and of the mask.
static void composed_gradient(GradCall& c) {
    Var g = c.g(0), q = c.in(0), k = c.in(1), v = c.in(2);
    const Dims &qs = c.shape(0), &ks = c.shape(1), &vs = c.shape(2);
    int64_t shared = qs[1] / ks[1];
    auto repeat = [&](const Var& x) {
        if (shared == 1) return x;
        Dims wide{x.size(0), x.size(1), shared, x.size(2), x.size(3)};
        return reshape(expand(unsqueeze(x, 2), wide), Dims{qs[0], qs[1], x.size(2), x.size(3)});
    };
    auto gathered = [&](const Var& x, const Dims& shape) {
        if (shared == 1) return x;
        return sum(reshape(x, Dims{shape[0], shape[1], shared, shape[2], shape[3]}), Dims{2}, false);
    };
    Var scale(c.number(5)), scores = matmul(q * scale, transpose(repeat(k), -2, -1)), hidden;
    if (c.given(3) && c.dtype(3) == DType::Bool) hidden = logical_not(c.in(3));
    else if (c.given(3)) scores = scores + c.in(3);
    if (c.flag(4)) hidden = logical_not(tril(Var(full({qs[2], ks[2]}, Scalar(true), DType::Bool))));
    double lowest = -std::numeric_limits<double>::infinity();
    if (hidden.defined()) scores = masked_fill(scores, hidden, lowest);
    Var weights = masked_fill(call<"softmax">(scores, -1), all(scores == lowest, -1, true), 0);
    if (c.needs(2)) c.set(2, gathered(matmul(transpose(weights, -2, -1), g), vs));
    Var slope = matmul(g, transpose(repeat(v), -2, -1));
    slope = weights * (slope - sum(slope * weights, Dims{-1}, true));
    if (c.has(1)) slope = slope + weights * unsqueeze(c.g(1), -1);
    if (hidden.defined()) slope = masked_fill(slope, hidden, 0);
    if (c.needs(0)) c.set(0, matmul(slope, repeat(k)) * scale);
    if (c.needs(1)) c.set(1, gathered(matmul(transpose(slope, -2, -1), q), ks) * scale);
    if (c.given(3) && c.needs(3)) c.set(3, slope);
}

constexpr uint32_t kept = IN(0) | IN(1) | IN(2) | IN(3) | RESULT(0) | RESULT(1);
GRAD("_attention", kept, kept, kept, kept) {
    if (grad_enabled() || (c.given(3) && c.needs(3)) || c.has(1)) return composed_gradient(c);
    Var mask = c.given(3) ? c.in(3) : Var();
    auto all = call_all<"_attention_backward">(c.g(0), c.in(0), c.in(1), c.in(2), mask, c.flag(4), c.number(5),
                                               c.out(0), c.out(1));
    for (int i = 0; i < 3; i++) c.set(i, all[static_cast<size_t>(i)]);
}

}  // namespace fb
