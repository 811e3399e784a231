"""Rules for ops that draw random numbers, under vmap's three modes: 'error', 'different' and 'same'.

Inside vmap the core hands every such op to `dispatch` or, if none of its arguments is batched, to `draw`: rand(3)
follows the innermost level too. A rule draws with that level suspended, so the outer levels apply their own modes to
the ops it calls.
"""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.errors import ArgumentError, StateError
from flambeau.func._batching import RANDOM, RULES, Frame, call, levels, set_aside


def draw(name: str, arguments: dict[str, Any]) -> Any:
    """Handles an op that draws inside vmap without a batched argument."""
    if arguments.get("out") is not None:
        raise ArgumentError(f"{name}: out= is not available inside vmap; use the result")
    return RULES[name](Frame(name, levels()[-1]), name, arguments)


def _check_allowed(frame: Frame, name: str) -> None:
    if frame.level.randomness == "error":
        raise StateError(
            f"vmap: called random operation while in randomness error mode: {name} draws random numbers, and randomness='error' "
            "refuses that; pass randomness='different' to draw for every example or randomness='same' to draw once for all"
        )


def _random(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Ops with a tensor argument that gives the shape, or is written to."""
    _check_allowed(frame, name)
    first, target = next(iter(arguments.items()))
    inplace = name.endswith("_")
    batched = {key for key, value in arguments.items() if frame.is_batched(value)}
    if frame.level.randomness == "different":
        if inplace and first not in batched:
            raise StateError(
                f"vmap: Cannot ask for different inplace randomness on an unbatched tensor: {name} has one place for the numbers "
                "of all examples; use the form that returns a new tensor, or make the tensor from a batched one (empty_like)"
            )
        rank = max(v.ndim for v in arguments.values() if isinstance(v, Tensor))
        new = {k: _full(frame, v, rank) if isinstance(v, Tensor) else v for k, v in arguments.items()}
        with set_aside(frame.level):
            result = call(name, _rid(new))
        return target if inplace else frame.wrap(result)
    parameters = batched - {first} if inplace or name.endswith("_like") else batched
    if parameters:
        raise StateError(
            f"{name}: with randomness='same' one draw serves all examples, so the parameters must be the same for all"
        )
    with set_aside(frame.level):
        if first not in batched:
            return call(name, _rid(arguments))
        example = target.physical.new_empty(tuple(target.shape))
        result = call(name, _rid({**arguments, first: example}))
        if not inplace:
            return result
        target.physical.copy_(result)
    return target


def _full(frame: Frame, x: Tensor, rank: int) -> Tensor:
    return frame.aligned(x if frame.is_batched(x) else frame.wrap(frame.physical(x)), rank)


def _rid(arguments: dict[str, Any]) -> dict[str, Any]:
    """Removes the options of *_like that the tensor determines already."""
    drop = {"layout", "device", "requires_grad", "memory_format", "pin_memory"}
    return {k: v for k, v in arguments.items() if k not in drop}


_NAMES = """
bernoulli bernoulli_ binomial cauchy_ exponential_ geometric_ log_normal_ normal_ poisson rand_like randint_like
randn_like random_ uniform_ _sample_dirichlet _standard_gamma
""".split()


def _sized(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Ops with a size and without tensor arguments."""
    _check_allowed(frame, name)
    different = frame.level.randomness == "different"
    with set_aside(frame.level):
        if not different:
            return call(name, arguments)
        return frame.wrap(call(name, {**arguments, "size": (frame.size, *arguments["size"])}))


def _normal(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    return (_sized if "size" in arguments else _random)(frame, name, arguments)


def _randperm(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """A permutation for every example: the order of as many random numbers."""
    _check_allowed(frame, name)
    with set_aside(frame.level):
        if frame.level.randomness == "same":
            return call(name, arguments)
        keys = fb.rand((frame.size, arguments["n"]), generator=arguments.get("generator"), dtype=fb.float64)
        return frame.wrap(keys.argsort(-1).to(arguments.get("dtype") or fb.int64))


def _multinomial(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Rows of weights: two dimensions at most, so the rows of all examples are concatenated in one matrix."""
    _check_allowed(frame, name)
    weights = arguments["input"]
    if frame.level.randomness == "same":
        if frame.is_batched(weights):
            raise StateError("multinomial: with randomness='same' the weights must be the same for all examples")
        with set_aside(frame.level):
            return call(name, arguments)
    physical = frame.physical(weights)
    with set_aside(frame.level):
        flat = call(name, {**arguments, "input": physical.reshape((-1, physical.shape[-1]))})
    return frame.wrap(flat.reshape((*physical.shape[:-1], flat.shape[-1])))


for _names, _rule in (
    (_NAMES, _random), (["rand", "randn", "randint"], _sized), (["normal"], _normal), (["randperm"], _randperm),
    (["multinomial"], _multinomial),
):  # fmt: skip
    for _name in _names:
        RULES[_name] = _rule
        RANDOM.add(_name)
