"""Rearrangements made of other ops."""

import flambeau as fb
from flambeau._core import composite


@composite("adjoint(Tensor input) -> Tensor", method=True)
def adjoint(input):
    """The conjugate transpose of each matrix.

    Args:
        input: matrices (a 0-d tensor stays as it is).

    Example:
        >>> fb.adjoint(fb.tensor([[1 + 2j, 3 + 0j]]))
        tensor([[1.-2.j],
                [3.-0.j]])
    """
    if input.dim() == 0:
        return input.conj()
    if input.dim() == 1:
        raise fb.errors.ArgumentError("adjoint: expected matrices, got a 1-d tensor; use conj() for a vector")
    return input.transpose(-2, -1).conj()


@composite("combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor", method=True)
def combinations(input, r, with_replacement):
    """All combinations of r elements of a vector, as rows.

    Args:
        input: a vector.
        r: how many elements per combination.
        with_replacement: whether an element may come more than once.

    Example:
        >>> fb.combinations(fb.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input.dim() != 1:
        raise fb.errors.ArgumentError(f"combinations: expected a 1-d vector, got shape {tuple(input.shape)}")
    if r < 0:
        raise fb.errors.ArgumentError(f"combinations: r must not be negative, got {r}")
    if r == 0:
        return fb.empty(0, dtype=input.dtype, device=input.device)
    positions = fb.arange(input.numel())
    grids = fb.meshgrid(*[positions] * r, indexing="ij")
    keep = fb.ones([input.numel()] * r, dtype=fb.bool)
    for left, right in zip(grids, grids[1:], strict=False):
        keep = keep & (left <= right if with_replacement else left < right)
    return fb.stack([input[grid[keep]] for grid in grids], dim=1)


def _powers(x, n, increasing):
    powers = fb.ones(*x.shape, n, dtype=x.dtype, device=x.device)
    if n > 1:
        powers[..., 1:] = fb.cumprod(x.unsqueeze(-1).expand(*x.shape, n - 1), dim=-1)
    return powers if increasing else fb.flip(powers, (-1,))


@composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor")
def vander(x, N, increasing):
    """The Vandermonde matrix: the powers of each element of a vector, as a row.

    Args:
        x: a vector.
        N: how many powers; as many as elements when not given.
        increasing: begin with the 0th power; else it is the last.

    Example:
        >>> fb.vander(fb.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [4, 2, 1],
                [9, 3, 1]])
    """
    if x.dim() != 1:
        raise fb.errors.ArgumentError(f"vander: x must be a one-dimensional tensor, got shape {tuple(x.shape)}")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise fb.errors.ArgumentError(f"vander: N must be non-negative, got {n}")
    if x.dtype == fb.bool:
        x = x.to(fb.int64)
    return _powers(x, n, increasing)


@composite("linalg.vander(Tensor x, *, int? N=None) -> Tensor")
def linalg_vander(x, *, N):
    """The Vandermonde matrix of each vector: powers 0 to N - 1 of every element, as rows.

    Args:
        x: vectors; a 0-d tensor counts as one of length 1.
        N: how many powers, at least 2; the length of the vectors when not given.

    Example:
        >>> fb.linalg.vander(fb.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [1, 2, 4],
                [1, 3, 9]])
    """
    x = fb.atleast_1d(x)
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise fb.errors.ArgumentError(f"linalg.vander: N must be greater than 1, got {n}")
    if x.dtype == fb.bool:
        x = x.to(fb.int64)
    return _powers(x, n, True)
