"""A few eigenvalues of a large symmetric matrix, using only products with a few vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["lobpcg"]


def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None, iK: Tensor | None = None,
    niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None,
    tracker: Callable[..., Any] | None = None, ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k largest or smallest eigenvalues of A x = e B x and their vectors, for symmetric A and positive definite B.

    The locally optimal block preconditioned conjugate gradient method: A, dense or sparse, is only multiplied with
    blocks of vectors.

    Args:
        A: (…, m, m); a dense one that requires gradients is decomposed as a whole by linalg.eigh, which can be
            differentiated.
        k: how many; by default as many as X has columns, or 1.
        B: (…, m, m); the identity by default.
        X: (…, m, n), where to start; random by default.
        n: how many vectors to start with, if X is not given; k by default.
        iK: (…, m, m), a matrix close to the inverse of A, which speeds up convergence.
        niter: most iterations; by default until convergence, at most 1000.
        tol: when the residual counts as zero, relative to the norms of A and the vectors.
        largest: the largest eigenvalues, the default, or the smallest.
        method: "ortho" or "basic", for which one algorithm stands here.
        tracker: called after each iteration with an object that has the fields X, E, R and the dictionaries ivars and
            tvars.
        ortho_iparams, ortho_fparams, ortho_bparams: accepted, but without effect.

    Returns:
        The eigenvalues, the requested extreme first, and the vectors as columns.

    Example:
        >>> values, vectors = fb.lobpcg(fb.diag(fb.arange(1.0, 10.0)), k=2)
        >>> values
        tensor([9.0000, 8.0000])
    """
    op = "lobpcg"
    if method not in (None, "ortho", "basic"):
        raise ArgumentError(f"{op}: expected method 'ortho' or 'basic', got {method!r}")
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ArgumentError(f"A must be square, got shape {tuple(A.shape)}: {op}")
    if not A.is_floating_point():
        raise ArgumentError(f"{op}: expected a real floating point matrix, got {A.dtype}")
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    count = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * count:
        raise ArgumentError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of requested "
            f"eigenpairs (={count}); use linalg.eigh"
        )
    largest = True if largest is None else largest
    if A.requires_grad and fb.is_grad_enabled() and B is None and A.layout is fb.strided:
        # Half of A suffices for eigh; the gradient has both halves, like that of products with A.
        values, vectors = fb.linalg.eigh((A + A.mT) / 2)
        return (values.flip(-1)[..., :k], vectors.flip(-1)[..., :k]) if largest else (values[..., :k], vectors[..., :k])
    if A.ndim > 2:
        batch = tuple(A.shape[:-2])

        def at(t: Any, i: int) -> Any:
            return None if t is None else t.expand(*batch, *t.shape[-2:]).flatten(0, -3)[i]

        pairs = [
            lobpcg(at(A, i), k, at(B, i), at(X, i), n, at(iK, i), niter, tol, largest, method, tracker)
            for i in range(math.prod(batch))
        ]
        values, vectors = (fb.stack(each).unflatten(0, batch) for each in zip(*pairs, strict=True))
        return values, vectors
    with fb.no_grad():
        start = fb.randn(m, count, dtype=A.dtype, device=A.device) if X is None else X
        tolerance = fb.finfo(A.dtype).eps ** 0.5 if tol is None else tol
        values, vectors = _iterate(A, B, start, iK, 1000 if niter is None or niter < 0 else niter, tolerance, largest, k, tracker)
    return values[:k], vectors[:, :k]


class _Progress:
    """The state passed to a tracker."""

    def __init__(self, X: Tensor, E: Tensor, R: Tensor, step: int, converged: int) -> None:
        self.X, self.E, self.R = X, E, R
        self.ivars = {"istep": step, "converged_count": converged}
        self.tvars = {"rerr": R.norm(dim=0)}


def _basis(S: Tensor, times_B: Callable[[Tensor], Tensor]) -> Tensor:
    """Columns that span the same space as those of S, orthonormal with respect to B; dependent ones are dropped."""
    S = S / S.norm(dim=0).clamp(min=fb.finfo(S.dtype).tiny)
    for _ in range(2):  # two passes suffice
        weights, turn = fb.linalg.eigh(S.t() @ times_B(S))
        keep = weights > weights[-1] * (fb.finfo(S.dtype).eps * 10 * S.shape[1])
        S = S @ (turn[:, keep] / weights[keep].sqrt())
    return S


def _iterate(
    A: Tensor, B: Tensor | None, X: Tensor, iK: Tensor | None, niter: int, tol: float, largest: bool, k: int, tracker: Any
) -> tuple[Tensor, Tensor]:
    def times_B(x: Tensor) -> Tensor:
        return x if B is None else B @ x

    count = X.shape[1]
    S = _basis(X, times_B)
    for step in range(niter + 1):
        small, turn = fb.linalg.eigh(S.t() @ (A @ S))
        if largest:
            small, turn = small.flip(0), turn.flip(1)
        E, chosen = small[:count], turn[:, :count]
        before, X = X, S @ chosen
        R = A @ X - times_B(X) * E
        scale = (A @ X).norm(dim=0) + times_B(X).norm(dim=0) * E.abs()
        converged = int((R.norm(dim=0) <= tol * scale.clamp(min=fb.finfo(X.dtype).tiny))[:k].sum())
        if tracker is not None:
            tracker(_Progress(X, E, R, step, converged))
        if converged >= min(k, count) or step == niter:
            break
        W = R if iK is None else iK @ R
        # The direction from the previous vectors: the part of the new ones outside their span.
        last = [X - before @ (before.t() @ times_B(X))] if step else []
        S = _basis(fb.cat([X, W, *last], 1), times_B)
    return E, X
