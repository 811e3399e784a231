"""Scaling the loss so that small gradients survive half precision."""

from __future__ import annotations

import enum
import inspect
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.amp import _state

__all__ = ["GradScaler", "OptState"]
__dir__ = __all__.copy


class OptState(enum.Enum):
    """How far an optimizer is in the present iteration.

    Example:
        >>> fb.amp.grad_scaler.OptState.READY.value
        0
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Multiplies the loss by a scale, so that small gradients do not underflow, and adapts the scale during training.

    A step whose gradients are infinite or nan is left out and the scale falls; after `growth_interval` steps without
    one
    it rises.

    Args:
        device: `"cpu"`, or the type of an accelerator; for a device that is not there the scaler is disabled with a warning.
        init_scale: where the scale begins.
        growth_factor: factor by which it rises, above 1.
        backoff_factor: factor by which it falls, below 1.
        growth_interval: steps between two rises.
        enabled: False makes `scale` and `unscale_` do nothing and `step` a plain step.

    Example:
        >>> p = fb.ones(2, requires_grad=True)
        >>> optimizer = fb.optim.SGD([p], lr=0.5)
        >>> scaler = fb.amp.GradScaler("cpu")
        >>> scaler.scale(p.sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> p.detach()
        tensor([0.5000, 0.5000])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and not _state.exists(device):
            warnings.warn(f"GradScaler: there is no {device} device; the scaler is disabled", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError(f"GradScaler: growth_factor must be above 1, got {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError(f"GradScaler: backoff_factor must be below 1, got {backoff_factor}")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh_state)

    def _started(self, what: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(f"GradScaler.{what}: no loss has been scaled yet; call scaler.scale(loss) first")
        return self._scale, self._growth_tracker

    def scale(self, outputs: Any) -> Any:
        """A tensor, or every tensor in an iterable of them, times the scale.

        Args:
            outputs: usually the loss.

        Example:
            >>> fb.amp.GradScaler("cpu", init_scale=8.0).scale(fb.ones(()))
            tensor(8.)
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = fb.full((), self._init_scale, dtype=fb.float32, device=outputs.device)
                self._growth_tracker = fb.full((), self._init_growth_tracker, dtype=fb.int32, device=outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled  # type: ignore[call-arg]  # made of one sequence
        raise errors.ArgumentError(f"GradScaler.scale: expected tensors, got {type(outputs).__name__}")

    @fb.no_grad()
    def _unscale_grads(self, optimizer: Any, inv_scale: float, allow_fp16: bool) -> dict[Any, Tensor]:
        """Multiplies all gradients; returns per device whether one of them was not finite."""
        found: dict[Any, Tensor] = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if grad.dtype == fb.float16 and not allow_fp16:
                    raise errors.ArgumentError(
                        "GradScaler.unscale_: a gradient is float16, in which unscaling would lose it; "
                        "keep parameters in float32"
                    )
                flag = found.setdefault(grad.device, fb.zeros((), dtype=fb.float32, device=grad.device))
                if not grad.isfinite().all():
                    flag.fill_(1.0)
                if inv_scale != 1.0:
                    grad.mul_(inv_scale)
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, for example to clip them before the step.

        Args:
            optimizer: the optimizer.

        Example:
            >>> p = fb.ones(2, requires_grad=True)
            >>> scaler = fb.amp.GradScaler("cpu")
            >>> scaler.scale(p.sum()).backward()
            >>> scaler.unscale_(fb.optim.SGD([p]))
            >>> p.grad
            tensor([1., 1.])
        """
        if not self._enabled:
            return
        scale, _ = self._started("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise errors.StateError("GradScaler.unscale_: called twice for this optimizer; call update() in between")
        if state["stage"] is OptState.STEPPED:
            raise errors.StateError("GradScaler.unscale_: called after step(); call it before")
        # The reciprocal is rounded to the scale's precision, as on a device.
        inv_scale = scale.double().reciprocal().float().item()
        state["found_inf_per_device"] = self._unscale_grads(optimizer, inv_scale, allow_fp16=False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)` with unscaled gradients, or nothing if one of them is not finite.

        Args:
            optimizer: the optimizer; further arguments go to its step, which may not have a closure.

        Returns:
            What the optimizer's step returned, or None if it was left out.

        Example:
            >>> p = fb.ones(2, requires_grad=True)
            >>> scaler = fb.amp.GradScaler("cpu")
            >>> scaler.scale(p.sum() / 0.0).backward()
            >>> scaler.step(fb.optim.SGD([p]))
            >>> p.detach()
            tensor([1., 1.])
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise errors.StateError(
                "GradScaler.step: a closure is not supported; scale and backpropagate before the step"
            )
        scale, _ = self._started("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise errors.StateError("GradScaler.step: called twice for this optimizer; call update() in between")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_that_unscales(optimizer, state, scale, *args, **kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            found = state["found_inf_per_device"]
            if not found:
                raise AssertionError(
                    "GradScaler.step: the optimizer's parameters have no gradients; call backward() first"
                )
            result = None if any(flag.item() for flag in found.values()) else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_that_unscales(
        self, optimizer: Any, state: dict[str, Any], scale: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        """The step of an optimizer that divides by `grad_scale` and checks `found_inf` itself."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler.step: the argument grad_scaler of an optimizer's step is deprecated; read self.grad_scale and "
                "self.found_inf instead",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        found = state["found_inf_per_device"].values()
        previous = getattr(optimizer, "grad_scale", None)
        if state["stage"] is OptState.UNSCALED:
            optimizer.grad_scale = previous
        else:
            optimizer.grad_scale = scale if previous is None else scale * previous
        optimizer.found_inf = fb.tensor(float(any(flag.item() for flag in found)))
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Ends an iteration: lets the scale fall if a gradient was not finite, and rise from time to time.

        Args:
            new_scale: a number or a tensor with one element to set the scale to.

        Example:
            >>> p = fb.ones(2, requires_grad=True)
            >>> scaler = fb.amp.GradScaler("cpu", init_scale=8.0)
            >>> scaler.scale(p.sum() / 0.0).backward()
            >>> scaler.step(fb.optim.SGD([p]))
            >>> scaler.update()
            >>> scaler.get_scale()
            4.0
        """
        if not self._enabled:
            return
        scale, tracker = self._started("update")
        if isinstance(new_scale, Tensor):
            if new_scale.numel() != 1 or new_scale.requires_grad or new_scale.device.type != self._device:
                raise AssertionError(
                    f"GradScaler.update: new_scale must be a number or a tensor on {self._device} with one element and "
                    "without gradient"
                )
            scale.copy_(new_scale.reshape(()))
        elif new_scale is not None:
            scale.fill_(float(new_scale))
        else:
            flags = [
                flag for state in self._per_optimizer_states.values() for flag in state["found_inf_per_device"].values()
            ]
            if not flags:
                raise AssertionError(
                    "GradScaler.update: no gradients have been looked at; call step() or unscale_() first"
                )
            if any(flag.item() for flag in flags):
                scale.mul_(self._backoff_factor)
                tracker.zero_()
            elif tracker.item() + 1 == self._growth_interval:
                # Growth beyond float32 would make every further loss infinite.
                grown = scale * self._growth_factor
                if math.isfinite(grown.item()):
                    scale.copy_(grown)
                tracker.zero_()
            else:
                tracker.add_(1)
        self._per_optimizer_states = defaultdict(_fresh_state)

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The scale; 1 if the scaler is disabled.

        Example:
            >>> fb.amp.GradScaler("cpu").get_scale()
            65536.0
        """
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """Factor by which the scale rises.

        Example:
            >>> fb.amp.GradScaler("cpu").get_growth_factor()
            2.0
        """
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale rises.

        Example:
            >>> fb.amp.GradScaler("cpu").set_growth_factor(4.0)
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Factor by which the scale falls.

        Example:
            >>> fb.amp.GradScaler("cpu").get_backoff_factor()
            0.5
        """
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale falls.

        Example:
            >>> fb.amp.GradScaler("cpu").set_backoff_factor(0.25)
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Steps between two rises of the scale.

        Example:
            >>> fb.amp.GradScaler("cpu").get_growth_interval()
            2000
        """
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets the number of steps between two rises of the scale.

        Example:
            >>> fb.amp.GradScaler("cpu").set_growth_interval(100)
        """
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker)

    def is_enabled(self) -> bool:
        """Whether the scaler does anything.

        Example:
            >>> fb.amp.GradScaler("cpu", enabled=False).is_enabled()
            False
        """
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale and settings for a checkpoint; empty if the scaler is disabled.

        Example:
            >>> fb.amp.GradScaler("cpu").state_dict()["scale"]
            65536.0
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state returned by `state_dict()`.

        Args:
            state_dict: the state of an enabled scaler.

        Example:
            >>> scaler = fb.amp.GradScaler("cpu")
            >>> scaler.load_state_dict(scaler.state_dict() | {"scale": 2.0})
            >>> scaler.get_scale()
            2.0
        """
        if not self._enabled:
            return
        if not state_dict:
            raise errors.StateError(
                "GradScaler.load_state_dict: the state is empty; it may come from a disabled scaler"
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError("GradScaler: pickle it at the start of an iteration or after update()")
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        """Checks the gradients without changing them."""
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads(optimizer, 1.0, allow_fp16=True)
        return state["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
