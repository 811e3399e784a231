// softmax(query · keyᵀ · scale + mask) · value: arguments and results.
#include "device/attention.h"

#include "ops/table/common.h"

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
        if (p.mask.dtype() != DType::Bool) p.mask = to_dtype(p.mask, compute_dtype(p.q.dtype()));
        p.mask = expand(p.mask, {p.batch, p.heads, p.length, p.source});
    }
    return p;
}

// Zeros of shape (N, H, length, features) in the memory order of x: row-major, or as (N, length, H, features), where
// the heads of a position are contiguous, as the caller will need them.
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
    Tensor logsumexp = empty({p.batch, p.heads, p.length}, compute_dtype(p.q.dtype()), p.q.device());
    device::attending(p.q).forward(p, output, logsumexp);
    return std::vector<Tensor>{output, logsumexp};
}

OP("_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale, "
   "Tensor output, Tensor logsumexp) -> (Tensor query, Tensor key, Tensor value)",
   FUNCTION, R"(Gradients of _attention(). With the output and logsumexp of all keys, those of a block of them.

Args:
    grad: of the output.
    query: (N, H, L, E).
    key: (N, H or a divisor of it, S, E).
    value: (N, H or a divisor of it, S, Ev).
    mask: broadcasts to (N, H, L, S): True where a key takes part, or a number to add.
    causal: whether query i sees the keys up to i only.
    scale: factor of the scores.
    output: the result.
    logsumexp: of the scores of each query.

Example:
    >>> x = fb.ones(1, 1, 2, 3)
    >>> output, logsumexp = fb._attention(x, x, x, None, False, 1.0)
    >>> fb._attention_backward(x, x, x, x, None, False, 1.0, output, logsumexp).value.shape
    flambeau.Size([1, 1, 2, 3])
)") {
    device::Attention p = attention_of(a, 1);
    Tensor grad = rows(a.tensor(0)), output = rows(a.tensor(7)), logsumexp = contiguous(a.tensor(8));
    check(grad.shape() == output.shape() && logsumexp.numel() == p.batch * p.heads * p.length,
          "results of the forward pass do not fit");
    Tensor dq = ordered_like(p.q, p.q.shape()), dk = ordered_like(p.k, p.k.shape()),
           dv = ordered_like(p.v, p.v.shape());
    device::attending(p.q).backward(p, grad, output, logsumexp, dq, dk, dv);
    return std::vector<Tensor>{dq, dk, dv};
}

}  // namespace fb
