"""Activation modules."""

from __future__ import annotations

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init as initialise
from flambeau.nn.modules._attention import MultiheadAttention
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules._softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip
__dir__ = __all__.copy


class _InPlace(Module):
    """An activation with no other setting than whether it works in place.

    Args:
        inplace: whether to overwrite the input.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def _and_inplace(text: str, inplace: bool) -> str:
    return text + ", inplace=True" if inplace else text


@inherit_args
class ReLU(_InPlace):
    """max(x, 0).

    Example:
        >>> fb.nn.ReLU()(fb.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class RReLU(Module):
    """leaky_relu with a random slope in training.

    Args:
        lower: smallest slope.
        upper: largest slope.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.RReLU(0.5, 0.5).eval()(fb.tensor([-1.0, 2.0]))
        tensor([-0.5000,  2.0000])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return _and_inplace(f"lower={self.lower}, upper={self.upper}", self.inplace)


class Hardtanh(Module):
    """x limited to [min_val, max_val].

    Args:
        min_val: lower limit.
        max_val: upper limit.
        inplace: whether to overwrite the input.
        min_value: an older name of min_val.
        max_value: an older name of max_val.

    Example:
        >>> fb.nn.Hardtanh()(fb.tensor([-3.0, 3.0]))
        tensor([-1.,  1.])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise ArgumentError(f"Hardtanh: max_val must be larger than min_val, got {self.max_val} and {self.min_val}")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _and_inplace(f"min_val={self.min_val}, max_val={self.max_val}", self.inplace)


class ReLU6(Hardtanh):
    """min(max(x, 0), 6).

    Args:
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.ReLU6()(fb.tensor([-1.0, 9.0]))
        tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    Example:
        >>> fb.nn.Sigmoid()(fb.zeros(1))
        tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class Tanh(Module):
    """The hyperbolic tangent.

    Example:
        >>> fb.nn.Tanh()(fb.zeros(1))
        tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


@inherit_args
class Hardsigmoid(_InPlace):
    """relu6(x + 3) / 6.

    Example:
        >>> fb.nn.Hardsigmoid()(fb.zeros(1))
        tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


@inherit_args
class Hardswish(_InPlace):
    """x · relu6(x + 3) / 6.

    Example:
        >>> fb.nn.Hardswish()(fb.tensor([3.0]))
        tensor([3.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


@inherit_args
class SiLU(_InPlace):
    """x · sigmoid(x).

    Example:
        >>> fb.nn.SiLU()(fb.tensor([2.0]))
        tensor([1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


@inherit_args
class Mish(_InPlace):
    """x · tanh(softplus(x)).

    Example:
        >>> fb.nn.Mish()(fb.tensor([2.0]))
        tensor([1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


@inherit_args
class SELU(_InPlace):
    """A scaled ELU that keeps mean 0 and variance 1.

    Example:
        >>> fb.nn.SELU()(fb.tensor([1.0]))
        tensor([1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class ELU(Module):
    """x where x > 0, else alpha · (exp(x) - 1).

    Args:
        alpha: the negative of the limit for x → -∞.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.ELU()(fb.tensor([-1.0]))
        tensor([-0.6321])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _and_inplace(f"alpha={self.alpha}", self.inplace)


@inherit_args
class CELU(ELU):
    """x where x > 0, else alpha · (exp(x / alpha) - 1).

    Example:
        >>> fb.nn.CELU(2.0)(fb.tensor([-1.0]))
        tensor([-0.7869])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class GLU(Module):
    """The first half of a dimension times the sigmoid of the second half.

    Args:
        dim: the dimension.

    Example:
        >>> fb.nn.GLU()(fb.tensor([1.0, 0.0]))
        tensor([0.5000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GELU(Module):
    """x · Φ(x), Φ the normal distribution function.

    Args:
        approximate: "none" or "tanh".

    Example:
        >>> fb.nn.GELU()(fb.tensor([2.0]))
        tensor([1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    """Functions that set values within lambd of 0 to 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x where |x| > lambd, else 0.

    Args:
        lambd: the threshold.

    Example:
        >>> fb.nn.Hardshrink()(fb.tensor([-1.0, 0.2]))
        tensor([-1.,  0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """Soft shrinkage: x moved towards 0 by lambd.

    Args:
        lambd: the shift, which is also the threshold.

    Example:
        >>> fb.nn.Softshrink()(fb.tensor([-1.0, 0.2]))
        tensor([-0.5000,  0.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """x where x > 0, else negative_slope · x.

    Args:
        negative_slope: slope for negative x.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.LeakyReLU(0.5)(fb.tensor([-1.0, 2.0]))
        tensor([-0.5000,  2.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _and_inplace(f"negative_slope={self.negative_slope}", self.inplace)


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x))).

    Example:
        >>> fb.nn.LogSigmoid()(fb.zeros(1))
        tensor([-0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softplus(Module):
    """log(1 + exp(beta · x)) / beta.

    Args:
        beta: sharpness of the bend.
        threshold: above it the function is linear.

    Example:
        >>> fb.nn.Softplus()(fb.zeros(1))
        tensor([0.6931])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """x where x > 0, else weight · x, with a learned weight.

    Args:
        num_parameters: 1, or the number of channels.
        init: initial value of the weight.
        device: device of the weight.
        dtype: dtype of the weight.

    Example:
        >>> fb.nn.PReLU()(fb.tensor([-1.0])).tolist()
        [-0.25]
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Device = None, dtype: fb.dtype | None = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(fb.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets the weight to its initial value."""
        initialise.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """x / (1 + |x|).

    Example:
        >>> fb.nn.Softsign()(fb.tensor([3.0]))
        tensor([0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    Example:
        >>> fb.nn.Tanhshrink()(fb.tensor([1.0]))
        tensor([0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Threshold(Module):
    """x where x > threshold, else value.

    Args:
        threshold: the threshold.
        value: the value below the threshold.
        inplace: whether to overwrite the input.

    Example:
        >>> fb.nn.Threshold(2.0, -1.0)(fb.tensor([1.0, 3.0]))
        tensor([-1.,  3.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _and_inplace(f"threshold={self.threshold}, value={self.value}", self.inplace)
