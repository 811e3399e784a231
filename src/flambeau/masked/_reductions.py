"""Masked reductions."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.masked._masks import (
    Dim,
    _any,
    _any_layout,
    _canonical_dim,
    _check_input,
    _combine_input_and_mask,
    _filled,
    _input_mask,
    _lowest,
)


@_any_layout
def sum(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Sum of the selected elements; 0 where there are none.

    Args:
        input: strided tensor.
        dim: dimension or dimensions to reduce; None for all.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.sum(x, 1, mask=mask)
        tensor([ 4., 10.])
    """
    _check_input("sum", input)
    dims = _canonical_dim(dim, input.ndim)
    return fb.sum(_combine_input_and_mask(sum, input, mask), dims, keepdim, dtype=dtype)


@_any_layout
def prod(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Product of the selected elements; 1 where there are none.

    Args:
        input: strided tensor.
        dim: dimension or dimensions to reduce; None for all.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.prod(x, 1, mask=mask)
        tensor([ 3., 24.])
    """
    _check_input("prod", input)
    result = _combine_input_and_mask(prod, input, mask)
    dims = _canonical_dim(dim, input.ndim)
    if not dims:
        return fb.prod(result, dtype=dtype)
    for d in reversed(dims):
        result = fb.prod(result, d, keepdim, dtype=dtype)
    return result


@_any_layout
def amax(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Largest of the selected elements; -inf, or the end of an integer dtype's range, where there are none.

    Args:
        input: strided tensor.
        dim: dimension or dimensions to reduce; None for all.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.amax(x, 1, mask=mask)
        tensor([3., 6.])
    """
    _check_input("amax", input)
    dims = _canonical_dim(dim, input.ndim)
    return fb.amax(_combine_input_and_mask(amax, input, mask), dims, keepdim).to(
        input.dtype if dtype is None else dtype
    )


@_any_layout
def amin(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Smallest of the selected elements; inf, or the end of an integer dtype's range, where there are none.

    Args:
        input: strided tensor.
        dim: dimension or dimensions to reduce; None for all.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.amin(x, 1, mask=mask)
        tensor([1., 4.])
    """
    _check_input("amin", input)
    dims = _canonical_dim(dim, input.ndim)
    return fb.amin(_combine_input_and_mask(amin, input, mask), dims, keepdim).to(
        input.dtype if dtype is None else dtype
    )


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Index of the largest selected element, in the dtype of the input unless dtype says otherwise.

    Args:
        input: strided tensor.
        dim: dimension to reduce; None for the flattened input.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.argmax(x, 1, mask=mask)
        tensor([2., 2.])
    """
    _check_input("argmax", input)
    filled = _combine_input_and_mask(argmax, input, mask)
    return fb.argmax(filled, dim, bool(keepdim)).to(input.dtype if dtype is None else dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Index of the smallest selected element, in the dtype of the input unless dtype says otherwise.

    Args:
        input: strided tensor.
        dim: dimension to reduce; None for the flattened input.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.argmin(x, 1, mask=mask)
        tensor([0., 0.])
    """
    _check_input("argmin", input)
    filled = _combine_input_and_mask(argmin, input, mask)
    return fb.argmin(filled, dim, bool(keepdim)).to(input.dtype if dtype is None else dtype)


def logsumexp(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """log Σ exp(x) over the selected elements; -inf where there are none.

    Args:
        input: strided tensor.
        dim: dimension or dimensions to reduce; None for all.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.logsumexp(x, 1, mask=mask)
        tensor([3.1269, 6.1269])
    """
    _check_input("logsumexp", input)
    dims, kind = _canonical_dim(dim, input.ndim), input.dtype if dtype is None else dtype
    floating = input if input.is_floating_point() or input.is_complex() else input.to(fb.get_default_dtype())
    result = fb.logsumexp(_filled(floating, mask, -float("inf")), dims, keepdim)
    if mask is not None and not (kind.is_floating_point or kind.is_complex):
        # Integers have no -inf: the minimum replaces it.
        least = fb.full((), _lowest(kind), dtype=kind, device=input.device)
        return fb.where(_any(_input_mask(input, mask=mask), dims, keepdim), result.to(kind), least)
    return result.to(kind)


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    """Number of selected elements of each slice."""
    selected = (
        fb.ones((), dtype=fb.bool, device=input.device).expand(input.shape)
        if mask is None
        else _input_mask(input, mask=mask)
    )
    return fb.sum(selected, dims, keepdim)


@_any_layout
def mean(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Mean of the selected elements; NaN where there are none.

    Args:
        input: strided tensor.
        dim: dimension or dimensions to reduce; None for all.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.mean(x, 1, mask=mask)
        tensor([2., 5.])

    See also: `masked.var`
    """
    _check_input("mean", input)
    kind = input.dtype if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise ArgumentError(
            "masked.mean: Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {input.dtype}; pass dtype="
        )
    dims = _canonical_dim(dim, input.ndim)
    if mask is None:
        return fb.mean(input, dims, keepdim, dtype=kind)
    # Half precision would overflow in the sum and round the count.
    wide = fb.float32 if kind in (fb.float16, fb.bfloat16) else kind
    total = fb.sum(_filled(input, mask, 0), dims, keepdim, dtype=wide)
    return (total / _count(input, dims, keepdim, mask)).to(kind)


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Median of the selected elements, the lower one of two; NaN where there are none. NaN elements are ignored.

    Args:
        input: strided tensor.
        dim: dimension to reduce.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.median(x, 1, mask=mask)
        tensor([1., 4.])
    """
    _check_input("median", input)
    kind = input.dtype if dtype is None else dtype
    if input.is_floating_point():
        return fb.nanmedian(_filled(input, mask, float("nan")), dim, keepdim).values.to(kind)
    if mask is None:
        return fb.median(input, dim, keepdim).values.to(kind)
    selected = _input_mask(input, mask=mask)
    dims = _canonical_dim(dim, input.ndim)
    if not bool(_any(selected, dims, False).all()):
        raise ArgumentError(
            f"masked.median: expects no fully masked out rows if dtype is not floating point, got {input.dtype}; use input.to(fb.float64)"
        )
    if not dims:
        return input.to(kind)
    ordered = fb.sort(_combine_input_and_mask(amin, input, mask), dim).values
    result = ordered.gather(dim, (fb.sum(selected, dim, True) - 1) // 2)
    return (result if keepdim else result.squeeze(dim)).to(kind)


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Vector norm of the selected elements; 0 where there are none, inf for a negative ord.

    Args:
        input: strided tensor.
        ord: order of the norm, inf and -inf included.
        dim: dimension or dimensions to reduce; None for all.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.norm(x, 2, 1, mask=mask)
        tensor([3.1623, 7.2111])

    See also: `linalg.vector_norm`
    """
    _check_input("norm", input)
    dims = _canonical_dim(dim, input.ndim)
    return fb.linalg.vector_norm(_combine_input_and_mask(norm, input, mask, ord), ord, dims, keepdim, dtype=dtype)


def _variance(
    name: str,
    input: Tensor,
    dim: Dim,
    unbiased: bool | None,
    correction: float | None,
    keepdim: bool,
    mask: Tensor | None,
    dtype: Any,
) -> tuple[Tensor, Any]:
    """The variance in the precision of the sums, and the dtype of the result."""
    _check_input(name, input)
    if unbiased is not None and correction is not None:
        raise ArgumentError(
            f"masked.{name}: Only one of unbiased and correction may be given, got {unbiased} and {correction}"
        )
    if correction is None:
        correction = 0 if unbiased is False else 1
    kind = input.dtype if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        kind = fb.get_default_dtype()
    dims = _canonical_dim(dim, input.ndim)
    values = input.to(fb.float32 if kind in (fb.float16, fb.bfloat16) else kind)
    centre = fb.sum(_filled(values, mask, 0), dims, True) / _count(values, dims, True, mask)
    apart = _filled(values - centre, mask, 0)
    squares = (apart * apart.conj()).real if apart.is_complex() else apart * apart
    freedom = (_count(values, dims, keepdim, mask) - correction).clamp(min=0)
    return fb.sum(squares, dims, keepdim) / freedom, kind


def var(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Variance of the selected elements; NaN where there are none.

    Args:
        input: strided tensor.
        dim: dimension or dimensions to reduce; None for all.
        unbiased: False is correction=0, True correction=1.
        correction: subtracted from the number of elements; 1 unless given.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.var(x, 1, mask=mask)
        tensor([2., 2.])

    See also: `masked.std`
    """
    result, kind = _variance("var", input, dim, unbiased, correction, keepdim, mask, dtype)
    return result.to(kind)


def std(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Standard deviation of the selected elements; NaN where there are none.

    Args:
        input: strided tensor.
        dim: dimension or dimensions to reduce; None for all.
        unbiased: False is correction=0, True correction=1.
        correction: subtracted from the number of elements; 1 unless given.
        keepdim: keep reduced dimensions with size 1.
        dtype: dtype of the result.
        mask: bool tensor that broadcasts to the input; True selects.

    Example:
        >>> x, mask = fb.tensor([[1., 2., 3.], [4., 5., 6.]]), fb.tensor([True, False, True])
        >>> fb.masked.std(x, 1, mask=mask)
        tensor([1.4142, 1.4142])

    See also: `masked.var`
    """
    result, kind = _variance("std", input, dim, unbiased, correction, keepdim, mask, dtype)
    return result.sqrt().to(kind)
