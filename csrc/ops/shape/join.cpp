// Joining: cat, stack and related ops, meshgrid, block_diag.
#include "device/create.h"
#include "device/move.h"
#include "ops/shape/create.h"
#include "ops/shape/shape.h"

namespace fb {
namespace {

// PyTorch lets empty 1-d tensors join anything.
bool is_legacy_empty(const Tensor& t) { return t.dim() == 1 && t.shape()[0] == 0; }

Dims cat_shape(const std::vector<Tensor>& tensors, int64_t& dim, DType& dtype) {
    check(!tensors.empty(), "expected a non-empty list of Tensors");
    const Tensor* model = nullptr;
    dtype = tensors[0].dtype();
    bool mixed = false;
    for (size_t i = 0; i < tensors.size(); i++) {
        const Tensor& t = tensors[i];
        check(t.dim() > 0, "zero-dimensional tensor (at position ", i, ") cannot be concatenated");
        mixed |= t.dtype() != dtype;
        if (!model && !is_legacy_empty(t)) model = &t;
    }
    if (mixed) dtype = result_type(tensors);
    if (!model) {
        dim = wrap_dim(dim, 1);
        return tensors[0].shape();
    }
    dim = wrap_dim(dim, model->dim());
    Dims shape = model->shape();
    int64_t total = 0;
    for (size_t i = 0; i < tensors.size(); i++) {
        const Tensor& t = tensors[i];
        if (is_legacy_empty(t)) continue;
        check(t.dim() == model->dim(), "Tensors must have same number of dimensions: got ", model->dim(), " and ",
              t.dim(), " (shapes ", model->shape(), " and ", t.shape(), ")");
        for (int64_t d = 0; d < t.dim(); d++) {
            check(d == dim || t.shape()[d] == shape[d], "Sizes of tensors must match except in dimension ", dim,
                  ". Expected size ", shape[d], " but got size ", t.shape()[d], " for tensor number ", i,
                  " in the list (shapes ", model->shape(), " and ", t.shape(), ")");
        }
        if (__builtin_add_overflow(total, t.shape()[dim], &total)) fail_value("the joined size overflows");
    }
    shape[dim] = total;
    return shape;
}

void cat_into(const Tensor& to, const std::vector<Tensor>& tensors, int64_t dim) {
    if (to.numel() == 0) return;
    int64_t start = 0;
    std::vector<device::Part> parts;
    for (const Tensor& t : tensors) {
        if (t.numel() == 0) continue;
        int64_t size = t.shape()[dim];
        if (to.is_contiguous() && t.is_contiguous() && t.dtype() == to.dtype()) {
            parts.push_back({&t, start});
        } else {
            copy_into(narrow(to, dim, start, size), t);
        }
        start += size;
    }
    device::moving(to).join(to, parts, dim);
}

// cat preserves channels-last formats only; any other order becomes row-major, as in PyTorch.
bool all_channels_last(const std::vector<Tensor>& tensors) {
    int64_t dim = tensors[0].dim();
    if (dim != 4 && dim != 5) return false;
    MemoryFormat format = dim == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
    for (const Tensor& t : tensors) {
        if (t.dim() != dim || t.is_contiguous() || !has_format(t, format)) return false;
    }
    return true;
}

// The result is row-major, whatever the inputs are.
Tensor cat_rows(Args& a, const std::vector<Tensor>& tensors, int64_t dim) {
    DType dtype;
    Dims shape = cat_shape(tensors, dim, dtype);
    if (!a.out) {
        Tensor result = empty(shape, dtype, tensors[0].device());
        cat_into(result, tensors, dim);
        return result;
    }
    for (const Tensor& t : tensors) {
        check(!share_memory(a.out, t) && !a.out.is_same(t),
              "unsupported operation: the input tensors cannot refer to any of the output memory locations: some "
              "elements "
              "of the input tensor and the written-to tensor refer to a single memory location; clone() one of them");
    }
    Tensor result = output(a, shape, dtype, {});
    cat_into(result, tensors, dim);
    return result;
}

// Joins tensors in their memory order: row-major after reordering their dimensions.
Tensor cat_reordered(Args& a, const std::vector<Tensor>& tensors, int64_t dim, const Dims& order) {
    std::vector<Tensor> reordered;
    for (const Tensor& t : tensors) reordered.push_back(permute(t, order));
    Dims back(order.size(), 0);
    for (int64_t i = 0; i < order.size(); i++) back[order[i]] = i;
    return permute(cat_rows(a, reordered, back[dim]), back);
}

Dims last_order(int64_t dim) { return dim == 4 ? Dims{0, 2, 3, 1} : Dims{0, 2, 3, 4, 1}; }

Tensor cat_op(Args& a, const std::vector<Tensor>& tensors, int64_t dim) {
    if (a.out || tensors.empty() || !all_channels_last(tensors)) return cat_rows(a, tensors, dim);
    return cat_reordered(a, tensors, wrap_dim(dim, tensors[0].dim()), last_order(tensors[0].dim()));
}

std::vector<Tensor> unsqueezed(const std::vector<Tensor>& tensors, int64_t& dim) {
    check(!tensors.empty(), "expects a non-empty TensorList");
    dim = wrap_dim(dim, tensors[0].dim() + 1);
    std::vector<Tensor> result;
    for (size_t i = 0; i < tensors.size(); i++) {
        check(tensors[i].shape() == tensors[0].shape(), "expects each tensor to be equal size, but got ",
              tensors[0].shape(), " at entry 0 and ", tensors[i].shape(), " at entry ", i);
        result.push_back(unsqueeze(tensors[i], dim));
    }
    return result;
}

Tensor at_least_2d(const Tensor& t) { return t.dim() == 0 ? reshape(t, {1, 1}) : t.dim() == 1 ? unsqueeze(t, 0) : t; }

template <class F>
std::vector<Tensor> each(const std::vector<Tensor>& tensors, F f) {
    check(!tensors.empty(), "expects a non-empty TensorList");
    std::vector<Tensor> result;
    for (const Tensor& t : tensors) result.push_back(f(t));
    return result;
}

Tensor hstack(Args& a) {
    auto parts = each(a.tensors(0), [](const Tensor& t) { return t.dim() == 0 ? reshape(t, {1}) : t; });
    return cat_op(a, parts, parts[0].dim() == 1 ? 0 : 1);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) {
    Args a;
    return cat_op(a, tensors, dim);
}

static Tensor stack_op(Args& a, const std::vector<Tensor>& tensors, int64_t dim) {
    std::vector<Tensor> parts = unsqueezed(tensors, dim);
    int64_t rank = tensors[0].dim();
    if (a.out || dim == rank || !all_channels_last(tensors)) return cat_rows(a, parts, dim);
    // Channels-last images keep their format; the new dimension precedes the one it was inserted before.
    Dims order;
    for (int64_t d : last_order(rank)) {
        if (d == dim) order.push_back(dim);
        order.push_back(d < dim ? d : d + 1);
    }
    return cat_reordered(a, parts, dim, order);
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
    Args a;
    return stack_op(a, tensors, dim);
}

OP("cat(Tensor[] tensors, int dim=0) -> Tensor", FUNCTION | OUT, R"(Joins tensors along a dimension that they have.

Args:
    tensors: of one shape but for that dimension; dtypes are promoted.
    dim: the dimension.

Example:
    >>> fb.cat([fb.tensor([1, 2]), fb.tensor([3])])
    tensor([1, 2, 3])
)") {
    return cat_op(a, a.tensors(0), a.integer(1));
}
OP_ALIAS("concat", "cat");
OP_ALIAS("concatenate", "cat");

OP("stack(Tensor[] tensors, int dim=0) -> Tensor", FUNCTION | OUT, R"(Joins tensors of one shape along a new dimension.

Args:
    tensors: all of one shape; dtypes are promoted.
    dim: where the new dimension stands.

Example:
    >>> fb.stack([fb.tensor([1, 2]), fb.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
)") {
    return stack_op(a, a.tensors(0), a.integer(1));
}

OP("hstack(Tensor[] tensors) -> Tensor", FUNCTION | OUT,
   R"(Joins tensors along the second dimension (vectors along the first).

Args:
    tensors: the tensors.

Example:
    >>> fb.hstack([fb.tensor([1, 2]), fb.tensor([3])])
    tensor([1, 2, 3])
)") {
    return hstack(a);
}
OP("vstack(Tensor[] tensors) -> Tensor", FUNCTION | OUT, R"(Joins tensors as rows, along the first dimension.

Args:
    tensors: the tensors; vectors become rows.

Example:
    >>> fb.vstack([fb.tensor([1, 2]), fb.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
)") {
    return cat_op(a, each(a.tensors(0), at_least_2d), 0);
}
OP_ALIAS("row_stack", "vstack");
OP("dstack(Tensor[] tensors) -> Tensor", FUNCTION | OUT, R"(Joins tensors along the third dimension.

Args:
    tensors: the tensors, which are first expanded to at least three dimensions.

Example:
    >>> fb.dstack([fb.tensor([1, 2]), fb.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
)") {
    return cat_op(
        a, each(a.tensors(0), [](const Tensor& t) { return t.dim() >= 3 ? t : unsqueeze(at_least_2d(t), -1); }), 2);
}
OP("column_stack(Tensor[] tensors) -> Tensor", FUNCTION | OUT, R"(Joins tensors as columns, along the second dimension.

Args:
    tensors: the tensors; vectors become columns.

Example:
    >>> fb.column_stack([fb.tensor([1, 2]), fb.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
)") {
    return cat_op(a, each(a.tensors(0), [](const Tensor& t) { return t.dim() <= 1 ? reshape(t, {t.numel(), 1}) : t; }),
                  1);
}

// ---- grids ----------------------------------------------------------------------------------------------------------

static std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, const std::string& indexing) {
    check(!tensors.empty(), "expects a non-empty TensorList");
    check(indexing == "ij" || indexing == "xy", "indexing must be one of \"xy\" or \"ij\", but received: ", indexing);
    bool swap = indexing == "xy" && tensors.size() >= 2;
    std::vector<Tensor> vectors = tensors;
    Dims shape;
    for (Tensor& t : vectors) {
        check(t.dim() <= 1, "Expected 0D or 1D tensor in the tensor list but got shape ", t.shape());
        check(t.dtype() == tensors[0].dtype(), "expects all tensors to have the same dtype, got ", tensors[0].dtype(),
              " and ", t.dtype());
        t = reshape(t, {t.numel()});
    }
    if (swap) std::swap(vectors[0], vectors[1]);
    for (const Tensor& t : vectors) shape.push_back(t.numel());
    std::vector<Tensor> grids;
    for (size_t i = 0; i < vectors.size(); i++) {
        Dims own(shape.size(), 1);
        own[static_cast<int64_t>(i)] = vectors[i].numel();
        grids.push_back(expand(view(vectors[i], own), shape));
    }
    if (swap) std::swap(grids[0], grids[1]);
    return grids;
}
OP("meshgrid(*Tensor[] tensors, *, str? indexing=None) -> Tensor[]", FUNCTION,
   R"(Coordinates of a grid, one tensor per axis (views).

Args:
    tensors: vectors of coordinates.
    indexing: 'ij' (the default): the first vector varies along the first dimension; 'xy': along the second.

Example:
    >>> fb.meshgrid(fb.tensor([1, 2]), fb.tensor([3, 4]), indexing='ij')
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
)") {
    return meshgrid(a.tensors(0), a.text_or_none(1).value_or("ij"));
}

OP("cartesian_prod(*Tensor[] tensors) -> Tensor", FUNCTION,
   R"(All combinations of one element from each vector, as rows.

Args:
    tensors: vectors.

Example:
    >>> fb.cartesian_prod(fb.tensor([1, 2]), fb.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
)") {
    for (const Tensor& t : a.tensors(0)) check(t.dim() == 1, "expected 1-d vectors, got shape ", t.shape());
    check(!a.tensors(0).empty(), "expects a non-empty TensorList");
    if (a.tensors(0).size() == 1) return a.tensors(0)[0];
    std::vector<Tensor> columns;
    for (const Tensor& t : meshgrid(a.tensors(0), "ij")) columns.push_back(reshape(t, {t.numel()}));
    return stack(columns, 1);
}

OP("block_diag(*Tensor[] tensors) -> Tensor", FUNCTION,
   R"(A matrix with the given matrices along its diagonal, zeros elsewhere.

Args:
    tensors: at most two-dimensional; vectors count as rows.

Example:
    >>> fb.block_diag(fb.tensor([[1, 2]]), fb.tensor([[3], [4]]))
    tensor([[1, 2, 0],
            [0, 0, 3],
            [0, 0, 4]])
)") {
    std::vector<Tensor> blocks;
    int64_t rows = 0, columns = 0;
    for (const Tensor& t : a.tensors(0)) {
        check(t.dim() <= 2, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input ", blocks.size(),
              " has ", t.dim(), " dimensions");
        blocks.push_back(at_least_2d(t));
        rows += blocks.back().shape()[0];
        columns += blocks.back().shape()[1];
    }
    if (blocks.empty()) return empty({1, 0}, default_dtype(), default_device());
    Tensor result = zeros({rows, columns}, result_type(blocks), blocks[0].device());
    rows = columns = 0;
    for (const Tensor& t : blocks) {
        copy_into(narrow(narrow(result, 0, rows, t.shape()[0]), 1, columns, t.shape()[1]), t);
        rows += t.shape()[0];
        columns += t.shape()[1];
    }
    return result;
}

// ---- indices of triangles -------------------------------------------------------------------------------------------

// Number of elements on and below a diagonal, without iterating over the rows, of which there may be very many.
static __int128 lower_count(int64_t rows, int64_t columns, int64_t offset) {
    __int128 first = std::max<__int128>(__int128(offset) + 1, 1), last = __int128(rows) + offset;
    if (last < first || columns == 0) return 0;
    // Row i has min(k, columns) elements for k = i + offset + 1, which runs from first to last.
    __int128 growing = std::min<__int128>(last, columns), total = 0;
    if (growing >= first) total = (first + growing) * (growing - first + 1) / 2;
    if (last > growing) total += (last - std::max<__int128>(growing, first - 1)) * columns;
    return total;
}

static Tensor triangle_indices(const Args& a, bool upper) {
    int64_t rows = a.integer(0), columns = a.integer(1);
    check(rows >= 0, "row must be non-negative, got ", rows);
    check(columns >= 0, "col must be non-negative, got ", columns);
    DType dtype = a.dtype_or_none(3).value_or(DType::I64);
    check(dtype == DType::I64 || dtype == DType::I32, "dtype must be int32 or int64, got ", dtype);
    if (a.given(4) && a.integer(4) != 0) {
        fail(ErrorKind::NotImplemented, "only the strided layout is available, use layout=strided");
    }
    int64_t offset = std::clamp(a.integer(2), -rows, columns);
    __int128 total =
        upper ? __int128(rows) * columns - lower_count(rows, columns, offset - 1) : lower_count(rows, columns, offset);
    check(total < (int64_t(1) << 58), "the triangle of a ", rows, " x ", columns,
          " matrix has too many elements to list");
    int64_t count = static_cast<int64_t>(total);
    Tensor result = empty({2, count}, dtype, a.device_or_none(5).value_or(default_device()));
    if (count == 0) return result;
    // Only the rows with elements.
    int64_t first = upper ? 0 : std::max<int64_t>(0, -offset), last = upper ? std::min(rows, columns - offset) : rows;
    device::creating(result).triangle(result, first, last, columns, offset, upper);
    return result;
}
OP("tril_indices(int row, int col, int offset=0, *, dtype? dtype=None, layout? layout=None, device? device=None, bool? "
   "pin_memory=False) -> Tensor",
   FUNCTION,
   R"(Row and column indices of the lower triangle of a matrix, as the two rows of an integer tensor.

Args:
    row: rows of the matrix.
    col: columns of the matrix.
    offset: the last diagonal to include; 0 is the main one.
    dtype: int64 or int32.
    layout: only strided.
    device: device of the tensor.
    pin_memory: accepted.

Example:
    >>> fb.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
)") {
    return triangle_indices(a, false);
}
OP("triu_indices(int row, int col, int offset=0, *, dtype? dtype=None, layout? layout=None, device? device=None, bool? "
   "pin_memory=False) -> Tensor",
   FUNCTION,
   R"(Row and column indices of the upper triangle of a matrix, as the two rows of an integer tensor.

Args:
    row: rows of the matrix.
    col: columns of the matrix.
    offset: the first diagonal to include; 0 is the main one.
    dtype: int64 or int32.
    layout: only strided.
    device: device of the tensor.
    pin_memory: accepted.

Example:
    >>> fb.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
)") {
    return triangle_indices(a, true);
}

}  // namespace fb
