// Gradients of reading and writing by index: reading is the adjoint of accumulating, and vice versa.
#include "ops/index/index_item.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"

namespace fb {
namespace {

// Values read along the indices, as the gradient of a source that may be larger than the index, of which only the
// beginning is read.
Var as_source(const Var& part, const Dims& shape) {
    if (part.shape() == shape) return part;
    if (part.dim() != shape.size()) return reshape(part, shape);
    Dims pad;
    for (int64_t d = shape.size() - 1; d >= 0; d--) {
        pad.push_back(0);
        pad.push_back(shape[d] - part.shape()[d]);
    }
    return call<"constant_pad_nd">(part, pad);
}

// scatter_add or index_add to zeros, in place, without a copy.
template <call_detail::Name name>
Var add_to_zeros(const Dims& shape, int64_t dim, const Var& index, const Var& source) {
    static const OpOverload& op = op_entry(name.text).overloads.front();
    Args a(op.signature.size());
    a.out = zeros(shape, source.dtype(), source.device());
    a.inplace = true;
    a.values[0] = a.out;
    a.values[1] = Scalar(dim);
    a.values[2] = index.tensor;
    a.values[3] = source.tensor;
    for (int i = 4; i < a.count; i++) a.values[i] = op.signature.params[static_cast<size_t>(i)].default_value;
    OpScope scope(name.text);
    invoke(op, a);
    return a.out;
}

// The part of a source covered by the index.
Var used_part(const Var& source, const Dims& shape) {
    Var part = source;
    for (int64_t d = 0; d < std::min(part.dim(), shape.size()); d++) {
        if (part.shape()[d] != shape[d]) part = narrow(part, d, 0, shape[d]);
    }
    return part;
}

}  // namespace

// ---- reading --------------------------------------------------------------------------------------------------------

GRAD("gather", IN(2)) { c.set(0, add_to_zeros<"scatter_add">(c.shape(0), c.integer(1), c.in(2), c.g())); }
GRAD("index_select", IN(2)) { c.set(0, add_to_zeros<"index_add">(c.shape(0), c.integer(1), c.in(2), c.g())); }
GRAD("take", IN(1)) { c.set(0, call<"put">(zeros_of(c.shape(0), c.dtype(0), c.device()), c.in(1), c.g(), true)); }
GRAD("take_along_dim", IN(1)) {
    Var index = c.in(1);
    if (!c.given(2)) {
        c.set(0, call<"put">(zeros_of(c.shape(0), c.dtype(0), c.device()), reshape(index, c.out_shape()), c.g(), true));
        return;
    }
    if (c.dim(0) == 0) return c.set(0, reshape(c.g(), Dims()));
    int64_t dim = wrap_dim(c.integer(2), c.dim(0)), size = c.shape(0)[dim];
    Dims shape = c.out_shape();
    index = call<"remainder">(expand(index, shape), size);  // negative ones count from the end
    shape[dim] = size;
    c.set(0, add_to_zeros<"scatter_add">(shape, dim, index, c.g()));
}

// ---- writing along a dimension --------------------------------------------------------------------------------------

GRAD("index_add", 0, 0, IN(2)) {
    c.set(0, c.g());
    if (!c.needs(3)) return;
    Var part = as_source(index_select(c.g(), c.integer(1), c.in(2)), c.shape(3));
    const Scalar& alpha = c.scalar(4);
    c.set(3, alpha.is_integral() && alpha.i == 1 ? part : part * conj(Var(alpha)));
}
GRAD("index_copy", IN(2), 0, IN(2)) {
    if (c.needs(0)) c.set(0, call<"index_fill">(c.g(), c.integer(1), c.in(2), 0));
    if (c.needs(3)) c.set(3, as_source(index_select(c.g(), c.integer(1), c.in(2)), c.shape(3)));
}
GRAD("index_fill", IN(2), 0, IN(2)) {
    if (c.needs(0)) c.set(0, call<"index_fill">(c.g(), c.integer(1), c.in(2), 0));
    if (!c.needs(3)) return;
    // A slice that is selected twice is filled once: a mask rather than a sum over the indices.
    int64_t dim = wrap_dim(c.integer(1), c.dim(0));
    Dims shape(c.dim(0), 1);
    if (c.dim(0)) shape[dim] = c.shape(0)[dim];
    Var filled = call<"index_fill">(full_of(shape, Scalar(false), DType::Bool, c.device()), dim, c.in(2), 1);
    c.set(3, masked(c.g(), filled));
}
GRAD("scatter_add", 0, 0, IN(2)) {
    c.set(0, c.g());
    if (c.needs(3)) c.set(3, as_source(gather(c.g(), c.integer(1), c.in(2)), c.shape(3)));
}

// Note [Reducing by index]: scatter_reduce and index_reduce differ only in how they read and accumulate along the
// dimension. Each result is a reduction of `self` (if included) and all sources for the same element.
namespace {

struct ByElement {  // scatter_reduce: an index per element
    int64_t dim;
    Var index;
    Var read(const Var& x) const { return gather(x, dim, index); }
    Var add(const Var& x, const Var& source) const { return scatter_add(x, dim, index, source); }
    Var erase(const Var& x) const { return scatter(x, dim, index, 0.0); }
    Var product(const Var& x, const Var& source, bool with_self) const {
        return call<"scatter_reduce">(x, dim, index, source, "prod", with_self);
    }
};
struct BySlice {  // index_reduce: an index per slice
    int64_t dim;
    Var index;
    Var read(const Var& x) const { return index_select(x, dim, index); }
    Var add(const Var& x, const Var& source) const { return index_add(x, dim, index, source); }
    Var erase(const Var& x) const { return call<"index_fill">(x, dim, index, 0); }
    Var product(const Var& x, const Var& source, bool with_self) const {
        return call<"index_reduce">(x, dim, index, source, "prod", with_self);
    }
};

struct Slopes {
    Var self, source;
};

template <class By>
Slopes of_mean(const By& by, const Var& g, const Dims& source, bool with_self) {
    Var count = by.add(with_self ? ones_like(g) : zeros_like(g), full_of(source, Scalar(1), g.dtype(), g.device()));
    Var share = g / masked_fill(count, count == 0, 1);
    return {share, by.read(share)};
}

// All elements equal to the result get the same share.
template <class By>
Slopes of_extreme(const By& by, const Var& g, const Var& self, const Var& source, const Var& result, bool with_self) {
    Var mine = cast(self == result, g.dtype()), theirs = cast(source == by.read(result), g.dtype());
    if (!with_self) mine = by.erase(mine);
    Var share = g / by.add(mine, theirs);
    return {mine * share, theirs * by.read(share)};
}

}  // namespace

OP("_differentiable_once(Tensor input) -> Tensor", 0) { return clone(a.tensor(0)); }
GRAD("_differentiable_once") {
    fail(ErrorKind::NotImplemented,
         "Double backward is unsupported for a product that has more than one zero among its sources");
}

namespace {

// The product of all others: with one zero among them, the product without that zero; with two, zero.
template <class By>
Slopes of_product(const By& by, const Var& g, const Var& self, const Var& source, const Var& result, bool with_self) {
    Var nonzero_self = masked_fill(self, self == 0, 1);
    Slopes slopes;
    slopes.self = g * conj(by.product(nonzero_self, source, with_self) / nonzero_self);
    Var zero = source == 0,
        zeros = by.read(by.add(zeros_of(self.shape(), DType::F32, self.device()), cast(zero, DType::F32)));
    Var single = logical_and(zero, zeros == 1);
    Var without = by.product(self, masked_fill(source, single, 1), with_self);
    if (grad_enabled() && is_true(any(zeros > 1))) without = call<"_differentiable_once">(without);
    slopes.source =
        where(single, by.read(g * conj(without)), by.read(g * conj(result)) / conj(masked_fill(source, zero, 1)));
    return slopes;
}

template <class By>
Slopes reduced(GradCall& c, const By& by, const std::string& how, const Var& source, bool with_self) {
    Var g = c.g();
    if (how == "sum") return {with_self ? g : by.erase(g), by.read(g)};
    Slopes slopes;
    if (how == "mean") slopes = of_mean(by, g, source.shape(), with_self);
    else if (how == "amax" || how == "amin") slopes = of_extreme(by, g, c.in(0), source, c.out(), with_self);
    else slopes = of_product(by, g, c.in(0), source, c.out(), with_self);
    if (!with_self) slopes.self = by.erase(slopes.self);
    return slopes;
}

constexpr uint32_t REDUCED = IN(0) | IN(2) | IN(3) | RESULT(0);

}  // namespace

GRAD("scatter_reduce", REDUCED, 0, REDUCED) {
    ByElement by{c.integer(1), c.in(2)};
    Slopes slopes = reduced(c, by, c.text(4), used_part(c.in(3), by.index.shape()), c.flag(5));
    c.set(0, slopes.self);
    if (c.needs(3)) c.set(3, as_source(slopes.source, c.shape(3)));
}
GRAD("index_reduce", REDUCED, 0, REDUCED) {
    Slopes slopes = reduced(c, BySlice{c.integer(1), c.in(2)}, c.text(4), c.in(3), c.flag(5));
    c.set(0, slopes.self);
    if (c.needs(3)) c.set(3, as_source(slopes.source, c.shape(3)));
}

// If several values are written to one element, it is unspecified which remains: each gets the whole gradient.
GRAD("scatter(Tensor input, int dim, Tensor index, Tensor src", IN(2), 0, IN(2)) {
    ByElement by{c.integer(1), c.in(2)};
    bool add = c.given(4) && c.text(4) == "add";
    if (c.given(4) && !add)
        fail(ErrorKind::NotImplemented,
             "the derivative for scatter with reduce='multiply' is not implemented; use scatter_reduce with 'prod'");
    if (c.needs(0)) c.set(0, add ? c.g() : by.erase(c.g()));
    if (c.needs(3)) c.set(3, as_source(by.read(c.g()), c.shape(3)));
}
GRAD(
    "scatter(Tensor input, int dim, Tensor index, Scalar value|scatter(Tensor input, int dim, Tensor index, Scalar src",
    IN(2)) {
    if (!c.given(4)) return c.set(0, scatter(c.g(), c.integer(1), c.in(2), 0.0));
    if (c.text(4) == "add") return c.set(0, c.g());
    Var factors = scatter(ones_like(c.g()), c.integer(1), c.in(2), c.scalar(3), "multiply");
    c.set(0, c.g() * conj(factors));
}

// ---- writing anywhere -----------------------------------------------------------------------------------------------

GRAD("put", IN(1), 0, IN(1)) {
    bool accumulate = c.flag(3);
    if (c.needs(0)) {
        Var zeros = zeros_of(c.shape(1), c.out_dtype(), c.device());
        c.set(0, accumulate ? c.g() : call<"put">(c.g(), c.in(1), zeros, false));
    }
    if (c.needs(2)) c.set(2, reshape(call<"take">(c.g(), c.in(1)), c.shape(2)));
}
GRAD("index_put", IN(1), 0, IN(1)) {
    std::vector<IndexItem> items;
    std::vector<Var> indices;
    for (int k = 0; k < c.count(1); k++) {
        indices.push_back(c.in(1, k));
        items.push_back(IndexItem::tensor(indices.back().tensor));
    }
    if (c.needs(0)) {
        Var zero = zeros_of(Dims(), c.out_dtype(), c.device());
        c.set(0, c.flag(3) ? c.g() : call<"index_put">(c.g(), indices, zero));
    }
    if (!c.needs(2)) return;
    Var part = getitem(c.g().tensor, items);
    // Values may have had more leading dimensions of size one than their target.
    Dims shape = c.shape(2);
    while (shape.size() > part.dim() && shape[0] == 1) shape.erase(0);
    c.set(2, reshape(sum_to(part, shape), c.shape(2)));
}

// ---- masks ----------------------------------------------------------------------------------------------------------

GRAD("masked_fill", IN(1), 0, IN(1)) {
    if (c.needs(0)) c.set(0, masked_fill(c.g(), c.in(1), 0));
    if (c.needs(2)) c.set(2, masked(c.g(), c.in(1)));
}
GRAD("masked_scatter", IN(1), 0, IN(1)) {
    if (c.needs(0)) c.set(0, masked_fill(c.g(), c.in(1), 0));
    if (!c.needs(2)) return;
    // The first elements of the source, as many as the mask has True; the rest was not used.
    int64_t size = 1;
    for (int64_t n : c.shape(2)) size *= n;
    c.set(2, reshape(as_source(call<"masked_select">(c.g(), c.in(1)), Dims{size}), c.shape(2)));
}
GRAD("masked_select", IN(1)) {
    Var mask = c.in(1);
    Dims shape = broadcast_shapes(c.shape(0), mask.shape());
    c.set(0, call<"masked_scatter">(zeros_of(shape, c.dtype(0), c.device()), mask, c.g()));
}

// Linear in the weights.
GRAD("bincount", 0, IN(0)) { c.set(1, index_select(c.g(), 0, c.in(0))); }

}  // namespace fb
