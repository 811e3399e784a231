"""Masked normalizations, cumulative sums and products, and logaddexp."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.masked._masks import _check_input, _combine_input_and_mask, _filled
from flambeau.masked._reductions import norm


def softmax(
    input: Tensor,
    dim: int,
    *,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Softmax over the selected elements; 0 elsewhere, NaN in a slice without a selected element.

    Args:
        input: strided tensor.
        dim: dimension along which to compute.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([1., 2., 3.]), fb.tensor([True, False, True])
        >>> fb.masked.softmax(x, 0, mask=mask)
        tensor([0.1192, 0.0000, 0.8808])
    """
    _check_input("softmax", input)
    return fb.softmax(_filled(input, mask, -float("inf")), dim, dtype=dtype)


def log_softmax(
    input: Tensor,
    dim: int,
    *,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Logarithm of the softmax over the selected elements; -inf elsewhere.

    Args:
        input: strided tensor.
        dim: dimension along which to compute.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([1., 2., 3.]), fb.tensor([True, False, True])
        >>> fb.masked.log_softmax(x, 0, mask=mask)
        tensor([-2.1269,    -inf, -0.1269])
    """
    _check_input("log_softmax", input)
    return fb.log_softmax(_filled(input, mask, -float("inf")), dim, dtype=dtype)


def softmin(
    input: Tensor,
    dim: int,
    *,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Softmax of the negated selected elements; 0 elsewhere.

    Args:
        input: strided tensor.
        dim: dimension along which to compute.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([1., 2., 3.]), fb.tensor([True, False, True])
        >>> fb.masked.softmin(x, 0, mask=mask)
        tensor([0.8808, 0.0000, 0.1192])
    """
    _check_input("softmin", input)
    return fb.softmax(-_filled(input, mask, float("inf")), dim, dtype=dtype)


def cumsum(
    input: Tensor,
    dim: int,
    *,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Running sum of the selected elements.

    Args:
        input: strided tensor.
        dim: dimension along which to compute.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([1., 2., 3.]), fb.tensor([True, False, True])
        >>> fb.masked.cumsum(x, 0, mask=mask)
        tensor([1., 1., 4.])
    """
    _check_input("cumsum", input)
    return fb.cumsum(_filled(input, mask, 0), dim, dtype=input.dtype if dtype is None else dtype)


def cumprod(
    input: Tensor,
    dim: int,
    *,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Running product of the selected elements.

    Args:
        input: strided tensor.
        dim: dimension along which to compute.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([1., 2., 3.]), fb.tensor([True, False, True])
        >>> fb.masked.cumprod(x, 0, mask=mask)
        tensor([1., 1., 3.])
    """
    _check_input("cumprod", input)
    return fb.cumprod(_filled(input, mask, 1), dim, dtype=input.dtype if dtype is None else dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """x / max(‖x‖, eps) over the selected elements; 0 elsewhere.

    Args:
        input: strided tensor.
        ord: order of the norm.
        dim: dimension along which to compute.
        eps: least divisor.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([1., 2., 3.]), fb.tensor([True, False, True])
        >>> fb.masked.normalize(x, 2, 0, mask=mask)
        tensor([0.3162, 0.0000, 0.9487])
    """
    _check_input("normalize", input)
    values = input if dtype is None else input.to(dtype)
    return _filled(values, mask, 0) / norm(values, ord, dim, keepdim=True, mask=mask).clamp(min=eps)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), in which masked-out elements count as -inf.

    Args:
        input, other: strided tensors of floating dtype.
        dtype: dtype of the result.
        input_mask, other_mask: bool tensors that broadcast to input and other; True selects.

    Example:
        >>> x, mask = fb.tensor([1., 2., 3.]), fb.tensor([True, False, True])
        >>> fb.masked.logaddexp(x, x, input_mask=mask)
        tensor([1.6931, 2.0000, 3.6931])
    """
    _check_input("logaddexp", input)
    _check_input("logaddexp", other)
    a = _combine_input_and_mask(logaddexp, input, input_mask)
    b = _combine_input_and_mask(logaddexp, other, other_mask)
    return fb.logaddexp(a, b).to(input.dtype if dtype is None else dtype)
