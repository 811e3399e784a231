"""Fourier transforms recorded for backward, composed of three linear maps with known adjoints.

A Fourier transform's adjoint is the inverse transform with the same factor, which is that of the other norm: the
forward transform has no factor in "backward" mode, the inverse one has none in "forward" mode.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import flambeau as fb
from flambeau import Tensor
from flambeau.autograd import Function

_OTHER_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_COMPLEX_OF = {fb.float32: fb.complex64, fb.float64: fb.complex128}


def transform(name: str, x: Tensor, sizes: list[int], dims: list[int], norm: str) -> Tensor:
    """The transform `name` of floating point or complex x, cut or padded to `sizes` (of the result, where it is real)."""
    kind = name.rstrip("2n")
    *others, last = dims
    if kind in ("irfft", "hfft"):
        for size, d in zip([*sizes[:-1], sizes[-1] // 2 + 1], dims, strict=True):
            x = _resized(x, size, d)
        if kind == "hfft":
            # The forward transform of a signal is the inverse one of its conjugate.
            x = _ComplexToComplex.apply(_complex(x), others, False, norm).conj() if others else _complex(x).conj()
            return _ComplexToReal.apply(x, sizes[-1], last, _OTHER_NORM[norm])
        x = _ComplexToComplex.apply(_complex(x), others, True, norm) if others else _complex(x)
        return _ComplexToReal.apply(x, sizes[-1], last, norm)
    for size, d in zip(sizes, dims, strict=True):
        x = _resized(x, size, d)
    if kind == "rfft":
        x = _RealToComplex.apply(x, last, norm)
        return _ComplexToComplex.apply(x, others, False, norm) if others else x
    if kind == "ihfft":
        x = _RealToComplex.apply(x, last, _OTHER_NORM[norm]).conj()
        return _ComplexToComplex.apply(x, others, True, norm) if others else x
    return _ComplexToComplex.apply(_complex(x), dims, kind == "ifft", norm)


def _complex(x: Tensor) -> Tensor:
    return x.to(_COMPLEX_OF.get(x.dtype, x.dtype))


def _resized(x: Tensor, size: int, dim: int) -> Tensor:
    have = x.shape[dim]
    if size <= have:
        return x if size == have else x.narrow(dim, 0, size)
    shape = list(x.shape)
    shape[dim] = size - have
    return fb.cat([x, x.new_zeros(shape)], dim)


def _computed(x: Tensor, dim: int, size: int, dtype: fb.dtype, transform: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """A transform of x by NumPy, with `size` elements along `dim`; on the meta device only its shape."""
    if x.is_meta:
        shape = list(x.shape)
        shape[dim] = size
        return x.new_empty(shape, dtype=dtype)
    result = transform(x.detach().cpu().numpy())
    return fb.from_numpy(np.ascontiguousarray(result)).to(x.device, dtype)


def _batched(x: Tensor, in_dim: int | None) -> tuple[Tensor, int, int | None]:
    """For vmap: x with the batch dimension first, the shift of its dimensions, and the result's batch dimension."""
    return (x, 0, None) if in_dim is None else (x.movedim(in_dim, 0), 1, 0)


class _ComplexToComplex(Function):
    @staticmethod
    def forward(ctx, x, dims, inverse, norm):
        ctx.dims, ctx.inverse, ctx.norm = dims, inverse, norm
        run = np.fft.ifftn if inverse else np.fft.fftn
        return _computed(x, 0, x.shape[0], x.dtype, lambda array: run(array, axes=dims, norm=norm))

    @staticmethod
    def backward(ctx, g):
        return _ComplexToComplex.apply(g, ctx.dims, not ctx.inverse, _OTHER_NORM[ctx.norm]), None, None, None

    @staticmethod
    def vmap(info, in_dims, x, dims, inverse, norm):
        x, step, out_dim = _batched(x, in_dims[0])
        return _ComplexToComplex.apply(x, [d + step for d in dims], inverse, norm), out_dim


class _RealToComplex(Function):
    """The first half of the spectrum; the other half is its mirror image."""

    @staticmethod
    def forward(ctx, x, dim, norm):
        ctx.dim, ctx.norm, ctx.size = dim, norm, x.shape[dim]
        size = x.shape[dim] // 2 + 1
        return _computed(x, dim, size, _COMPLEX_OF[x.dtype], lambda array: np.fft.rfft(array, axis=dim, norm=norm))

    @staticmethod
    def backward(ctx, g):
        whole = _resized(g, ctx.size, ctx.dim)
        return _ComplexToComplex.apply(whole, [ctx.dim], True, _OTHER_NORM[ctx.norm]).real, None, None

    @staticmethod
    def vmap(info, in_dims, x, dim, norm):
        x, step, out_dim = _batched(x, in_dims[0])
        return _RealToComplex.apply(x, dim + step, norm), out_dim


class _ComplexToReal(Function):
    """The inverse transform of half a spectrum: all but the first and, for even n, the last count twice."""

    @staticmethod
    def forward(ctx, x, n, dim, norm):
        ctx.dim, ctx.norm, ctx.n = dim, norm, n
        return _computed(x, dim, n, x.dtype.to_real(), lambda array: np.fft.irfft(array, n, dim, norm))

    @staticmethod
    def backward(ctx, g):
        half = _RealToComplex.apply(g, ctx.dim, _OTHER_NORM[ctx.norm])
        counts = g.new_full((half.shape[ctx.dim],), 2.0)
        counts[0] = 1
        if ctx.n % 2 == 0:
            counts[-1] = 1
        shape = [1] * half.ndim
        shape[ctx.dim] = -1
        return half * counts.reshape(shape), None, None, None

    @staticmethod
    def vmap(info, in_dims, x, n, dim, norm):
        x, step, out_dim = _batched(x, in_dims[0])
        return _ComplexToReal.apply(x, n, dim + step, norm), out_dim
