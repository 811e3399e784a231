"""Ops under names that PyTorch keeps for older code."""

import builtins
import warnings

import flambeau as fb
from flambeau._registry.composite import composite
from flambeau.errors import ArgumentError

_OPTIONS = "dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, bool? requires_grad=False"


@composite("range(Scalar start, Scalar end, Scalar step=1, *, " + _OPTIONS + ") -> Tensor", out=True)
def range(start, end, step, *, dtype, layout, device, pin_memory, requires_grad):
    """Numbers from start to end, the end included, step by step; arange() leaves the end out and is what to use today.

    Args:
        start: the first number.
        end: the last number, if it is a whole number of steps away.
        step: distance between consecutive elements.
        dtype: the default dtype if not given, for all kinds of numbers.
        layout: only strided.
        device: device of the tensor.
        pin_memory: page-locked memory, only with an accelerator.
        requires_grad: whether gradients are recorded.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     fb.range(1, 2.5, 0.5)
        tensor([1.0000, 1.5000, 2.0000, 2.5000])
    """
    warnings.warn(
        "torch.range is deprecated, since it includes its end and Python's range does not; use arange, which leaves it out.",
        stacklevel=2,
    )
    if step == 0:
        raise ArgumentError("range: step must be nonzero")
    if (end - start) * step < 0:
        raise ArgumentError(f"range: upper bound and lower bound inconsistent with step sign, got ({start}, {end}, {step})")
    whole = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
    if whole:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ArgumentError(f"range: step must be nonzero, and dtype {dtype} rounds it to 0")
    count = int((end - start) / step) + 1
    numbers = fb.arange(count, dtype=fb.int64 if whole else fb.float64, device=device) * step + start
    return numbers.to(dtype or fb.get_default_dtype()).requires_grad_(bool(requires_grad))


@composite("nuclear_norm(Tensor input, bool keepdim=False) -> Tensor", out=True)
def nuclear_norm(input, keepdim):
    """The sum of the singular values of a matrix, or of the matrices along two dimensions; linalg.matrix_norm(A, "nuc") does it too.

    Args:
        input: the matrix.
        dim: two dimensions, when there are more.
        keepdim: whether to keep these dimensions with size 1.

    Example:
        >>> fb.nuclear_norm(fb.eye(3))
        tensor(3.)
    """
    return _nuclear(input, (-2, -1), keepdim)


@composite("nuclear_norm(Tensor input, int[] dim, bool keepdim=False) -> Tensor", out=True)
def nuclear_norm_along(input, dim, keepdim):
    return _nuclear(input, tuple(dim), keepdim)


def _nuclear(input, dim, keepdim):
    if input.ndim < 2:
        raise ArgumentError(f"nuclear_norm: The input tensor A must have at least 2 dimensions, got shape {tuple(input.shape)}")
    if len(dim) != 2 or dim[0] % input.ndim == dim[1] % input.ndim:
        raise ArgumentError(f"nuclear_norm: dim must be two different dimensions, got {dim}")
    return fb.linalg.matrix_norm(input, "nuc", dim, keepdim)


@composite("frobenius_norm(Tensor input, int[] dim, bool keepdim=False) -> Tensor", out=True)
def frobenius_norm(input, dim, keepdim):
    """The root of the sum of squares along one or two dimensions; linalg.vector_norm() does it too.

    Args:
        input: the tensor.
        dim: the dimensions; all if empty.
        keepdim: whether to keep these dimensions with size 1.

    Example:
        >>> fb.frobenius_norm(fb.tensor([[3.0, 4.0], [6.0, 8.0]]), 1)
        tensor([ 5., 10.])
    """
    if len(dim) > 2:
        raise ArgumentError(f"frobenius_norm: Expected at most 2 dimensions, but got {len(dim)} dimensions instead.")
    return fb.linalg.vector_norm(input, 2, tuple(dim) or None, keepdim)


@composite("norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor")
def norm_except_dim(v, pow, dim):
    """The norm over all dimensions but one, which keeps its size; what weight normalization divides by.

    Args:
        v: the tensor.
        pow: which norm.
        dim: the dimension that is left; -1 leaves none.

    Example:
        >>> fb.norm_except_dim(fb.tensor([[3.0, 4.0], [6.0, 8.0]]))
        tensor([[ 5.],
                [10.]])
    """
    if dim == -1:
        return fb.linalg.vector_norm(v, pow)
    dim = dim % v.ndim
    return fb.linalg.vector_norm(v, pow, tuple(d for d in builtins.range(v.ndim) if d != dim), keepdim=True)
