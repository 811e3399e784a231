"""Rules for ops that draw random numbers, under vmap's three modes: 'error', 'different' and 'same'."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.errors import StateError
from flambeau.func._batching import RANDOM, RULES, Frame, Level, call, check_writable


class _Seen(threading.local):
    def __init__(self) -> None:
        self.state: Any = None  # of the default generator, after the last draw that a rule made


_seen = _Seen()


@contextlib.contextmanager
def watch_random(level: Level):
    """Draws without a tensor argument, as in rand(3), reach no rule: notice them by the generator's state."""
    outer = _seen.state
    _seen.state = fb.get_rng_state()
    try:
        yield
        _check_unseen(level)
        if outer is not None:
            outer = fb.get_rng_state()
    finally:
        _seen.state = outer


def _check_unseen(level: Level) -> None:
    if level.randomness == "same" or fb.equal(fb.get_rng_state(), _seen.state):
        return
    if level.randomness == "error":
        raise StateError(_refusal("the function"))
    raise StateError(
        "vmap: with randomness='different' draw from a batched tensor, as in rand_like(x), randn_like(x) or x.new_empty(3)"
        ".normal_(); functions that take only sizes, such as rand(3), would give every example the same numbers"
    )


def _refusal(name: str) -> str:
    return (
        f"vmap: {name} draws random numbers, and randomness='error' refuses that; pass randomness='different' to draw for every "
        "example or randomness='same' to draw once for all"
    )


def _random(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    mode = frame.level.randomness
    if mode == "error":
        raise StateError(_refusal(name))
    _check_unseen(frame.level)
    first, target = next(iter(arguments.items()))
    if name.endswith("_"):
        check_writable(frame, target)
    batched = {key for key, value in arguments.items() if frame.is_batched(value)}
    if mode == "different":
        rank = max(v.ndim for v in arguments.values() if isinstance(v, Tensor))
        new = {k: _full(frame, v, rank) if isinstance(v, Tensor) else v for k, v in arguments.items()}
        result = call(name, _rid(name, new))
        answer = target if name.endswith("_") else frame.wrap(result)
    else:
        parameters = batched - {first} if name.endswith("_") or name.endswith("_like") else batched
        if parameters:
            raise StateError(
                f"{name}: with randomness='same' one draw serves all examples, so the parameters must be the same for all"
            )
        example = fb.empty(tuple(target.shape), dtype=target.dtype) if first in batched else target
        result = call(name, _rid(name, {**arguments, first: example}))
        answer = target if name.endswith("_") else result
        if name.endswith("_"):
            target.physical.copy_(result)
    _seen.state = fb.get_rng_state()
    return answer


def _full(frame: Frame, x: Tensor, rank: int) -> Tensor:
    return frame.aligned(x if frame.is_batched(x) else frame.wrap(frame.physical(x)), rank)


def _rid(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Without the options of *_like that say what the tensor says already."""
    drop = {"layout", "device", "requires_grad", "memory_format", "pin_memory"}
    return {k: v for k, v in arguments.items() if k not in drop}


_NAMES = """
bernoulli bernoulli_ binomial cauchy_ exponential_ geometric_ log_normal_ normal normal_ poisson rand_like randint_like
randn_like random_ uniform_ _sample_dirichlet _standard_gamma
""".split()
for _name in _NAMES:
    RULES[_name] = _random
    RANDOM.add(_name)


def _multinomial(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Rows of weights: two dimensions at most, so the rows of all examples are put into one matrix."""
    mode = frame.level.randomness
    if mode == "error":
        raise StateError(_refusal(name))
    weights = arguments["input"]
    if mode == "same" and frame.is_batched(weights):
        raise StateError("multinomial: with randomness='same' the weights must be the same for all examples")
    _check_unseen(frame.level)
    if mode == "same":
        answer = call(name, arguments)
    else:
        physical = frame.physical(weights)
        flat = call(name, {**arguments, "input": physical.reshape((-1, physical.shape[-1]))})
        answer = frame.wrap(flat.reshape((*physical.shape[:-1], flat.shape[-1])))
    _seen.state = fb.get_rng_state()
    return answer


RULES["multinomial"] = _multinomial
RANDOM.add("multinomial")


