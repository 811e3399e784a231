"""Ops that PyTorch uses itself and names `torch._name` or `torch.ops.aten.name`, for programs that call them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.functional._common import wide

__all__ = ["OPS", "log_softmax_backward", "softmax_backward"]


def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int, *, out: Tensor | None = None) -> Tensor:
    """Each tensor is cut along dim into chunks, the last ones filled up with zeros; chunks of the same number follow each other."""
    if not tensors:
        raise ArgumentError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise ArgumentError(f"_chunk_cat expects positive num_chunks, got {num_chunks}")
    if dim < 0 and len({t.ndim for t in tensors}) > 1:
        raise ArgumentError(f"_chunk_cat expects non-negative dim when input tensors have different ndims, got {dim}")
    dim += tensors[0].ndim if dim < 0 else 0
    parts = []
    for t in tensors:
        if t.numel() == 0:
            raise ArgumentError(f"_chunk_cat expects non-empty tensor, got shape {tuple(t.shape)}")
        if dim >= t.ndim:
            raise ArgumentError(f"_chunk_cat expects dim < ndim for all input tensors, got dim {dim} and shape {tuple(t.shape)}")
        if t.shape[:dim] != tensors[0].shape[:dim]:
            raise ArgumentError(
                f"_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors, got {tuple(tensors[0].shape)} "
                f"and {tuple(t.shape)}"
            )
        missing = -t.shape[dim] % num_chunks
        filled = F.pad(t, [0, 0] * (t.ndim - dim - 1) + [0, missing]) if missing else t
        parts.append(filled.reshape(*t.shape[:dim], num_chunks, -1))
    result = fb.cat(parts, dim + 1)
    if out is None:
        return result
    wider = fb.can_cast(result.dtype, out.dtype)
    return fb.alias_copy(result.to(out.dtype) if wider else result, out=out)


def _safe_softmax(input: Tensor, dim: int, dtype: fb.dtype | None = None) -> Tensor:
    """softmax() that is 0 where everything is -inf."""
    empty = (input == -math.inf).all(dim, keepdim=True)
    return fb.softmax(input.masked_fill(empty, 0), dim, dtype=dtype).masked_fill(empty, 0)


def _places(input: Tensor, indices: Sequence[Tensor | None]) -> list[Any]:
    """Indices that a mask may leave out, brought into range."""
    return [
        slice(None) if index is None else index.clamp(-size, size - 1)
        for index, size in zip(indices, input.shape, strict=False)
    ]


def _unsafe_masked_index(input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any) -> Tensor:
    """input[indices] where the mask is true; elsewhere the indices may be out of range, and the result is `fill`."""
    return input[tuple(_places(input, indices))].masked_fill(~mask, fill)


def _unsafe_masked_index_put_accumulate(input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Tensor:
    """input with values added at the indices where the mask is true."""
    places = [None if index is None else place for index, place in zip(indices, _places(input, indices), strict=True)]
    return input.index_put(places, values.masked_fill(~mask, 0), accumulate=True)


def _native_batch_norm_legit(input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any, out: Any = None) -> tuple[Tensor, ...]:
    """native_batch_norm(), also without the running statistics among its arguments."""
    running = rest[:2] if len(rest) == 5 else (None, None)
    return fb.native_batch_norm(input, weight, bias, *running, *rest[-3:], out=out)


def _batch_norm_with_update(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """native_batch_norm() of training, and an empty tensor: what some libraries keep for backward."""
    results = fb.native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*results, input.new_empty(0, dtype=fb.uint8))


def _batch_norm_no_update(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """The same with the running statistics."""
    results = fb.native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    return (*results, input.new_empty(0, dtype=fb.uint8))


def max_pool2d_with_indices_backward(
    grad_output: Tensor, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Tensor
) -> Tensor:
    """The gradient of max_pool2d() from the places of its maxima."""
    if indices.shape != grad_output.shape:
        raise ArgumentError(
            f"max_pool2d_with_indices_backward: indices have shape {tuple(indices.shape)} and grad_output {tuple(grad_output.shape)}"
        )
    places, grads = indices.flatten(-2), grad_output.flatten(-2)
    zeros = grads.new_zeros((*input.shape[:-2], input.shape[-2] * input.shape[-1]))
    return zeros.scatter_add(-1, places, grads).view(input.shape)


def _antialiased(mode: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor, output_size: Any, align_corners: bool, scales_h: Any = None, scales_w: Any = None, *, scale_factors: Any = None
    ) -> Tensor:
        factors = scale_factors if scale_factors is not None else (scales_h, scales_w)
        if output_size is None:
            return F.interpolate(input, scale_factor=list(factors), mode=mode, align_corners=align_corners, antialias=True)
        if align_corners or None in factors:
            return F.interpolate(input, output_size, mode=mode, align_corners=align_corners, antialias=True)
        raise ArgumentError(f"_upsample_{mode}2d_aa: give either output_size or scales")

    return function


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient of dropout() from its mask."""
    return grad_output * mask * scale


def softmax_backward(grad_output: Tensor, output: Tensor, dim: int, input_dtype: fb.dtype) -> Tensor:
    """The gradient of softmax() from its result, for Functions that write their own backward."""
    product, output = wide(grad_output) * wide(output), wide(output)
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def log_softmax_backward(grad_output: Tensor, output: Tensor, dim: int, input_dtype: fb.dtype) -> Tensor:
    """The gradient of log_softmax() from its result."""
    grad_output = wide(grad_output)
    return (grad_output - wide(output).exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


OPS: dict[str, Callable[..., Any]] = {
    "_batch_norm_no_update": _batch_norm_no_update,
    "_batch_norm_with_update": _batch_norm_with_update,
    "_chunk_cat": _chunk_cat,
    "_native_batch_norm_legit": _native_batch_norm_legit,
    "_safe_softmax": _safe_softmax,
    "_unsafe_masked_index": _unsafe_masked_index,
    "_unsafe_masked_index_put_accumulate": _unsafe_masked_index_put_accumulate,
    "_upsample_bicubic2d_aa": _antialiased("bicubic"),
    "_upsample_bilinear2d_aa": _antialiased("bilinear"),
    "native_dropout_backward": native_dropout_backward,
    "max_pool2d_with_indices_backward": max_pool2d_with_indices_backward,
}
