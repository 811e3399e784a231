// Attention: matrix products around a kernel over rows of scores.
#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"

namespace fb::gpu {
namespace {

using device::Attention;
using device::Reduction;

// (N, H, …) with the heads that share a key head in a separate dimension: (N, key heads, sharing, …).
Tensor by_key_head(const Attention& p, const Tensor& t) {
    const Dims &shape = t.shape(), &strides = t.strides();
    return view_of(t, {shape[0], p.key_heads, p.shared(), shape[2], shape[3]},
                   {strides[0], p.shared() * strides[1], strides[1], strides[2], strides[3]}, t.offset());
}
// A key or value, expanded to all heads that share it.
Tensor for_sharing(const Attention& p, const Tensor& t) {
    const Dims &shape = t.shape(), &strides = t.strides();
    return view_of(t, {shape[0], p.key_heads, p.shared(), shape[2], shape[3]},
                   {strides[0], strides[1], 0, strides[2], strides[3]}, t.offset());
}
Tensor transposed(const Tensor& t) { return transpose(t, t.dim() - 2, t.dim() - 1); }

bool takes(const Attention& p) { return uses_kernels() && is_floating(p.q.dtype()); }
DType computed(const Attention& p) { return compute_dtype(p.q.dtype()); }

// Scores of shape (N, key heads, sharing, length, source), before masking.
Tensor scores_of(const Attention& p) {
    Tensor scores = empty({p.batch, p.key_heads, p.shared(), p.length, p.source}, computed(p), p.q.device());
    return run_product(scores, by_key_head(p, p.q), transposed(for_sharing(p, p.k)), Scalar(p.scale), Scalar(0))
               ? scores
               : Tensor();
}

// Runs the text for every row of scores: `LOAD_s(at + j)` reads a score, and `score(j)` applies the masks.
Work& each_row(Work& work, const Attention& p, const Tensor& scores) {
    work.compute(computed(p)).tensor("s", scores).tensor("mask", p.mask);
    work.number("length", p.length).number("source", p.source).number("heads", p.heads);
    work.define("CAUSAL", p.causal);
    std::string masked = "LOAD_s(at + j)";
    if (p.mask.defined()) {
        work.numbers("step", p.mask.strides().begin(), 4);
        std::string element = "LOAD_mask(hidden + j * g.step[3])";
        masked = p.mask.dtype() == DType::Bool ? "(" + element + " ? " + masked + " : -INF)"
                                               : "(" + masked + " + " + element + ")";
    }
    return work.define("SCORE(j)", "(CAUSAL && (j) > row ? -INF : " + masked + ")")
        .define("HAS_MASK", p.mask.defined());
}
constexpr const char* begin =
    R"(    const ix head = item / g.length, row = item - head * g.length, at = item * g.source;
#if HAS_MASK
    const ix n = head / g.heads, hidden = n * g.step[0] + (head - n * g.heads) * g.step[1] + row * g.step[2];
#endif
)";

// Sums over the heads that share a key head, into (N, key heads, …).
bool gather_shared(const Attention& p, const Tensor& each, const Tensor& to) {
    if (p.shared() == 1) return true;
    return run_reduction(Reduction::Sum, each.dtype(), each, {0, 0, 1, 0, 0}, &to, nullptr);
}

}  // namespace

bool run_attention(const Attention& p, const Tensor& output, const Tensor& logsumexp) {
    if (!takes(p)) return false;
    if (output.numel() == 0 && logsumexp.numel() == 0) return true;
    Tensor scores = scores_of(p);
    if (!scores) return false;
    Work work(p.q.device());
    each_row(work, p, scores).tensor("lse", logsumexp);
    // A query that attends to no key gets zeros.
    if (!work.run(std::string(begin) + R"(    T top = -INF, sum = (T)0;
    for (ix j = 0; j < g.source; j++) {
        const T v = SCORE(j);
        top = v > top ? v : top;
    }
    const T shift = top == -INF ? (T)0 : top;
    for (ix j = 0; j < g.source; j++) {
        const T v = exp(SCORE(j) - shift);
        STORE_s(at + j, v);
        sum += v;
    }
    const T scale = sum == 0 ? (T)0 : (T)1 / sum;
    for (ix j = 0; j < g.source; j++) STORE_s(at + j, LOAD_s(at + j) * scale);
    STORE_lse(item, sum == 0 ? -INF : top + log(sum));)",
                  p.batch * p.heads * p.length))
        return false;
    return run_product(by_key_head(p, output), scores, for_sharing(p, p.v), Scalar(1), Scalar(0));
}

bool run_attention_backward(const Attention& p, const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                            const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    if (!takes(p)) return false;
    if (output.numel() == 0 || p.source == 0) return true;
    DType d = computed(p);
    Tensor weights = scores_of(p);
    if (!weights) return false;
    Work again(p.q.device());
    each_row(again, p, weights).tensor("lse", logsumexp);
    if (!again.run(std::string(begin) + R"(    const T shift = LOAD_lse(item);
    for (ix j = 0; j < g.source; j++) STORE_s(at + j, shift == -INF ? (T)0 : exp(SCORE(j) - shift));)",
                   p.batch * p.heads * p.length))
        return false;
    // Σ grad · output of each query.
    Tensor products = empty(output.shape(), d, output.device());
    Tensor dots = empty({p.batch, p.heads, p.length}, d, output.device());
    if (!run_elements({{products, "x * y", d}}, d, {grad, output}) ||
        !run_reduction(Reduction::Sum, d, products, {0, 0, 0, 1}, &dots, nullptr))
        return false;
    bool shared = p.shared() > 1;
    auto place = [&](const Tensor& t, int64_t features) {
        return shared ? empty({p.batch, p.key_heads, p.shared(), p.source, features}, d, t.device())
                      : by_key_head(p, t);
    };
    Tensor slopes = empty(weights.shape(), d, weights.device()), to_k = place(dk, p.features),
           to_v = place(dv, p.value_features);
    Tensor g = by_key_head(p, grad);
    if (!run_product(to_v, transposed(weights), g, Scalar(1), Scalar(0)) ||
        !run_product(slopes, g, transposed(for_sharing(p, p.v)), Scalar(1), Scalar(0)))
        return false;
    Dims flat{p.batch * p.heads * p.length, p.source}, rows{p.source, 1};
    auto matrix = [&](const Tensor& t) { return view_of(t, flat, rows, t.offset()); };
    Tensor column = view_of(dots, {flat[0], 1}, {1, 0}, dots.offset());
    if (!run_elements({{matrix(slopes), "y * (x - z)", d}}, d, {matrix(slopes), matrix(weights), column})) return false;
    Scalar scale(p.scale);
    return run_product(by_key_head(p, dq), slopes, for_sharing(p, p.k), scale, Scalar(0)) &&
           run_product(to_k, transposed(slopes), by_key_head(p, p.q), scale, Scalar(0)) && gather_shared(p, to_k, dk) &&
           gather_shared(p, to_v, dv);
}

}  // namespace fb::gpu
