"""Tables of options: a row has an option's check, names in the functional form, and default in old checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, NamedTuple

from flambeau import Tensor, errors

Number = float | Tensor
ALWAYS = object()  # every checkpoint has the option


class Option(NamedTuple):
    """One option of an optimizer; its default is the constructor's.

    Args:
        name: in the constructor and in parameter groups.
        check: `check(optimizer, option, value)` raises for a value that has no meaning.
        passed: the names under which the functional form takes it, two for a pair, none if it does not; its own by
            default.
        before: what a checkpoint without it means.
    """

    name: str
    check: Callable[[str, str, Any], None] | None = None
    passed: tuple[str, str] | tuple[()] | None = None
    before: Any = ALWAYS


def checked(optimizer: str, options: Iterable[Option], given: dict[str, Any]) -> dict[str, Any]:
    """The defaults of parameter groups, from what the constructor was given (its locals()).

    Example:
        >>> from flambeau.optim._options import LR, checked
        >>> checked("SGD", [LR], {"lr": 0.1, "params": []})
        {'lr': 0.1}
    """
    for option in options:
        if option.check is not None:
            option.check(optimizer, option.name, given[option.name])
    return {option.name: given[option.name] for option in options}


def check_not_negative(optimizer: str, option: str, value: Number) -> None:
    """Rejects negative values, and NaN."""
    if not isinstance(value, Real | Tensor):
        raise TypeError(f"{optimizer}: {option} must be a number, got {value!r}")
    if not value >= 0.0:
        called = {"lr": "learning rate", "eps": "epsilon value"}.get(option, f"{option} value")
        raise errors.ArgumentError(f"{optimizer}: Invalid {called}: {value}; {option} must be at least 0")


def check_lr(optimizer: str, option: str, value: Number) -> None:
    """A learning rate is a number or a tensor with one element, and not negative."""
    if not isinstance(value, Real | Tensor):
        raise TypeError(f"{optimizer}: {option} must be a number or a tensor, got {type(value).__name__}")
    if isinstance(value, Tensor) and value.numel() != 1:
        raise errors.ArgumentError(f"{optimizer}: Tensor {option} must be 1-element, got {value.numel()} elements")
    check_not_negative(optimizer, option, value)


def check_betas(optimizer: str, option: str, value: Any) -> None:
    """Decay rates are in [0, 1)."""
    if (
        not isinstance(value, list | tuple)
        or len(value) != 2
        or not all(isinstance(beta, Real | Tensor) for beta in value)
    ):
        raise TypeError(f"{optimizer}: {option} must be a pair of numbers, got {value!r}")
    for i, beta in enumerate(value):
        if not 0.0 <= beta < 1.0:
            raise errors.ArgumentError(
                f"{optimizer}: Invalid beta parameter at index {i}: {beta}; betas must be at least 0 and less than 1"
            )


def not_negative(name: str, **rest: Any) -> Option:
    """An option that is a number of at least zero."""
    return Option(name, check_not_negative, **rest)


LR = Option("lr", check_lr)
BETAS = Option("betas", check_betas, ("beta1", "beta2"))
EPS, WEIGHT_DECAY = not_negative("eps"), not_negative("weight_decay")
MAXIMIZE, FOREACH, FUSED = (
    Option("maximize", before=False),
    Option("foreach", before=None),
    Option("fused", before=None),
)
CAPTURABLE, DIFFERENTIABLE = Option("capturable", before=False), Option("differentiable", before=False)
DECOUPLED = Option("decoupled_weight_decay", before=False)
MASTER = Option("master_weights", passed=(), before=False)
