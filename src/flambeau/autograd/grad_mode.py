"""What is recorded: no_grad, enable_grad, set_grad_enabled, inference_mode. Each thread has its own setting."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

from flambeau import _C

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]
__dir__ = __all__.copy

F = TypeVar("F", bound=Callable[..., Any])


class _Scope:
    """A context manager that is also a decorator; generators run inside it, but code between their steps does not."""

    def _fresh(self) -> Self:
        return type(self)()

    def __enter__(self) -> None:
        raise TypeError(f"{type(self).__name__} cannot be entered")

    def __exit__(self, *exc: Any) -> None:
        raise TypeError(f"{type(self).__name__} cannot be left")

    def __call__(self, function: F) -> F:
        return self._wrapped(function)

    def _wrapped(self, function: Any) -> Any:
        if inspect.isclass(function):
            warnings.warn(
                f"Decorating classes is deprecated: {type(self).__name__} only wraps the constructor of {function.__name__}; decorate "
                "functions or methods",
                FutureWarning,
                stacklevel=3,
            )
            cls: Any = function
            cls.__init__ = self._wrapped(cls.__init__)
            return cls
        fresh = self._fresh
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args, **kwargs):
                inner = function(*args, **kwargs)
                step, value = inner.send, None
                while True:
                    try:
                        with fresh():
                            item = step(value)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        step, value = inner.send, (yield item)
                    except GeneratorExit:
                        with fresh():
                            inner.close()
                        raise
                    except BaseException as error:
                        step, value = inner.throw, error

            return generator

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with fresh():
                return function(*args, **kwargs)

        return wrapper


class _GradScope(_Scope):
    _on: bool

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # `@no_grad` without parentheses
    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Any = None) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_C.set_grad(self._on))

    def __exit__(self, *exc: Any) -> None:
        _C.set_grad(self._before.pop())


class no_grad(_GradScope):
    """Disables recording: a context manager and a decorator.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> with fb.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    _on = False


class enable_grad(_GradScope):
    """Enables recording, also within no_grad: a context manager and a decorator.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> with fb.no_grad(), fb.enable_grad():
        ...     y = x * 2
        >>> y.requires_grad
        True
    """

    _on = True


class set_grad_enabled(_Scope):
    """Enables or disables recording: as a function for the code that follows, or as a context manager or decorator.

    Args:
        mode: True to record.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> with fb.set_grad_enabled(False):
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.prev: bool = _C.set_grad(self.mode)

    def _fresh(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __call__(self, function: F) -> F:
        _C.set_grad(self.prev)
        return super().__call__(function)

    def __enter__(self) -> None:
        _C.set_grad(self.mode)

    def __exit__(self, *exc: Any) -> None:
        _C.set_grad(self.prev)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_Scope):
    """Like no_grad, but tensors created inside can never be recorded later: the fastest way to run a model.

    Args:
        mode: False disables it within an inference_mode().

    Example:
        >>> with fb.inference_mode():
        ...     y = fb.ones(2) * 2
        >>> y.is_inference()
        True
    """

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]  # `@inference_mode` without parentheses
    def __new__(cls, mode: Any = True) -> Any:
        return cls(True)(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        self.mode = bool(mode)
        self._before: list[tuple[bool, ...]] = []

    def _fresh(self) -> inference_mode:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        modes = _C.modes()
        self._before.append(modes)
        _C.set_modes(modes[0] and not self.mode if self.mode else True, self.mode, *modes[2:])

    def __exit__(self, *exc: Any) -> None:
        _C.set_modes(*self._before.pop())


class _Switch(_Scope):
    """A setting without effect, stored for programs that query it; set at once, like set_grad_enabled()."""

    _now: bool

    def __init__(self, mode: bool) -> None:
        self.mode, self.prev = bool(mode), type(self)._now
        type(self)._now = self.mode

    def _fresh(self) -> _Switch:
        return type(self)(self.mode)

    def __call__(self, function: F) -> F:
        type(self)._now = self.prev
        return super().__call__(function)

    def __enter__(self) -> None:
        type(self)._now = self.mode

    def __exit__(self, *exc: Any) -> None:
        type(self)._now = self.prev


class set_multithreading_enabled(_Switch):
    """Accepted for compatibility with PyTorch: backward always runs on the calling thread.

    As a function, a context manager or a decorator.

    Args:
        mode: accepted, but without effect.

    Example:
        >>> with fb.autograd.set_multithreading_enabled(False):
        ...     fb.ones(2, requires_grad=True).sum().backward()
    """

    _now = True


class _force_original_view_tracking(_Switch):
    """Says that changes of views in place go back through the ops that made the view, which they always do here."""

    _now = False


def _is_multithreading_enabled() -> bool:
    """What set_multithreading_enabled() was last given."""
    return set_multithreading_enabled._now


def _is_view_replay_enabled() -> bool:
    return _force_original_view_tracking._now


def is_grad_enabled() -> bool:
    """Whether ops are recorded on this thread.

    Example:
        >>> fb.is_grad_enabled()
        True
    """
    return _C.is_grad_enabled()


def is_inference_mode_enabled() -> bool:
    """Whether inference_mode is on in this thread.

    Example:
        >>> fb.is_inference_mode_enabled()
        False
    """
    return _C.modes()[1]
