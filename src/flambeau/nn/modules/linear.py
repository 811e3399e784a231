"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _check_sizes
from flambeau.nn.parameter import Parameter, UninitializedParameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]
__dir__ = __all__.copy


class Identity(Module):
    """Returns its input; takes any arguments when made.

    Example:
        >>> fb.nn.Identity(54, unused=True)(fb.ones(1))
        tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """x · weightᵀ + bias.

    weight and bias are drawn from U(-1/√in_features, 1/√in_features).

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether to add a learned bias.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> fb.nn.Linear(2, 3)(fb.zeros(5, 2)).shape
        flambeau.Size([5, 3])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(self, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(fb.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(fb.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitializes the parameters."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        # Looked up directly, as this runs most often; parametrizations take them away, and fully_shard puts others before them.
        own = self.__dict__
        kept = own["_parameters"]
        weight = kept.get("weight")
        if weight is None or "bias" not in kept or "weight" in own or "bias" in own:
            return F.linear(input, self.weight, self.bias)
        return F.linear(input, weight, kept["bias"])

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear whose class name is the one MultiheadAttention's projection prints."""


class Bilinear(Module):
    """x1ᵀ · weight[k] · x2 + bias[k] for every output feature k.

    Args:
        in1_features: size of the last dimension of the first input.
        in2_features: size of the last dimension of the second input.
        out_features: size of the last dimension of the output.
        bias: whether to add a learned bias.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> fb.nn.Bilinear(2, 3, 4)(fb.zeros(5, 2), fb.zeros(5, 3)).shape
        flambeau.Size([5, 4])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(fb.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(fb.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitializes the parameters."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that infers in_features from its first input.

    Args:
        out_features: size of the last dimension of the output.
        bias: whether to add a learned bias.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> m = fb.nn.LazyLinear(3)
        >>> m(fb.zeros(5, 2)).shape
        flambeau.Size([5, 3])
        >>> m
        Linear(in_features=2, out_features=3, bias=True)
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Device = None, dtype: fb.dtype | None = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Reinitializes the parameters once their shape is known."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Gives the parameters their shape."""
        if self.has_uninitialized_params():
            with fb.no_grad():
                self.in_features = input.shape[-1]
                shapes = {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}
                for name, parameter in self._parameters.items():
                    if isinstance(parameter, UninitializedParameter):
                        parameter.materialize(shapes[name])
                self.reset_parameters()
