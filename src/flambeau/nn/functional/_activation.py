"""Activation functions and the softmax family."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.nn.functional._common import in_core, into, narrow_back, recording, wide

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_",
    "rrelu", "rrelu_", "selu", "selu_", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign",
    "tanh", "tanhshrink", "threshold", "threshold_",
]  # fmt: skip

_core = fb._C.namespaces["_nn"]
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _apply(function: Callable[[Tensor], Tensor], input: Tensor, inplace: bool) -> Tensor:
    """function(input), in place on request; gradients then need the old values, hence the copy."""
    if not inplace:
        return function(input)
    return input.copy_(function(input.clone() if recording(input) else input))


# ---- piecewise linear functions
# ----------------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    Example:
        >>> fb.nn.functional.relu(fb.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return input.relu_() if inplace else input.relu()


def relu_(input: Tensor) -> Tensor:
    """max(x, 0), in place.

    Example:
        >>> fb.nn.functional.relu_(fb.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return input.relu_()


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value.

    Example:
        >>> fb.nn.functional.threshold(fb.tensor([1.0, 3.0]), 2.0, -1.0)
        tensor([-1.,  3.])
    """
    return _apply(lambda x: x.masked_fill(x <= threshold, value), input, inplace)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """x where x > threshold, else value, in place.

    Example:
        >>> fb.nn.functional.threshold_(fb.tensor([1.0, 3.0]), 2.0, -1.0)
        tensor([-1.,  3.])
    """
    return _apply(lambda x: x.masked_fill(x <= threshold, value), input, True)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]; the gradient is 0 at and beyond the limits.

    Example:
        >>> fb.nn.functional.hardtanh(fb.tensor([-3.0, 0.5, 3.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if not input.is_floating_point():
        return _apply(lambda x: x.masked_fill(x <= min_val, min_val).masked_fill(x >= max_val, max_val), input, inplace)
    return _apply(lambda x: _core["hardtanh"](x, min_val, max_val), input, inplace)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val], in place.

    Example:
        >>> fb.nn.functional.hardtanh_(fb.tensor([-3.0, 3.0]))
        tensor([-1.,  1.])
    """
    return hardtanh(input, min_val, max_val, True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).

    Example:
        >>> fb.nn.functional.relu6(fb.tensor([-1.0, 3.0, 9.0]))
        tensor([0., 3., 6.])
    """
    return hardtanh(input, 0, 6, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6.

    Example:
        >>> fb.nn.functional.hardsigmoid(fb.tensor([-3.0, 0.0, 3.0]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return _apply(_core["hardsigmoid"], input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · relu6(x + 3) / 6.

    Example:
        >>> fb.nn.functional.hardswish(fb.tensor([-3.0, 0.0, 3.0]))
        tensor([-0., 0., 3.])
    """
    return _apply(_core["hardswish"], input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope · x.

    Example:
        >>> fb.nn.functional.leaky_relu(fb.tensor([-1.0, 2.0]), 0.5)
        tensor([-0.5000,  2.0000])
    """
    return _apply(lambda x: _core["leaky_relu"](x, negative_slope), input, inplace)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else negative_slope · x, in place.

    Example:
        >>> fb.nn.functional.leaky_relu_(fb.tensor([-1.0, 2.0]), 0.5)
        tensor([-0.5000,  2.0000])
    """
    return leaky_relu(input, negative_slope, True)


def _check_slopes(weight: Tensor) -> None:
    if weight.ndim > 1:
        raise ArgumentError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}, shape {tuple(weight.shape)}"
        )


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else weight · x; the weight is one number, or one for each channel (dimension 1).

    Example:
        >>> fb.nn.functional.prelu(fb.tensor([-1.0, 2.0]), fb.tensor([0.25]))
        tensor([-0.2500,  2.0000])
    """
    if weight.numel() != 1:
        if input.ndim == 0:
            raise ArgumentError(f"prelu: Not allow zero-dim input tensor. Got a weight of shape {tuple(weight.shape)}")
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.ndim == 1 and weight.numel() != channels:
            raise ArgumentError(
                f"prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
                f"and channel size = {channels}"
            )
        _check_slopes(weight)
        weight = weight.view((1, channels) + (1,) * (input.ndim - 2))
    else:
        _check_slopes(weight)
        weight = weight.view(()) if input.ndim == 0 else weight
    return fb.where(input > 0, input, weight * input)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu with a slope drawn from [lower, upper) for every element in training, their mean otherwise.

    Example:
        >>> fb.nn.functional.rrelu(fb.tensor([-2.0, 2.0]), 0.5, 0.5)
        tensor([-1.,  2.])
    """
    if lower > upper:
        raise ArgumentError(f"rrelu: Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = fb.empty_like(input).uniform_(lower, upper)
    return _apply(lambda x: fb.where(x > 0, x, x * slope), input, inplace)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """rrelu, in place.

    Example:
        >>> fb.nn.functional.rrelu_(fb.tensor([-2.0, 2.0]), 0.5, 0.5)
        tensor([-1.,  2.])
    """
    return rrelu(input, lower, upper, training, True)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x where |x| > lambd, else 0.

    Example:
        >>> fb.nn.functional.hardshrink(fb.tensor([-1.0, 0.2]))
        tensor([-1.,  0.])
    """
    return into(out, input.masked_fill((input >= -lambd) & (input <= lambd), 0))


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x moved towards 0 by lambd; 0 where |x| <= lambd.

    Example:
        >>> fb.nn.functional.softshrink(fb.tensor([-1.0, 0.2]))
        tensor([-0.5000,  0.0000])
    """
    if lambd < 0:
        raise ArgumentError(f"softshrink: lambda must be in range [0, max of the input dtype {input.dtype}], but found {lambd}")
    return into(out, fb.where(input > lambd, input - lambd, fb.where(input < -lambd, input + lambd, input * 0)))


# ---- curves ------------------------------------------------------------------------------------------------------------


def _elu(x: Tensor, alpha: float, scale: float, stretch: float) -> Tensor:
    """scale · x where x > 0, else scale · alpha · (exp(x / stretch) - 1)."""
    return _core["elu"](x, scale * alpha, scale, 1 / stretch)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha · (exp(x) - 1).

    Example:
        >>> fb.nn.functional.elu(fb.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    return _apply(lambda x: _elu(x, alpha, 1, 1), input, inplace)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """elu, in place.

    Example:
        >>> fb.nn.functional.elu_(fb.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    return elu(input, alpha, True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale · elu(x, alpha) with the two constants that keep mean 0 and variance 1 through deep networks.

    Example:
        >>> fb.nn.functional.selu(fb.tensor([-1.0, 1.0]))
        tensor([-1.1113,  1.0507])
    """
    return _apply(lambda x: _elu(x, _SELU_ALPHA, _SELU_SCALE, 1), input, inplace)


def selu_(input: Tensor) -> Tensor:
    """selu, in place.

    Example:
        >>> fb.nn.functional.selu_(fb.tensor([-1.0, 1.0]))
        tensor([-1.1113,  1.0507])
    """
    return selu(input, True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha · (exp(x / alpha) - 1).

    Example:
        >>> fb.nn.functional.celu(fb.tensor([-1.0, 2.0]), 2.0)
        tensor([-0.7869,  2.0000])
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha must not be 0")
    return _apply(lambda x: _elu(x, alpha, 1, alpha), input, inplace)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """celu, in place.

    Example:
        >>> fb.nn.functional.celu_(fb.tensor([-1.0, 2.0]), 2.0)
        tensor([-0.7869,  2.0000])
    """
    return celu(input, alpha, True)


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """x · Φ(x), Φ the normal distribution function; approximate="tanh" uses the well-known tanh formula.

    Example:
        >>> fb.nn.functional.gelu(fb.tensor([-1.0, 2.0]))
        tensor([-0.1587,  1.9545])
    """
    if approximate == "none":
        return into(out, _core["gelu"](input))
    if approximate == "tanh":
        return into(out, _core["gelu_tanh"](input))
    raise ArgumentError(f"gelu: approximate argument must be either none or tanh, got {approximate!r}")


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x · sigmoid(x), also known as swish.

    Example:
        >>> fb.nn.functional.silu(fb.tensor([-1.0, 2.0]))
        tensor([-0.2689,  1.7616])
    """
    if input.is_complex():
        return _apply(lambda x: x * x.sigmoid(), input, inplace)
    return _apply(_core["silu"], input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · tanh(softplus(x)).

    Example:
        >>> fb.nn.functional.mish(fb.tensor([-1.0, 2.0]))
        tensor([-0.3034,  1.9440])
    """
    return _apply(_core["mish"], input, inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None) -> Tensor:
    """log(1 + exp(beta · x)) / beta; x itself where beta · x > threshold.

    Example:
        >>> fb.nn.functional.softplus(fb.tensor([-1.0, 2.0]))
        tensor([0.3133, 2.1269])
    """
    return into(out, _core["softplus"](input, beta, threshold))


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 / (1 + exp(-x))).

    Example:
        >>> fb.nn.functional.logsigmoid(fb.tensor([-1.0, 2.0]))
        tensor([-1.3133, -0.1269])
    """
    if recording(input) and in_core(input):
        return into(out, _core["logsigmoid_recorded"](input))
    return into(out, _core["logsigmoid"](input))


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    Example:
        >>> fb.nn.functional.softsign(fb.tensor([-1.0, 3.0]))
        tensor([-0.5000,  0.7500])
    """
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    Example:
        >>> fb.nn.functional.tanhshrink(fb.tensor([0.0, 1.0]))
        tensor([0.0000, 0.2384])
    """
    return input - input.tanh()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent.

    Example:
        >>> fb.nn.functional.tanh(fb.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)).

    Example:
        >>> fb.nn.functional.sigmoid(fb.tensor([0.0, 1.0]))
        tensor([0.5000, 0.7311])
    """
    return input.sigmoid()


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second half.

    Example:
        >>> fb.nn.functional.glu(fb.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """
    if input.ndim == 0:
        raise ArgumentError("glu: a 0-d tensor has no dimension to halve")
    if input.shape[dim] % 2:
        raise ArgumentError(f"glu: dimension {dim} must have an even size to be halved, got {input.shape[dim]}")
    value, gate = input.chunk(2, dim)
    return narrow_back(wide(value) * wide(gate).sigmoid(), input)


# ---- softmax -----------------------------------------------------------------------------------------------------------


def _implicit_dim(op: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(f"{op}: dim was not given; choosing it is deprecated, pass dim=", stacklevel=stacklevel + 1)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: fb.dtype | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along a dimension.

    Args:
        input: the tensor.
        dim: along which dimension the result sums to 1.
        dtype: converted to it first.

    Example:
        >>> fb.nn.functional.softmax(fb.tensor([0.0, 0.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    dim = _implicit_dim("softmax", input.ndim, _stacklevel) if dim is None else dim
    return input.softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: fb.dtype | None = None) -> Tensor:
    """softmax(-x).

    Example:
        >>> fb.nn.functional.softmin(fb.tensor([0.0, 0.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    dim = _implicit_dim("softmin", input.ndim, _stacklevel) if dim is None else dim
    return (-input).softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: fb.dtype | None = None) -> Tensor:
    """log(softmax(x)), computed without overflow.

    Args:
        input: the tensor.
        dim: along which dimension the exponentials of the result sum to 1.
        dtype: converted to it first.

    Example:
        >>> fb.nn.functional.log_softmax(fb.tensor([0.0, 0.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    dim = _implicit_dim("log_softmax", input.ndim, _stacklevel) if dim is None else dim
    return input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the Gumbel-softmax distribution: softmax((logits + Gumbel noise) / tau).

    Args:
        logits: unnormalized log probabilities.
        tau: temperature.
        hard: whether the result is one-hot, with the gradient of the soft sample.
        eps: not used any more.
        dim: along which dimension the result sums to 1.

    Example:
        >>> fb.nn.functional.gumbel_softmax(fb.tensor([0.0, 50.0]), hard=True)
        tensor([0., 1.])
    """
    noise = -fb.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = fb.zeros_like(logits).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft
