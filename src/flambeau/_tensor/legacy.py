"""PyTorch's legacy tensor types (FloatTensor and others), and methods used by old code."""

from __future__ import annotations

import builtins
from typing import Any

from flambeau._C import Tensor
from flambeau._tensor import layouts
from flambeau._tensor.methods import _TYPE_NAMES, legacy_new, tensor
from flambeau.errors import ArgumentError, DTypeError, StateError


class _TensorType(type):
    """isinstance(x, FloatTensor) checks the dtype, and excludes CUDA devices; FloatTensor(2, 3) creates a Tensor."""

    dtype: Any
    # The same for all tensors of the type: they are dense and on the CPU.
    is_cuda = is_xpu = is_sparse = False

    def __instancecheck__(cls, obj) -> builtins.bool:
        return isinstance(obj, Tensor) and obj.dtype == cls.dtype and not obj.is_cuda

    def tensor_dtype(cls):
        """The dtype that Tensor.type() converts to for this class."""
        return cls.dtype

    def __call__(cls, *args, **options):
        return legacy_new(*args, **options, dtype=cls.dtype)


def _make_types() -> dict[str, Any]:
    made = {}
    for kind, name in _TYPE_NAMES.items():
        doc = f"""Tensors of dtype {kind.name}, for isinstance() and as a constructor.

    Example:
        >>> isinstance(fb.zeros(1, dtype={str(kind).replace("flambeau", "fb")}), fb.{name})
        True
    """
        made[name] = _TensorType(name, (), {"__doc__": doc, "__module__": "flambeau", "dtype": kind})
    return made


def _new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """new_tensor(data, *, dtype=None, device=None)

    A new tensor with a copy of the data, in this tensor's dtype by default.

    Example:
        >>> fb.zeros(1, dtype=fb.int64).new_tensor([1.0, 2.0])
        tensor([1, 2])
    """
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def _new(self, *args, size=None, data=None, device=None):
    """new(*sizes) / new(data)

    PyTorch's legacy constructor in this tensor's dtype.

    Example:
        >>> fb.zeros(1).new([1, 2])
        tensor([1., 2.])
    """
    return legacy_new(*args, size=size, data=data, device=device or self.device, dtype=self.dtype)


def _get_device(self) -> builtins.int:
    """get_device()

    The index of the tensor's device; -1 for the CPU.

    Example:
        >>> fb.zeros(1).get_device()
        -1
    """
    return -1 if self.device.index is None else self.device.index


def _elementwise(op, self, others, callable):
    """self[i] = callable(self[i], others[0][i], …), with one Python call per element."""
    for t in (self, *others):
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}(): argument 'other' must be Tensor, not {builtins.type(t).__name__}")
        if t.requires_grad:
            raise StateError(f"Can't call {op}() on Variable that requires grad. Use var.detach().{op}() instead.")
        if t.dtype != self.dtype:
            raise DTypeError(f"{op}: expected {self.type()} for 'other' (got {t.type()}); convert it with .to()")
    if not builtins.callable(callable):
        raise TypeError(f"{op}: '{builtins.type(callable).__name__}' object is not callable")
    columns = [self.reshape(-1).tolist(), *(t.expand(self.shape).reshape(-1).tolist() for t in others)]
    flat = [callable(*row) for row in zip(*columns, strict=True)]
    return self.copy_(tensor(flat, dtype=self.dtype).view(self.shape))


def _apply_(self, callable):
    """apply_(callable)

    Replaces each element by callable(element); slow, one Python call per element.

    Example:
        >>> fb.tensor([1.0, 2.0]).apply_(lambda x: x * 10)
        tensor([10., 20.])
    """
    return _elementwise("apply_", self, (), callable)


def _map_(self, tensor2, callable):
    """map_(tensor, callable)

    Replaces each element by callable(element, other); slow, one Python call per element.

    Example:
        >>> fb.tensor([1.0, 2.0]).map_(fb.tensor([3.0, 4.0]), lambda a, b: a * b)
        tensor([3., 8.])
    """
    return _elementwise("map_", self, (tensor2,), callable)


def _map2_(self, x, y, callable):
    """map2_(x, y, callable)

    Replaces each element by callable(element, of x, of y); slow, one Python call per element.

    Example:
        >>> fb.zeros(2).map2_(fb.tensor([3.0, 4.0]), fb.ones(2), lambda a, b, c: b - c)
        tensor([2., 3.])
    """
    return _elementwise("map2_", self, (x, y), callable)


def _pin_memory(self, device=None):
    """pin_memory(device=None)

    The tensor in pinned memory, for copies to an accelerator: itself, if it is there. An error where there is none.

    Args:
        device: the accelerator, the current one by default.

    Example:
        >>> fb.zeros(1).pin_memory("sim").is_pinned()
        True
    """
    from flambeau._tensor.pinning import pin

    return pin(self, device)


def _is_pinned(self, device=None):
    """is_pinned()

    Whether the memory is pinned, by pin_memory().

    Example:
        >>> fb.zeros(1).is_pinned()
        False
    """
    from flambeau._tensor.pinning import is_pinned

    return is_pinned(self)


def _to_dense(self, dtype=None, *, masked_grad=None):
    """to_dense(dtype=None)

    The tensor with all its elements: itself, unless it is sparse or another dtype is given.

    Example:
        >>> fb.ones(2).to_dense()
        tensor([1., 1.])
    """
    return self if dtype is None else self.to(dtype)


def _to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """to_sparse(sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None)

    The elements that are not zero, with their places; see flambeau.sparse.

    Example:
        >>> fb.tensor([0.0, 2.0]).to_sparse().indices()
        tensor([[1]])
    """
    from flambeau.sparse._tensor import to_sparse

    return to_sparse(self, layout=layout, sparse_dim=sparse_dim, blocksize=blocksize, dense_dim=dense_dim)


def _sparse_mask(self, mask):
    """sparse_mask(mask)

    The elements at the places that a sparse tensor keeps, in its layout; see flambeau.sparse.

    Args:
        mask: a sparse tensor of the same shape; its values do not matter.

    Example:
        >>> fb.tensor([1.0, 2.0]).sparse_mask(fb.tensor([0.0, 5.0]).to_sparse()).values()
        tensor([2.])
    """
    from flambeau.sparse._masking import sparse_mask

    return sparse_mask(self, mask)


def _to_sparse_coo(self):
    """to_sparse_coo()

    The same as to_sparse().

    Example:
        >>> fb.tensor([0.0, 2.0]).to_sparse_coo().values()
        tensor([2.])
    """
    return _to_sparse(self)


def _to_sparse_csr(self, dense_dim=None):
    """to_sparse_csr()

    The elements of a matrix that are not zero, as compressed rows; see flambeau.sparse.

    Example:
        >>> fb.eye(2).to_sparse_csr().crow_indices()
        tensor([0, 1, 2])
    """
    return _to_sparse(self, layout=layouts.sparse_csr, dense_dim=dense_dim)


def _to_sparse_csc(self, dense_dim=None):
    """to_sparse_csc(dense_dim=None)

    The elements of a matrix that are not zero, as compressed columns; see flambeau.sparse.

    Example:
        >>> fb.eye(2).to_sparse_csc().ccol_indices()
        tensor([0, 1, 2])
    """
    return _to_sparse(self, layout=layouts.sparse_csc, dense_dim=dense_dim)


def _to_sparse_bsr(self, blocksize, dense_dim=None):
    """to_sparse_bsr(blocksize, dense_dim=None)

    The blocks of a matrix that are not all zero, as compressed rows of blocks; see flambeau.sparse.

    Args:
        blocksize: rows and columns of a block.
        dense_dim: how many trailing dimensions every element has.

    Example:
        >>> fb.eye(4).to_sparse_bsr((2, 2)).values().shape
        flambeau.Size([2, 2, 2])
    """
    return _to_sparse(self, layout=layouts.sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)


def _to_sparse_bsc(self, blocksize, dense_dim=None):
    """to_sparse_bsc(blocksize, dense_dim=None)

    The blocks of a matrix that are not all zero, as compressed columns of blocks; see flambeau.sparse.

    Args:
        blocksize: rows and columns of a block.
        dense_dim: how many trailing dimensions every element has.

    Example:
        >>> fb.eye(4).to_sparse_bsc((2, 2)).row_indices()
        tensor([0, 1])
    """
    return _to_sparse(self, layout=layouts.sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)


def _is_same_size(self, other) -> builtins.bool:
    """is_same_size(other)

    Whether both tensors have the same shape.

    Example:
        >>> fb.zeros(2).is_same_size(fb.ones(2))
        True
    """
    return self.shape == other.shape


def _method_is_nonzero(self) -> builtins.bool:
    """is_nonzero()

    Whether the only element is not zero.

    Example:
        >>> fb.tensor(2).is_nonzero()
        True
    """
    from flambeau._settings.system import is_nonzero

    return is_nonzero(self)


def _dim_order(self, ambiguity_check: Any = False) -> tuple[builtins.int, ...]:
    """dim_order(ambiguity_check=False)

    The dimensions from the slowest to the fastest in memory.

    Args:
        ambiguity_check: True raises when the strides fit several orders; with a list of memory formats the one that
            fits
            such a tensor decides, and none or several of them raise.

    Example:
        >>> fb.zeros(2, 3).t().dim_order()
        (1, 0)
    """
    if not isinstance(ambiguity_check, builtins.bool) and not _are_formats(ambiguity_check):
        raise TypeError(f"dim_order: The ambiguity_check argument must be a bool or a list of memory formats, got {ambiguity_check!r}")
    strides = self.stride()
    order = tuple(sorted(range(self.ndim), key=lambda d: -abs(strides[d])))
    if ambiguity_check is False or _one_order(self, order):
        return order
    fitting = [] if ambiguity_check is True else [f for f in ambiguity_check if self.is_contiguous(memory_format=f)]
    if len(fitting) != 1:
        raise StateError(
            "dim_order: The tensor does not have unique dim order, or cannot map to exact one of the given memory formats; "
            f"got shape {tuple(self.shape)} with strides {strides}"
        )
    last = fitting[0] in (layouts.channels_last, layouts.channels_last_3d)
    return (0, *range(2, self.ndim), 1) if last else tuple(range(self.ndim))


def _are_formats(value: Any) -> builtins.bool:
    return isinstance(value, (list, tuple)) and builtins.all(isinstance(f, layouts.memory_format) for f in value)


def _one_order(t: Tensor, order: tuple[builtins.int, ...]) -> builtins.bool:
    """Whether all dimensions are ordered: their sizes exceed 1, or their strides differ."""
    shape, strides = t.shape, t.stride()
    return builtins.all(strides[a] != strides[b] for a, b in zip(order, order[1:], strict=False)) and builtins.all(
        n > 1 for n in shape
    )


def _hardshrink(self, lambd=0.5):
    """hardshrink(lambd=0.5)

    See fb.nn.functional.hardshrink().

    Example:
        >>> fb.tensor([-1.0, 0.2]).hardshrink()
        tensor([-1.,  0.])
    """
    from flambeau.nn import functional

    return functional.hardshrink(self, lambd)


def _prelu(self, weight):
    """prelu(weight)

    See fb.nn.functional.prelu().

    Example:
        >>> fb.tensor([-1.0, 2.0]).prelu(fb.tensor(0.5))
        tensor([-0.5000,  2.0000])
    """
    from flambeau.nn import functional

    return functional.prelu(self, weight)


def detach(input):
    """The same data without history; a view.

    Example:
        >>> fb.detach(fb.ones(2))
        tensor([1., 1.])
    """
    return input.detach()


def resolve_conj(input):
    """The tensor itself: conjugation is never lazy here.

    Example:
        >>> fb.resolve_conj(fb.ones(2))
        tensor([1., 1.])
    """
    return input


def resolve_neg(input):
    """The tensor itself: negation is never lazy here.

    Example:
        >>> fb.resolve_neg(fb.ones(2))
        tensor([1., 1.])
    """
    return input


def is_conj(input) -> builtins.bool:
    """False: conjugation is never lazy here.

    Example:
        >>> fb.is_conj(fb.ones(2))
        False
    """
    return input.is_conj()


def is_neg(input) -> builtins.bool:
    """False: negation is never lazy here.

    Example:
        >>> fb.is_neg(fb.ones(2))
        False
    """
    return input.is_neg()


def is_same_size(input, other) -> builtins.bool:
    """Whether two tensors have the same shape.

    Example:
        >>> fb.is_same_size(fb.zeros(2), fb.ones(2))
        True
    """
    return input.shape == other.shape


_precision = "highest"


def set_float32_matmul_precision(precision) -> None:
    """Says how exact float32 products must be; they are always computed in full float32 here, so any choice is met.

    Args:
        precision: 'highest', 'high' or 'medium'.

    Example:
        >>> fb.set_float32_matmul_precision("highest")
    """
    global _precision
    if precision not in ("highest", "high", "medium"):
        raise ArgumentError(f"set_float32_matmul_precision: expected 'highest', 'high' or 'medium', got {precision!r}")
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision() was last told.

    Example:
        >>> fb.get_float32_matmul_precision()
        'highest'
    """
    return _precision


def _install() -> None:
    table = {
        "new_tensor": _new_tensor, "new": _new, "get_device": _get_device, "apply_": _apply_,
        "map_": _map_, "map2_": _map2_, "pin_memory": _pin_memory,
        "is_pinned": _is_pinned, "is_same_size": _is_same_size, "is_nonzero": _method_is_nonzero,
        "dim_order": _dim_order, "hardshrink": _hardshrink, "prelu": _prelu,
        "sparse_mask": _sparse_mask, "to_dense": _to_dense, "to_sparse": _to_sparse, "to_sparse_coo": _to_sparse_coo,
        "to_sparse_csr": _to_sparse_csr, "to_sparse_csc": _to_sparse_csc, "to_sparse_bsr": _to_sparse_bsr, "to_sparse_bsc": _to_sparse_bsc,
    }  # fmt: skip
    for name, method in table.items():
        setattr(Tensor, name, method)


_install()
_types = _make_types()
globals().update(_types)

__all__ = [
    "detach", "get_float32_matmul_precision", "is_conj", "is_neg", "is_same_size", "resolve_conj", "resolve_neg",
    "set_float32_matmul_precision",
]  # fmt: skip
__all__ += [name for name in _types if not name.startswith(("UInt", "Complex"))]
