"""Normalizations that also return their statistics, and samplers with modes as numbers, as at PyTorch's top level."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau._ops.copies import into_outs
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn.functional._common import wide

__all__ = [
    "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "native_batch_norm", "native_group_norm", "native_layer_norm",
]  # fmt: skip


def _statistics(x: Tensor, dims: list[int], eps: float, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and 1 / standard deviation, in the dtype of x; not differentiated, as in PyTorch."""
    x = x.detach()
    var, mean = fb.var_mean(wide(x), dims, correction=0, keepdim=keepdim)
    return mean.to(x.dtype), (var + eps).rsqrt().to(x.dtype)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer normalization with the mean and 1 / standard deviation it used; see fb.nn.functional.layer_norm().

    Example:
        >>> fb.native_layer_norm(fb.tensor([1.0, 3.0]), [2], None, None, 0.0)
        (tensor([-1.,  1.]), tensor([2.]), tensor([1.]))
    """
    result = F.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = list(range(input.ndim - len(normalized_shape), input.ndim))
    return result, *_statistics(input, dims, eps, keepdim=True)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Group normalization with the mean and 1 / standard deviation it used; see fb.nn.functional.group_norm().

    N, C and HxW repeat the batch, the channels and the size of a plane of `input`.

    Example:
        >>> fb.native_group_norm(fb.tensor([[[1.0], [3.0]]]), None, None, 1, 2, 1, 1, 0.0)
        (tensor([[[-1.],
                 [ 1.]]]), tensor([[2.]]), tensor([[1.]]))
    """
    if input.ndim < 2 or tuple(input.shape[:2]) != (N, C) or input.numel() != N * C * HxW:
        raise ArgumentError(
            f"native_group_norm: input of shape {tuple(input.shape)} does not have N={N}, C={C} and HxW={HxW}"
        )
    result = F.group_norm(input, group, weight, bias, eps)
    return result, *_statistics(input.reshape(N, group, C // group * HxW), [2], eps)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalization with the mean and 1 / standard deviation of the batch; see fb.nn.functional.batch_norm().

    Outside of training, where the running ones are used, the last two results are empty.

    Example:
        >>> _, mean, rstd = fb.native_batch_norm(fb.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5)
        >>> mean, rstd
        (tensor([2.]), tensor([1.0000]))
    """
    result = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    mean, rstd = _statistics(input, [0, *range(2, input.ndim)], eps) if training else (input.new_empty(0), input.new_empty(0))
    if out is None:
        return result, mean, rstd
    first, second, third = into_outs("native_batch_norm", (result, mean, rstd), out)
    return first, second, third


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """fb.nn.functional.grid_sample() with numbers for modes.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, H', W', 2) or (N, D', H', W', 3).
        interpolation_mode: 0 for bilinear, 1 for nearest, 2 for bicubic.
        padding_mode: 0 for zeros, 1 for border, 2 for reflection.
        align_corners: whether -1 and 1 mean the centers of the corner pixels.

    Example:
        >>> fb.grid_sampler(fb.tensor([[[[1.0, 3.0]]]]), fb.zeros(1, 1, 1, 2), 0, 0, False)
        tensor([[[[2.]]]])
    """
    return _sampled("grid_sampler", input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """As :func:`flambeau.grid_sampler`, of images (N, C, H, W).

    Example:
        >>> fb.grid_sampler_2d(fb.tensor([[[[1.0, 3.0]]]]), fb.zeros(1, 1, 1, 2), 0, 0, False)
        tensor([[[[2.]]]])
    """
    if input.ndim != 4:
        raise ArgumentError(f"grid_sampler_2d: expected input (N, C, H, W), got shape {tuple(input.shape)}")
    return _sampled("grid_sampler_2d", input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """As :func:`flambeau.grid_sampler`, of volumes (N, C, D, H, W).

    Example:
        >>> fb.grid_sampler_3d(fb.ones(1, 1, 1, 1, 2), fb.zeros(1, 1, 1, 1, 3), 0, 0, False)
        tensor([[[[[1.]]]]])
    """
    if input.ndim != 5:
        raise ArgumentError(f"grid_sampler_3d: expected input (N, C, D, H, W), got shape {tuple(input.shape)}")
    return _sampled("grid_sampler_3d", input, grid, interpolation_mode, padding_mode, align_corners)


def _sampled(op: str, input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    if mode not in (0, 1, 2) or padding not in (0, 1, 2):
        raise ArgumentError(f"{op}: interpolation_mode and padding_mode must be 0, 1 or 2, got {mode!r} and {padding!r}")
    kind, outside = ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding]
    return F.grid_sample(input, grid, kind, outside, align_corners)
