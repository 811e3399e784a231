"""Weight normalization by a hook: weight = g · v / ‖v‖."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.nn.parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]
__dir__ = __all__.copy


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """The 2-norm over all dimensions but one, which are kept with size 1; over all for None or -1."""
    if dim is None or dim == -1:
        return fb.linalg.vector_norm(v)
    others = [d for d in range(v.ndim) if d != dim % v.ndim]
    return fb.linalg.vector_norm(v, 2, others, keepdim=True) if others else v.abs()


class WeightNorm:
    """The hook that computes the weight before each forward.

    Args:
        name: of the weight.
        dim: the dimension whose slices are normalized one by one; None or -1 for all together.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Tensor:
        """g · v / ‖v‖."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Replaces a parameter by its length and direction."""
        if _find(module, name) is not None:
            raise RuntimeError(f"weight_norm: '{name}' of {type(module).__name__} has a weight norm already")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                f"weight_norm: {type(module).__name__} must not have uninitialized parameters; run a forward pass of it first"
            )
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight.detach(), hook.dim)))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Any) -> None:
        """Restores one parameter in place of the two."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))


def _find(module: Any, name: str) -> int | None:
    """The number of the weight norm hook of a weight."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            return number
    return None


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Replaces a parameter by name_g, its length, and name_v, its direction.

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        dim: the dimension whose slices are normalized one by one; None for all together.

    Example:
        >>> m = fb.nn.utils.weight_norm(fb.nn.Linear(3, 2))
        >>> sorted(name for name, _ in m.named_parameters())
        ['bias', 'weight_g', 'weight_v']
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Removes weight_norm().

    Example:
        >>> m = fb.nn.utils.remove_weight_norm(fb.nn.utils.weight_norm(fb.nn.Linear(3, 2)))
        >>> sorted(name for name, _ in m.named_parameters())
        ['bias', 'weight']
    """
    number = _find(module, name)
    if number is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(number).remove(module)
    return module
