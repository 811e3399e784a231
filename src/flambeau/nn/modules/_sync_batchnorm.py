"""Batch normalization over the batches of several processes: statistics are gathered in forward, sums in backward."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.autograd.function import Function, once_differentiable
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F


def sync_batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    momentum: float, eps: float, group: Any,
) -> Tensor:  # fmt: skip
    """Normalizes every channel by the statistics of all processes' inputs, and updates the running ones with them."""
    return _SyncBatchNorm.apply(input, weight, bias, running_mean, running_var, momentum, eps, group)


def _reduced(input: Tensor) -> list[int]:
    return [d for d in range(input.ndim) if d != 1]


def _per_channel(t: Tensor, ndim: int) -> Tensor:
    return t.view(1, -1, *[1] * (ndim - 2))


class _SyncBatchNorm(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float,
                eps: float, group: Any) -> Any:  # fmt: skip
        # Statistics are summed in at least float32; a process may have an empty batch.
        wide = fb.promote_types(input.dtype, fb.float32)
        channels, count = input.shape[1], input.numel() // max(input.shape[1], 1)
        own = fb.zeros(2 * channels + 1, dtype=wide)
        if count:
            var, mean = fb.var_mean(input.to(wide), dim=_reduced(input), correction=0)
            own = fb.cat([mean, var, fb.tensor([count], dtype=wide)])
        everybody = fb.empty(dist.get_world_size(group), own.numel(), dtype=wide)
        dist.all_gather_into_tensor(everybody, own.unsqueeze(0), group=group)
        means, variances, counts = everybody[:, :channels], everybody[:, channels:-1], everybody[:, -1:]
        total = float(counts.sum())
        if total <= 1:
            raise ArgumentError(f"SyncBatchNorm: Expected more than 1 value per channel when training, got {int(total)} in all processes")
        mean = (means * counts).sum(0) / total
        var = ((variances + (means - mean).square()) * counts).sum(0) / total
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((var * (total / (total - 1))).to(running_var.dtype), momentum)
        ctx.save_for_backward(input, weight, mean, (var + eps).rsqrt())
        ctx.group, ctx.total, ctx.has_bias = group, total, bias is not None
        cast = [None if t is None else t.to(wide) for t in (weight, bias)]
        return F.batch_norm(input.to(wide), mean, var, cast[0], cast[1], False, 0.0, eps).to(input.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        input, weight, mean, inverse = ctx.saved_tensors
        ndim, wide, dims = input.ndim, mean.dtype, _reduced(input)
        grad = grad.to(wide)
        normalized = (input.to(wide) - _per_channel(mean, ndim)) * _per_channel(inverse, ndim)
        sums = fb.stack([grad.sum(dims), (grad * normalized).sum(dims)])
        grad_bias = sums[0].to(input.dtype) if ctx.has_bias and ctx.needs_input_grad[2] else None
        grad_weight = sums[1].to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        grad_input = None
        if ctx.needs_input_grad[0]:
            totals = sums.clone()  # the gradients of weight and bias are this process's own
            dist.all_reduce(totals, group=ctx.group)
            mean_grad, mean_product = (_per_channel(s / ctx.total, ndim) for s in totals)
            scale = inverse if weight is None else inverse * weight.to(wide)
            grad_input = ((grad - mean_grad - normalized * mean_product) * _per_channel(scale, ndim)).to(input.dtype)
        return grad_input, grad_weight, grad_bias, None, None, None, None, None
