"""Finding where NaN and infinity come from."""

from __future__ import annotations

import threading
from typing import Any

from flambeau import _C
from flambeau.autograd.grad_mode import _Scope

__all__ = ["detect_anomaly", "set_detect_anomaly"]
__dir__ = __all__.copy


# Not empty while anomaly detection is on: modules then report where they are.
watching: list[bool] = []
_running = threading.local()


class inside:
    """Active while a module runs: messages contain its path from the outermost module, which is shown by its class."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __enter__(self) -> None:
        stack = _running.__dict__.setdefault("stack", [])
        name = type(self.module).__name__
        if stack:
            parent, above = stack[-1]
            own = next((key for key, value in parent._modules.items() if value is self.module), name)
            name = f"{above}.{own}"
        stack.append((self.module, name))
        self._before = _C.set_module_path(name)

    def __exit__(self, *exc: Any) -> None:
        _running.stack.pop()
        _C.set_module_path(self._before)


class module_scope:
    """Names the part of a model that runs inside; messages about NaN say it.

    Args:
        path: say, "encoder.layers.3".
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        self._before = _C.set_module_path(self.path)

    def __exit__(self, *exc: Any) -> None:
        _C.set_module_path(self._before)


class detect_anomaly(_Scope):
    """Raises at the first NaN: backward names the op (and the line that recorded it) whose gradient is NaN.

    Args:
        check_nan: check every gradient.
        forward: also check every result of the forward pass; the error names the op, the line and the module, and gives
            statistics of its inputs. Infinities count as well.
        allow_inf: accept infinities (masks filled with -inf) and report NaN only.

    Example:
        >>> x = fb.tensor(0.0, requires_grad=True)
        >>> with fb.autograd.detect_anomaly():
        ...     try:
        ...         (x.sqrt() * 0).backward()
        ...     except RuntimeError as error:
        ...         print("SqrtBackward0" in str(error))
        True
    """

    def __init__(self, check_nan: bool = True, *, forward: bool = False, allow_inf: bool = False) -> None:
        self.check_nan, self.forward, self.allow_inf = check_nan, forward, allow_inf
        self._before: list[tuple[bool, ...]] = []

    def _fresh(self) -> detect_anomaly:
        return detect_anomaly(self.check_nan, forward=self.forward, allow_inf=self.allow_inf)

    def __enter__(self) -> None:
        modes = _C.modes()
        self._before.append(modes)
        watching.append(True)
        _C.set_modes(modes[0], modes[1], self.check_nan, self.forward, self.allow_inf)

    def __exit__(self, *exc: Any) -> None:
        grad, inference = _C.modes()[:2]
        watching.pop()
        _C.set_modes(grad, inference, *self._before.pop()[2:])


class set_detect_anomaly(detect_anomaly):
    """Enables or disables detect_anomaly, for the code that follows or as a context manager.

    Args:
        mode: True to enable it.
        check_nan: check every gradient.
        forward: also check the forward pass.
        allow_inf: report NaN only.

    Example:
        >>> with fb.autograd.set_detect_anomaly(True):
        ...     fb.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True, *, forward: bool = False, allow_inf: bool = False) -> None:
        super().__init__(bool(mode) and check_nan, forward=bool(mode) and forward, allow_inf=allow_inf)
        self.mode = bool(mode)
        self._outer = _C.modes()
        self._watched = list(watching)
        self._set()

    def _fresh(self) -> set_detect_anomaly:
        return set_detect_anomaly(self.mode, self.check_nan, forward=self.forward, allow_inf=self.allow_inf)

    def _set(self) -> None:
        grad, inference = _C.modes()[:2]
        watching[:] = [True] if self.mode else []
        _C.set_modes(grad, inference, self.check_nan, self.forward, self.allow_inf)

    def __enter__(self) -> None:
        self._set()

    def __exit__(self, *exc: Any) -> None:
        grad, inference = _C.modes()[:2]
        watching[:] = self._watched
        _C.set_modes(grad, inference, *self._outer[2:])


_checks_nan = [True]


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Enables or disables detect_anomaly for the code that follows.

    Args:
        mode: True to enable it.
        check_nan: check every gradient.

    Example:
        >>> fb.set_anomaly_enabled(True)
        >>> fb.is_anomaly_enabled()
        True
        >>> fb.set_anomaly_enabled(False)
    """
    _checks_nan[0] = bool(check_nan)
    set_detect_anomaly(mode, check_nan)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether detect_anomaly, when it is on, looks at every gradient: what set_anomaly_enabled() was last told.

    Example:
        >>> fb.is_anomaly_check_nan_enabled()
        True
    """
    return _checks_nan[0]


def is_anomaly_enabled() -> bool:
    """Whether detect_anomaly is on in this thread.

    Example:
        >>> fb.is_anomaly_enabled()
        False
    """
    return _C.modes()[2]
