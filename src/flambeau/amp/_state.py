"""The state of autocast, per thread."""

from __future__ import annotations

import threading
from typing import Any

import flambeau as fb
from flambeau import _C, errors
from flambeau.amp import _lists

__all__ = [
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "get_autocast_cpu_dtype",
    "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
    "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype",
    "set_autocast_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip

# Devices that programs may name, with the dtype that autocast uses there.
DEFAULT_DTYPES = {
    "cpu": fb.bfloat16, "sim": fb.bfloat16, "opencl": fb.bfloat16, "cuda": fb.float16, "xpu": fb.float16, "mps": fb.float16,
}  # fmt: skip


def exists(device_type: str) -> bool:
    """Whether tensors can be on such a device on this machine."""
    return device_type in ("cpu", "sim") or (
        device_type in ("opencl", "cuda") and bool(_C.accelerator_count(fb.device(device_type)))
    )


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled: set[str] = set()
        self.dtype: dict[str, Any] = {}
        self.cache_enabled = True
        self.nesting = 0


_state = _State()


def _check(device_type: str) -> str:
    if device_type not in DEFAULT_DTYPES:
        raise errors.StateError(
            f"autocast: Invalid device string: {device_type!r}; expected one of {sorted(DEFAULT_DTYPES)}"
        )
    return device_type


def enabled_kinds() -> list[str]:
    """The kinds of devices where autocast is on in this thread."""
    return [kind for kind in sorted(_state.enabled) if exists(kind)]


def _tell_core() -> None:
    """Passes this thread's state to the core, which casts the arguments of ops."""
    kinds = [(fb.device(kind), get_autocast_dtype(kind)) for kind in enabled_kinds()]
    _C.set_autocast(kinds, _state.cache_enabled)


# Ops of nn.functional are registered with that prefix.
_C.set_autocast_lists(
    *([spelling for name in names for spelling in (name, f"nn.functional.{name}")] for names in _lists.ALL)
)


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a kind of device.

    Args:
        device_type: a name such as `"cpu"`.

    Example:
        >>> fb.amp.is_autocast_available("cpu")
        True
    """
    try:
        _C.device(device_type)
    except (RuntimeError, TypeError):
        raise errors.StateError(
            f"is_autocast_available: Invalid device string: {device_type!r}; expected a kind of device such as 'cpu'"
        ) from None
    return device_type in DEFAULT_DTYPES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a kind of device in this thread.

    Args:
        device_type: a name such as `"cpu"`.

    Example:
        >>> fb.is_autocast_enabled("cpu")
        False
    """
    return _check(device_type) in _state.enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switches autocast on or off for a kind of device in this thread; `autocast` is the usual way.

    Args:
        device_type: a name such as `"cpu"`.
        enabled: on or off.

    Example:
        >>> fb.set_autocast_enabled("cpu", False)
    """
    if enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    name = _check(str(device_type))
    (_state.enabled.add if enabled else _state.enabled.discard)(name)
    _tell_core()


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype that autocast uses for a kind of device in this thread.

    Args:
        device_type: a name such as `"cpu"`.

    Example:
        >>> fb.get_autocast_dtype("cpu")
        flambeau.bfloat16
    """
    return _state.dtype.get(_check(device_type), DEFAULT_DTYPES[device_type])


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Sets the dtype that autocast uses for a kind of device in this thread.

    Args:
        device_type: a name such as `"cpu"`.
        dtype: float16 or bfloat16.

    Example:
        >>> fb.set_autocast_dtype("cpu", fb.bfloat16)
    """
    _state.dtype[_check(device_type)] = dtype
    _tell_core()


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept until the outermost autocast block ends.

    Example:
        >>> fb.is_autocast_cache_enabled()
        True
    """
    return _state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Says whether casts of parameters are kept until the outermost autocast block ends.

    Args:
        enabled: on or off.

    Example:
        >>> fb.set_autocast_cache_enabled(True)
    """
    _state.cache_enabled = enabled
    _tell_core()


def clear_autocast_cache() -> None:
    """Forgets the casts of parameters.

    Example:
        >>> fb.clear_autocast_cache()
    """
    _C.clear_autocast_cache()


def autocast_increment_nesting() -> int:
    """Enters an autocast block; returns the nesting depth.

    Example:
        >>> fb.autocast_increment_nesting(), fb.autocast_decrement_nesting()
        (1, 0)
    """
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting() -> int:
    """Leaves an autocast block; returns the remaining nesting depth.

    Example:
        >>> fb.autocast_increment_nesting(), fb.autocast_decrement_nesting()
        (1, 0)
    """
    _state.nesting -= 1
    return _state.nesting


def is_autocast_cpu_enabled() -> bool:
    """Older spelling of `is_autocast_enabled("cpu")`.

    Example:
        >>> fb.is_autocast_cpu_enabled()
        False
    """
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Older spelling of `set_autocast_enabled("cpu", enabled)`.

    Args:
        enabled: on or off.

    Example:
        >>> fb.set_autocast_cpu_enabled(False)
    """
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Any:
    """Older spelling of `get_autocast_dtype("cpu")`.

    Example:
        >>> fb.get_autocast_cpu_dtype()
        flambeau.bfloat16
    """
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """Older spelling of `set_autocast_dtype("cpu", dtype)`.

    Args:
        dtype: float16 or bfloat16.

    Example:
        >>> fb.set_autocast_cpu_dtype(fb.bfloat16)
    """
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    """Older spelling of `get_autocast_dtype("cuda")`.

    Example:
        >>> fb.get_autocast_gpu_dtype()
        flambeau.float16
    """
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """Older spelling of `set_autocast_dtype("cuda", dtype)`.

    Args:
        dtype: float16 or bfloat16.

    Example:
        >>> fb.set_autocast_gpu_dtype(fb.float16)
    """
    set_autocast_dtype("cuda", dtype)
