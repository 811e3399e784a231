"""Running ops in lower precision where it does no harm."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.amp import _state
from flambeau.amp._state import is_autocast_available

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]
__dir__ = __all__.copy


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs `func` within an autocast block.

    Example:
        >>> product = fb.amp.autocast_mode.autocast_decorator(fb.autocast("cpu"), fb.matmul)
        >>> product(fb.ones(2, 2), fb.ones(2, 2)).dtype
        flambeau.bfloat16
    """

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return run


class autocast:
    """Within the block, or the decorated function, ops run in the precision that suits them.

    Matrix products and convolutions run in `dtype`, ops that need the range or the digits run in float32, others in the
    dtype of their inputs. Parameters are not changed, no model has to be converted. Only the calling thread is
    affected.

    Args:
        device_type: `"cpu"`, or the type of an accelerator; names of devices that are not there switch autocast off with a warning.
        dtype: bfloat16 or float16; bfloat16 on the CPU unless given.
        enabled: False makes a block without autocast, for example inside of one with it.
        cache_enabled: keep casts of parameters until the outermost block ends.

    Example:
        >>> x = fb.ones(2, 3)
        >>> with fb.autocast("cpu", dtype=fb.bfloat16):
        ...     y = x @ x.T
        >>> y.dtype
        flambeau.bfloat16
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise errors.ArgumentError(
                f"autocast: Expected `device_type` of type `str`, got: `{type(device_type)}`; pass its type, as 'cpu'"
            )
        self.device = device_type
        self.fast_dtype = _state.get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = _state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and not _state.exists(device_type):
            warnings.warn(f"autocast: there is no {device_type} device; autocast is off", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in (fb.bfloat16, fb.float16):
            warnings.warn(
                f"autocast: dtype must be bfloat16 or float16, got {self.fast_dtype}; autocast is off", stacklevel=2
            )
            enabled = False
        self._enabled = enabled
        # A stack, so that one object can be entered again inside its own block.
        self._before: list[tuple[bool, Any, bool]] = []

    def __enter__(self) -> Self:
        before = (
            _state.is_autocast_enabled(self.device),
            _state.get_autocast_dtype(self.device),
            _state.is_autocast_cache_enabled(),
        )
        self._set(self._enabled, self.fast_dtype, self._cache_enabled)
        self._before.append(before)
        _state.autocast_increment_nesting()
        return self

    def __exit__(self, *exception: object) -> None:
        if _state.autocast_decrement_nesting() == 0:
            _state.clear_autocast_cache()
        self._set(*self._before.pop())

    def _set(self, enabled: bool, dtype: Any, cache_enabled: bool) -> None:
        _state.set_autocast_enabled(self.device, enabled)
        _state.set_autocast_dtype(self.device, dtype)
        _state.set_autocast_cache_enabled(cache_enabled)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}; for a block, write `with autocast(...):`"
            )
        return autocast_decorator(self, func)


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Casts every tensor in nested containers that autocast would cast."""
    if isinstance(value, Tensor):
        fits = value.is_floating_point() and value.device.type == device_type and value.dtype != fb.float64
        return value.to(dtype) if fits else value
    if isinstance(value, str | bytes | np.ndarray):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, Iterable):
        entries = (_cast(v, device_type, dtype) for v in value)
        return type(value)(entries) if isinstance(value, list | tuple) else entries  # type: ignore[call-arg]  # made of one sequence
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Callable[..., Any]:
    """Decorates `forward` of an autograd Function so that it does the right thing under autocast.

    Args:
        fwd: the method.
        device_type: `"cpu"`.
        cast_inputs: within autocast, cast tensors to this dtype and run the method without autocast; None leaves both.

    Example:
        >>> class Square(fb.autograd.Function):
        ...     @staticmethod
        ...     @fb.amp.custom_fwd(device_type="cpu", cast_inputs=fb.float32)
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...
        ...     @staticmethod
        ...     @fb.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * grad
        >>> with fb.autocast("cpu"):
        ...     Square.apply(fb.ones(2, dtype=fb.bfloat16)).dtype
        flambeau.float32
    """
    _check_device_type("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx, on = args[0], _state.is_autocast_enabled(device_type)
        ctx._dtype = _state.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return forward(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return forward(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return run


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorates `backward` of an autograd Function: it runs with autocast as `forward` did.

    Args:
        bwd: the method; `forward` must have `custom_fwd`.
        device_type: `"cpu"`.

    Example:
        >>> callable(fb.amp.custom_bwd(device_type="cpu"))
        True

    See also: `custom_fwd`, which has a whole example.
    """
    _check_device_type("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return backward(*args, **kwargs)

    return run


def _check_device_type(name: str, device_type: str) -> None:
    if not isinstance(device_type, str):
        raise errors.ArgumentError(f"{name}: Expected `device_type` of type `str`, got: `{type(device_type)}`")
