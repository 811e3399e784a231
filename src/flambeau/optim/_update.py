"""Shared by the optimizers: the loop over groups, numbers or tensors as options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.optim._options import ALWAYS, Number, Option, checked
from flambeau.optim.optimizer import Optimizer, R, _use_grad_for_differentiable


class GroupOptimizer(Optimizer):
    """An optimizer whose step is one `_update` per parameter group.

    A subclass defines the initial state of a parameter, and the update of lists of parameters, gradients and states.
    """

    _options: tuple[Option, ...] = ()  # the table of options, in the order of parameter groups
    _states: tuple[str, ...] = ()  # the states passed to the functional form after the gradients, in order
    # From the table: options passed to the functional form by name, pairs passed as two arguments, and options that old
    # checkpoints may lack, with their defaults.
    _as_named: tuple[str, ...] = ()
    _pairs: tuple[tuple[str, str, str], ...] = ()
    _later_options: dict[str, Any] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._as_named = tuple(option.name for option in cls._options if option.passed is None)
        cls._pairs = tuple((option.name, *option.passed) for option in cls._options if option.passed)
        cls._later_options = {option.name: option.before for option in cls._options if option.before is not ALWAYS}

    def __init__(self, params: Any, given: dict[str, Any]) -> None:
        defaults = checked(type(self).__name__, self._options, given)
        super().__init__(params, defaults)
        if defaults.get("fused"):
            name = type(self).__name__
            if defaults["differentiable"]:
                raise errors.StateError(f"{name}: `fused` does not support `differentiable`; leave one out")
            if defaults["foreach"]:
                raise errors.StateError(f"{name}: `fused` and `foreach` cannot be `True` together; leave one out")
        if defaults.get("master_weights") and defaults["differentiable"]:
            raise errors.StateError(
                f"{type(self).__name__}: `master_weights` does not support `differentiable`; leave one out"
            )
        self._say_whether_step_unscales()

    def _say_whether_step_unscales(self) -> None:
        """GradScaler leaves unscaling and skipping overflowed steps to optimizers with this attribute."""
        if all(group.get("fused") for group in self.param_groups):
            self._step_supports_amp_scaling = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.pop("_synced_versions", None)  # the loaded copies are valid
        for group in self.param_groups:
            for option, value in self._later_options.items():
                group.setdefault(option, value)
            for p in group["params"]:
                of_p = self.state.get(p, {})
                if "step" in of_p and not isinstance(of_p["step"], Tensor):
                    of_p["step"] = step_count(float(of_p["step"]), p, group)
        self._say_whether_step_unscales()

    def _new_state(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """State of a parameter before its first step; empty if the optimizer needs none."""
        return {}

    def _update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict[Any, Any]]
    ) -> None:
        """Updates the parameters of a group that have a gradient."""
        raise NotImplementedError(f"{type(self).__name__}: _update is not defined")

    def _lists(self, states: list[dict[Any, Any]]) -> Any:
        """The columns of the states for the functional form."""
        return [[state[key] for state in states] for key in self._states]

    def _arguments(self, group: dict[str, Any]) -> dict[str, Any]:
        """The options of a group for the functional form."""
        arguments = {option: group[option] for option in self._as_named}
        for option, first, second in self._pairs:
            arguments[first], arguments[second] = group[option]
        return arguments

    def _check_parameter(self, param: Tensor, group: dict[str, Any]) -> None:
        """Rejects a parameter this optimizer cannot change."""
        if group.get("fused") and (param.is_meta or not param.is_floating_point()):
            raise errors.StateError(
                f"{type(self).__name__}: `fused=True` requires all the params to be floating point Tensors with values, got "
                f"{param.dtype} on {param.device}; pass fused=False"
            )

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], R]) -> R: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient.

        Args:
            closure: recomputes the loss and its gradients, and returns the loss.

        Returns:
            What the closure returned, or None.

        Example:
            >>> p = fb.ones(2, requires_grad=True)
            >>> p.sum().backward()
            >>> fb.optim.SGD([p], lr=0.5).step()
            >>> p.detach()
            tensor([0.5000, 0.5000])
        """
        loss = None
        if closure is not None:
            if not callable(closure):
                raise TypeError(f"{type(self).__name__}.step: closure must be a function, got {type(closure).__name__}")
            with fb.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params, grads, states = [], [], []
            masters: list[tuple[Tensor, Tensor]] = []
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                self._check_parameter(p, group)
                if type(grad) is not Tensor:
                    grad = self._dense(grad)
                state = self.state.get(p)
                if keeps_master(p, group):
                    state = self._master_state(p, grad, group)
                    masters.append((p, state["master_weight"]))
                    p, grad = state["master_weight"], grad.float()
                elif not state:
                    state = self._new_state(p, grad, group)
                    if state:
                        self.state[p] = state
                params.append(p)
                grads.append(grad)
                states.append(state)
            if params:
                self._update(group, params, grads, states)
            for p, master in masters:
                p.copy_(master)
                self._synced[p] = p._version
        return loss

    def _master_state(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter with its float32 copy, which is recreated if others changed the parameter."""
        state: dict[str, Any] = self.state.get(p) or {}
        if "master_weight" not in state:
            master = p.detach().float()
            state = {"master_weight": master, **(state or self._new_state(master, grad, group))}
            self.state[p] = state
        elif self._synced.get(p, p._version) != p._version:
            state["master_weight"].copy_(p.detach())
        return state

    @property
    def _synced(self) -> dict[Tensor, int]:
        """For each parameter, its version when it was last updated from its float32 copy."""
        return self.__dict__.setdefault("_synced_versions", {})

    takes_sparse = False  # whether a gradient of zeros changes nothing, so that sparse ones can be made dense

    def _dense(self, grad: fb.Tensor) -> fb.Tensor:
        if grad.layout is fb.strided:
            return grad
        if not self.takes_sparse:
            raise RuntimeError(
                f"{type(self).__name__} does not support sparse gradients, please consider SparseAdam instead; or use .to_dense()"
            )
        return grad.to_dense()

    def _scaling(self) -> dict[str, Any]:
        """GradScaler's values for a step that unscales by itself."""
        return {"grad_scale": getattr(self, "grad_scale", None), "found_inf": getattr(self, "found_inf", None)}


def keeps_master(param: Tensor, group: dict[str, Any]) -> bool:
    """Whether the optimizer updates a float32 copy of this parameter."""
    return bool(group.get("master_weights")) and param.dtype in (fb.float16, fb.bfloat16)


def column(states: Sequence[dict[str, Any]], key: str) -> list[Any]:
    """One entry of every state."""
    return [state[key] for state in states]


def step_dtype() -> Any:
    """Steps are counted in float32, which is exact up to 16 million, or in float64 if that is the default dtype."""
    return fb.float64 if fb.get_default_dtype() == fb.float64 else fb.float32


def step_count(value: float, param: Tensor, group: dict[str, Any]) -> Tensor:
    """A step counter; capturable and fused optimizers keep it on the parameter's device."""
    dtype = fb.float32 if group.get("fused") else step_dtype()
    beside = group.get("capturable") or group.get("fused")
    return fb.full((), value, dtype=dtype, device=param.device if beside else None)


def zeros(param: Tensor) -> Tensor:
    """Zeros like a parameter, for its state."""
    return fb.zeros_like(param.detach(), memory_format=fb.preserve_format)


def check_path(
    name: str,
    params: Sequence[Tensor],
    steps: Sequence[Tensor] = (),
    *,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
) -> None:
    """Rejects unsupported combinations of options, before anything is changed."""
    if not all(isinstance(step, Tensor) for step in steps):
        raise errors.StateError(f"{name}: step counts must be tensors with one element, got numbers")
    if foreach and differentiable:
        raise AssertionError(f"{name}: foreach=True does not go with differentiable=True; leave one out")
    if capturable and any(p.device.type == "cpu" for p in params):
        raise AssertionError(
            f"{name}: capturable=True is for parameters on an accelerator, got parameters on the cpu; pass capturable=False"
        )


def unscaled(
    name: str, grads: Sequence[Tensor], fused: bool | None, grad_scale: Tensor | None, found_inf: Tensor | None
) -> bool:
    """Divides gradients by GradScaler's scale; returns False if one of them overflowed and the step must be skipped."""
    if grad_scale is None and found_inf is None:
        return True
    if not fused:
        raise AssertionError(f"{name}: grad_scale and found_inf need fused=True; unscale the gradients before the step")
    if found_inf is not None and found_inf.item():
        return False
    if grad_scale is not None:
        for grad in grads:
            grad.div_(grad_scale)
    return True


def _has_tensor(values: Sequence[Any]) -> bool:
    for value in values:  # a generator would cost more than the checks
        if isinstance(value, Tensor):
            return True
    return False


def fusable(
    params: Sequence[Tensor], fused: bool | None, foreach: bool | None, differentiable: bool, *options: Any
) -> bool:
    """Whether the core can do the step in one pass: real floating parameters, options as numbers, no recording."""
    if differentiable or fused is False or (fused is None and foreach is False):
        return False
    if _has_tensor(options):
        return False
    if fb.is_grad_enabled() and any(p.requires_grad for p in params):
        return False
    return all(p.is_floating_point() for p in params)


def plain(*values: Number) -> Any:
    """Options as numbers, except 0-d tensors that require gradients."""
    if not _has_tensor(values):
        return values[0] if len(values) == 1 else values
    recording = fb.is_grad_enabled()

    def one(value: Number) -> Number:
        if not isinstance(value, Tensor):
            return value
        return value.squeeze() if recording and value.requires_grad else value.item()

    return one(values[0]) if len(values) == 1 else [one(value) for value in values]


def real(*tensors: Tensor) -> Sequence[Tensor]:
    """Complex tensors as real ones with a last dimension of two, whose numbers all update rules treat independently."""
    return [fb.view_as_real(t) for t in tensors] if tensors[0].is_complex() else tensors


def decayed(grad: Tensor, param: Tensor, weight_decay: Number) -> Tensor:
    """grad + weight_decay · param"""
    if isinstance(weight_decay, Tensor):
        return grad + param.clone() * weight_decay
    return grad.add(param, alpha=weight_decay) if weight_decay != 0 else grad


def shrink_(param: Tensor, factor: Number) -> None:
    """param ← param · factor"""
    # A factor that requires gradients needs the value before the change, hence the copy.
    param.copy_(param.clone() * factor) if isinstance(factor, Tensor) else param.mul_(factor)


def blend_(average: Tensor, value: Tensor, weight: Number) -> None:
    """average ← average + weight · (value - average)"""
    if isinstance(weight, Tensor):
        average.copy_(average.clone().lerp(value, weight.to(average.dtype)))
    else:
        average.lerp_(value, weight)


def move_(param: Tensor, direction: Tensor, size: Number) -> None:
    """param ← param - size · direction"""
    # The direction may be a buffer that the next step changes.
    param.sub_(direction.clone() * size) if isinstance(size, Tensor) else param.add_(direction, alpha=-size)


def moments(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    steps: Sequence[Tensor],
    *,
    lr: Number,
    betas: tuple[float, float],
    weight_decay: Number,
    decoupled: bool,
    maximize: bool,
) -> Iterator[tuple[float, Tensor, Tensor, Tensor, Tensor]]:
    """The first part of steps of Adam's relatives: counts them, applies the decay, updates both averages.

    Yields for each parameter the number of the step, the parameter, its gradient, and the averages.
    """
    for i, param in enumerate(params):
        param, grad, exp_avg, exp_avg_sq = real(param, grads[i], exp_avgs[i], exp_avg_sqs[i])
        grad = -grad if maximize else grad
        steps[i].add_(1)
        if not decoupled:
            grad = decayed(grad, param, weight_decay)
        elif weight_decay != 0:
            shrink_(param, 1 - lr * weight_decay)
        exp_avg.lerp_(grad, 1 - betas[0])
        exp_avg_sq.mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
        yield steps[i].item(), param, grad, exp_avg, exp_avg_sq
