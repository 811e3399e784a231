"""Forward-mode derivatives with dual tensors: a value and a tangent that travels with it.

Ops on a dual tensor are recorded as always. `unpack_dual` pushes the tangents through what was recorded, by two reverse
passes as `fb.func.jvp` does; so a program needs no forward formula, and costs what it keeps for backward. An
autograd.Function with a `jvp` is asked for the tangents of its outputs.

Example:
    >>> with fb.autograd.forward_ad.dual_level():
    ...     x = fb.autograd.forward_ad.make_dual(fb.tensor(3.0), fb.tensor(1.0))
    ...     fb.autograd.forward_ad.unpack_dual(x * x).tangent
    tensor(6.)
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, StateError

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
__dir__ = __all__.copy


class Dual(NamedTuple):
    """A dual tensor of the active level."""

    tensor: Tensor
    tangent: Tensor
    source: Tensor  # the root of its history: the tensor itself may be changed in place
    version: int  # the tensor's version before any change


class _State(threading.local):
    duals: list[Dual] | None = None  # of the active level, or None
    pushing = False  # tangents are being pushed: do not look behind the jvp of a Function


_state = _State()


def __getattr__(name: str) -> int:
    if name == "_current_level":  # read by tests and libraries: -1 outside of any level
        return -1 if _state.duals is None else 0
    raise AttributeError(f"module 'flambeau.autograd.forward_ad' has no attribute '{name}'")


class UnpackedDualTensor(NamedTuple):
    """The value and the tangent of a dual tensor; the tangent is None when it depends on no dual tensor.

    Example:
        >>> fb.autograd.forward_ad.UnpackedDualTensor(fb.ones(1), None).tangent is None
        True
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens the level that dual tensors live in; 0, its number. There can be one at a time.

    Example:
        >>> level = fb.autograd.forward_ad.enter_dual_level()
        >>> fb.autograd.forward_ad.exit_dual_level()
    """
    if _state.duals is not None:
        raise StateError(
            "Nested forward mode AD is not supported at the moment: enter_dual_level found a level open; exit_dual_level() ends it"
        )
    _state.duals = []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level; its dual tensors lose their tangents.

    Args:
        level: the number that enter_dual_level() gave, or None.

    Example:
        >>> level = fb.autograd.forward_ad.enter_dual_level()
        >>> fb.autograd.forward_ad.exit_dual_level(level=level)
    """
    if _state.duals is None or level not in (None, 0):
        raise StateError("exit_dual_level: this level is not open; enter_dual_level() opens one")
    _state.duals = None


class dual_level:
    """A scope in which tensors can have tangents.

    Example:
        >>> with fb.autograd.forward_ad.dual_level() as level:
        ...     level
        0
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def _check_level(op: str, level: int | None) -> list[Dual]:
    if _state.duals is None or level not in (None, 0):
        raise StateError(f"{op}: no dual level is open; use it inside `with dual_level():`")
    return _state.duals


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with a tangent.

    Args:
        tensor: the value, of a floating point or complex dtype.
        tangent: the direction, of the same shape and dtype.
        level: the number of the open level, or None.

    Example:
        >>> with fb.autograd.forward_ad.dual_level():
        ...     x = fb.autograd.forward_ad.make_dual(fb.zeros(2), fb.ones(2))
        ...     fb.autograd.forward_ad.unpack_dual(x.exp()).tangent
        tensor([1., 1.])
    """
    duals = _check_level("make_dual", level)
    for which, value in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(value, Tensor):
            raise TypeError(f"make_dual: {which} must be a tensor, got {type(value).__name__}")
        if not (value.dtype.is_floating_point or value.dtype.is_complex):
            name = "primal" if which == "tensor" else which
            raise ArgumentError(f"Expected {name} to be floating point or complex, make_dual got {which} of {value.dtype}")
    if tensor.shape != tangent.shape:
        raise ArgumentError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor: make_dual got a tangent of "
            f"shape {tuple(tangent.shape)} for a tensor of shape {tuple(tensor.shape)}"
        )
    if tensor.dtype != tangent.dtype:
        raise ArgumentError(f"make_dual: the tangent must have the dtype of the tensor, {tensor.dtype}, got {tangent.dtype}")
    if not fb.is_grad_enabled():
        raise StateError("make_dual: tangents need recording, which is off; leave no_grad()")
    if unpack_dual(tangent).tangent is not None:
        raise StateError(
            "make_dual: Trying to set a forward gradient that has a forward gradient at the same level is not supported; give "
            "unpack_dual(tangent).primal"
        )
    source = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
    dual = alias(source)
    duals.append(Dual(dual, tangent, source, dual._version))
    return dual


_Alias: Any = None


def alias(source: Tensor) -> Tensor:
    """A non-leaf, non-view tensor on the same memory, so that it may be changed in place."""
    global _Alias
    if _Alias is None:

        class Alias(fb.autograd.Function):
            """The identity."""

            @staticmethod
            def forward(ctx, x):
                return x.detach()

            @staticmethod
            def backward(ctx, g):
                return g

        _Alias = Alias
    return _Alias.apply(source)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor.

    Args:
        tensor: what was computed from dual tensors.
        level: the number of the open level, or None.

    Returns:
        (primal, tangent); the tangent is None when the tensor depends on no dual tensor, and outside of a level.

    Example:
        >>> with fb.autograd.forward_ad.dual_level():
        ...     x = fb.autograd.forward_ad.make_dual(fb.tensor(1.0), fb.tensor(2.0))
        ...     fb.autograd.forward_ad.unpack_dual(3 * x)
        UnpackedDualTensor(primal=tensor(3.), tangent=tensor(6.))
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual: expected a tensor, got {type(tensor).__name__}")
    if level is None and _state.duals is None:
        return UnpackedDualTensor(tensor, None)
    duals = _check_level("unpack_dual", level)
    for dual in duals:
        if dual.tensor is tensor and dual.version == tensor._version:
            return UnpackedDualTensor(tensor.detach(), dual.tangent)
    if not duals or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    from flambeau.func._transforms import push

    outside = [dual.tangent for dual in duals if dual.tangent.requires_grad]
    with fb.enable_grad():
        inputs, directions = [dual.source for dual in duals], [dual.tangent for dual in duals]
        before, _state.pushing = _state.pushing, True
        try:
            found: Any = push(inputs, [tensor], directions, create=True)[0]
        finally:
            _state.pushing = before
    if found is None:
        return UnpackedDualTensor(tensor, None)
    # Primals that required gradients before keep their history; the others only seemed to.
    history = any(not dual.is_leaf for dual in inputs) or outside
    return UnpackedDualTensor(tensor if history else tensor.detach(), found if history else found.detach())
