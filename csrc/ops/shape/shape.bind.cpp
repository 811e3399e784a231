// Signatures of the views that contain all elements in another shape.
#include "ops/shape/shape.h"

namespace fb {

OP("view(Tensor input, *int[] shape) -> Tensor", METHOD,
   R"(The same memory with another shape, or read as another dtype.

Args:
    shape: the new shape; one entry may be -1 and is inferred. Or a dtype: the bytes are read as that dtype.

Example:
    >>> fb.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    >>> fb.ones(1).view(fb.int32)
    tensor([1065353216], dtype=flambeau.int32)
)") {
    return view(a.tensor(0), a.dims(1));
}
OP("view(Tensor input, dtype dtype) -> Tensor", METHOD, nullptr) {
    return view_dtype(a.tensor(0), std::get<DType>(a.values[1]));
}

OP("view_as(Tensor input, Tensor other) -> Tensor", METHOD | MIXED, R"(The same memory with the shape of another tensor.

Args:
    other: a tensor with the new shape.

Example:
    >>> fb.arange(4).view_as(fb.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
)") {
    return view(a.tensor(0), a.tensor(1).shape());
}

OP("reshape(Tensor input, *int[] shape) -> Tensor", FUNCTION | METHOD,
   R"(The same elements with another shape: a view if possible, otherwise a copy.

Args:
    input: the tensor.
    shape: the new shape; one entry may be -1 and is inferred.

Example:
    >>> fb.reshape(fb.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
)") {
    return reshape(a.tensor(0), a.dims(1));
}

OP("reshape_as(Tensor input, Tensor other) -> Tensor", METHOD | MIXED,
   R"(The same elements with the shape of another tensor.

Args:
    other: a tensor with the new shape.

Example:
    >>> fb.arange(4).reshape_as(fb.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
)") {
    return reshape(a.tensor(0), a.tensor(1).shape());
}

OP("expand(Tensor input, *int[] size, *, bool implicit=False) -> Tensor", METHOD,
   R"(A view that repeats dimensions of size 1 without copying.

Args:
    size: the new shape; -1 keeps a size, new dimensions are prepended.
    implicit: accepted for compatibility.

Example:
    >>> fb.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
)") {
    return expand(a.tensor(0), a.dims(1));
}

OP("expand_as(Tensor input, Tensor other) -> Tensor", METHOD | MIXED, R"(A view expanded to the shape of another tensor.

Args:
    other: a tensor with the new shape.

Example:
    >>> fb.tensor([[1], [2]]).expand_as(fb.zeros(2, 2))
    tensor([[1, 1],
            [2, 2]])
)") {
    return expand(a.tensor(0), a.tensor(1).shape());
}

OP("broadcast_to(Tensor input, *int[] size) -> Tensor", FUNCTION | METHOD, R"(A view of the tensor broadcast to a shape.

Args:
    input: the tensor.
    size: the shape to broadcast to.

Example:
    >>> fb.broadcast_to(fb.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
)") {
    return expand(a.tensor(0), a.dims(1));
}

OP("broadcast_tensors(*Tensor[] tensors) -> Tensor[]", FUNCTION, R"(Views of the tensors, all broadcast to one shape.

Args:
    tensors: any number of tensors.

Example:
    >>> x, y = fb.broadcast_tensors(fb.zeros(3, 1), fb.zeros(2))
    >>> x.shape, y.shape
    (flambeau.Size([3, 2]), flambeau.Size([3, 2]))
)") {
    Dims shape;
    for (const Tensor& t : a.tensors(0)) shape = broadcast_shapes(shape, t.shape());
    std::vector<Tensor> result;
    for (const Tensor& t : a.tensors(0)) result.push_back(expand(t, shape));
    return result;
}

OP("permute(Tensor input, *int[] dims) -> Tensor", FUNCTION | METHOD, R"(A view with the dimensions in another order.

Args:
    input: the tensor.
    dims: a permutation of the dimensions.

Example:
    >>> fb.zeros(2, 3, 5).permute(2, 0, 1).shape
    flambeau.Size([5, 2, 3])
)") {
    return permute(a.tensor(0), a.dims(1));
}

OP("transpose(Tensor input, int dim0, int dim1) -> Tensor", FUNCTION | METHOD, R"(A view with two dimensions swapped.

Args:
    input: the tensor.
    dim0: the first dimension.
    dim1: the second dimension.

Example:
    >>> fb.transpose(fb.tensor([[1, 2, 3]]), 0, 1)
    tensor([[1],
            [2],
            [3]])
)") {
    return transpose(a.tensor(0), a.integer(1), a.integer(2));
}
OP("swapdims(Tensor input, int dim0, int dim1) -> Tensor", FUNCTION | METHOD,
   R"(A view with two dimensions swapped; the same as `transpose`.

Args:
    input: the tensor.
    dim0: the first dimension.
    dim1: the second dimension.

Example:
    >>> fb.swapdims(fb.zeros(2, 3), 0, 1).shape
    flambeau.Size([3, 2])
)") {
    return transpose(a.tensor(0), a.integer(1), a.integer(2));
}
OP("swapaxes(Tensor input, int axis0, int axis1) -> Tensor", FUNCTION | METHOD,
   R"(A view with two dimensions swapped; the same as `transpose`.

Args:
    input: the tensor.
    axis0: the first dimension.
    axis1: the second dimension.

Example:
    >>> fb.swapaxes(fb.zeros(2, 3), 0, 1).shape
    flambeau.Size([3, 2])
)") {
    return transpose(a.tensor(0), a.integer(1), a.integer(2));
}
OP("transpose_(Tensor input, int dim0, int dim1) -> Tensor", METHOD,
   R"(Swaps two dimensions of this tensor in place, without moving elements.

Args:
    dim0: the first dimension.
    dim1: the second dimension.

Example:
    >>> fb.zeros(2, 3).transpose_(0, 1).shape
    flambeau.Size([3, 2])
)") {
    return become(a.tensor(0), transpose(a.tensor(0), a.integer(1), a.integer(2)));
}
OP_ALIAS("swapdims_", "transpose_");
OP("swapaxes_(Tensor input, int axis0, int axis1) -> Tensor", METHOD,
   R"(Swaps two dimensions of this tensor in place, without moving elements.

Args:
    axis0: the first dimension.
    axis1: the second dimension.

Example:
    >>> fb.zeros(2, 3).swapaxes_(0, 1).shape
    flambeau.Size([3, 2])
)") {
    return become(a.tensor(0), transpose(a.tensor(0), a.integer(1), a.integer(2)));
}

static Tensor two_d_transpose(const Tensor& t) {
    check(t.dim() <= 2, "expects a tensor with <= 2 dimensions, but self is ", t.dim(), "D; use transpose or mT");
    return t.dim() < 2 ? alias(t) : transpose(t, 0, 1);
}
OP("t(Tensor input) -> Tensor", FUNCTION | METHOD,
   R"(The transpose of a matrix; vectors and 0-d tensors are returned unchanged.

Args:
    input: at most two-dimensional.

Example:
    >>> fb.t(fb.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
)") {
    return two_d_transpose(a.tensor(0));
}
OP("t_(Tensor input) -> Tensor", METHOD, R"(Transposes this matrix in place, without moving elements.

Example:
    >>> fb.zeros(2, 3).t_().shape
    flambeau.Size([3, 2])
)") {
    return become(a.tensor(0), two_d_transpose(a.tensor(0)));
}

OP("movedim(Tensor input, int[] source, int[] destination) -> Tensor", FUNCTION | METHOD,
   R"(A view with some dimensions moved; the others keep their order.

Args:
    input: the tensor.
    source: dimensions to move.
    destination: new position of each of them.

Example:
    >>> fb.movedim(fb.zeros(2, 3, 5), 0, 2).shape
    flambeau.Size([3, 5, 2])
)") {
    return movedim(a.tensor(0), a.dims(1), a.dims(2));
}
OP_ALIAS("moveaxis", "movedim");

OP("squeeze(Tensor input, int[]? dim=None) -> Tensor", FUNCTION | METHOD, R"(A view without dimensions of size 1.

Args:
    input: the tensor.
    dim: only these dimensions (if they have size 1); all by default.

Example:
    >>> fb.zeros(2, 1, 3, 1).squeeze().shape
    flambeau.Size([2, 3])
)") {
    return squeeze_dims(a.tensor(0), a.dims_or_none(1));
}
OP("squeeze_(Tensor input, int[]? dim=None) -> Tensor", METHOD,
   R"(Removes dimensions of size 1 from this tensor in place.

Args:
    dim: only these dimensions; all by default.

Example:
    >>> fb.zeros(2, 1).squeeze_().shape
    flambeau.Size([2])
)") {
    return become(a.tensor(0), squeeze_dims(a.tensor(0), a.dims_or_none(1)));
}

OP("unsqueeze(Tensor input, int dim) -> Tensor", FUNCTION | METHOD, R"(A view with a new dimension of size 1.

Args:
    input: the tensor.
    dim: position of the new dimension in the result.

Example:
    >>> fb.unsqueeze(fb.tensor([1, 2]), 1)
    tensor([[1],
            [2]])
)") {
    return unsqueeze(a.tensor(0), a.integer(1));
}
OP("unsqueeze_(Tensor input, int dim) -> Tensor", METHOD, R"(Adds a dimension of size 1 to this tensor in place.

Args:
    dim: position of the new dimension.

Example:
    >>> fb.zeros(2).unsqueeze_(0).shape
    flambeau.Size([1, 2])
)") {
    return become(a.tensor(0), unsqueeze(a.tensor(0), a.integer(1)));
}

OP("flatten(Tensor input, int start_dim=0, int end_dim=-1) -> Tensor", FUNCTION | METHOD,
   R"(Adjacent dimensions flattened into one: a view if possible.

Args:
    input: the tensor.
    start_dim: the first dimension to flatten.
    end_dim: the last dimension to flatten.

Example:
    >>> fb.flatten(fb.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
)") {
    return flatten(a.tensor(0), a.integer(1), a.integer(2));
}
OP("ravel(Tensor input) -> Tensor", FUNCTION | METHOD,
   R"(All elements in one contiguous dimension: a view if possible.

Args:
    input: the tensor.

Example:
    >>> fb.ravel(fb.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
)") {
    return reshape(contiguous(a.tensor(0)), {a.tensor(0).numel()});
}

OP("unflatten(Tensor input, int dim, int[] sizes) -> Tensor", FUNCTION | METHOD,
   R"(A view with one dimension split into several.

Args:
    input: the tensor.
    dim: the dimension to split.
    sizes: the new sizes; one of them may be -1 and is inferred.

Example:
    >>> fb.unflatten(fb.zeros(2, 6), 1, (2, 3)).shape
    flambeau.Size([2, 2, 3])
)") {
    const Tensor& t = a.tensor(0);
    check(t.dim() > 0, "a 0-d tensor has no dimension to split");
    int64_t dim = wrap_dim(a.integer(1), t.dim());
    check(a.dims(2).size() > 0, "sizes must be non-empty");
    Dims sizes;
    try {
        sizes = infer_shape(a.dims(2), t.shape()[dim]);
    } catch (const Error&) {
        fail_value("provided sizes ", a.dims(2), " don't multiply up to the size of dim ", dim, " (", t.shape()[dim],
                   ") in the input tensor");
    }
    Dims shape = t.shape();
    shape.erase(dim);
    for (int64_t i = 0; i < sizes.size(); i++) shape.insert(dim + i, sizes[i]);
    return view(t, shape);
}

}  // namespace fb
