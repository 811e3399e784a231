"""Spectral normalization by a hook: weight / σ(weight), σ the largest singular value."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.parameter import Parameter, is_lazy

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]
__dir__ = __all__.copy


def default_dim(module: Any) -> int:
    """The dimension of the outputs: 1 for transposed convolutions, else 0."""
    return 1 if type(module).__name__.startswith(("ConvTranspose", "LazyConvTranspose")) else 0


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with one dimension as rows, all others as columns."""
    if dim:
        weight = weight.permute([dim, *(d for d in range(weight.ndim) if d != dim)])
    return weight.reshape(weight.shape[0], -1)


def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, n: int, eps: float) -> None:
    """Updates u and v, in place, towards the singular vectors of the largest singular value."""
    with fb.no_grad():
        for _ in range(n):
            v.copy_(F.normalize(matrix.mH.mv(u), dim=0, eps=eps))
            u.copy_(F.normalize(matrix.mv(v), dim=0, eps=eps))


class SpectralNorm:
    """The hook that computes the weight before each forward.

    Args:
        name: of the weight.
        n_power_iterations: for each forward in training.
        dim: the dimension of the outputs.
        eps: lower bound of divisors, which avoids division by zero.
    """

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: expected n_power_iterations to be positive, got {n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Tensor:
        """weight_orig / σ."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            power_iteration(matrix.detach(), u, v, self.n_power_iterations, self.eps)
        # copies: the vectors change again before the next backward of an earlier graph
        return weight / fb.dot(u.clone(), matrix.mv(v.clone()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(module: Any, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replaces a parameter by the original and the two vectors."""
        if _find(module, name) is not None:
            raise RuntimeError(f"spectral_norm: '{name}' of {type(module).__name__} has a spectral norm already")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        if name not in module._parameters:
            raise KeyError(f"spectral_norm: {type(module).__name__} has no parameter '{name}'")
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"spectral_norm: '{name}' of {type(module).__name__} is None")
        if is_lazy(weight):
            raise ValueError(
                f"spectral_norm: {type(module).__name__} must not have uninitialized parameters; run a forward pass of it first"
            )
        with fb.no_grad():
            rows, columns = as_matrix(weight, dim).shape
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        del module._parameters[name]
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Any) -> None:
        """Restores the normalized weight as the parameter."""
        with fb.no_grad():
            weight = self.compute_weight(module, False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))


def _find(module: Any, name: str) -> int | None:
    """The number of the spectral norm hook of a weight."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            return number
    return None


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divides a parameter by its largest singular value, found by power iteration.

    Args:
        module: the module, changed in place.
        name: name of the parameter.
        n_power_iterations: for each forward in training.
        eps: lower bound of divisors, which avoids division by zero.
        dim: the dimension of the outputs, 0 or, for transposed convolutions, 1.

    Example:
        >>> m = fb.nn.utils.spectral_norm(fb.nn.Linear(3, 2))
        >>> sorted(m.state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Removes spectral_norm(): the normalized weight becomes the parameter.

    Example:
        >>> m = fb.nn.utils.remove_spectral_norm(fb.nn.utils.spectral_norm(fb.nn.Linear(3, 2)))
        >>> sorted(m.state_dict())
        ['bias', 'weight']
    """
    number = _find(module, name)
    if number is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(number).remove(module)
    return module
