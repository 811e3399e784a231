"""Filling parameters with starting values, in place and outside of the graph."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
    "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip
__dir__ = __all__.copy


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which the spread of weights should be enlarged before a nonlinearity.

    Args:
        nonlinearity: the name of a function of nn.functional.
        param: the negative slope of a leaky_relu.

    Example:
        >>> fb.nn.init.calculate_gain("tanh")
        1.6666666666666667
    """
    linear = (
        "linear",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "sigmoid",
    )
    if nonlinearity in linear:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"calculate_gain: negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"calculate_gain: unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The number of inputs per output, and of outputs per input."""
    if tensor.ndim < 2:
        raise ArgumentError(
            f"init: fan in and fan out can not be computed for a tensor with fewer than 2 dimensions, got shape {tuple(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"init: mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _empty(op: str, tensor: Tensor) -> bool:
    """Whether there is nothing to fill, which gives a warning."""
    if tensor.numel() == 0:
        warnings.warn(f"{op}: Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


# ---- fixed values ------------------------------------------------------------------------------------------------------


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with one value.

    Example:
        >>> fb.nn.init.constant_(fb.empty(2), 0.3)
        tensor([0.3000, 0.3000])
    """
    with fb.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills with ones.

    Example:
        >>> fb.nn.init.ones_(fb.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills with zeros.

    Example:
        >>> fb.nn.init.zeros_(fb.empty(2))
        tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with the identity.

    Example:
        >>> fb.nn.init.eye_(fb.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ValueError(f"eye_: only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}")
    with fb.no_grad():
        return tensor.copy_(fb.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills the weight of a convolution so that it passes its input channels through.

    Args:
        tensor: (out_channels, in_channels / groups, …), with 1 to 3 kernel dimensions.
        groups: of the convolution.

    Example:
        >>> fb.nn.init.dirac_(fb.empty(1, 1, 3))
        tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(
            f"dirac_: only tensors with 3, 4, or 5 dimensions are supported, got shape {tuple(tensor.shape)}"
        )
    if tensor.shape[0] % groups:
        raise ValueError(f"dirac_: dim 0 must be divisible by groups, got {tensor.shape[0]} and {groups}")
    per_group = tensor.shape[0] // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    with fb.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.shape[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


# ---- random values -----------------------------------------------------------------------------------------------------


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: fb.Generator | None = None) -> Tensor:
    """Fills with numbers drawn from U(a, b).

    Example:
        >>> fb.nn.init.uniform_(fb.empty(2, 3)).shape
        flambeau.Size([2, 3])
    """
    with fb.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: fb.Generator | None = None) -> Tensor:
    """Fills with numbers drawn from N(mean, std²).

    Example:
        >>> fb.nn.init.normal_(fb.empty(2, 3)).shape
        flambeau.Size([2, 3])
    """
    with fb.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: fb.Generator | None = None,
) -> Tensor:
    """Fills with numbers drawn from N(mean, std²), kept within [a, b].

    Args:
        tensor: what to fill.
        mean: of the normal distribution.
        std: of the normal distribution.
        a: the least value.
        b: the greatest value.
        generator: source of the random numbers.

    Example:
        >>> bool((fb.nn.init.trunc_normal_(fb.empty(100)).abs() <= 2).all())
        True
    """
    if not std > 0:
        raise ValueError(f"trunc_normal_: std must be positive, got {std}")
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: mean is more than 2 std from [a, b]; the distribution of values may be incorrect",
            stacklevel=2,
        )

    def cdf(x: float) -> float:
        return (1 + math.erf(x / math.sqrt(2))) / 2

    low, high = cdf((a - mean) / std), cdf((b - mean) / std)
    with fb.no_grad():
        # uniform between the limits' quantiles, then mapped by the inverse distribution function
        wide = tensor if tensor.dtype in (fb.float32, fb.float64) else tensor.float()
        wide.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
        wide.erfinv_().mul_(std * math.sqrt(2)).add_(mean).clamp_(min=a, max=b)
        return tensor if wide is tensor else tensor.copy_(wide)


def _scaled(op: str, tensor: Tensor, fan: Callable[[Tensor], float], gain: float, uniform: bool, generator) -> Tensor:
    """Fills with numbers of mean 0 and standard deviation gain / sqrt(fan)."""
    std = gain / math.sqrt(fan(tensor))
    if uniform:
        bound = math.sqrt(3.0) * std
        return uniform_(tensor, -bound, bound, generator)
    return normal_(tensor, 0.0, std, generator)


def _mean_fan(tensor: Tensor) -> float:
    return sum(_calculate_fan_in_and_fan_out(tensor)) / 2


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: fb.Generator | None = None) -> Tensor:
    """Fills with U(-a, a), a = gain · sqrt(6 / (fan_in + fan_out)).

    Example:
        >>> fb.nn.init.xavier_uniform_(fb.empty(2, 3)).shape
        flambeau.Size([2, 3])
    """
    return _scaled("xavier_uniform_", tensor, _mean_fan, gain, True, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: fb.Generator | None = None) -> Tensor:
    """Fills with N(0, gain² · 2 / (fan_in + fan_out)).

    Example:
        >>> fb.nn.init.xavier_normal_(fb.empty(2, 3)).shape
        flambeau.Size([2, 3])
    """
    return _scaled("xavier_normal_", tensor, _mean_fan, gain, False, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: fb.Generator | None = None,
) -> Tensor:
    """Fills with U(-bound, bound), bound = gain · sqrt(3 / fan).

    Args:
        tensor: what to fill.
        a: the negative slope of a leaky_relu.
        mode: "fan_in" keeps the spread on the way forward, "fan_out" backward.
        nonlinearity: the function that follows.
        generator: source of the random numbers.

    Example:
        >>> fb.nn.init.kaiming_uniform_(fb.empty(2, 3)).shape
        flambeau.Size([2, 3])
    """
    if _empty("kaiming_uniform_", tensor):
        return tensor
    gain = calculate_gain(nonlinearity, a)
    return _scaled("kaiming_uniform_", tensor, lambda t: _calculate_correct_fan(t, mode), gain, True, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: fb.Generator | None = None,
) -> Tensor:
    """Fills with N(0, gain² / fan).

    Args:
        tensor: what to fill.
        a: the negative slope of a leaky_relu.
        mode: "fan_in" keeps the spread on the way forward, "fan_out" backward.
        nonlinearity: the function that follows.
        generator: source of the random numbers.

    Example:
        >>> fb.nn.init.kaiming_normal_(fb.empty(2, 3)).shape
        flambeau.Size([2, 3])
    """
    if _empty("kaiming_normal_", tensor):
        return tensor
    gain = calculate_gain(nonlinearity, a)
    return _scaled("kaiming_normal_", tensor, lambda t: _calculate_correct_fan(t, mode), gain, False, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: fb.Generator | None = None) -> Tensor:
    """Fills with an orthogonal matrix, of the trailing dimensions taken together.

    Args:
        tensor: at least 2 dimensions.
        gain: a factor.
        generator: source of the random numbers.

    Example:
        >>> w = fb.nn.init.orthogonal_(fb.empty(3, 5))
        >>> fb.allclose(w @ w.t(), fb.eye(3), atol=1e-5)
        True
    """
    if tensor.ndim < 2:
        raise ValueError(
            f"orthogonal_: only tensors with 2 or more dimensions are supported, got shape {tuple(tensor.shape)}"
        )
    if tensor.numel() == 0:
        return tensor
    with fb.no_grad():
        rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
        kind = tensor.dtype if tensor.dtype in (fb.float32, fb.float64) else fb.float32
        random = fb.empty((rows, columns), dtype=kind).normal_(0, 1, generator=generator)
        q, r = fb.linalg.qr(random.t() if rows < columns else random)
        q = q * r.diagonal().sign()  # makes the distribution uniform
        q = q.t() if rows < columns else q
        return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: fb.Generator | None = None) -> Tensor:
    """Fills a matrix with N(0, std²) and sets a fraction of every column to zero.

    Args:
        tensor: a matrix.
        sparsity: the fraction of zeros.
        std: of the other values.
        generator: source of the random numbers.

    Example:
        >>> (fb.nn.init.sparse_(fb.empty(10, 2), 0.5) == 0).sum(0)
        tensor([5, 5])
    """
    if tensor.ndim != 2:
        raise ValueError(f"sparse_: only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with fb.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[fb.randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


def _deprecated(name: str) -> Callable[..., Tensor]:
    function = globals()[name + "_"]

    def old(*args, **kwargs) -> Tensor:
        warnings.warn(f"nn.init.{name} is deprecated in favor of nn.init.{name}_", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    old.__name__ = name
    old.__doc__ = f"The older name of {name}_()."
    return old


uniform, normal, constant, eye, dirac, sparse, orthogonal = (
    _deprecated(n) for n in ("uniform", "normal", "constant", "eye", "dirac", "sparse", "orthogonal")
)
xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = (
    _deprecated(n) for n in ("xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal")
)
