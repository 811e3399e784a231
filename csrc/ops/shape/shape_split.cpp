// Splitting into views, and tensors of at least a number of dimensions.
#include "base/wording.h"
#include "ops/shape/shape.h"
#include "ops/table/var.h"

namespace fb {
namespace {

// Every part is a tensor object: rejects numbers that could only be a mistake and would fill the memory.
int64_t few(int64_t parts) {
    check(parts <= (1 << 24), "refusing to make ", parts, " parts; expected at most ", 1 << 24);
    return parts;
}

std::vector<Tensor> chunk(const Tensor& t, int64_t chunks, int64_t dim) {
    check(t.dim() > 0, "expects at least a 1-dimensional tensor");
    check(chunks > 0, "chunk expects `chunks` to be greater than 0, got: ", chunks);
    dim = wrap_dim(dim, t.dim());
    int64_t size = t.shape()[dim] / chunks + (t.shape()[dim] % chunks != 0);
    if (size == 0) return split(t, Dims(few(chunks), 0), dim);
    return split(t, size, dim);
}

std::vector<Tensor> split_sections(const Tensor& t, int64_t sections, int64_t dim) {
    check(t.dim() > 0, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
    dim = wrap_dim(dim, t.dim());
    check(few(sections) > 0, "number of sections must be larger than 0, got ", sections);
    int64_t small = t.shape()[dim] / sections, larger = t.shape()[dim] % sections, start = 0;
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < sections; i++) {
        int64_t length = small + (i < larger);
        parts.push_back(narrow(t, dim, start, length));
        start += length;
    }
    return parts;
}

std::vector<Tensor> split_indices(const Tensor& t, const Dims& indices, int64_t dim) {
    check(t.dim() > 0, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
    dim = wrap_dim(dim, t.dim());
    std::vector<Tensor> parts;
    int64_t start = 0;
    for (int64_t stop : indices) {
        parts.push_back(slice(t, dim, start, stop));
        start = stop;
    }
    parts.push_back(slice(t, dim, start, t.shape()[dim]));
    return parts;
}

std::vector<Tensor> split_tensor(const Tensor& t, const Tensor& where, int64_t dim) {
    check(is_integral(where.dtype()),
          "tensor_split expected tensor_indices_or_sections to have dtype of long, but got ",
          scalar_type(where.dtype()));
    check(where.dim() <= 1,
          "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
          "got a "
          "tensor with ",
          where.dim(), " dims");
    if (where.dim() == 0) return split_sections(t, item(where).i, dim);
    Dims indices;
    for (int64_t i = 0; i < where.numel(); i++) indices.push_back(item(select(where, 0, i)).i);
    return split_indices(t, indices, dim);
}

// hsplit, vsplit and dsplit: the dimension and the minimum number of dimensions.
int64_t named_dim(const Tensor& t, int64_t at_least, int64_t dim) {
    check(t.dim() >= at_least, shown_package, ".", current_op, " requires a tensor with at least ", at_least,
          " dimension, but got a tensor with ", t.dim(), " dimensions!");
    return at_least == 1 && t.dim() > 1 ? 1 : dim;
}

std::vector<Tensor> split_evenly(const Tensor& t, int64_t sections, int64_t dim) {
    check(sections > 0 && t.shape()[dim] % sections == 0, shown_package, ".", current_op,
          " attempted to split along dimension ", dim, ", but the size of the dimension ", t.shape()[dim],
          " is not divisible by the split_size ", sections, "!");
    return split_sections(t, sections, dim);
}

Tensor at_least(const Tensor& t, int64_t dims) {
    if (t.dim() >= dims) return t;
    if (dims == 1) return reshape(t, {1});
    if (dims == 2) return unsqueeze(at_least(t, 1), 0);
    return t.dim() == 2 ? unsqueeze(t, -1) : unsqueeze(at_least(t, 2), -1);
}

std::vector<Tensor> all_at_least(const std::vector<Tensor>& tensors, int64_t dims) {
    // Some are views and some the tensors themselves: each is a separate op for the graph.
    std::vector<Tensor> result;
    for (const Var t : tensors) {
        Var more = dims == 1 ? call<"atleast_1d">(t) : dims == 2 ? call<"atleast_2d">(t) : call<"atleast_3d">(t);
        result.push_back(std::move(more.tensor));
    }
    return result;
}

}  // namespace

OP("split(Tensor input, int split_size, int dim=0) -> Tensor[]", FUNCTION | METHOD,
   R"(Views of consecutive stretches of one dimension.

Args:
    input: the tensor.
    split_size: the size of each part (the last may be smaller), or the sizes of all parts.
    dim: the dimension to split.

Example:
    >>> fb.split(fb.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> fb.split(fb.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
)") {
    return split(a.tensor(0), a.integer(1), a.integer(2));
}
OP("split(Tensor input, int[] split_size, int dim=0) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split(a.tensor(0), a.dims(1), a.integer(2));
}
OP("split(Tensor tensor, int split_size_or_sections, int dim=0) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split(a.tensor(0), a.integer(1), a.integer(2));
}
OP("split(Tensor tensor, int[] split_size_or_sections, int dim=0) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split(a.tensor(0), a.dims(1), a.integer(2));
}

OP("split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]", FUNCTION | METHOD,
   R"(Views of consecutive parts of given sizes.

Args:
    input: the tensor.
    split_sizes: the sizes, which add up to that of the dimension.
    dim: the dimension to split.

Example:
    >>> fb.split_with_sizes(fb.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
)") {
    return split(a.tensor(0), a.dims(1), a.integer(2));
}

OP("chunk(Tensor input, int chunks, int dim=0) -> Tensor[]", FUNCTION | METHOD,
   R"(Views of at most `chunks` equal stretches of one dimension; the last may be smaller.

Args:
    input: the tensor.
    chunks: number of parts.
    dim: the dimension to split.

Example:
    >>> fb.chunk(fb.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
)") {
    return chunk(a.tensor(0), a.integer(1), a.integer(2));
}

OP("tensor_split(Tensor input, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]", FUNCTION | METHOD | MIXED,
   R"(Views of parts of one dimension, split into nearly equal parts or at given indices.

Args:
    input: the tensor.
    indices_or_sections: the number of parts, or the indices where new parts begin (a sequence or a tensor).
    dim: the dimension to split.

Example:
    >>> fb.tensor_split(fb.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> fb.tensor_split(fb.arange(5), (1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
)") {
    return split_tensor(a.tensor(0), a.tensor(1), a.integer(2));
}
OP("tensor_split(Tensor input, Tensor indices_or_sections, int dim=0) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split_tensor(a.tensor(0), a.tensor(1), a.integer(2));
}
OP("tensor_split(Tensor input, int indices_or_sections, int dim=0) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split_sections(a.tensor(0), a.integer(1), a.integer(2));
}
OP("tensor_split(Tensor input, int[] indices_or_sections, int dim=0) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split_indices(a.tensor(0), a.dims(1), a.integer(2));
}
OP("tensor_split(Tensor input, int sections, int dim=0) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split_sections(a.tensor(0), a.integer(1), a.integer(2));
}
OP("tensor_split(Tensor input, int[] indices, int dim=0) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split_indices(a.tensor(0), a.dims(1), a.integer(2));
}

OP("hsplit(Tensor input, int indices_or_sections) -> Tensor[]", FUNCTION | METHOD,
   R"(Views of parts along the second dimension (the first of a vector).

Args:
    input: the tensor.
    indices_or_sections: the number of equal parts, or the indices where new parts begin.

Example:
    >>> fb.hsplit(fb.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1],
            [3]]), tensor([[2],
            [4]]))
)") {
    return split_evenly(a.tensor(0), a.integer(1), named_dim(a.tensor(0), 1, 0));
}
OP("hsplit(Tensor input, int[] indices_or_sections) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split_indices(a.tensor(0), a.dims(1), named_dim(a.tensor(0), 1, 0));
}
OP("vsplit(Tensor input, int indices_or_sections) -> Tensor[]", FUNCTION | METHOD,
   R"(Views of parts along the first dimension.

Args:
    input: at least two-dimensional.
    indices_or_sections: the number of equal parts, or the indices where new parts begin.

Example:
    >>> fb.vsplit(fb.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1, 2]]), tensor([[3, 4]]))
)") {
    return split_evenly(a.tensor(0), a.integer(1), named_dim(a.tensor(0), 2, 0));
}
OP("vsplit(Tensor input, int[] indices_or_sections) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split_indices(a.tensor(0), a.dims(1), named_dim(a.tensor(0), 2, 0));
}
OP("dsplit(Tensor input, int indices_or_sections) -> Tensor[]", FUNCTION | METHOD,
   R"(Views of parts along the third dimension.

Args:
    input: at least three-dimensional.
    indices_or_sections: the number of equal parts, or the indices where new parts begin.

Example:
    >>> [part.shape for part in fb.dsplit(fb.zeros(1, 2, 4), 2)]
    [flambeau.Size([1, 2, 2]), flambeau.Size([1, 2, 2])]
)") {
    return split_evenly(a.tensor(0), a.integer(1), named_dim(a.tensor(0), 3, 2));
}
OP("dsplit(Tensor input, int[] indices_or_sections) -> Tensor[]", FUNCTION | METHOD, nullptr) {
    return split_indices(a.tensor(0), a.dims(1), named_dim(a.tensor(0), 3, 2));
}

OP("atleast_1d(Tensor input) -> Tensor", FUNCTION, R"(The tensor, or tensors, with at least one dimension.

Args:
    tensors: one tensor, or several (or a sequence), which give a tuple.

Example:
    >>> fb.atleast_1d(fb.tensor(1))
    tensor([1])
)") {
    return at_least(a.tensor(0), 1);
}
OP("atleast_1d(*Tensor[] tensors) -> Tensor[]", FUNCTION, nullptr) { return all_at_least(a.tensors(0), 1); }
OP("atleast_2d(Tensor input) -> Tensor", FUNCTION,
   R"(The tensor, or tensors, with at least two dimensions; new dimensions are prepended.

Args:
    tensors: one tensor, or several (or a sequence), which give a tuple.

Example:
    >>> fb.atleast_2d(fb.tensor([1, 2]))
    tensor([[1, 2]])
)") {
    return at_least(a.tensor(0), 2);
}
OP("atleast_2d(*Tensor[] tensors) -> Tensor[]", FUNCTION, nullptr) { return all_at_least(a.tensors(0), 2); }
OP("atleast_3d(Tensor input) -> Tensor", FUNCTION, R"(The tensor, or tensors, with at least three dimensions.

Args:
    tensors: one tensor, or several (or a sequence), which give a tuple.

Example:
    >>> fb.atleast_3d(fb.tensor([1, 2])).shape
    flambeau.Size([1, 2, 1])
)") {
    return at_least(a.tensor(0), 3);
}
OP("atleast_3d(*Tensor[] tensors) -> Tensor[]", FUNCTION, nullptr) { return all_at_least(a.tensors(0), 3); }

}  // namespace fb
