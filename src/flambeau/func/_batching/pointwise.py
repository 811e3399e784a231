"""Rules for elementwise ops: examples are padded to one rank, then the op broadcasts by itself."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.func._batching import RULES, Frame, call, check_writable, decomposition, named_rule, rule

# These do not promote their arguments, or require equal dtypes; those of others are promoted to one: see _promote.
APART = "complex heaviside ldexp logical_and logical_or logical_xor _dirichlet_grad _standard_gamma_grad".split()


def _promote(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Converts before the op: in type promotion a 0-d example has low priority, its physical tensor of rank 1 full
    priority.

    The dtype is determined by placeholders of the examples' rank.
    """
    if len({t.dtype for t in tensors.values()}) < 2 or all(t.ndim > 0 for t in tensors.values()):
        return tensors
    common: Any = None
    for t in tensors.values():
        stand_in = fb.empty((1,) if t.ndim else (), dtype=t.dtype)
        common = stand_in if common is None else fb.empty(
            (1,) if t.ndim or common.ndim else (), dtype=fb.result_type(common, stand_in)
        )  # fmt: skip
    all_scalars = all(t.ndim == 0 for t in tensors.values())
    return {name: t.to(common.dtype) if all_scalars or t.ndim == 0 else t for name, t in tensors.items()}


def _run(frame: Frame, name: str, arguments: dict[str, Any], promote: bool) -> Any:
    tensors = {key: value for key, value in arguments.items() if isinstance(value, Tensor)}
    if promote:
        tensors = _promote(tensors)
    rank = max(t.ndim for t in tensors.values())
    return call(name, {**arguments, **{key: frame.aligned(t, rank) for key, t in tensors.items()}})


def _register() -> None:
    """A rule for each op with the elementwise flag, and for its in-place form."""
    elementwise, inplace = fb._C.op_flags["ELEMENTWISE"], fb._C.op_flags["INPLACE"]
    for name, (overloads, *_) in fb._C.registry().items():
        flags = 0
        for _, of_overload, _ in overloads:
            flags |= of_overload
        if flags & elementwise:
            named_rule(name)(lambda frame, name, arguments: _run(frame, name, arguments, name not in APART))
            if flags & inplace:
                _register_inplace(name + "_")


def _register_inplace(name: str) -> None:
    def run(frame, name, arguments):
        target = next(iter(arguments.values()))
        check_writable(frame, target)
        rank = max(t.ndim for t in arguments.values() if isinstance(t, Tensor))
        call(name, {key: frame.aligned(value, rank) for key, value in arguments.items()})
        return target

    RULES[name] = run


_register()
for _name in ("copy_", "fill_", "zero_"):
    _register_inplace(_name)


@rule("where")
def where(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Only for the form with three arguments: where(condition) has as many results as there are true elements."""
    condition = arguments["condition"]
    if "other" not in arguments:
        raise fb.errors.StateError(
            "where: the number of true elements differs per example, so vmap cannot batch where(condition); give both values"
        )
    values = _promote({k: v for k, v in arguments.items() if k != "condition" and isinstance(v, Tensor)})
    rank = max(t.ndim for t in (condition, *values.values()))
    new = {**arguments, **values}
    return fb.where(*(frame.aligned(new[key], rank) for key in ("condition", "input", "other")))


@decomposition("masked_fill")
def masked_fill(input, mask, value):
    """The value where the mask is True; it may be batched."""
    return fb.where(mask, value.to(input.dtype) if isinstance(value, Tensor) else fb.scalar_tensor(value, dtype=input.dtype), input)


@decomposition("masked_scatter")
def masked_scatter(input, mask, source):
    """The elements of source, in order, where the mask is True."""
    shape = fb.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    wide = mask.expand(shape)
    flat = wide.reshape((wide.numel(),))
    number = (flat.to(fb.int64).cumsum(0) - 1).clamp(0, max(source.numel() - 1, 0))
    return fb.where(wide, source.reshape((source.numel(),)).take(number).reshape(shape), input)


def _result_type(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """A dtype is the same for all examples; it depends on their rank and dtype alone."""
    plain = [fb.empty((1,) * min(x.ndim, 1), dtype=x.dtype) if isinstance(x, Tensor) else x for x in arguments.values()]
    return fb.result_type(*plain)


RULES["_result_type"] = _result_type


@rule("fill")
def fill(frame: Frame, arguments: dict[str, Any]) -> Any:
    """The value may be batched."""
    x, value = arguments["input"], arguments["value"]
    return frame.physical(x).clone().copy_(frame.aligned(value, x.ndim)) if isinstance(value, Tensor) else fb.fill(x.physical, value)


@rule("bucketize")
def bucketize(frame: Frame, arguments: dict[str, Any]) -> Any:
    """With unbatched boundaries; searchsorted handles batched ones."""
    x, boundaries = arguments["input"], arguments["boundaries"]
    options = {"out_int32": arguments["out_int32"], "right": arguments["right"]}
    if frame.is_batched(boundaries):
        return frame.peel(fb.searchsorted(boundaries, x, **options))
    return fb.bucketize(frame.peel(x), boundaries, **options)


@rule("isin")
def isin(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Membership in an unbatched set, or elementwise comparison with a batched one."""
    elements, tests, invert = arguments["elements"], arguments["test_elements"], arguments["invert"]
    if not frame.is_batched(tests):
        return fb.isin(elements.physical, tests, invert=invert)
    rank = elements.ndim if isinstance(elements, Tensor) else 0
    left = frame.peel(elements)
    right = tests.physical.flatten(1)
    if rank or frame.is_batched(elements):
        left = left.unsqueeze(-1)
    found = (left == right.view((frame.size, *(1,) * rank, -1))).any(-1)
    return ~found if invert else found
