"""Normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn.functional._common import lies_channels_last, narrow_back, wide

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm",
]  # fmt: skip


_core = fb._C.namespaces["_nn"]


def _last_dims(op: str, input: Tensor, normalized_shape, **parameters: Tensor | None) -> tuple[int, ...]:
    """The dimensions to normalize over, after a check that all shapes fit."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape:
        raise ArgumentError(f"{op}: Expected normalized_shape to be at least 1-dimensional, got ()")
    if tuple(input.shape[-len(shape) :]) != shape:
        raise ArgumentError(
            f"{op}: Given normalized_shape={list(shape)}, expected input with shape [*, {str(list(shape))[1:-1]}], "
            f"but got input of size {list(input.shape)}"
        )
    for name, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != shape:
            raise ArgumentError(
                f"{op}: Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(parameter.shape)} and normalized_shape = {list(shape)}"
            )
        if op == "layer_norm":
            _check_dtype(op, input, name, parameter)
    return tuple(range(-len(shape), 0))


def _goes_with(input: Tensor, parameter: Tensor) -> bool:
    """Whether the kernels support this pair: of one dtype, or half precision with parameters in float32."""
    same = parameter.dtype == input.dtype
    return same or (parameter.dtype == fb.float32 and input.dtype in (fb.float16, fb.bfloat16))


def _check_dtype(op: str, input: Tensor, name: str, parameter: Tensor | None) -> None:
    if parameter is not None and not _goes_with(input, parameter):
        raise ArgumentError(
            f"{op}: expected {name} to have the input's dtype {input.dtype}, got {parameter.dtype}; convert the input with "
            f".to({parameter.dtype}), or the module with .to({input.dtype})"
        )


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) · weight + bias, with mean and variance over the last dimensions.

    Args:
        input: the tensor.
        normalized_shape: the last sizes of input, over which to normalize.
        weight: factors of that shape.
        bias: summands of that shape.
        eps: added under the root for numerical stability.

    Example:
        >>> fb.nn.functional.layer_norm(fb.tensor([1.0, 3.0]), (2,), eps=0.0)
        tensor([-1.,  1.])
    """
    dims = _last_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    return _core["row_norm"](input, len(dims), weight, bias, eps, True)


def rms_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x²) + eps) · weight, with the mean over the last dimensions.

    Args:
        input: the tensor.
        normalized_shape: the last sizes of input, over which to normalize.
        weight: factors of that shape.
        eps: keeps the root from 0; the dtype's machine epsilon by default.

    Example:
        >>> fb.nn.functional.rms_norm(fb.tensor([3.0, 3.0]), (2,))
        tensor([1., 1.])
    """
    dims = _last_dims("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:
        eps = fb.finfo(fb.float32 if input.dtype in (fb.float16, fb.bfloat16) else input.dtype).eps
    if input.is_complex() or lies_channels_last(input):
        x = wide(input)
        result = x * (x.square().mean(dims, keepdim=True) + eps).rsqrt()
        result = narrow_back(result if weight is None else result * weight, input)
        return result.to(input.dtype) if weight is not None and weight.dtype != input.dtype else result
    if weight is not None and not _goes_with(input, weight):
        result = _core["row_norm"](wide(input), len(dims), None, None, eps, False)
        return (result * weight).to(input.dtype)
    return _core["row_norm"](input, len(dims), weight, None, eps, False)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalizes over groups of channels (dimension 1) and all positions, for each sample.

    Args:
        input: (N, C, …).
        num_groups: number of channel groups.
        weight: (C,).
        bias: (C,).
        eps: added under the root for numerical stability.

    Example:
        >>> fb.nn.functional.group_norm(fb.tensor([[1.0, 3.0, 2.0, 6.0]]), 2, eps=0.0)
        tensor([[-1.,  1., -1.,  1.]])
    """
    if input.ndim < 2:
        raise ArgumentError(f"group_norm: Expected at least 2 dimensions for input tensor but received {input.ndim}")
    channels = input.shape[1]
    if num_groups <= 0 or channels % num_groups:
        raise ArgumentError(
            f"group_norm: Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    _check_channels("group_norm", channels, weight=weight, bias=bias)
    _check_dtype("group_norm", input, "weight", weight)
    _check_dtype("group_norm", input, "bias", bias)
    if input.numel() == 0:
        return _affine(input, weight, bias, input)
    return _core["group_norm"](input, num_groups, weight, bias, eps)


def _check_channels(op: str, channels: int, **parameters: Tensor | None) -> None:
    for name, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != (channels,):
            raise ArgumentError(
                f"{op}: {name} should contain {channels} elements, one for each channel, got shape {tuple(parameter.shape)}"
            )


def _per_channel(values: Tensor, ndim: int) -> Tensor:
    """Values per channel, shaped to broadcast with dimension 1."""
    return values.view((1, -1) + (1,) * (ndim - 2))


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, input: Tensor) -> Tensor:
    """x · weight + bias by channel, in the input's dtype."""
    x = x if weight is None else x * _per_channel(weight, x.ndim)
    return narrow_back(x if bias is None else x + _per_channel(bias, x.ndim), input)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes every channel (dimension 1) over the batch and all positions.

    In training the statistics are the batch's own, and the running ones move towards them by momentum; otherwise the
    running ones are used.

    Args:
        input: (N, C, …).
        running_mean: (C,), updated in training.
        running_var: (C,), updated in training, with the unbiased variance.
        weight: (C,).
        bias: (C,).
        training: which statistics to use.
        momentum: weight of the new statistics.
        eps: added under the root for numerical stability.

    Example:
        >>> fb.nn.functional.batch_norm(fb.tensor([[1.0], [3.0]]), None, None, training=True)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    return _batch_norm("batch_norm", input, running_mean, running_var, weight, bias, training, momentum, eps)


def _batch_norm(
    core: str, input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None,
    bias: Tensor | None, training: bool, momentum: float, eps: float,
) -> Tensor:  # fmt: skip
    """Batch normalization, optionally with the relu that follows, by the core's op of this name."""
    op = "batch_norm"
    if eps < 0 or (training and eps <= 0):
        raise ArgumentError(
            f"{op}: eps must be {'positive during training' if training else 'non-negative'}, got {eps}"
        )
    if input.ndim == 1 and input.numel() == 0:
        return input.clone()
    if input.ndim < 2:
        raise ArgumentError(f"{op}: expected at least 2 dimensions (N, C, …), got shape {tuple(input.shape)}")
    channels = input.shape[1]
    _check_channels(op, channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if training:
        count = input.numel() // channels if channels else 0
        if count == 1:
            raise ArgumentError(
                f"{op}: expected more than 1 value per channel when training, got input size {tuple(input.shape)}; "
                "use a larger batch, or eval() to use the running statistics"
            )
        if count == 0:
            return _affine(input, weight, bias, input)
    elif running_mean is None or running_var is None:
        raise ArgumentError(f"{op}: expected running_mean and running_var to be defined when training=False")
    return _core[core](input, running_mean, running_var, weight, bias, training, momentum, eps)


def _update_running(
    running_mean: Tensor | None, running_var: Tensor | None, mean: Tensor, var: Tensor, count: int, momentum: float
) -> None:
    with fb.no_grad():
        if running_mean is not None:
            running_mean.copy_((1 - momentum) * running_mean + momentum * mean.detach())
        if running_var is not None:
            unbiased = var.detach() * (count / max(count - 1, 1))
            running_var.copy_((1 - momentum) * running_var + momentum * unbiased)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes every channel of every sample over all positions.

    Args:
        input: (N, C, …).
        running_mean: (C,), updated with the mean over the samples.
        running_var: (C,), updated with the mean over the samples.
        weight: (C,).
        bias: (C,).
        use_input_stats: whether the input's own statistics are used, else the running ones.
        momentum: weight of the new statistics.
        eps: added under the root for numerical stability.

    Example:
        >>> fb.nn.functional.instance_norm(fb.tensor([[[1.0, 3.0]]]), eps=0.0)
        tensor([[[-1.,  1.]]])
    """
    op = "instance_norm"
    if input.ndim < 3:
        raise ArgumentError(f"{op}: expected at least 3 dimensions (N, C, …), got shape {tuple(input.shape)}")
    batch, channels = input.shape[:2]
    positions = math.prod(input.shape[2:])
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ArgumentError(
                f"{op}: expected running_mean and running_var to be defined when use_input_stats is False"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if positions == 1:
        raise ArgumentError(
            f"{op}: expected more than 1 spatial element when training, got input size {tuple(input.shape)}; "
                "use a larger batch, or eval() to use the running statistics"
        )
    _check_channels(op, channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if input.numel() == 0:
        return _affine(input, weight, bias, input)
    if running_mean is not None or running_var is not None:
        with fb.no_grad():
            var, mean = fb.var_mean(wide(input), tuple(range(2, input.ndim)), correction=0)
            _update_running(running_mean, running_var, mean.mean(0), var.mean(0), positions, momentum)
    return _core["group_norm"](input, channels, weight, bias, eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta.

    Example:
        >>> fb.nn.functional.local_response_norm(fb.ones(1, 1, 1), 1, alpha=1.0, beta=1.0)
        tensor([[[0.5000]]])
    """
    if input.ndim < 3:
        raise ArgumentError(f"local_response_norm: expected at least 3 dimensions, got shape {tuple(input.shape)}")
    if size < 1:
        raise ArgumentError(f"local_response_norm: size must be positive, got {size}")
    if input.numel() == 0:
        return input
    x = wide(input)
    margins = [0, 0] * (input.ndim - 2) + [size // 2, (size - 1) // 2]
    total = fb.constant_pad_nd(x.square(), margins).unfold(1, size, 1).sum(-1)
    mean = total / size if x.is_floating_point() else total.div(size, rounding_mode="trunc")
    return narrow_back(x / (mean * alpha + k).pow(beta), input)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """x / max(‖x‖, eps) along a dimension.

    Args:
        input: the tensor.
        p: order of the norm.
        dim: the dimension.
        eps: lower bound of the divisor, which avoids division by zero.
        out: where to write the result.

    Example:
        >>> fb.nn.functional.normalize(fb.tensor([3.0, 4.0]), dim=0)
        tensor([0.6000, 0.8000])
    """
    length = fb.linalg.vector_norm(input, p, dim, keepdim=True).clamp(min=eps).expand_as(input)
    return input / length if out is None else fb.div(input, length, out=out)
