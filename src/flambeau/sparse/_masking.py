"""The elements of a tensor at a sparse tensor's coordinates, and gradient checks of functions of sparse tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, DTypeError
from flambeau.sparse._compressed import block_size
from flambeau.sparse._tensor import SparseTensor, flatten


def sparse_mask(input: Tensor, mask: Tensor) -> SparseTensor:
    """The elements of a tensor, dense or sparse, at the coordinates of `mask`."""
    if not isinstance(mask, SparseTensor):
        raise DTypeError("sparse_mask: expected mask to be a sparse tensor, got a dense one; convert it with .to_sparse()")
    if input.shape != mask.shape:
        raise ArgumentError(
            f"sparse_mask(): operands have incompatible sizes; self has size {tuple(input.shape)} but mask has size {tuple(mask.shape)}"
        )
    if isinstance(input, SparseTensor):
        if input is mask:
            return input
        if mask.is_sparse and input.sparse_dim() == mask.sparse_dim():
            return mask._with(_at(input.to_sparse_coo(), mask))
        input = input.to_dense()
    rows, columns = block_size(mask)
    if mask._value.shape[:1] == (0,):
        return mask._with(mask._value.to(input.dtype))
    if (rows, columns) != (1, 1) or mask._layout in (fb.sparse_bsr, fb.sparse_bsc):
        n = mask._index.shape[0] - 2
        input = input.unflatten(n + 1, (-1, columns)).unflatten(n, (-1, rows)).movedim(n + 1, n + 2)
    if mask._index.shape[0] == 0:
        return mask._with(input.unsqueeze(0).expand(mask._value.shape[0], *input.shape))
    return mask._with(input[tuple(mask._index)])


def _at(x: SparseTensor, mask: SparseTensor) -> Tensor:
    """The values of x at the coordinates of mask; 0 where x stores none."""
    x, sizes = x.coalesce(), tuple(x.shape[: x._index.shape[0]])
    kept, wanted = flatten(x._index, sizes), flatten(mask._index, sizes)
    if kept.numel() == 0:
        return x._value.new_zeros((wanted.shape[0], *x._value.shape[1:]))
    place = fb.searchsorted(kept, wanted).clamp(max=kept.numel() - 1)
    there = (kept[place] == wanted).reshape(-1, *[1] * (x._value.ndim - 1))
    return fb.where(there, x._value[place], x._value.new_zeros(()))


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """Extends gradcheck, or gradgradcheck, to functions that give sparse tensors.

    Args:
        gradcheck: fb.autograd.gradcheck, say.

    Returns:
        a function of the same arguments. With masked=True the elements that a result keeps are checked, without it all
        elements.

    Example:
        >>> check = fb.sparse.as_sparse_gradcheck(fb.autograd.gradcheck)
        >>> x = fb.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=fb.float64).to_sparse().requires_grad_()
        >>> check(lambda x: x.to_sparse_csr(), x)
        True
    """

    @functools.wraps(gradcheck)
    def check(func: Callable[..., Any], inputs: Any, *, masked: bool = False, **options: Any) -> bool:
        def dense(result: Any) -> Any:
            if not isinstance(result, SparseTensor):
                return result
            return result._value if masked else result.to_dense()

        def of_dense(*args: Any) -> Any:
            results = func(*args)
            return tuple(map(dense, results)) if isinstance(results, (tuple, list)) else dense(results)

        return gradcheck(of_dense, inputs, masked=masked, **options)

    return check
