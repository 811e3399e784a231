"""Rules for matrix products: one batched product for all examples."""

from __future__ import annotations

import string
from typing import Any

import flambeau as fb
from flambeau.errors import ArgumentError
from flambeau.func._batching import Frame, decomposition, rule


@rule("matmul", "linalg.matmul")
def matmul(frame: Frame, arguments: dict[str, Any]) -> Any:
    """An unbatched matrix is multiplied once, if possible by the examples stacked as rows."""
    a, b = arguments.values()
    if not a.ndim or not b.ndim:
        raise ArgumentError("matmul: 0-d tensors cannot be multiplied as matrices; use mul")
    if a.ndim == 1 and b.ndim == 1:
        return (frame.peel(a) * frame.peel(b)).sum(-1, dtype=fb.result_type(a, b))
    if a.ndim == 1 and b.ndim == 2 and not frame.is_batched(b):
        return a.physical @ b
    if b.ndim == 1 and a.ndim == 2 and not frame.is_batched(a):
        return b.physical @ a.transpose(0, 1)
    left, right = (a.unsqueeze(0) if a.ndim == 1 else a), (b.unsqueeze(1) if b.ndim == 1 else b)
    rank = max(left.ndim, right.ndim)
    product = frame.aligned(left, rank) @ frame.aligned(right, rank)
    if a.ndim == 1:
        product = product.squeeze(-2)
    return product.squeeze(-1) if b.ndim == 1 else product


def _ranks(name: str, *expected):
    for x, rank in expected:
        if x.ndim != rank:
            raise ArgumentError(f"{name}: expected a tensor of {rank} dimension(s), got shape {tuple(x.shape)}")


@decomposition("mm")
def mm(input, mat2):
    """Matrix times matrix."""
    _ranks("mm", (input, 2), (mat2, 2))
    return fb.matmul(input, mat2)


@decomposition("bmm")
def bmm(input, mat2):
    """Many products."""
    _ranks("bmm", (input, 3), (mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise ArgumentError(f"bmm: the batches differ: {input.shape[0]} and {mat2.shape[0]}")
    return fb.matmul(input, mat2)


@decomposition("mv")
def mv(input, vec):
    """Matrix times vector."""
    _ranks("mv", (input, 2), (vec, 1))
    return fb.matmul(input, vec)


@decomposition("dot")
def dot(input, tensor):
    """Inner product of two vectors."""
    _ranks("dot", (input, 1), (tensor, 1))
    return fb.matmul(input, tensor)


@decomposition("vdot")
def vdot(input, other):
    """Inner product, the first vector conjugated."""
    _ranks("vdot", (input, 1), (other, 1))
    return fb.matmul(fb.conj(input), other)


@decomposition("inner")
def inner(input, other):
    """Sums over the last dimensions of both."""
    if not input.ndim or not other.ndim:
        return input * other
    rows = input.reshape((-1, input.shape[-1])) if input.shape[-1] else input.flatten(0, -1).reshape((0, 0))
    columns = other.reshape((-1, other.shape[-1])) if other.shape[-1] else other.flatten(0, -1).reshape((0, 0))
    return fb.matmul(rows, columns.transpose(0, 1)).reshape((*input.shape[:-1], *other.shape[:-1]))


@decomposition("outer")
def outer(input, vec2):
    """Each element times each."""
    _ranks("outer", (input, 1), (vec2, 1))
    return input.unsqueeze(1) * vec2.unsqueeze(0)


def _sum(input, product, beta, alpha):
    """With beta 0 the input is ignored, NaN included."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (input if beta == 1 else input * beta) + product


@decomposition("addmm")
def addmm(input, mat1, mat2, beta=1, alpha=1):
    """A sum with a product."""
    return _sum(input, fb.mm(mat1, mat2), beta, alpha)


@decomposition("addmv")
def addmv(input, mat, vec, beta=1, alpha=1):
    """A sum with a product."""
    return _sum(input, fb.mv(mat, vec), beta, alpha)


@decomposition("addr")
def addr(input, vec1, vec2, beta=1, alpha=1):
    """A sum with an outer product."""
    return _sum(input, fb.outer(vec1, vec2), beta, alpha)


@decomposition("baddbmm")
def baddbmm(input, batch1, batch2, beta=1, alpha=1):
    """A sum with many products."""
    return _sum(input, fb.bmm(batch1, batch2), beta, alpha)


@decomposition("addbmm")
def addbmm(input, batch1, batch2, beta=1, alpha=1):
    """A sum with the sum of many products."""
    return _sum(input, fb.bmm(batch1, batch2).sum(0), beta, alpha)


@decomposition("linear", "nn.functional.linear", "_nn.linear")
def linear(input, weight, bias=None):
    """input @ weight.T + bias."""
    product = fb.matmul(input, weight.transpose(0, 1) if weight.ndim == 2 else weight)
    return product if bias is None else product + bias


@rule("einsum")
def einsum(frame: Frame, arguments: dict[str, Any]) -> Any:
    """The equation gains a letter for the batch."""
    equation, operands = arguments.values()
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        once = sorted(c for c in set(letters) if letters.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    free = [c for c in string.ascii_letters if c not in equation]
    if not free:
        raise ArgumentError("einsum: the equation uses every letter; inside vmap one must be left for the batch")
    batch = free[0]
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ArgumentError(f"einsum: the equation has {len(terms)} operands, got {len(operands)}")
    marked = [batch + term if frame.is_batched(x) else term for term, x in zip(terms, operands, strict=True)]
    return fb.einsum(f"{','.join(marked)}->{batch}{right}", *(frame.peel(x) for x in operands))


@rule("cdist")
def cdist(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Distances between two sets of points."""
    x1, x2, p, mode = arguments.values()
    rank = max(x1.ndim, x2.ndim)
    return fb.cdist(frame.aligned(x1, rank), frame.aligned(x2, rank), p, mode)


@decomposition("pdist")
def pdist(input, p=2):
    """Distances within a set of points, each pair once."""
    n = input.shape[0]
    rows, columns = fb.triu_indices(n, n, 1)
    return fb.linalg.vector_norm(input.index_select(0, rows) - input.index_select(0, columns), p, -1)
