"""Small helpers that distributions share; scripts import some of them by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Number
from typing import Any, Generic, TypeVar, overload

import flambeau as fb
from flambeau import Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip
__dir__ = __all__.copy

euler_constant = 0.57721566490153286060
_T = TypeVar("_T")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the first tensor.

    Example:
        >>> [v.shape for v in fb.distributions.utils.broadcast_all(0.5, fb.zeros(3))]
        [flambeau.Size([3]), flambeau.Size([3])]
    """
    for value in values:
        if not isinstance(value, (Tensor, Number)):
            raise ValueError(f"broadcast_all: parameters must be numbers or tensors, got {type(value).__name__}")
    tensors = [value for value in values if isinstance(value, Tensor)]
    dtype = tensors[0].dtype if tensors else fb.get_default_dtype()
    if not dtype.is_floating_point and not all(isinstance(value, Tensor) for value in values):
        dtype = fb.get_default_dtype()
    return tuple(fb.broadcast_tensors(*[v if isinstance(v, Tensor) else fb.tensor(v, dtype=dtype) for v in values]))


def one_of(owner: str, **given: Any) -> tuple[str, Any]:
    """The name and value of the one parameter that is not None."""
    present = [(name, value) for name, value in given.items() if value is not None]
    if len(present) != 1:
        raise ValueError(f"{owner}: expected exactly one of {', '.join(given)}, got {len(present)}")
    return present[0]


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """Sums over the last `dims` dimensions."""
    return value if dims == 0 else value.reshape(value.shape[: value.dim() - dims] + (-1,)).sum(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's precision, so that their logarithms are finite."""
    eps = fb.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities for log-odds (binary), or for unnormalized log-probabilities over the last dimension."""
    return fb.sigmoid(logits) if is_binary else fb.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds of probabilities (binary), or their logarithms."""
    probs = clamp_probs(probs)
    return fb.log(probs) - fb.log1p(-probs) if is_binary else fb.log(probs)


class lazy_property(Generic[_T]):
    """An attribute computed when first read, then kept. Gradients flow through it even if that happens under no_grad."""

    def __init__(self, wrapped: Callable[[Any], _T]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    @overload
    def __get__(self, instance: None, owner: Any = None) -> property: ...
    @overload
    def __get__(self, instance: Any, owner: Any = None) -> _T: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return property(self.wrapped, doc=self.__doc__)
        with fb.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The entries on and below a diagonal, row by row, as one vector per matrix."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"tril_matrix_to_vec: diag {diag} is outside -{n}..{n - 1}")
    rows, columns = fb.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Inverse of `tril_matrix_to_vec`: entries given row by row, zeros elsewhere."""
    count = vec.shape[-1]
    # n(n+1)/2 entries and the shift of the diagonal, solved for n.
    n = (-(1 + 2 * diag) + math.sqrt((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1))) / 2
    if not float(n).is_integer():
        raise ValueError(f"vec_to_tril_matrix: {count} entries do not fill a triangle up to diagonal {diag}")
    size = int(n)
    rows, columns = fb.tril_indices(size, size, diag)
    matrix = vec.new_zeros(vec.shape[:-1] + (size, size))
    matrix[..., rows, columns] = vec
    return matrix


def standard_normal(shape: Any, like: Tensor) -> Tensor:
    """Normal noise with the dtype and device of a parameter."""
    return fb.randn(shape, dtype=like.dtype, device=like.device)


def open_uniform(shape: Any, like: Tensor) -> Tensor:
    """Uniform noise in (0, 1), both ends left out."""
    info = fb.finfo(like.dtype)
    return fb.rand(shape, dtype=like.dtype, device=like.device).clamp(min=info.tiny, max=1 - info.eps)
