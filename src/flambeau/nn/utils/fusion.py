"""Folding a batch norm into the layer before it, for inference."""

from __future__ import annotations

import copy
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
__dir__ = __all__.copy


def _folded(
    weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, scale: Tensor | None, shift: Tensor | None,
    channel_dim: int,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """y = (W x + b - mean) / sqrt(var + eps) · scale + shift, as one W' x + b'."""
    bias_requires_grad = bias.requires_grad if bias is not None else weight.requires_grad
    with fb.no_grad():
        bias = fb.zeros_like(mean) if bias is None else bias
        factor = (var + eps).rsqrt() * (1 if scale is None else scale)
        shape = [1] * weight.ndim
        shape[channel_dim] = -1
        new_weight = (weight * factor.view(shape)).to(weight.dtype)
        new_bias = ((bias - mean) * factor + (0 if shift is None else shift)).to(bias.dtype)
    return Parameter(new_weight, weight.requires_grad), Parameter(new_bias, bias_requires_grad)


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of a convolution that includes the batch norm after it.

    Args:
        conv_w: the convolution's weight.
        conv_b: its bias.
        bn_rm: the batch norm's running mean.
        bn_rv: its running variance.
        bn_eps: its eps.
        bn_w: its weight.
        bn_b: its bias.
        transpose: whether it is a transposed convolution.

    Example:
        >>> w, b = fb.nn.utils.fuse_conv_bn_weights(
        ...     fb.ones(1, 1, 1), None, fb.ones(1), fb.full((1,), 4.0), 0.0, None, None)
        >>> w.item(), b.item()
        (0.5, -0.5)
    """
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias of a linear layer that includes the batch norm after it.

    Args:
        linear_w: the layer's weight.
        linear_b: its bias.
        bn_rm: the batch norm's running mean.
        bn_rv: its running variance.
        bn_eps: its eps.
        bn_w: its weight.
        bn_b: its bias.

    Example:
        >>> w, b = fb.nn.utils.fuse_linear_bn_weights(
        ...     fb.ones(1, 1), None, fb.ones(1), fb.full((1,), 4.0), 0.0, None, None)
        >>> w.item(), b.item()
        (0.5, -0.5)
    """
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fuse(layer: Any, bn: Any, channel_dim: int) -> Any:
    if layer.training or bn.training:
        raise RuntimeError("fuse: fusion is for evaluation; call eval() on both modules first")
    if bn.running_mean is None or bn.running_var is None:
        raise RuntimeError("fuse: the batch norm has no running statistics to fold in")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = _folded(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, channel_dim
    )
    return fused


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution with the batch norm behind it folded in; both must be in evaluation mode.

    Args:
        conv: the convolution.
        bn: the batch norm.
        transpose: whether it is a transposed convolution.

    Example:
        >>> hasattr(fb.nn.utils, "fuse_conv_bn_eval")
        True
    """
    return _fuse(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a linear layer with the batch norm behind it folded in; both must be in evaluation mode.

    Args:
        linear: the linear layer.
        bn: a BatchNorm1d.

    Example:
        >>> linear, bn = fb.nn.Linear(2, 3).eval(), fb.nn.BatchNorm1d(3).eval()
        >>> x = fb.randn(4, 2)
        >>> fb.allclose(fb.nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-6)
        True
    """
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise ValueError(
            f"fuse_linear_bn_eval: out_features {linear.out_features} and num_features {bn.num_features} do not fit"
        )
    return _fuse(linear, bn, 0)
