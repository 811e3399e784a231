// softmax(query · keyᵀ · scale + mask) · value in tiles: scores exist for one tile of queries and keys at a time, so
// memory grows with the lengths and not with their product. The gradient computes the tiles again.
#include <cmath>
#include <limits>

#include "autograd/mode.h"
#include "backend/cpu/gemm.h"
#include "ops/common.h"
#include "ops/gradient.h"
#include "ops/scan_exp.h"

namespace fb {
namespace {

constexpr int64_t query_tile = 64, key_tile = 256;

// Arguments of shape (N, H, length, features); key and value may have fewer heads, each shared by several of query's.
struct Attention {
    Tensor q, k, v, mask;
    bool causal;
    double scale;
    int64_t batch, heads, key_heads, length, source, features, value_features;

    Attention(const Args& a, int first) {
        q = rows(a.tensor(first)), k = rows(a.tensor(first + 1)), v = rows(a.tensor(first + 2));
        mask = a.tensor_or_none(first + 3), causal = a.flag(first + 4), scale = a.number(first + 5);
        check(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "expected tensors of 4 dimensions");
        batch = q.size(0), heads = q.size(1), length = q.size(2), features = q.size(3);
        key_heads = k.size(1), source = k.size(2), value_features = v.size(3);
        check(k.size(0) == batch && v.size(0) == batch && v.size(1) == key_heads && v.size(2) == source &&
                  k.size(3) == features && (key_heads ? heads % key_heads == 0 : heads == 0),
              "query ", q.shape(), ", key ", k.shape(), " and value ", v.shape(), " do not fit");
        check(k.dtype() == q.dtype() && v.dtype() == q.dtype(), "query, key and value differ in dtype");
        if (mask) {
            if (mask.dtype() != DType::Bool) mask = to_dtype(mask, q.dtype());
            mask = expand(mask, {batch, heads, length, source});
        }
    }
    static Tensor rows(const Tensor& t) { return t.dim() == 4 && t.stride(3) == 1 ? t : contiguous(t); }
    int64_t shared() const { return heads / key_heads; }
    // Keys that the queries before `end` see.
    int64_t visible(int64_t end) const { return causal ? std::min(source, end) : source; }
};

// Zeros of shape (N, H, length, features), in memory as (N, length, H, features): the order in which the heads of a
// position were one vector, and will be again.
Tensor heads_within(const Dims& shape, DType dtype) {
    return transpose(zeros({shape[0], shape[2], shape[1], shape[3]}, dtype), 1, 2);
}

template <class T>
struct Matrix {
    T* data;
    int64_t row, col = 1;
    Matrix t() const { return {data, col, row}; }
    Matrix from(int64_t r) const { return {data + r * row, row, col}; }
};
template <class T>
Matrix<T> matrix(const Tensor& t, int64_t n, int64_t h) {
    return {t.data<T>() + n * t.strides()[0] + h * t.strides()[1], t.strides()[2], t.strides()[3]};
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
    constexpr T out = -std::numeric_limits<T>::infinity();
    Matrix<T> q = matrix<T>(p.q, b, h).from(i), k = matrix<T>(p.k, b, h / p.shared()).from(j);
    product<T>({scores, key_tile}, q, k.t(), m, n, p.features, p.scale, 0);
    for (int64_t r = 0; r < m; r++) {
        T* row = scores + r * key_tile;
        if (p.causal) {
            for (int64_t s = std::max<int64_t>(0, i + r + 1 - j); s < n; s++) row[s] = out;
        }
        if (!p.mask) continue;
        const Dims& step = p.mask.strides();
        int64_t at = b * step[0] + h * step[1] + (i + r) * step[2] + j * step[3];
        if (p.mask.dtype() == DType::Bool) {
            const bool* keep = p.mask.data<bool>() + at;
            for (int64_t s = 0; s < n; s++) row[s] = keep[s * step[3]] ? row[s] : out;
        } else {
            const T* add = p.mask.data<T>() + at;
            for (int64_t s = 0; s < n; s++) row[s] += add[s * step[3]];
        }
    }
}

template <class T>
void forward_tile(const Attention& p, int64_t b, int64_t h, int64_t i, const Tensor& output, T* logsumexp, T* scores) {
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    int64_t m = std::min(query_tile, p.length - i), last = p.visible(i + m);
    Matrix<T> o = matrix<T>(output, b, h).from(i), v = matrix<T>(p.v, b, h / p.shared());
    T top[query_tile], total[query_tile];
    std::fill_n(top, m, lowest);
    std::fill_n(total, m, T(0));
    for (int64_t j = 0; j < last; j += key_tile) {
        int64_t n = std::min(key_tile, last - j);
        score_tile(p, b, h, i, m, j, n, scores);
        for (int64_t r = 0; r < m; r++) {
            T* __restrict row = scores + r * key_tile;
            T highest = top[r], sum = 0;
#pragma omp simd reduction(max : highest)
            for (int64_t s = 0; s < n; s++) highest = row[s] > highest ? row[s] : highest;
            T shift = highest == lowest ? T(0) : highest;
#pragma omp simd reduction(+ : sum)
            for (int64_t s = 0; s < n; s++) {
                T e = vector_exp(row[s] - shift);
                row[s] = e;
                sum += e;
            }
            T before = top[r] == lowest ? T(0) : vector_exp(top[r] - shift);
            total[r] = total[r] * before + sum;
            top[r] = highest;
            if (j > 0 && before != 1) {
                T* __restrict to = o.data + r * o.row;
#pragma omp simd
                for (int64_t e = 0; e < p.value_features; e++) to[e] *= before;
            }
        }
        product<T>(o, {scores, key_tile}, v.from(j), m, p.value_features, n, 1, 1);
    }
    for (int64_t r = 0; r < m; r++) {
        // A query that sees no key gets zeros.
        T scale = total[r] == 0 ? T(0) : 1 / total[r];
        T* __restrict to = o.data + r * o.row;
#pragma omp simd
        for (int64_t e = 0; e < p.value_features; e++) to[e] *= scale;
        logsumexp[i + r] = total[r] == 0 ? lowest : top[r] + std::log(total[r]);
    }
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
        for (int64_t i = 0; i < p.length; i++) {
            T dot = 0;
#pragma omp simd reduction(+ : dot)
            for (int64_t e = 0; e < p.value_features; e++) dot += g.data[i * g.row + e] * o.data[i * o.row + e];
            dots[i] = dot;
        }
        for (int64_t i = 0; i < p.length; i += query_tile) {
            int64_t m = std::min(query_tile, p.length - i), last = p.visible(i + m);
            for (int64_t j = 0; j < last; j += key_tile) {
                int64_t n = std::min(key_tile, last - j);
                score_tile(p, b, h, i, m, j, n, scores.data());
                for (int64_t r = 0; r < m; r++) {
                    T* __restrict row = scores.data() + r * key_tile;
                    T shift = lse[i + r];
                    if (shift == -std::numeric_limits<T>::infinity()) std::fill_n(row, n, T(0));
                    else
#pragma omp simd
                        for (int64_t s = 0; s < n; s++) row[s] = vector_exp(row[s] - shift);
                }
                Matrix<T> weights{scores.data(), key_tile}, slope{slopes.data(), key_tile};
                product<T>(to_v.from(j), weights.t(), g.from(i), n, p.value_features, m, 1, 1);
                product<T>(slope, g.from(i), v.from(j).t(), m, n, p.value_features, 1, 0);
                for (int64_t r = 0; r < m; r++) {
                    const T* __restrict w = scores.data() + r * key_tile;
                    T* __restrict row = slopes.data() + r * key_tile;
                    T dot = dots[i + r];
#pragma omp simd
                    for (int64_t s = 0; s < n; s++) row[s] = w[s] * (row[s] - dot);
                }
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
    Tensor output = heads_within({p.batch, p.heads, p.length, p.value_features}, p.q.dtype());
    Tensor logsumexp = empty({p.batch, p.heads, p.length}, p.q.dtype());
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
    Tensor dq = heads_within(p.q.shape(), p.q.dtype()), dk = heads_within(p.k.shape(), p.q.dtype()),
           dv = heads_within(p.v.shape(), p.q.dtype());
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
