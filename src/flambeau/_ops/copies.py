"""Copies of views: each op returns the elements of its view in new row-major memory.

Compilers rewrite programs into these, and code that must not alias its input calls them by name.
"""

import flambeau as fb
from flambeau._registry.composite import composite


def into_outs(name, results, outs):
    """Copies each result into its tensor of out=, which is checked, resized and warned about as any out= is."""
    if not isinstance(outs, (list, tuple)) or not all(isinstance(out, fb.Tensor) for out in outs):
        raise TypeError(f"{name}: out must be a list of tensors, got {type(outs).__name__}")
    if len(outs) != len(results):
        raise fb.errors.ArgumentError(f"{name}: expected out= to have {len(results)} tensors, one per result, got {len(outs)}")
    return tuple(fb.alias_copy(result, out=out) for out, result in zip(outs, results, strict=True))


def _copied(signature, what, example, look, *, out=True):
    """Registers `signature` as a copy of `look`."""
    name = signature[: signature.index("(")]

    def op(*arguments, **options):
        outs = options.pop("out", None)
        result = look(*arguments, **options)
        if isinstance(result, fb.Tensor):
            return result.clone(memory_format=fb.contiguous_format)
        if outs is None:
            return tuple(part.clone(memory_format=fb.contiguous_format) for part in result)
        return into_outs(name, result, outs)

    op.__name__ = name
    op.__doc__ = f"{what}, copied: the result shares no memory with the input.\n\nExample:\n" + "\n".join(
        "    " + line for line in example.strip().split("\n")
    )
    composite(signature, out=out)(op)


_copied(
    "alias_copy(Tensor input) -> Tensor",
    "The tensor itself",
    """
>>> fb.alias_copy(fb.tensor([1, 2]))
tensor([1, 2])
""",
    lambda input: input,
)
_copied(
    "detach_copy(Tensor input) -> Tensor",
    "The tensor without its history",
    """
>>> fb.detach_copy(fb.ones(2, requires_grad=True))
tensor([1., 1.])
""",
    lambda input: input.detach(),
)
_copied(
    "as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    "Elements of the storage, by size and stride",
    """
>>> fb.as_strided_copy(fb.arange(4), (2, 2), (1, 2))
tensor([[0, 2],
        [1, 3]])
""",
    lambda input, size, stride, storage_offset: input.as_strided(size, stride, storage_offset),
)
_copied(
    "diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    "The diagonal of two dimensions",
    """
>>> fb.diagonal_copy(fb.arange(4).view(2, 2))
tensor([0, 3])
""",
    lambda input, offset, dim1, dim2: input.diagonal(offset, dim1, dim2),
)
_copied(
    "expand_copy(Tensor input, int[] size, *, bool implicit=False) -> Tensor",
    "A larger size by repeating dimensions of size 1",
    """
>>> fb.expand_copy(fb.tensor([[1], [2]]), (2, 3))
tensor([[1, 1, 1],
        [2, 2, 2]])
""",
    lambda input, size, *, implicit: input.expand(size),
)
_copied(
    "permute_copy(Tensor input, int[] dims) -> Tensor",
    "The dimensions in another order",
    """
>>> fb.permute_copy(fb.zeros(2, 3, 4), (2, 0, 1)).shape
flambeau.Size([4, 2, 3])
""",
    lambda input, dims: input.permute(dims),
)
_copied(
    "select_copy(Tensor input, int dim, int index) -> Tensor",
    "One slice along a dimension",
    """
>>> fb.select_copy(fb.arange(4).view(2, 2), 1, 0)
tensor([0, 2])
""",
    lambda input, dim, index: input.select(dim, index),
)
_copied(
    "squeeze_copy(Tensor input, int[]? dim=None) -> Tensor",
    "The tensor without dimensions of size 1",
    """
>>> fb.squeeze_copy(fb.tensor([[1, 2]]))
tensor([1, 2])
""",
    lambda input, dim: input.squeeze() if dim is None else input.squeeze(dim),
)
_copied(
    "t_copy(Tensor input) -> Tensor",
    "A matrix transposed",
    """
>>> fb.t_copy(fb.tensor([[1, 2]]))
tensor([[1],
        [2]])
""",
    lambda input: input.t(),
)
_copied(
    "transpose_copy(Tensor input, int dim0, int dim1) -> Tensor",
    "Two dimensions exchanged",
    """
>>> fb.transpose_copy(fb.tensor([[1, 2]]), 0, 1)
tensor([[1],
        [2]])
""",
    lambda input, dim0, dim1: input.transpose(dim0, dim1),
)
_copied(
    "unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor",
    "Windows along a dimension",
    """
>>> fb.unfold_copy(fb.arange(4), 0, 2, 1)
tensor([[0, 1],
        [1, 2],
        [2, 3]])
""",
    lambda input, dimension, size, step: input.unfold(dimension, size, step),
)
_copied(
    "unsqueeze_copy(Tensor input, int dim) -> Tensor",
    "A new dimension of size 1",
    """
>>> fb.unsqueeze_copy(fb.tensor([1, 2]), 0)
tensor([[1, 2]])
""",
    lambda input, dim: input.unsqueeze(dim),
)
_copied(
    "view_as_complex_copy(Tensor input) -> Tensor",
    "Pairs of real numbers as complex numbers",
    """
>>> fb.view_as_complex_copy(fb.tensor([1.0, 2.0]))
tensor(1.+2.j)
""",
    lambda input: fb.view_as_complex(input),
)
_copied(
    "view_as_real_copy(Tensor input) -> Tensor",
    "Complex numbers as pairs of real numbers",
    """
>>> fb.view_as_real_copy(fb.tensor(1 + 2j))
tensor([1., 2.])
""",
    lambda input: fb.view_as_real(input),
)
_copied(
    "view_copy(Tensor input, int[] size) -> Tensor",
    "Another shape, or the bytes as another dtype",
    """
>>> fb.view_copy(fb.arange(4), (2, 2))
tensor([[0, 1],
        [2, 3]])
""",
    lambda input, size: input.view(size),
)
_copied(
    "view_copy(Tensor input, dtype dtype) -> Tensor",
    "The bytes as another dtype",
    """
>>> fb.view_copy(fb.tensor([1.0]), fb.int32)
tensor([1065353216], dtype=flambeau.int32)
""",
    lambda input, dtype: input.view(dtype),
)
_copied(
    "split_copy(Tensor input, int split_size, int dim=0, *, any out=None) -> Tensor[]",
    "Parts of a given size",
    """
>>> fb.split_copy(fb.arange(3), 2)
(tensor([0, 1]), tensor([2]))
""",
    lambda input, split_size, dim: input.split(split_size, dim),
    out=False,
)
_copied(
    "split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0, *, any out=None) -> Tensor[]",
    "Parts of given sizes",
    """
>>> fb.split_with_sizes_copy(fb.arange(3), (1, 2))
(tensor([0]), tensor([1, 2]))
""",
    lambda input, split_sizes, dim: input.split_with_sizes(split_sizes, dim),
    out=False,
)
_copied(
    "unbind_copy(Tensor input, int dim=0, *, any out=None) -> Tensor[]",
    "All slices along a dimension",
    """
>>> fb.unbind_copy(fb.tensor([1, 2]))
(tensor(1), tensor(2))
""",
    lambda input, dim: input.unbind(dim),
    out=False,
)


@composite(
    "slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
    out=True,
)
def slice_copy(input, dim, start, end, step):
    """A range of a dimension, copied: the result shares no memory with the input.

    Args:
        input: the tensor, at least 1-d.
        dim: the dimension.
        start: the first index; the first element by default.
        end: the index to stop before; the dimension's size by default.
        step: distance between elements, positive.

    Example:
        >>> fb.slice_copy(fb.arange(5), 0, 1, 5, 2)
        tensor([1, 3])
    """
    if input.ndim == 0:
        raise fb.errors.ArgumentError("slice_copy: a 0-d tensor has no dimension to slice")
    if step <= 0:
        raise fb.errors.ArgumentError(f"slice_copy: step must be positive, got {step}")
    return input.transpose(0, dim)[start:end:step].transpose(0, dim).clone(memory_format=fb.contiguous_format)


@composite("unsafe_chunk(Tensor input, int chunks, int dim=0) -> Tensor[]", method=True)
def unsafe_chunk(input, chunks, dim):
    """As :func:`flambeau.chunk`: here parts may always be changed in place, and gradients stay right.

    Example:
        >>> fb.unsafe_chunk(fb.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    return input.chunk(chunks, dim)


@composite("unsafe_split(Tensor tensor, any split_size_or_sections, int dim=0) -> Tensor[]", method=True)
def unsafe_split(tensor, split_size_or_sections, dim):
    """As :func:`flambeau.split`: here parts may always be changed in place, and gradients stay right.

    Example:
        >>> fb.unsafe_split(fb.arange(3), 2)
        (tensor([0, 1]), tensor([2]))
    """
    return tensor.split(split_size_or_sections, dim)


@composite("unsafe_split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]", method=True)
def unsafe_split_with_sizes(input, split_sizes, dim):
    """As :func:`flambeau.split_with_sizes`: here parts may always be changed in place, and gradients stay right.

    Example:
        >>> fb.unsafe_split_with_sizes(fb.arange(3), (1, 2))
        (tensor([0]), tensor([1, 2]))
    """
    return input.split_with_sizes(split_sizes, dim)
