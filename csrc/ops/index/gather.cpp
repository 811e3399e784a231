// Reading by index tensors: gather, take, take_along_dim, index_select.
#include "ops/index/gather.h"

#include "base/wording.h"
#include "device/move.h"
#include "ops/index/index.h"
#include "ops/index/index_advanced.h"
#include "ops/shape/create.h"
#include "ops/shape/shape.h"

namespace fb {

Tensor line_view(const Tensor& t) { return t.dim() == 0 ? view(t, {1}) : t; }

Tensor dim_index(const Tensor& index) {
    if (!is_integral(index.dtype())) fail_index("expected index of an integer dtype, got ", index.dtype());
    if (index.dim() > 1) fail_index("index should be 0-d or 1-d, got shape ", index.shape());
    return line_view(index);
}

Tensor row_offsets(const Tensor& t, int64_t dim, const Tensor& index, bool wrap) {
    Tensor offsets = empty({index.numel()}, DType::I64, t.device());
    device::indexing(t).add_offsets(offsets, index, dim, t.shape()[dim], t.strides()[dim] * t.itemsize(), wrap, true);
    return offsets;
}

Tensor rows_of(const Tensor& t, int64_t dim) {
    Dims shape = t.shape(), strides = t.strides();
    shape.erase(dim);
    strides.erase(dim);
    return view_of(t, shape, strides, t.offset());
}

void check_apart(const Args& a, Tensors inputs) {
    for (const Tensor& t : inputs) {
        check(!a.out || !share_memory(a.out, t),
              "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
              "memory location; clone() one of them");
    }
}

static void check_same_dims(const Tensor& t, const Tensor& index) {
    int64_t have = std::max<int64_t>(t.dim(), 1), given = std::max<int64_t>(index.dim(), 1);
    check(have == given, "Index tensor must have the same number of dimensions as input tensor, got ", index.dim(),
          " and ", t.dim(), " (shapes ", index.shape(), " and ", t.shape(), ")");
}

static void check_fits(const Tensor& t, const Tensor& index, int64_t dim) {
    check_same_dims(t, index);
    for (int64_t d = 0; d < index.dim() && t.dim() > 0; d++) {
        check(d == dim || index.shape()[d] <= t.shape()[d], "Size does not match at dimension ", d, ": expected index ",
              index.shape(), " to be no larger than input ", t.shape(), " apart from dimension ", dim);
    }
}

static Tensor gather_into(const Tensor& to, const Tensor& t, int64_t dim, const Tensor& index, bool wrap = false) {
    if (index.numel()) device::indexing(t).gather(line_view(to), line_view(t), dim, line_view(index), wrap);
    return to;
}

Tensor gather(const Tensor& t, int64_t dim, const Tensor& index, bool wrap) {
    dim = wrap_dim(dim, t.dim());
    check_fits(t, index, dim);
    return gather_into(empty(index.shape(), t.dtype(), t.device()), t, dim, as_indices(index), wrap);
}

OP("gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", COMMON,
   R"(Picks elements along a dimension: out[i][j] = input[index[i][j]][j] for dim 0.

Args:
    input: tensor to read from.
    dim: the dimension to index.
    index: integers; as many dimensions as the input, and no larger in the others.
    sparse_grad: accepted for compatibility.

Example:
    >>> fb.gather(fb.tensor([[1, 2], [3, 4]]), 1, fb.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
)") {
    const Tensor &t = a.tensor(0), &index = a.tensor(2);
    int64_t dim = wrap_dim(a.integer(1), t.dim());
    if (index.numel()) check_fits(t, index, dim);
    if (!is_integral(index.dtype())) fail_type("expected dtype int64 for index, got ", index.dtype());
    if (!a.out) return gather_into(empty(index.shape(), t.dtype(), t.device()), t, dim, as_indices(index));
    check(a.out.dtype() == t.dtype(), OutDType{t.dtype(), a.out.dtype()});
    check(!share_memory(a.out, t) && !share_memory(a.out, index),
          "unsupported operation: out refers to memory of an input; clone() one of them");
    Tensor result = output(a, index.shape(), t.dtype(), {});
    check_apart(a, {t, index});
    return gather_into(result, t, dim, as_indices(index));
}

OP("take(Tensor input, Tensor index) -> Tensor", COMMON, R"(Picks elements by their position in the flattened tensor.

Args:
    input: the tensor.
    index: integers; the result has their shape; negative values count from the end.

Example:
    >>> fb.take(fb.tensor([[1, 2], [3, 4]]), fb.tensor([0, -1]))
    tensor([1, 4])
)") {
    const Tensor& t = a.tensor(0);
    if (!is_integral(a.tensor(1).dtype())) fail_type("expected a long tensor for index, but got ", a.tensor(1).dtype());
    if (t.numel() == 0 && a.tensor(1).numel()) fail_index("tried to take from an empty tensor");
    check_apart(a, {t, a.tensor(1)});
    return advanced_get(view(contiguous(t), {t.numel()}), {{0, a.tensor(1)}});
}

OP("take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor", COMMON,
   R"(Picks elements along a dimension; the other dimensions broadcast.

Args:
    input: the tensor.
    indices: integers, for example from argmax or argsort; negative values count from the end.
    dim: the dimension to index; both tensors are flattened by default.

Example:
    >>> x = fb.tensor([[3, 1], [2, 5]])
    >>> fb.take_along_dim(x, fb.tensor([[1], [0]]), dim=1)
    tensor([[1],
            [2]])
)") {
    Tensor t = a.tensor(0), index = a.tensor(1);
    if (!is_integral(index.dtype())) fail_type("dtype of indices should be Long (int64) but got ", index.dtype());
    if (!a.given(2)) return gather(view(contiguous(t), {t.numel()}), 0, reshape(index, {index.numel()}), true);
    check(t.dim() == index.dim(), "input and indices should have the same number of dimensions, but got ", t.dim(),
          " dimensions for input, and ", index.dim(), " dimensions for indices");
    int64_t dim = wrap_dim(a.integer(2), t.dim());
    if (t.dim() == 0) return gather(t, 0, index, true);
    Dims a_shape = t.shape(), b_shape = index.shape();
    a_shape[dim] = b_shape[dim] = 1;
    Dims shape = broadcast_shapes(a_shape, b_shape);
    shape[dim] = t.shape()[dim];
    t = expand(t, shape);
    shape[dim] = index.shape()[dim];
    return gather(t, dim, expand(index, shape), true);
}

static void index_select_into(const Tensor& to, const Tensor& t, int64_t dim, const Tensor& index) {
    Tensor offsets = row_offsets(t, dim, index, false);
    if (to.numel()) device::indexing(t).gather_rows(to, rows_of(t, dim), offsets, dim);
}

static Dims selected_shape(const Tensor& t, int64_t dim, const Tensor& index) {
    Dims shape = t.shape();
    if (t.dim() > 0) shape[dim] = index.numel();
    else check(index.numel() == 1, "index to a 0-d tensor must have 1 element, got ", index.numel());
    return shape;
}

Tensor index_select(const Tensor& t, int64_t dim, const Tensor& index) {
    Tensor indices = dim_index(index);
    dim = wrap_dim(dim, t.dim());
    Tensor result = empty(selected_shape(t, dim, indices), t.dtype(), t.device());
    index_select_into(line_view(result), line_view(t), dim, indices);
    return result;
}

OP("index_select(Tensor input, int dim, Tensor index) -> Tensor", COMMON,
   R"(The slices of a dimension that a vector of indices names.

Args:
    input: the tensor.
    dim: the dimension.
    index: integers, 0-d or 1-d; negative ones are an error.

Example:
    >>> fb.index_select(fb.tensor([[1, 2], [3, 4]]), 0, fb.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])
)") {
    const Tensor& t = a.tensor(0);
    if (!a.out || !a.out.is_contiguous()) return index_select(t, a.integer(1), a.tensor(2));
    Tensor index = dim_index(a.tensor(2));
    int64_t dim = wrap_dim(a.integer(1), t.dim());
    check(a.out.dtype() == t.dtype(), OutDType{t.dtype(), a.out.dtype()});
    check(!share_memory(a.out, t) && !share_memory(a.out, index),
          "unsupported operation: out refers to memory of an input; clone() one of them");
    Tensor result = output(a, selected_shape(t, dim, index), t.dtype(), {});
    check_apart(a, {t, index});
    index_select_into(line_view(result), line_view(t), dim, index);
    return result;
}

static Tensor interleave_indices(const Tensor& repeats) {
    check(repeats.dim() == 1, "repeats must be a 1-d tensor, got shape ", repeats.shape());
    check(repeats.dtype() == DType::I64 || repeats.dtype() == DType::I32, "repeats has to be int64 or int32, got ",
          repeats.dtype());
    return device::indexing(repeats).repeat_indices(contiguous(to_dtype(repeats, DType::I64)));
}

static Tensor repeat_interleave(const Tensor& input, const Tensor& repeats, std::optional<int64_t> dim,
                                std::optional<int64_t> size) {
    Tensor t = input;
    if (!dim) {
        t = view(contiguous(t), {t.numel()});
        dim = 0;
    }
    int64_t d = wrap_dim(*dim, t.dim());
    t = line_view(t);
    Tensor counts = repeats;
    if (counts.numel() == 1 && counts.dim() <= 1) {
        Scalar times = item(counts);
        check(counts.dtype() == DType::I64 || counts.dtype() == DType::I32, "repeats has to be int64 or int32, got ",
              counts.dtype());
        check(times.i >= 0, "repeats can not be negative, got ", times.i);
        Dims shape = t.shape();
        shape[d] = checked_mul(shape[d], times.i, "the repeated size");
        check(!size || *size == shape[d], "allocated size does not match required size: output_size=", size.value_or(0),
              ", expected ", shape[d]);
        Tensor result = empty(shape, t.dtype(), t.device());
        int64_t block = 1;
        for (int64_t k = d + 1; k < t.dim(); k++) block *= t.shape()[k];
        if (result.numel()) device::moving(t).interleave(result, contiguous(t), block, times.i);
        return result;
    }
    check(counts.dim() == 1 && counts.shape()[0] == t.shape()[d],
          "repeats must have the same size as input along dim, but got repeats of shape ", counts.shape(),
          " and input of shape ", t.shape(), " along dim ", d);
    Tensor indices = interleave_indices(counts);
    check(!size || *size == indices.numel(),
          "allocated size does not match required size: output_size=", size.value_or(0), ", the repeats sum to ",
          indices.numel());
    return index_select(t, d, indices);
}
OP("repeat_interleave(Tensor repeats, *, int? output_size=None) -> Tensor", FUNCTION,
   R"(Repeats each element (or slice) consecutively, or returns the indices that do so.

Args:
    input: the tensor.
    repeats: how often each is repeated: a number, or integers per slice. Alone: the indices 0, 1, … repeated so.
    dim: the dimension; the flattened input by default.
    output_size: the total, when it is known already.

Example:
    >>> fb.repeat_interleave(fb.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    >>> fb.repeat_interleave(fb.tensor([1, 2]), fb.tensor([2, 1]))
    tensor([1, 1, 2])
)") {
    Tensor result = interleave_indices(a.tensor(0));
    check(!a.given(1) || a.integer(1) == result.numel(), "allocated size does not match required size ",
          result.numel());
    return to_dtype(result, a.tensor(0).dtype());
}
OP("repeat_interleave(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor",
   FUNCTION | METHOD, nullptr) {
    return repeat_interleave(a.tensor(0), a.tensor(1), a.integer_or_none(2), a.integer_or_none(3));
}
OP("repeat_interleave(Tensor input, int[] repeats, int? dim=None, *, int? output_size=None) -> Tensor",
   FUNCTION | METHOD, nullptr) {
    const Dims& repeats = a.dims(1);
    return repeat_interleave(a.tensor(0), int_tensor(repeats, a.tensor(0).device()), a.integer_or_none(2),
                             a.integer_or_none(3));
}

}  // namespace fb
