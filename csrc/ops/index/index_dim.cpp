// index_add, index_copy, index_fill, index_reduce: slices along one dimension selected by a vector of indices;
// index_put.
#include "base/wording.h"
#include "ops/index/index.h"
#include "ops/index/scatter.h"

namespace fb {

using device::Combine;

namespace {

struct SliceWrite {
    int64_t dim;
    Tensor index;   // a vector
    Tensor source;  // as many slices as indices
};

SliceWrite read_slices(const Args& a, bool same_dtype) {
    const Tensor &t = a.tensor(0), &source = a.tensor(3);
    SliceWrite w{wrap_dim(a.integer(1), t.dim()), dim_index(a.tensor(2)), source};
    if (same_dtype && t.dtype() != source.dtype()) {
        fail_type("self and source expected to have the same dtype, but got (self) ", t.dtype(), " and (source) ",
                  source.dtype());
    }
    int64_t n = w.index.numel();
    if (t.dim() <= 1 && source.dim() <= 1) {
        check(source.numel() == n, "number of indices (", n, ") should be equal to the number of elements of source (",
              source.numel(), ")");
        w.source = reshape(source, {n});
        return w;
    }
    bool match = source.dim() == t.dim();
    for (int64_t d = 0; match && d < t.dim(); d++) match = d == w.dim || source.shape()[d] == t.shape()[d];
    check(match,
          "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = ",
          Bracketed{t.shape()}, " source.shape = ", Bracketed{source.shape()});
    check(source.shape()[w.dim] == n, "number of indices (", n, ") should be equal to source.size(dim) (",
          source.shape()[w.dim], ") for dim ", w.dim);
    return w;
}

void write_slices(const Tensor& target, const SliceWrite& w, const Tensor& source, Combine combine, bool wrap = false) {
    if (combine != Combine::Assign && is_storage(target.dtype())) {
        Tensor wide = to_dtype(target, value_dtype(target.dtype()));
        write_slices(wide, w, to_dtype(source, wide.dtype()), combine, wrap);
        return copy_into(target, wide);
    }
    Tensor line = line_view(target);
    Tensor offsets = row_offsets(line, w.dim, w.index, wrap);
    if (source.numel()) device::indexing(line).scatter_rows(rows_of(line, w.dim), source, offsets, w.dim, combine);
}

// Checks all indices before anything is written.
void check_slices(const Tensor& t, const SliceWrite& w) {
    if (w.index.numel()) device::indexing(w.index).check(w.index, w.dim, t.dim() ? t.shape()[w.dim] : 1);
}

Tensor scaled(const Tensor& source, const Scalar& alpha) {
    bool one = alpha.is_integral() ? alpha.i == 1 : alpha.re == 1 && alpha.im == 0;
    if (one) return source;
    if (is_storage(source.dtype())) return scaled(to_dtype(source, value_dtype(source.dtype())), alpha);
    check(source.dtype() != DType::Bool || alpha.kind == Kind::Bool, "a bool tensor needs a bool alpha");
    check(!is_integral_or_bool(source.dtype()) || alpha.is_integral(),
          "for integral input tensors, argument alpha must not be a floating point number");
    check(is_complex(source.dtype()) || alpha.kind != Kind::Complex,
          "for non-complex input tensors, argument alpha must not be a complex number");
    Tensor result = full(source.shape(), alpha, source.dtype(), source.device());
    // The whole source is one row, written once.
    if (result.numel())
        device::indexing(result).scatter_rows(reshape(result, {result.numel()}), reshape(source, {1, result.numel()}),
                                              zeros({1}, DType::I64, result.device()), 0, Combine::Multiply);
    return result;
}

}  // namespace

OP("index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", POINTWISE,
   R"(Adds slices of `source`, times alpha, to the slices of the input that `index` names.

Repeated indices are accumulated in order, for any number of threads.

Args:
    input: the tensor to start from.
    dim: the dimension.
    index: a vector of integers.
    source: slices to write, one per index.
    alpha: factor of the source.

Example:
    >>> fb.index_add(fb.zeros(2, 2), 0, fb.tensor([1, 1]), fb.ones(2, 2))
    tensor([[0., 0.],
            [2., 2.]])
)") {
    SliceWrite w = read_slices(a, true);
    check_slices(a.tensor(0), w);
    Tensor source = scaled(w.source, a.scalar(4)), target = write_target(a);
    write_slices(target, w, apart(source, target), Combine::Add);
    return target;
}

static Tensor index_copy(Args& a) {
    SliceWrite w = read_slices(a, true);
    check_slices(a.tensor(0), w);
    Tensor target = write_target(a);
    write_slices(target, w, apart(w.source, target), Combine::Assign);
    return target;
}
OP("index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor", POINTWISE,
   R"(Replaces the slices that `index` names by those of `source`.

Args:
    input: the tensor to start from.
    dim: the dimension.
    index: a vector of integers.
    source: slices to write, one per index.

Example:
    >>> fb.index_copy(fb.zeros(3), 0, fb.tensor([2]), fb.tensor([5.0]))
    tensor([0., 0., 5.])
)") {
    return index_copy(a);
}
OP("index_copy(Tensor input, int dim, Tensor index, Tensor tensor) -> Tensor", POINTWISE, nullptr) {
    return index_copy(a);
}
OP("index_copy(Tensor input, int dim, Tensor index, Tensor tensor2) -> Tensor", POINTWISE, nullptr) {
    return index_copy(a);
}

OP("index_fill(Tensor input, int dim, Tensor index, Operand value) -> Tensor", FUNCTION | METHOD | INPLACE,
   R"(Writes one value into the slices that `index` names.

Args:
    input: the tensor to start from.
    dim: the dimension.
    index: a vector of integers; negative values count from the end.
    value: a number or a 0-d tensor.

Example:
    >>> fb.index_fill(fb.zeros(3), 0, fb.tensor([0, 2]), 7)
    tensor([7., 0., 7.])
)") {
    const Tensor &t = a.tensor(0), &value = a.tensor(3);
    check(value.dim() == 0, "only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
          " dimension(s)");
    check(is_complex(t.dtype()) || !is_complex(value.dtype()),
          "Converting complex Scalar to non-complex type is not supported: the value is ", value.dtype(),
          ", the tensor ", t.dtype());
    SliceWrite w{wrap_dim(a.integer(1), t.dim()), dim_index(a.tensor(2)), Tensor()};
    Tensor line = line_view(t);
    row_offsets(line, w.dim, w.index, true);  // checks
    Tensor filler = clone(to_dtype(value, t.dtype())), target = write_target(a);
    Dims shape = line.shape();
    shape[w.dim] = w.index.numel();
    write_slices(target, w, expand(filler, shape), Combine::Assign, true);
    return target;
}

OP("index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
   POINTWISE,
   R"(Combines slices of `source` that go to one slice of the input.

Args:
    input: the tensor to start from.
    dim: the dimension.
    index: a vector of integers.
    source: slices to write, one per index.
    reduce: 'prod', 'mean', 'amax' or 'amin'.
    include_self: whether to include the slices of the input.

Example:
    >>> fb.index_reduce(fb.ones(2), 0, fb.tensor([0, 0]), fb.tensor([2.0, 3.0]), 'prod')
    tensor([6., 1.])
)") {
    const Tensor& t = a.tensor(0);
    Reduction how = reduction_named(a.text(4), false);
    check(!is_complex(t.dtype()) || how.combine == Combine::Add || how.combine == Combine::Multiply, a.text(4),
          " is not available for dtype ", t.dtype());
    SliceWrite w = read_slices(a, true);
    check_slices(t, w);
    Tensor target = write_target(a);
    if (w.index.numel() == 0) return target;
    if (!a.flag(5))
        write_slices(target, w,
                     expand(full({}, neutral(how.combine, t.dtype()), t.dtype(), t.device()), w.source.shape()),
                     Combine::Assign);
    write_slices(target, w, apart(w.source, target), how.combine);
    if (how.mean) {
        Tensor line = line_view(target);
        Tensor counts = full({line.shape()[w.dim]}, Scalar(a.flag(5) ? 1 : 0), DType::I64, line.device());
        device::indexing(counts).scatter(counts, 0, as_indices(w.index),
                                         expand(full({}, Scalar(1), DType::I64, line.device()), {w.index.numel()}),
                                         Combine::Add, true);
        Dims shape(line.dim(), 1);
        shape[w.dim] = counts.numel();
        device::indexing(line).divide_by_counts(line, view(counts, shape));
    }
    return target;
}

OP("index_put(Tensor input, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
   FUNCTION | METHOD | INPLACE, R"(Writes values at the places that index tensors name: input[indices] = values.

Args:
    input: the tensor to start from.
    indices: integer tensors or masks, one per dimension, that broadcast together.
    values: what is written; broadcast.
    accumulate: add instead of replacing; repeated places add up in order.

Example:
    >>> fb.index_put(fb.zeros(3), (fb.tensor([0, 0]),), fb.tensor([1.0, 2.0]), accumulate=True)
    tensor([3., 0., 0.])
)") {
    const Tensor& values = a.tensor(2);
    if (values.dtype() != a.tensor(0).dtype()) {
        fail_type("index put requires the source and destination dtypes match, got ", a.tensor(0).dtype(),
                  " for the destination and ", values.dtype(), " for the source");
    }
    std::vector<IndexItem> items;
    for (const Tensor& index : a.tensors(1))
        items.push_back(index ? IndexItem::tensor(index)
                              : IndexItem::slice(IndexItem::open_low, IndexItem::open_high, 1));
    Tensor target = write_target(a);
    if (a.flag(3)) index_add_to(target, items, values);
    else index_set(target, items, values);
    return target;
}

}  // namespace fb
