"""Kullback-Leibler divergences: one registry, by the types of both distributions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]
__dir__ = __all__.copy

_KL_REGISTRY: dict[tuple[type[Any], type[Any]], Callable[[Any, Any], Tensor]] = {}
_KL_MEMOIZE: dict[tuple[type[Any], type[Any]], Any] = {}
_KL_MOST = 1024  # pairs remembered; they keep their classes alive


def register_kl(type_p: type[Any], type_q: type[Any]) -> Callable[[Callable[[Any, Any], Tensor]], Any]:
    """A decorator that registers a divergence for two types of distributions and their subclasses.

    Args:
        type_p: type of the first distribution.
        type_q: type of the second.

    Example:
        >>> class Spike(fb.distributions.Normal): ...
        >>> @fb.distributions.register_kl(Spike, Spike)
        ... def kl_spike_spike(p, q):
        ...     return fb.zeros(())
        >>> fb.distributions.kl_divergence(Spike(0.0, 1.0), Spike(0.0, 1.0))
        tensor(0.)
    """
    for kind in (type_p, type_q):
        # Not only ours: other libraries' distributions share the interface but not the base.
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: expected a Distribution subclass, got {kind!r}")

    def register(f: Callable[[Any, Any], Tensor]) -> Any:
        _KL_REGISTRY[type_p, type_q] = f
        _KL_MEMOIZE.clear()
        return f

    return register


@functools.total_ordering
class _Match:
    """A pair of types, smaller when it is the more special one."""

    def __init__(self, *types: type[Any]) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Match) and self.types == other.types

    def __le__(self, other: _Match) -> bool:
        for mine, theirs in zip(self.types, other.types, strict=True):
            if not issubclass(mine, theirs):
                return False
            if mine is not theirs:
                break
        return True


def _dispatch(type_p: type[Any], type_q: type[Any]) -> Any:
    """The best matching registered function; if two match equally, the first type decides."""
    fitting = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fitting:
        return None
    by_left = min(_Match(p, q) for p, q in fitting).types
    by_right = min(_Match(q, p) for p, q in fitting).types[::-1]
    left, right = _KL_REGISTRY[by_left], _KL_REGISTRY[by_right]  # type: ignore[index]  # pairs, by construction
    if left is not right:
        warnings.warn(
            f"kl_divergence: {type_p.__name__} and {type_q.__name__} fit two registrations, {_names(by_left)} and "
            f"{_names(by_right)}; the first is used, register this pair to decide",
            RuntimeWarning,
            stacklevel=3,
        )
    return left


def _names(types: tuple[type[Any], ...]) -> str:
    return "(" + ", ".join(t.__name__ for t in types) + ")"


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Kullback-Leibler divergence KL(p ‖ q) = E_p[log p(x) - log q(x)], one number per distribution of the batch.

    Args:
        p: a distribution.
        q: another; the pair of types must be registered, see register_kl.

    Example:
        >>> D = fb.distributions
        >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
        tensor(0.5000)
    """
    types = type(p), type(q)
    f = _KL_MEMOIZE.get(types, ...)
    if f is ...:
        if len(_KL_MEMOIZE) >= _KL_MOST:
            _KL_MEMOIZE.clear()
        f = _KL_MEMOIZE[types] = _dispatch(*types)
    if f is None:
        raise NotImplementedError(f"kl_divergence: no formula is registered for {_names(types)}; register_kl adds one")
    return f(p, q)


from flambeau.distributions import _kl_across, _kl_within  # noqa: E402, F401  # they register the formulas
