"""Normalization under vmap: its formulas on the examples themselves."""

from __future__ import annotations

from flambeau.func._batching import decomposition


def _shaped(t, ndim: int):
    """One number per channel, shaped to broadcast with (batch, channels, …)."""
    return t.reshape((1, -1, *(1,) * (ndim - 2)))


def _scaled(x, weight, bias, ndim: int):
    x = x if weight is None else x * _shaped(weight, ndim)
    return x if bias is None else x + _shaped(bias, ndim)


@decomposition("_nn.batch_norm")
def batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """Statistics of each example's own batch; running ones are updated in place if they are batched as well."""
    dims = [d for d in range(input.ndim) if d != 1]
    if training:
        mean, var = input.mean(dims), input.var(dims, correction=0)
        if running_mean is not None:
            count = input.numel() // input.shape[1]
            running_mean.mul_(1 - momentum).add_(mean.detach() * momentum)
            running_var.mul_(1 - momentum).add_(var.detach() * (momentum * count / max(count - 1, 1)))
    else:
        mean, var = running_mean, running_var
    result = (input - _shaped(mean, input.ndim)) * _shaped((var + eps).rsqrt(), input.ndim)
    return _scaled(result, weight, bias, input.ndim)


@decomposition("_nn.group_norm")
def group_norm(input, groups, weight, bias, eps):
    """Mean and variance of each group of channels."""
    rows = input.reshape((input.shape[0], groups, -1))
    mean, var = rows.mean(-1, keepdim=True), rows.var(-1, correction=0, keepdim=True)
    return _scaled(((rows - mean) * (var + eps).rsqrt()).reshape(input.shape), weight, bias, input.ndim)


@decomposition("_nn.row_norm")
def row_norm(input, dims, weight, bias, eps, centered):
    """Layer norm, and, when not centered, the norm by root mean square."""
    over = list(range(-dims, 0))
    x = input - input.mean(over, keepdim=True) if centered else input
    result = x * ((x * x).mean(over, keepdim=True) + eps).rsqrt()
    result = result if weight is None else result * weight
    return result if bias is None else result + bias
