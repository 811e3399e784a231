// Gradients of ops that select elements by order, rank or size: the selected elements get the gradient.
#include "ops/index/gather.h"
#include "ops/table/gradient.h"

namespace fb {

// Zeros, of `size` along `dim`, with the elements of input written at index; accumulated if several may coincide.
OP("_place(Tensor input, Tensor index, int dim, int size, bool add) -> Tensor", 0) {
    const Tensor &t = a.tensor(0), &index = a.tensor(1);
    check(t.dim() > 0 && t.shape() == index.shape() && index.dtype() == DType::I64, "input and index do not fit");
    Dims shape = t.shape();
    int64_t dim = wrap_dim(a.integer(2), t.dim());
    shape[dim] = a.integer(3);
    Tensor result = zeros(shape, t.dtype(), t.device());
    device::indexing(result).scatter(result, dim, index, t, a.flag(4) ? device::Combine::Add : device::Combine::Assign,
                                     false);
    return result;
}
GRAD("_place", IN(1)) { c.set(0, gather(c.g(), c.integer(2), c.in(1))); }

namespace {

// For an op that selected one element along `dim`, at `index`.
void place_one(GradCall& c, int64_t dim, bool keepdim) {
    if (c.dim(0) == 0) return c.set(0, c.g());
    dim = wrap_dim(dim, c.dim(0));
    Var g = c.g(), index = c.out(1);
    if (!keepdim) g = unsqueeze(g, dim), index = unsqueeze(index, dim);
    c.set(0, call<"_place">(g, index, dim, c.shape(0)[dim], false));
}
// For several elements along `dim`, each at most once.
Var place_many(const GradCall& c, const Var& index, int64_t dim) {
    if (c.dim(0) == 0) return reshape(c.g(), c.shape(0));
    dim = wrap_dim(dim, c.dim(0));
    return call<"_place">(c.g(), index, dim, c.shape(0)[dim], false);
}
// The first operand was selected where x > y, the second where x < y; where they are equal each gets one half.
void choose(GradCall& c, const Var& x, const Var& y) {
    Var g = c.g(), equal = x == y;
    if (is_true(any(equal))) g = where(equal, g * 0.5, g);
    if (c.needs(0)) c.set(0, masked_fill(g, x < y, 0));
    if (c.needs(1)) c.set(1, masked_fill(g, x > y, 0));
}

}  // namespace

// One value of all elements: elements equal to it share the gradient; NaN counts as equal to NaN.
GRAD("max(Tensor input) |min(Tensor input) |median(Tensor input) |nanmedian(Tensor input) ", IN(0) | RESULT(0)) {
    Var x = c.in(0), y = c.out(), at = is_true(isnan(y)) ? isnan(x) : x == y;
    c.set(0, masked(expand(c.g() / sum(at), x.shape()), at));
}
GRAD("max(Tensor input, int dim|min(Tensor input, int dim", RESULT(1)) { place_one(c, c.integer(1), c.flag(2)); }
GRAD("median(Tensor input, int|nanmedian(Tensor input, int|mode", RESULT(1)) { place_one(c, c.integer(1), c.flag(2)); }
GRAD("kthvalue", RESULT(1)) { place_one(c, c.integer(2), c.flag(3)); }

GRAD("max(Tensor input, Tensor other", IN(0) | IN(1), IN(0) | IN(1)) { choose(c, c.in(0), c.in(1)); }
GRAD("min(Tensor input, Tensor other", IN(0) | IN(1), IN(0) | IN(1)) { choose(c, c.in(1), c.in(0)); }

GRAD("sort(Tensor input, int dim", RESULT(1)) { c.set(0, place_many(c, c.out(1), c.integer(1))); }
GRAD("sort(Tensor input, bool", RESULT(1)) { c.set(0, place_many(c, c.out(1), c.integer(2))); }
GRAD("topk", RESULT(1)) { c.set(0, place_many(c, c.out(1), c.integer(2))); }
GRAD("msort", IN(0)) { c.set(0, place_many(c, argsort(c.in(0), 0), 0)); }

// Indices, counts and bools.
NO_GRAD("argmax|argmin|argsort|searchsorted|bucketize|isin|histc");

}  // namespace fb
