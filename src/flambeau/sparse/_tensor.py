"""Sparse tensors: coordinates and values of the stored elements.

A `SparseTensor` has the shape and dtype of the matrix it represents, and holds two ordinary tensors: `indices`, one
column of coordinates per stored element, and `values`. Every op with such an argument is handed to the rules in
`_rules.py`, which call a few ordinary ops on those two; so gradients flow into the values without formulas of their
own. Compressed rows (CSR) and the other compressed layouts are the same two tensors in another order; see
`_compressed.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import flambeau as fb
from flambeau import _C, Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError, StateError

__all__ = ["sparse_coo_tensor", "spmm"]


class SparseTensor(Tensor):
    """A tensor of which only some elements are kept, the others being zero. Made by fb.sparse_coo_tensor() and the like.

    Example:
        >>> x = fb.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2))
        >>> x.is_sparse, x @ fb.ones(2, 1)
        (True, tensor([[3.],
                [4.]]))
    """

    _index: Tensor
    _value: Tensor
    _ordered: bool
    _layout: Any
    _index_dtype: Any

    __torch_function__: Any = _C._disabled_torch_function_impl

    @classmethod
    def __flambeau_dispatch__(cls, name: str, arguments: dict[str, Any]) -> Any:
        from flambeau.sparse._indexing import dispatch

        return dispatch(name, arguments)

    __array_ufunc__ = None
    layout = property(lambda self: self._layout)
    is_sparse = property(lambda self: self._layout is fb.sparse_coo)
    is_sparse_csr = property(lambda self: self._layout is fb.sparse_csr)
    requires_grad = property(lambda self: self._value.requires_grad, lambda self, on: self.requires_grad_(on))
    grad_fn = property(lambda self: self._value.grad_fn)
    is_leaf = property(lambda self: self._value.is_leaf)
    data = property(lambda self: self.detach())

    @property
    def grad(self) -> Any:
        """The gradient of the kept elements, at the same places."""
        inner = self._value.grad
        return None if inner is None else self._with(inner)

    @grad.setter
    def grad(self, value: Any) -> Any:
        self._value.grad = None if value is None else value._values()

    # ---- stored elements
    # -------------------------------------------------------------------------------------------------

    def _indices(self):
        """The coordinates, one column per element, in any order."""
        return self._index

    def _values(self):
        """The stored elements, in any order."""
        return self._value

    def indices(self) -> Any:
        """The coordinates of a coalesced tensor, sorted, without repetitions."""
        return self._when_coalesced("indices", self._index)

    def values(self) -> Any:
        """The kept elements: of a coalesced tensor in the order of indices(), of a compressed one row by row or column by column."""
        return self._when_coalesced("values", self._value) if self.is_sparse else _compressed().values(self)

    def _when_coalesced(self, name: str, what: Tensor) -> Tensor:
        if not self.is_sparse:
            got = torch_name(self._layout)
            raise StateError(f"{name} expected sparse coordinate tensor layout but got {got}; convert it with .to_sparse_coo()")
        if not self._ordered:
            raise StateError(f"{name}: Cannot get {name} on an uncoalesced tensor, please call .coalesce() first, or use ._{name}()")
        return what

    def crow_indices(self) -> Any:
        """Where each row begins among the values of a tensor of compressed rows; the last number is their count."""
        return _compressed().part(self, "crow_indices")

    def col_indices(self) -> Any:
        """The columns of the values of a tensor of compressed rows."""
        return _compressed().part(self, "col_indices")

    def ccol_indices(self) -> Any:
        """Where each column begins among the values of a tensor of compressed columns; the last number is their count."""
        return _compressed().part(self, "ccol_indices")

    def row_indices(self) -> Any:
        """The rows of the values of a tensor of compressed columns."""
        return _compressed().part(self, "row_indices")

    def is_coalesced(self) -> Any:
        """Whether the places are sorted and none repeats."""
        if not self.is_sparse:
            raise StateError(f"is_coalesced expected sparse coordinate tensor layout but got {torch_name(self._layout)}")
        return self._ordered

    def _coalesced_(self, coalesced: bool) -> Any:
        """Declares whether the coordinates are sorted and unique, without a check."""
        self._ordered = bool(coalesced)
        return self

    def _nnz(self):
        """How many elements are kept; in a batch of matrices, how many in each."""
        return self._value.shape[0] if self.is_sparse else _compressed().values(self).shape[self._index.shape[0] - 2]

    def sparse_dim(self) -> Any:
        """How many dimensions the indices speak of: 2 in compressed layouts, whose batches come before."""
        return self._index.shape[0] if self.is_sparse else 2

    def dense_dim(self) -> Any:
        """How many dimensions each kept element has."""
        return self.ndim - self._index.shape[0]

    # ---- conversion ------------------------------------------------------------------------------------------------------

    def coalesce(self) -> Any:
        """The same tensor with its places sorted and the values of repeated places added."""
        if not self.is_sparse:
            raise StateError(f"coalesce expected sparse coordinate tensor layout but got {torch_name(self._layout)}")
        if self._ordered:
            return self
        sizes, rank = tuple(self.shape), self.sparse_dim()
        flat = flatten(self._index, sizes[:rank])
        places, inverse = flat.unique(return_inverse=True)
        values = self._value.new_zeros((places.shape[0], *self._value.shape[1:])).index_add(0, inverse, self._value)
        return make(unflatten(places, sizes[:rank]), values, sizes, True, self._layout)

    def to_dense(self, dtype: fb.dtype | None = None, *, masked_grad: bool | None = None) -> Any:
        """The tensor with all its elements."""
        if not self.is_sparse:
            return _compressed().elements(self).to_dense(dtype)
        sizes, rank = tuple(self.shape), self.sparse_dim()
        count = 1
        for size in sizes[:rank]:
            count *= size
        zeros = self._value.new_zeros((count, *sizes[rank:]))
        dense = zeros.index_add(0, flatten(self._index, sizes[:rank]), self._value).view(sizes)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, *args: Any, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None) -> Any:
        """Itself, or the same tensor in another sparse layout."""
        return to_sparse(self, *args, layout=layout, blocksize=blocksize, dense_dim=dense_dim)

    def to_sparse_coo(self) -> Any:
        """The same elements as coordinates."""
        return self if self.is_sparse else _compressed().elements(self).coalesce()

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """The same elements as compressed rows."""
        return _compressed().as_layout(self, fb.sparse_csr, None, dense_dim)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Any:
        """The same elements as compressed columns."""
        return _compressed().as_layout(self, fb.sparse_csc, None, dense_dim)

    def to_sparse_bsr(self, blocksize: Any = None, dense_dim: int | None = None) -> Any:
        """The same elements as compressed rows of blocks."""
        return _compressed().as_layout(self, fb.sparse_bsr, blocksize, dense_dim)

    def to_sparse_bsc(self, blocksize: Any = None, dense_dim: int | None = None) -> Any:
        """The same elements as compressed columns of blocks."""
        return _compressed().as_layout(self, fb.sparse_bsc, blocksize, dense_dim)

    def detach(self) -> Any:
        """The same elements without history."""
        return self._with(self._value.detach())

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Whether operations on the kept elements are recorded for backward."""
        self._value.requires_grad_(requires_grad)
        return self

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Gradients of what this was computed from, given the gradient of its elements: a tensor of the same shape."""
        fb.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def _with_grad(self, op: str, gradient: Tensor | None) -> Tensor:
        """The gradient of the stored elements, given that of all elements."""
        if gradient is None:
            raise StateError(f"{op}: grad can be implicitly created only for scalar outputs; pass the gradient of a sparse tensor")
        if gradient.shape != self.shape:
            raise ArgumentError(f"{op}: the gradient has shape {tuple(gradient.shape)}, the tensor {tuple(self.shape)}")
        sparse = gradient if isinstance(gradient, SparseTensor) else None
        if sparse is not None and sparse._layout is self._layout and sparse._index.equal(self._index):
            return sparse._value
        from flambeau.sparse._masking import sparse_mask

        return sparse_mask(gradient, self)._value

    def _with(self, values: Tensor) -> SparseTensor:
        return make(self._index, values, tuple(self.shape), self._ordered, self._layout, self._index_dtype)

    def as_subclass(self, cls: Any) -> Any:
        """The same elements as an object of the class, which must be SparseTensor: others know nothing of what is kept."""
        if cls is not SparseTensor:
            raise DTypeError(f"as_subclass: a sparse tensor cannot become a {cls.__name__}; use .to_dense() first")
        return self._with(self._value)

    def is_contiguous(self, *args: Any, **kwargs: Any) -> Any:
        """Whether the values are contiguous."""
        return self._value.is_contiguous()

    def __repr__(self, **kwargs: Any) -> str:
        if self.is_sparse:
            parts = [("indices", self._index)]
        else:
            known = _compressed().LAYOUTS[self._layout]
            parts = [(name, _compressed().part(self, name)) for name in (known.starts, known.plain)]
        parts.append(("values", self._value.detach()))
        text = "tensor(" + ",\n       ".join(_shown(name, part) for name, part in parts)
        suffixes = [f"size={tuple(self.shape)}", f"nnz={self._nnz()}", f"layout={self._layout!r}"]
        if self.dtype != fb.get_default_dtype():
            suffixes.append(f"dtype={self.dtype!r}")
        if self.grad_fn is not None:
            suffixes.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            suffixes.append("requires_grad=True")
        if self.is_sparse:
            return f"{text},\n       {', '.join(suffixes)})"
        for suffix in suffixes:
            full = len(text.rpartition("\n")[2]) + len(suffix) + 3 > fb.get_printoptions()["linewidth"]
            text += (",\n       " if full else ", ") + suffix
        return text + ")"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __copy__(self) -> Any:
        return self._with(self._value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        index, values = self._index.clone(), self._value.detach().clone()
        return make(index, values, tuple(self.shape), self._ordered, self._layout, self._index_dtype)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return make, (self._index, self._value.detach(), tuple(self.shape), self._ordered, self._layout, self._index_dtype)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.shape[0]))


def torch_name(layout: Any) -> str:
    """The name of a layout in PyTorch's messages: SparseCsr."""
    return "".join(word.capitalize() for word in str(layout).rpartition(".")[2].split("_"))


def _shown(name: str, part: Tensor) -> str:
    """One part of a sparse tensor; its dtype is shown at the end, if at all."""
    if part.numel() == 0:
        return f"{name}=tensor([], size={tuple(part.shape)})"
    text = re.sub(r",\s*dtype=[\w.]+\)$", ")", repr(part))
    return f"{name}=" + "\n".join(" " * (len(name) + 8) * (i > 0) + line for i, line in enumerate(text.split("\n"))).replace(
        " " * (len(name) + 8) + "\n", "\n"
    )


def _compressed() -> Any:
    from flambeau.sparse import _compressed

    return _compressed


def _dense_only(name: str):
    def method(self, *args, **kwargs):
        raise DTypeError(f"{name}: a sparse tensor has no such memory; use .to_dense() first, or .values()")

    method.__name__ = name
    return method


for _name in (
    "numpy", "tolist", "item", "__array__", "__bool__", "__int__", "__float__", "__complex__", "__index__",
    "__contains__", "__bytes__", "__dlpack__", "data_ptr", "untyped_storage", "share_memory_", "stride", "retain_grad",
):  # fmt: skip
    setattr(SparseTensor, _name, _dense_only(_name))
setattr(SparseTensor, "__array_interface__", property(_dense_only("__array_interface__")))  # noqa: B010


# ---- coordinates
# ---------------------------------------------------------------------------------------------------------


def flatten(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Each column of coordinates as one number, row-major."""
    flat = indices.new_zeros(indices.shape[1])
    for row, size in zip(indices, sizes, strict=True):
        flat = flat * size + row
    return flat


def unflatten(flat: Tensor, sizes: Sequence[int]) -> Tensor:
    """The inverse of flatten."""
    rows = []
    for size in reversed(sizes):
        rows.append(flat % size if size else flat)
        flat = flat // size if size else flat
    return fb.stack(rows[::-1]) if rows else flat.new_zeros((0, flat.shape[0]))


# ---- construction --------------------------------------------------------------------------------------------------------


def make(
    indices: Tensor, values: Tensor, size: tuple[int, ...], ordered: bool, layout: Any, index_dtype: Any = None
) -> SparseTensor:
    """A sparse tensor from consistent parts; `index_dtype` is the index dtype shown by compressed layouts."""
    # An op that a rule missed would read this placeholder: NaN makes the mistake visible.
    inert = _C.tensor_from_data(float("nan") if values.dtype.is_floating_point else 0, values.dtype)
    if values.device.type != "cpu":
        inert = inert._to_device(values.device)
    result = inert.expand(size).as_subclass(SparseTensor)
    result._index, result._value, result._ordered, result._layout = indices, values, ordered, layout
    result._index_dtype = index_dtype or fb.int64
    return result


def _parts(op: str, values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    values = fb.as_tensor(values, dtype=dtype, device=device)
    values = values.reshape(1) if values.ndim == 0 else values
    return values.detach().requires_grad_() if requires_grad else values


def _check_places(op: str, indices: Tensor, sizes: Sequence[int]) -> None:
    if indices.shape[1] == 0:
        return
    low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
    for dim, (a, b, size) in enumerate(zip(low, high, sizes, strict=True)):
        if a < 0 or b >= size:
            what = "found negative index" if a < 0 else "size is inconsistent with indices"
            raise OutOfRangeError(f"{what}: {op} got index {a if a < 0 else b}, which is out of range for dim {dim} of size {size}")


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: fb.dtype | None = None,
    device: Device = None, pin_memory: bool = False, requires_grad: bool = False, check_invariants: Any = None,
    is_coalesced: Any = None,
) -> Any:  # fmt: skip
    """A sparse tensor of coordinates and values; values at the same place add up.

    The indices are always checked, whatever `check_invariants` says. Gradients flow into `values`.

    Args:
        indices: one row per sparse dimension, one column per value; or, without values, the size of an empty tensor.
        values: the kept elements, along the first dimension; further dimensions are dense.
        size: shape of the tensor; by default the smallest that holds every index.
        dtype: element type, that of the values by default.
        device: device of the result.
        pin_memory: not available without an accelerator, must be False.
        requires_grad: whether operations on the tensor are recorded for backward.
        check_invariants: indices are checked in any case.
        is_coalesced: True says that the places are sorted and none repeats.

    Example:
        >>> fb.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2)).to_dense()
        tensor([[0., 3.],
                [4., 0.]])
    """
    op = "sparse_coo_tensor"
    if pin_memory:
        raise RuntimeError(f"{op}: pin_memory=True is not available for sparse tensors")
    if values is None:
        size = tuple(size if size is not None else indices)
        empty = fb.zeros(0, dtype=dtype, device=device, requires_grad=requires_grad)
        return make(fb.zeros((len(size), 0), dtype=fb.int64, device=empty.device), empty, size, True, fb.sparse_coo)
    values = _parts(op, values, dtype, device, requires_grad)
    index = fb.as_tensor(indices, device=values.device)
    if index.numel() == 0 and index.ndim == 1:
        index = index.reshape(0, values.shape[0])
    if index.ndim == 0:
        index = index.reshape(1, 1)
    if index.ndim != 2 or index.is_complex():
        raise ArgumentError(f"{op}: indices must be a matrix of integers, got shape {tuple(index.shape)} of {index.dtype}")
    if index.dtype.is_floating_point and not index.equal(index.trunc()):  # integral floats are converted, as in PyTorch
        raise ArgumentError(f"{op}: indices must be whole numbers, got {index.dtype} with fractions")
    index, rank = index.to(fb.int64), index.shape[0]
    if index.shape[1] != values.shape[0]:
        raise ArgumentError(f"{op}: indices and values must have same nnz, got {index.shape[1]} indices for {values.shape[0]} values")
    if size is None:
        places = (index.amax(1) + 1).tolist() if index.shape[1] else [0] * rank
        size = (*places, *values.shape[1:])
    size = tuple(int(n) for n in size)
    if len(size) != rank + values.ndim - 1 or size[rank:] != tuple(values.shape[1:]):
        short = len(size) != rank + values.ndim - 1
        wrong = "number of dimensions must be sparse_dim + dense_dim" if short else "values has incorrect size"
        raise ArgumentError(
            f"{wrong}: {op} got size {size} for {rank} sparse dimension(s) and values of shape {tuple(values.shape)}"
        )
    _check_places(op, index, size[:rank])
    ordered = bool(is_coalesced) or index.shape[1] < 2 and is_coalesced is None
    return make(index, values, size, ordered, fb.sparse_coo)


def to_sparse(
    input: Tensor, *args: Any, layout: Any = None, sparse_dim: int | None = None, blocksize: Any = None, dense_dim: int | None = None
) -> SparseTensor:
    """The nonzero elements of a tensor, with their coordinates."""
    if args and sparse_dim is None and isinstance(args[0], int):
        sparse_dim = args[0]
    layouts = _compressed().LAYOUTS
    if layout is fb.strided:
        if blocksize is not None or sparse_dim is not None or dense_dim is not None:
            raise ArgumentError("to_sparse: sparse_dim, blocksize and dense_dim are not for layout=fb.strided")
        return input.to_dense()  # type: ignore[return-value]
    if layout not in (None, fb.sparse_coo, *layouts):
        raise ArgumentError(f"to_sparse: expected a sparse layout such as fb.sparse_coo or fb.sparse_csr, got {layout}")
    if layout in layouts:
        return _compressed().as_layout(input, layout, blocksize, dense_dim)
    if blocksize is not None:
        raise ArgumentError(f"to_sparse: blocksize is for the layouts fb.sparse_bsr and fb.sparse_bsc, got {layout}")
    if isinstance(input, SparseTensor):
        return input.to_sparse_coo()
    rank = input.ndim if sparse_dim is None else sparse_dim
    if not 0 <= rank <= input.ndim:
        raise ArgumentError(f"to_sparse: sparse_dim {rank} is out of range for shape {tuple(input.shape)}")
    kept = input.detach() != 0
    kept = kept.flatten(rank).any(-1) if rank < input.ndim else kept
    indices = kept.nonzero().t().contiguous()
    values = input[tuple(indices)] if rank else input.unsqueeze(0)[: indices.shape[1]]
    return make(indices, values, tuple(input.shape), True, fb.sparse_coo)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, any of them sparse.

    Args:
        input: the left matrix.
        mat2: the right matrix.

    Example:
        >>> fb.spmm(fb.eye(2).to_sparse(), fb.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    return fb.mm(input, mat2)
