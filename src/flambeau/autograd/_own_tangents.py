"""Runs the jvp of an autograd.Function inside forward_ad.dual_level().

Tangents of recorded ops are found by two reverse passes. A Function with a jvp defines the tangents of its outputs
instead: these become dual tensors themselves, and the passes stop there (`_state.pushing`).
"""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.autograd import forward_ad
from flambeau.errors import StateError


def run_jvp(
    cls: type[Any], inputs: tuple[Tensor | None, ...], tangents: list[Tensor | None], ctx: Any, outputs: tuple[Any, ...],
    results: tuple[Any, ...], dirty: set[int],
) -> None:  # fmt: skip
    """Makes the results of a Function dual, as some of its inputs are.

    Args:
        cls: the Function.
        inputs: its arguments; None for non-tensors.
        tangents: those of the arguments.
        ctx: the call's context.
        outputs: what forward returned.
        results: the same with their history.
        dirty: ids of the inputs that forward changed in place.
    """
    if ctx._materialize:
        tangents = [
            fb.zeros_like(x) if t is None and x is not None and (x.is_floating_point() or x.is_complex()) else t
            for t, x in zip(tangents, inputs, strict=True)
        ]
    versions = [None if t is None else t._version for t in tangents]
    ctx._in_jvp = True
    try:
        found = cls.jvp(ctx, *tangents)
    finally:
        ctx._in_jvp = False
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(results):
        raise StateError(
            f"{cls.__name__}.jvp returned an incorrect number of forward gradients (expected {len(results)} got {len(found)}); it returns "
            "one tangent, or None, per output of forward"
        )
    ctx._own_tangents = True
    for i, (tangent, output, result) in enumerate(zip(found, outputs, results, strict=True)):
        if tangent is None or not isinstance(result, Tensor):
            continue
        if not result.requires_grad:
            raise StateError(
                f"{cls.__name__}.jvp returned a tangent for output {i}, which has no gradient (an integer, or marked so). "
                "You should return None at that position instead"
            )
        if not isinstance(tangent, Tensor):
            raise TypeError(f"{cls.__name__}.jvp returned {type(tangent).__name__} for output {i}, expected a tensor or None")
        if tangent.shape != result.shape:
            raise StateError(
                f"{cls.__name__}.jvp returned a tangent of shape {tuple(tangent.shape)} for output {i} of shape {tuple(result.shape)}"
            )
        changed = [t is not None and t._version != before for t, before in zip(tangents, versions, strict=True)]
        _check_memory(cls, tangent, output, inputs, tangents, changed, dirty)
        forward_ad._state.duals.append(forward_ad.Dual(result, tangent, result, result._version))  # type: ignore[union-attr]


def _check_memory(
    cls: type[Any], tangent: Tensor, output: Tensor, inputs: tuple[Tensor | None, ...], tangents: list[Tensor | None],
    changed: list[bool], dirty: set[int],
) -> None:  # fmt: skip
    """Tangents must share memory in the same way as values: later in-place changes then affect both."""
    for x, t, in_place in zip(inputs, tangents, changed, strict=True):
        if x is None or t is None:
            continue
        if id(output) in dirty:
            if output is x and not (tangent is t and in_place):
                raise StateError(
                    f"{cls.__name__}: An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                    "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace and return it"
                )
            continue
        base = x if x._base is None else x._base
        if output is not x and output._base is not base:
            continue
        message = f"{cls.__name__}: A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view"
        if tangent._base is None:
            raise StateError(f"{message}; return such a view of the input's tangent")
        if tangent._base is not (t if t._base is None else t._base):
            same = "of the given tangent" if x._base is None else "of the same base as the given tangent"
            raise StateError(f"{message} {same}; return such a view of the input's tangent")
