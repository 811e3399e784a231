// Gradients of views, rearrangements and copies. Most are the inverse rearrangement of the gradient.
#include "ops/shape/shape.h"

#include "ops/index/index_item.h"
#include "ops/shape/create.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"

namespace fb {
namespace {

// `g` with zeros before and after it along one dimension: the gradient of a slice.
Var place(const Var& g, int64_t dim, int64_t before, int64_t after) {
    if (!before && !after) return g;
    Dims pad(2 * (g.dim() - dim), 0);
    pad[2 * (g.dim() - 1 - dim)] = before;
    pad[2 * (g.dim() - 1 - dim) + 1] = after;
    return call<"constant_pad_nd">(g, pad);
}

Var sum_over(const Var& g, const Dims& dims) { return dims.empty() ? g : sum(g, dims); }

Dims negated(const Dims& numbers) {
    Dims result = numbers;
    for (int64_t& n : result) n = -n;
    return result;
}

void set_zeros(GradCall& c, int arg) {
    if (c.needs(arg)) c.set(arg, zeros_of(c.shape(arg), c.dtype(arg), c.device()));
}

}  // namespace

// ---- all elements in another shape ----------------------------------------------------------------------------------

GRAD(
    "view(Tensor input, *int[]|view_as|reshape|reshape_as|flatten|ravel|unflatten|squeeze|squeeze_|unsqueeze|"
    "unsqueeze_|atleast_1d(Tensor|atleast_2d(Tensor|atleast_3d(Tensor",
    0, CONST) {
    c.set(0, reshape(c.g(), c.shape(0)));
}
// Lists: each tensor is recorded by itself.
NO_GRAD("atleast_1d(*|atleast_2d(*|atleast_3d(*");
// Reinterpreted bits have no derivative.
NO_GRAD("view(Tensor input, dtype");

// Broadcast dimensions are summed by set().
GRAD("expand|expand_as|broadcast_to", 0, CONST) { c.set(0, c.g()); }
GRAD("broadcast_tensors") {
    for (int k = 0; k < c.count(0); k++) {
        if (c.has(k)) c.set(0, k, c.g(k));
    }
}

GRAD("permute") {
    Dims dims = wrap_dims(c.dims(1), c.dim(0)), back(dims.size());
    for (int64_t d = 0; d < dims.size(); d++) back[dims[d]] = d;
    c.set(0, permute(c.g(), back));
}
GRAD("transpose|swapdims|swapaxes|transpose_|swapaxes_") { c.set(0, transpose(c.g(), c.integer(1), c.integer(2))); }
GRAD("t|t_") { c.set(0, c.dim(0) < 2 ? c.g() : transpose(c.g(), 0, 1)); }
GRAD("movedim") { c.set(0, movedim(c.g(), c.dims(2), c.dims(1))); }

// ---- parts ----------------------------------------------------------------------------------------------------------

GRAD("select") {
    int64_t dim = wrap_dim(c.integer(1), c.dim(0)), size = c.shape(0)[dim], index = c.integer(2);
    if (index < 0) index += size;
    c.set(0, place(unsqueeze(c.g(), dim), dim, index, size - index - 1));
}
static void stretch(GradCall& c, int64_t start) {
    int64_t dim = wrap_dim(c.integer(1), c.dim(0)), size = c.shape(0)[dim];
    if (start < 0) start += size;
    c.set(0, place(c.g(), dim, start, size - start - c.integer(3)));
}
GRAD("narrow(Tensor input, int dim, int start|narrow_copy") { stretch(c, c.integer(2)); }
GRAD("narrow(Tensor input, int dim, Tensor start", IN(2)) { stretch(c, item(c.in(2).tensor).i); }

GRAD("unbind") {
    std::vector<Var> slices;
    int64_t dim = wrap_dim(c.integer(1), c.dim(0));
    for (int64_t k = 0; k < c.shape(0)[dim]; k++) slices.push_back(c.g(static_cast<int>(k)));
    if (!slices.empty()) c.set(0, call<"stack">(slices, dim));
}

// The parts are consecutive, unless unsorted indices made them overlap.
static void parts(GradCall& c, int64_t dim, const Dims& indices) {
    dim = wrap_dim(dim, c.dim(0));
    int64_t size = c.shape(0)[dim], count = static_cast<int64_t>(c.node().outputs.size()), total = 0;
    std::vector<Var> gradients;
    for (int k = 0; k < count; k++) {
        total += c.out_shape(k)[dim];
        gradients.push_back(c.g(k));
    }
    if (total == size) {
        c.set(0, call<"cat">(gradients, dim));
        return;
    }
    Var sum;
    for (int k = 0; k < count; k++) {
        if (!c.has(k) || !c.out_shape(k)[dim]) continue;
        int64_t start = k ? indices[k - 1] : 0;
        if (start < 0) start = std::max<int64_t>(start + size, 0);
        Var part = place(c.g(k), dim, start, size - start - c.out_shape(k)[dim]);
        sum = sum.defined() ? sum + part : part;
    }
    c.set(0, sum);
}
static Dims indices_in(const Tensor& where) {
    Dims indices;
    for (int64_t i = 0; where.dim() == 1 && i < where.numel(); i++) indices.push_back(item(select(where, 0, i)).i);
    return indices;
}
GRAD("split|split_with_sizes|chunk|tensor_split(Tensor input, int ") { parts(c, c.integer(2), {}); }
GRAD("tensor_split(Tensor input, int[]") { parts(c, c.integer(2), c.dims(1)); }
GRAD("tensor_split(Tensor input, Tensor", IN(1)) { parts(c, c.integer(2), indices_in(c.in(1).tensor)); }
GRAD("hsplit(Tensor input, int ") { parts(c, c.dim(0) == 1 ? 0 : 1, {}); }
GRAD("hsplit(Tensor input, int[]") { parts(c, c.dim(0) == 1 ? 0 : 1, c.dims(1)); }
GRAD("vsplit(Tensor input, int ") { parts(c, 0, {}); }
GRAD("vsplit(Tensor input, int[]") { parts(c, 0, c.dims(1)); }
GRAD("dsplit(Tensor input, int ") { parts(c, 2, {}); }
GRAD("dsplit(Tensor input, int[]") { parts(c, 2, c.dims(1)); }

// Windows overlap: each element gets the sum over the windows that contain it.
OP("_fold(Tensor input, int[] size, int dim, int window, int step) -> Tensor", 0) {
    const Tensor& g = a.tensor(0);
    int64_t dim = a.integer(2), window = a.integer(3), step = a.integer(4);
    Tensor result = zeros(a.dims(1), g.dtype(), g.device());
    if (!g.numel()) return result;
    Tensor windows = unfold(result, dim, window, step);
    if (step >= window) {
        copy_into(windows, g);
        return result;
    }
    // No two windows share an element at the same position in the window, nor two positions in one window.
    auto add = [](const Tensor& to, const Tensor& from) { graph_ops.add_into(to, from); };
    if (a.dims(1).empty()) {
        add(view_of(result, {1}, {1}, result.offset()), g);
    } else if (int64_t count = g.shape()[dim]; count < window) {
        for (int64_t i = 0; i < count; i++) add(select(windows, dim, i), select(g, dim, i));
    } else {
        for (int64_t i = 0; i < window; i++) add(select(windows, -1, i), select(g, -1, i));
    }
    return result;
}
GRAD("_fold") { c.set(0, call<"unfold">(c.g(), c.integer(2), c.integer(3), c.integer(4))); }
GRAD("unfold") {
    int64_t dim = wrap_dim(c.integer(1), c.dim(0));
    c.set(0, call<"_fold">(c.g(), c.shape(0), dim, c.integer(2), c.integer(3)));
}

GRAD("diagonal|linalg.diagonal") {
    Var zero = zeros_of(c.shape(0), c.dtype(0), c.device());
    c.set(0, call<"diagonal_scatter">(zero, c.g(), c.integer(1), c.integer(2), c.integer(3)));
}
// Composed of recorded ops that store the geometry of their input (views.cpp).
NO_GRAD("as_strided|as_strided_scatter");

GRAD("view_as_real") { c.set(0, call<"view_as_complex">(contiguous(c.g()))); }
GRAD("view_as_complex") { c.set(0, call<"view_as_real">(c.g())); }

// ---- order and repetition -------------------------------------------------------------------------------------------

GRAD("flip") { c.set(0, flip(c.g(), c.dims(1))); }
GRAD("fliplr") { c.set(0, flip(c.g(), Dims{1})); }
GRAD("flipud") { c.set(0, flip(c.g(), Dims{0})); }
GRAD("roll") { c.set(0, roll(c.g(), negated(c.dims(1)), c.dims_or_none(2).value_or(Dims()))); }
GRAD("rot90") { c.set(0, call<"rot90">(c.g(), -(c.integer(1) % 4), c.dims(2))); }

// Each dimension viewed as (times, size), and summed over the times.
static void repeated(GradCall& c, Dims times) {
    Dims shape = c.shape(0), split, over;
    while (times.size() < shape.size()) times.insert(0, 1);
    while (shape.size() < times.size()) shape.insert(0, 1);
    for (int64_t d = 0; d < shape.size(); d++) {
        if (times[d] != 1) {
            over.push_back(split.size());
            split.push_back(times[d]);
        }
        split.push_back(shape[d]);
    }
    c.set(0, reshape(sum_over(reshape(c.g(), split), over), c.shape(0)));
}
GRAD("repeat|tile") { repeated(c, c.dims(1)); }

static void interleaved(GradCall& c, const Tensor& counts) {
    Dims shape = c.given(2) && c.dim(0) ? c.shape(0) : Dims{checked_numel(c.shape(0))};
    int64_t dim = c.given(2) ? wrap_dim(c.integer(2), shape.size()) : 0;
    if (counts.numel() == 1) {
        shape.insert(dim + 1, item(counts).i);
        c.set(0, reshape(sum(reshape(c.g(), shape), dim + 1), c.shape(0)));
        return;
    }
    Var index = call<"repeat_interleave">(Var(counts));
    c.set(0, reshape(index_add(zeros_of(shape, c.dtype(0), c.device()), dim, index, c.g()), c.shape(0)));
}
NO_GRAD("repeat_interleave(Tensor repeats");
GRAD("repeat_interleave(Tensor input, Tensor", IN(1)) { interleaved(c, c.in(1).tensor); }
GRAD("repeat_interleave(Tensor input, int[]") { interleaved(c, int_tensor(c.dims(1), c.g().tensor.device())); }

// ---- diagonals and triangles ----------------------------------------------------------------------------------------

GRAD("tril") { c.set(0, tril(c.g(), c.integer(1))); }
GRAD("triu") { c.set(0, triu(c.g(), c.integer(1))); }
GRAD("diag_embed") { c.set(0, diagonal(c.g(), c.integer(1), c.integer(2), c.integer(3))); }
GRAD("diag") {
    if (c.dim(0) == 1) c.set(0, diagonal(c.g(), c.integer(1)));
    else c.set(0, call<"diagonal_scatter">(zeros_of(c.shape(0), c.dtype(0), c.device()), c.g(), c.integer(1)));
}
GRAD("diagflat") { c.set(0, reshape(diagonal(c.g(), c.integer(1)), c.shape(0))); }
GRAD("trace") {
    Dims length{std::min(c.shape(0)[0], c.shape(0)[1])};
    c.set(0, call<"diagonal_scatter">(zeros_of(c.shape(0), c.dtype(0), c.device()), expand(c.g(), length)));
}
GRAD("fill_diagonal_") {
    Var mask = full_of(c.shape(0), Scalar(false), DType::Bool, c.device());
    call<"fill_diagonal_">(mask, Scalar(true), c.flag(2));
    c.set(0, masked_fill(c.g(), mask, 0));
}
GRAD("constant_pad_nd") { c.set(0, call<"constant_pad_nd">(c.g(), negated(c.dims(1)))); }

// ---- copies ---------------------------------------------------------------------------------------------------------

GRAD("clone|contiguous|_convert") { c.set(0, c.g()); }
GRAD("copy_|fill|fill_") {
    set_zeros(c, 0);
    c.set(1, c.g());
}
GRAD("zero_") { set_zeros(c, 0); }
GRAD("complex") {
    if (c.needs(0)) c.set(0, real(c.g()));
    if (c.needs(1)) c.set(1, imag(c.g()));
}

// Tensors that require gradients are not resized at all.
NO_GRAD("resize_|resize_as_");
GRAD("set_") { fail(ErrorKind::NotImplemented, "the derivative for set_ is not implemented"); }

GRAD("select_scatter") {
    int64_t dim = c.integer(2), index = c.integer(3);
    if (c.needs(0))
        c.set(0, call<"select_scatter">(c.g(), zeros_of(c.shape(1), c.out_dtype(), c.device()), dim, index));
    if (c.needs(1)) c.set(1, select(c.g(), dim, index));
}
GRAD("slice_scatter") {
    int64_t dim = c.integer(2), step = c.integer(5);
    std::optional<int64_t> start = c.integer_or_none(3), stop = c.integer_or_none(4);
    if (c.needs(0))
        c.set(0, call<"slice_scatter">(c.g(), zeros_of(c.shape(1), c.out_dtype(), c.device()), dim, start, stop, step));
    if (!c.needs(1)) return;
    std::vector<IndexItem> items(static_cast<size_t>(wrap_dim(dim, c.dim(0))),
                                 IndexItem::slice(IndexItem::open_low, IndexItem::open_high, 1));
    items.push_back(IndexItem::slice(start.value_or(IndexItem::open_low), stop.value_or(IndexItem::open_high), step));
    c.set(1, getitem(c.g().tensor, items));
}
GRAD("diagonal_scatter") {
    int64_t offset = c.integer(2), dim1 = c.integer(3), dim2 = c.integer(4);
    if (c.needs(0))
        c.set(0, call<"diagonal_scatter">(c.g(), zeros_of(c.shape(1), c.out_dtype(), c.device()), offset, dim1, dim2));
    if (c.needs(1)) c.set(1, diagonal(c.g(), offset, dim1, dim2));
}

}  // namespace fb
