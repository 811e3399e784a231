// softmax(query · keyᵀ · scale + mask) · value: arguments, results and gradients.
#include "device/attention.h"

#include <limits>

#include "autograd/mode.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

Tensor rows(const Tensor& t) { return t.dim() == 4 && t.stride(3) == 1 ? t : contiguous(t); }

// The arguments from `first` on, checked.
device::Attention attention_of(const Args& a, int first) {
    device::Attention p;
    p.q = rows(a.tensor(first)), p.k = rows(a.tensor(first + 1)), p.v = rows(a.tensor(first + 2));
    p.mask = a.tensor_or_none(first + 3), p.causal = a.flag(first + 4), p.scale = a.number(first + 5);
    check(p.q.dim() == 4 && p.k.dim() == 4 && p.v.dim() == 4, "expected tensors of 4 dimensions");
    p.batch = p.q.size(0), p.heads = p.q.size(1), p.length = p.q.size(2), p.features = p.q.size(3);
    p.key_heads = p.k.size(1), p.source = p.k.size(2), p.value_features = p.v.size(3);
    check(p.k.size(0) == p.batch && p.v.size(0) == p.batch && p.v.size(1) == p.key_heads && p.v.size(2) == p.source &&
              p.k.size(3) == p.features && (p.key_heads ? p.heads % p.key_heads == 0 : p.heads == 0),
          "query ", p.q.shape(), ", key ", p.k.shape(), " and value ", p.v.shape(), " do not fit");
    check(p.k.dtype() == p.q.dtype() && p.v.dtype() == p.q.dtype(), "query, key and value differ in dtype");
    if (p.mask) {
        if (p.mask.dtype() != DType::Bool) p.mask = to_dtype(p.mask, p.q.dtype());
        p.mask = expand(p.mask, {p.batch, p.heads, p.length, p.source});
    }
    return p;
}

// Zeros of shape (N, H, length, features) in the order of x: as they stand, or in memory as (N, length, H, features),
// where the heads of a position were one vector, and will be again.
Tensor ordered_like(const Tensor& x, const Dims& shape) {
    if (x.is_contiguous()) return zeros(shape, x.dtype(), x.device());
    return transpose(zeros({shape[0], shape[2], shape[1], shape[3]}, x.dtype(), x.device()), 1, 2);
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
    device::Attention p = attention_of(a, 0);
    Tensor output = ordered_like(p.q, {p.batch, p.heads, p.length, p.value_features});
    Tensor logsumexp = empty({p.batch, p.heads, p.length}, p.q.dtype(), p.q.device());
    device::attending(p.q).forward(p, output, logsumexp);
    return std::vector<Tensor>{output, logsumexp};
}

OP("_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale, "
   "Tensor output, Tensor logsumexp) -> (Tensor query, Tensor key, Tensor value)",
   0) {
    device::Attention p = attention_of(a, 1);
    Tensor grad = rows(a.tensor(0)), output = rows(a.tensor(7)), logsumexp = contiguous(a.tensor(8));
    check(grad.shape() == output.shape() && logsumexp.numel() == p.batch * p.heads * p.length,
          "results of the forward pass do not fit");
    Tensor dq = ordered_like(p.q, p.q.shape()), dk = ordered_like(p.k, p.k.shape()),
           dv = ordered_like(p.v, p.v.shape());
    device::attending(p.q).backward(p, grad, output, logsumexp, dq, dk, dv);
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
