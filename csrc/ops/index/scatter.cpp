// Writing by index tensors: scatter, scatter_add, scatter_reduce, put_, and the *_scatter ops that embed one tensor in
// another.
#include "ops/index/scatter.h"

#include <limits>

#include "ops/index/gather.h"
#include "ops/index/index.h"
#include "ops/index/index_advanced.h"
#include "ops/shape/create.h"
#include "ops/shape/shape.h"
#include "ops/table/dispatch.h"
#include "ops/table/overlap.h"
#include "ops/table/views.h"

namespace fb {

using device::Combine;

Tensor write_target(Args& a) {
    if (!a.inplace) return clone(a.tensor(0));
    check(!may_overlap_itself(a.out), overlap_text);
    a.out.will_write();
    return a.out;
}

Tensor apart(const Tensor& source, const Tensor& target) {
    return share_memory(source, target) ? clone(source) : source;
}

Scalar neutral(Combine combine, DType dtype) {
    if (combine == Combine::Add) return Scalar(0);
    if (combine == Combine::Multiply) return Scalar(1);
    bool largest = combine == Combine::Min;
    return dispatch_real(dtype, [&](auto tag) -> Scalar {
        using T = typename decltype(tag)::type;
        if constexpr (is_half_type<T> || std::is_floating_point_v<T>) {
            double inf = std::numeric_limits<double>::infinity();
            return Scalar(largest ? inf : -inf);
        } else if constexpr (std::is_same_v<T, uint64_t>) {
            return Scalar(largest ? std::numeric_limits<uint64_t>::max() : uint64_t(0));
        } else {
            return Scalar(
                static_cast<int64_t>(largest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min()));
        }
    });
}

Reduction reduction_named(const std::string& name, bool with_sum) {
    if (with_sum && name == "sum") return {Combine::Add, false};
    if (name == "prod") return {Combine::Multiply, false};
    if (name == "mean") return {Combine::Add, true};
    if (name == "amax") return {Combine::Max, false};
    if (name == "amin") return {Combine::Min, false};
    fail_value("reduce argument must be ", with_sum ? "either sum, " : "", "prod, mean, amax or amin, got ", name);
}

namespace {

// The index checks of the scatter ops; returns the wrapped dim.
int64_t check_scatter(const Tensor& t, int64_t dim, const Tensor& index, const Tensor* src) {
    dim = wrap_dim(dim, t.dim());
    if (!is_integral(index.dtype())) fail_type("expected dtype int64 for index, got ", index.dtype());
    if (src && src->dtype() != t.dtype())
        fail_type("Expected self.dtype to be equal to src.dtype, got ", t.dtype(), " and ", src->dtype());
    if (index.numel() == 0) return dim;
    int64_t n = std::max<int64_t>(t.dim(), 1);
    check(n == std::max<int64_t>(index.dim(), 1),
          "Index tensor must have the same number of dimensions as self tensor, got shapes ", index.shape(), " and ",
          t.shape());
    check(!src || n == std::max<int64_t>(src->dim(), 1),
          "Index tensor must have the same number of dimensions as src tensor, got shapes ", index.shape(), " and ",
          src ? src->shape() : Dims());
    auto size = [](const Tensor& x, int64_t d) { return x.dim() ? x.shape()[d] : 1; };
    for (int64_t d = 0; d < n; d++) {
        check(d == dim || size(index, d) <= size(t, d), "expected index ", index.shape(), " to be no larger than self ",
              t.shape(), " apart from dimension ", dim);
        check(!src || size(index, d) <= size(*src, d), "expected index ", index.shape(), " to be no larger than src ",
              src ? src->shape() : Dims(), " in any dimension");
    }
    return dim;
}

// src restricted to the part the index covers.
Tensor covered(const Tensor& src, const Dims& shape) { return view_of(src, shape, src.strides(), src.offset()); }

Tensor scatter_op(Args& a, const Tensor* src, const Tensor& value, Combine combine) {
    const Tensor& t = a.tensor(0);
    int64_t dim = check_scatter(t, a.integer(1), a.tensor(2), src);
    Tensor index = line_view(as_indices(a.tensor(2)));
    // In place, nothing may be written if an index is invalid; a copy can be discarded.
    if (a.inplace && index.numel()) device::indexing(index).check(index, dim, t.dim() ? t.shape()[dim] : 1);
    Tensor target = write_target(a);
    if (index.numel() == 0) return target;
    Tensor values = src ? covered(line_view(apart(*src, target)), index.shape())
                        : expand(to_dtype(value, t.dtype()), index.shape());
    device::indexing(target).scatter(line_view(target), dim, apart(index, target), values, combine, a.inplace);
    return target;
}

Combine legacy_reduce(const Args& a, int i) {
    if (!a.given(i)) return Combine::Assign;
    if (a.text(i) == "add") return Combine::Add;
    if (a.text(i) == "multiply") return Combine::Multiply;
    fail_value("reduce argument must be either add or multiply, got ", a.text(i));
}

}  // namespace

OP("scatter(Tensor input, int dim, Tensor index, Tensor src, *, str? reduce=None) -> Tensor", POINTWISE,
   R"(Writes elements along a dimension: out[index[i][j]][j] = src[i][j] for dim 0.

Args:
    input: the tensor to start from.
    dim: the dimension to index.
    index: integers; no larger than src, and no larger than input apart from `dim`.
    src: a tensor of values, or `value=` one number.
    reduce: 'add' or 'multiply' to combine with the existing values.

Example:
    >>> fb.scatter(fb.zeros(3), 0, fb.tensor([2, 0]), fb.tensor([1.0, 5.0]))
    tensor([5., 0., 1.])
)") {
    return scatter_op(a, &a.tensor(3), Tensor(), legacy_reduce(a, 4));
}
OP("scatter(Tensor input, int dim, Tensor index, Scalar value, *, str? reduce=None) -> Tensor", POINTWISE, nullptr) {
    Tensor value = full({}, a.scalar(3), a.tensor(0).dtype(), a.tensor(0).device());
    return scatter_op(a, nullptr, value, legacy_reduce(a, 4));
}
OP("scatter(Tensor input, int dim, Tensor index, Scalar src, *, str? reduce=None) -> Tensor", POINTWISE, nullptr) {
    Tensor value = full({}, a.scalar(3), a.tensor(0).dtype(), a.tensor(0).device());
    return scatter_op(a, nullptr, value, legacy_reduce(a, 4));
}

OP("scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor", POINTWISE,
   R"(Adds elements along a dimension: out[index[i][j]][j] += src[i][j] for dim 0.

Repeated indices are accumulated in order, for any number of threads.

Args:
    input: the tensor to start from.
    dim: the dimension to index.
    index: integers; no larger than src, and no larger than input apart from `dim`.
    src: the values.

Example:
    >>> fb.scatter_add(fb.zeros(2), 0, fb.tensor([0, 0, 1]), fb.tensor([1.0, 2.0, 3.0]))
    tensor([3., 3.])
)") {
    return scatter_op(a, &a.tensor(3), Tensor(), Combine::Add);
}

OP("scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
   POINTWISE,
   R"(Combines the elements that go to one place along a dimension.

Args:
    input: the tensor to start from.
    dim: the dimension to index.
    index: integers; no larger than src, and no larger than input apart from `dim`.
    src: the values.
    reduce: 'sum', 'prod', 'mean', 'amax' or 'amin'.
    include_self: whether to include the elements of the input.

Example:
    >>> fb.scatter_reduce(fb.zeros(2), 0, fb.tensor([0, 0, 1]), fb.tensor([1.0, 5.0, 3.0]), 'amax')
    tensor([5., 3.])
)") {
    const Tensor &t = a.tensor(0), &src = a.tensor(3);
    Reduction how = reduction_named(a.text(4), true);
    int64_t dim = check_scatter(t, a.integer(1), a.tensor(2), &src);
    check(!is_complex(t.dtype()) || how.combine == Combine::Add || how.combine == Combine::Multiply, a.text(4),
          " is not available for dtype ", t.dtype());
    Tensor index = line_view(as_indices(a.tensor(2)));
    if (index.numel()) device::indexing(index).check(index, dim, t.dim() ? t.shape()[dim] : 1);
    Tensor target = write_target(a), line = line_view(target);
    if (index.numel() == 0) return target;
    Tensor values = covered(line_view(apart(src, target)), index.shape());
    index = apart(index, target);
    if (!a.flag(5))
        device::indexing(line).scatter(
            line, dim, index, expand(full({}, neutral(how.combine, t.dtype()), t.dtype(), t.device()), index.shape()),
            Combine::Assign, true);
    device::indexing(line).scatter(line, dim, index, values, how.combine, true);
    if (how.mean) {
        Tensor counts = full(line.shape(), Scalar(a.flag(5) ? 1 : 0), DType::I64, line.device());
        device::indexing(counts).scatter(counts, dim, index,
                                         expand(full({}, Scalar(1), DType::I64, line.device()), index.shape()),
                                         Combine::Add, true);
        device::indexing(line).divide_by_counts(line, counts);
    }
    return target;
}

OP("put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor", FUNCTION | METHOD | INPLACE,
   R"(Writes elements by their position in the flattened tensor.

Args:
    input: the tensor to start from.
    index: integers; negative values count from the end.
    source: values to write, one per index.
    accumulate: add instead of replacing.

Example:
    >>> fb.put(fb.zeros(2, 2), fb.tensor([0, 3]), fb.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
)") {
    const Tensor &t = a.tensor(0), &index = a.tensor(1), &source = a.tensor(2);
    if (!is_integral(index.dtype())) fail_type("expected a long tensor for index, but got ", index.dtype());
    if (source.dtype() != t.dtype())
        fail_type("self and source expected to have the same dtype, but got self.dtype = ", t.dtype(),
                  " and source.dtype = ", source.dtype());
    check(index.numel() == source.numel(), "index and source must have the same number of elements, got ",
          index.numel(), " and ", source.numel());
    if (t.numel() == 0 && index.numel()) fail_index("tried to put into an empty tensor");
    Tensor target = write_target(a);
    Tensor flat = target.is_contiguous() ? target : clone(target, MemoryFormat::Contiguous);
    advanced_set(view(flat, {flat.numel()}), {{0, index}}, reshape(source, index.shape()), a.flag(3));
    if (!flat.is_same(target)) copy_into(target, flat);
    return target;
}

// ---- embedding one tensor in another --------------------------------------------------------------------------------

// A copy of the input in which the part selected by `view` is replaced.
template <class F>
static Tensor embed(const Args& a, F view) {
    Tensor result = clone(a.tensor(0));
    Tensor part = view(result);
    check(part.shape() == a.tensor(1).shape(), "expected src to have a size equal to the slice of self: src ",
          a.tensor(1).shape(), ", slice ", part.shape());
    copy_into(part, a.tensor(1));
    return result;
}
OP("select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor", COMMON,
   R"(A copy of the input with one slice replaced.

Args:
    input: the tensor.
    src: the new slice.
    dim: the dimension.
    index: which slice.

Example:
    >>> fb.select_scatter(fb.zeros(2, 2), fb.ones(2), 0, 0)
    tensor([[1., 1.],
            [0., 0.]])
)") {
    return embed(a, [&](const Tensor& t) { return select(t, a.integer(2), a.integer(3)); });
}
OP("slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", COMMON,
   R"(A copy of the input with a range of a dimension replaced.

Args:
    input: the tensor.
    src: the new part.
    dim: the dimension.
    start: the first index.
    end: the bound that is not reached.
    step: distance between indices.

Example:
    >>> fb.slice_scatter(fb.zeros(3), fb.ones(2), start=1)
    tensor([0., 1., 1.])
)") {
    check(a.integer(5) > 0, "slice step must be positive, got ", a.integer(5));
    return embed(a, [&](const Tensor& t) {
        return slice(t, a.integer(2), a.integer_or_none(3).value_or(0),
                     a.integer_or_none(4).value_or(IndexItem::open_high), a.integer(5));
    });
}
OP("diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor", COMMON,
   R"(A copy of the input with a diagonal replaced.

Args:
    input: the tensor.
    src: the new diagonal.
    offset: 0 for the main diagonal, positive above it, negative below.
    dim1: the rows.
    dim2: the columns.

Example:
    >>> fb.diagonal_scatter(fb.zeros(2, 2), fb.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
)") {
    return embed(a, [&](const Tensor& t) { return diagonal(t, a.integer(2), a.integer(3), a.integer(4)); });
}
OP("as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor", COMMON,
   R"(A copy of the input with a strided part of it replaced.

Args:
    input: the tensor.
    src: the new part.
    size: its shape.
    stride: elements between neighbours, per dimension.
    storage_offset: the first element.

Example:
    >>> fb.as_strided_scatter(fb.zeros(2, 2), fb.ones(2), (2,), (3,))
    tensor([[1., 0.],
            [0., 1.]])
)") {
    // Offsets and strides refer to the input's storage: copy everything the input can reach.
    const Tensor& t = a.tensor(0);
    Tensor storage = clone(
        make_view(t.storage_ref(), t.dtype(), {static_cast<int64_t>(t.storage().bytes()) / t.itemsize()}, {1}, 0));
    Tensor part = as_strided(storage, a.dims(2), a.dims(3), a.integer_or_none(4).value_or(t.offset()));
    check(part.shape() == a.tensor(1).shape(), "expected src to have the given size: src ", a.tensor(1).shape(),
          ", size ", part.shape());
    copy_into(part, a.tensor(1));
    if (should_record({t, a.tensor(1)}))
        return recorded_as_strided_scatter(t, as_strided(t, a.dims(2), a.dims(3), a.integer_or_none(4)), a.tensor(1));
    return clone(view_of(storage, t.shape(), t.strides(), t.offset()));
}

}  // namespace fb
