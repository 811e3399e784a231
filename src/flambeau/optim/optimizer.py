"""The base class of optimizers: parameter groups, state, checkpoints, hooks."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias, TypeVar, overload

import flambeau as fb
from flambeau import Tensor, errors
from flambeau.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]
__dir__ = __all__.copy

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_global_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


class _RequiredParameter:
    """Marks an option without a default: every parameter group must set it."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def _use_grad_for_differentiable(step: F) -> F:
    """Runs a step with gradient recording on if the optimizer is differentiable, else off."""

    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with fb.set_grad_enabled(self.defaults.get("differentiable", False)):
            return step(self, *args, **kwargs)

    wrapped: Any = run
    return wrapped


def _register(
    hooks: OrderedDict[int, Callable[..., Any]], hook: Callable[..., Any], prepend: bool = False
) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before every step of every optimizer.

    Args:
        hook: may return `(args, kwargs)` to change what the step receives, or None.

    Returns:
        A handle whose `remove()` removes the hook.

    Example:
        >>> handle = fb.optim.optimizer.register_optimizer_step_pre_hook(lambda o, args, kwargs: print(type(o).__name__))
        >>> fb.optim.SGD([fb.zeros(2)]).step()
        SGD
        >>> handle.remove()
    """
    return _register(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after every step of every optimizer.

    Returns:
        A handle whose `remove()` removes the hook.

    Example:
        >>> handle = fb.optim.optimizer.register_optimizer_step_post_hook(lambda o, args, kwargs: print("done"))
        >>> fb.optim.SGD([fb.zeros(2)]).step()
        done
        >>> handle.remove()
    """
    return _register(_global_post_hooks, hook)


class Optimizer:
    """Base class of optimizers.

    A subclass calls `super().__init__(params, defaults)` and defines `step`. Its options are in `param_groups`, a list
    of dictionaries with the key `params` and one key per option; the state of a parameter is in
    `state[parameter]`, a dictionary.

    Args:
        params: tensors, or `(name, tensor)` pairs, or dictionaries that each describe a group of parameters.
        defaults: options of groups that do not set them.

    Example:
        >>> class SignDescent(fb.optim.Optimizer):
        ...     def __init__(self, params, lr):
        ...         super().__init__(params, {"lr": lr})
        ...
        ...     @fb.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 p.sub_(p.grad.sign(), alpha=group["lr"])
        >>> p = fb.tensor([1.0, -1.0], requires_grad=True)
        >>> optimizer = SignDescent([p], lr=0.5)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([ 0.5000, -0.5000])
    """

    # Hooks belong to the object, not to its checkpoints or copies.
    _optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__}: params argument given to the optimizer should be an iterable of Tensors or dicts, "
                "got a tensor; pass [tensor]"
            )
        if not isinstance(params, Iterable):
            hint = "; pass its parameters()" if hasattr(params, "parameters") else ""
            raise TypeError(
                f"{type(self).__name__}: params must be an iterable of Tensors or dicts, got {type(params).__name__}{hint}"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise errors.ArgumentError(
                f"{type(self).__name__}: params is empty; expected at least one parameter: has the model none, or was the "
                "iterator used up before?"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """Setup shared by new objects and those made by copying or unpickling."""
        for name in Optimizer.__annotations__:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()

    def _patch_step_function(self) -> None:
        """Lets the class's step run the hooks."""
        cls: Any = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {i}"] if i else [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a `step` so that it runs the hooks; the base class does so for every optimizer.

        Example:
            >>> fb.optim.Optimizer.profile_hook_step(fb.optim.SGD.step).__name__
            'step'
        """

        @functools.wraps(func)
        def step(*args, **kwargs):
            self = args[0]
            for hook in chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise errors.StateError(
                        f"{type(self).__name__}.step: a step pre-hook must return None or (args, kwargs), got {changed!r}"
                    )
                args, kwargs = changed
            result = func(*args, **kwargs)
            for hook in chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
                hook(self, args, kwargs)
            return result

        return step

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step; it may return changed `(args, kwargs)`.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)])
            >>> handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("before"))
            >>> optimizer.step()
            before
        """
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)])
            >>> handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("after"))
            >>> optimizer.step()
            after
        """
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict` collects; with `prepend`, before the hooks already there.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)])
            >>> handle = optimizer.register_state_dict_pre_hook(lambda optimizer: print("saving"))
            >>> _ = optimizer.state_dict()
            saving
        """
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` on what `state_dict` collected; it may return another dictionary.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)])
            >>> handle = optimizer.register_state_dict_post_hook(lambda optimizer, saved: saved | {"note": "mine"})
            >>> optimizer.state_dict()["note"]
            'mine'
        """
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before loading; it may return another dictionary to load.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)])
            >>> handle = optimizer.register_load_state_dict_pre_hook(lambda optimizer, saved: print(sorted(saved)))
            >>> optimizer.load_state_dict(optimizer.state_dict())
            ['param_groups', 'state']
        """
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` after loading.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)])
            >>> handle = optimizer.register_load_state_dict_post_hook(lambda optimizer: print("loaded"))
            >>> optimizer.load_state_dict(optimizer.state_dict())
            loaded
        """
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self) -> StateDict:
        """The optimizer's state for a checkpoint; tensors in it are the optimizer's own, not copies.

        Returns:
            `{"state": {index: {...}}, "param_groups": [...]}`, where parameters are replaced by their index in the
            order of the groups.

        Example:
            >>> fb.optim.SGD([fb.zeros(2)], lr=0.5).state_dict()["param_groups"][0]["lr"]
            0.5
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        index: dict[int, int] = {}
        count, groups = 0, []
        for group in self.param_groups:
            for i, p in enumerate(group["params"], count):
                index.setdefault(id(p), i)
            count += len(group["params"])
            options = {key: value for key, value in group.items() if key != "params"}
            groups.append(options | {"params": [index[id(p)] for p in group["params"]]})
        state = {index[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()}
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Loads a state returned by `state_dict()`.

        Parameters are matched by their order in the groups; tensors take the dtype and device of their parameter.

        Args:
            state_dict: what `state_dict()` of an optimizer with the same groups returned.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=0.5)
            >>> other = fb.optim.SGD([fb.zeros(2)], lr=0.1)
            >>> other.load_state_dict(optimizer.state_dict())
            >>> other.param_groups[0]["lr"]
            0.5
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"{type(self).__name__}.load_state_dict: expected what state_dict() returns, got {type(state_dict).__name__}"
            )
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        for key in ("param_groups", "state"):
            if key not in state_dict:
                raise KeyError(
                    f"{type(self).__name__}.load_state_dict: the state has no '{key}' (it has {sorted(map(str, state_dict))[:5]}); "
                    "pass what state_dict() of an optimizer returned"
                )
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        sizes, saved_sizes = ([len(group["params"]) for group in some] for some in (groups, saved))
        if sizes != saved_sizes:
            raise errors.ArgumentError(
                f"{type(self).__name__}.load_state_dict: the checkpoint has parameter groups of sizes {saved_sizes}, "
                f"expected {sizes}; make the optimizer with the same groups"
            )
        owner = {
            index: (p, group)
            for here, group in zip(groups, saved, strict=True)
            for index, p in zip(group["params"], here["params"], strict=True)
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owner:
                param, group = owner[key]
                state[param] = _like_parameter(value, param, group)
            else:
                state[key] = value
        for here, group in zip(groups, saved, strict=True):
            group["params"] = here["params"]
            if "param_names" in here:
                group.setdefault("param_names", here["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Resets the gradients of all parameters.

        Args:
            set_to_none: set them to None, which frees their memory; otherwise fill them with zeros.

        Example:
            >>> p = fb.ones(2, requires_grad=True)
            >>> p.sum().backward()
            >>> fb.optim.SGD([p]).zero_grad()
            >>> p.grad is None
            True
        """
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                elif p.grad.grad_fn is not None:
                    p.grad.detach_().zero_()
                else:
                    p.grad.requires_grad_(False).zero_()

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], R]) -> R: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters with their gradients; every optimizer defines its own step.

        Args:
            closure: recomputes the loss and its gradients, and returns the loss.

        Returns:
            What the closure returned, or None.

        Example:
            >>> p = fb.ones(2, requires_grad=True)
            >>> fb.optim.SGD([p], lr=0.5).step(lambda: p.sum().backward())
            >>> p.detach()
            tensor([0.5000, 0.5000])
        """
        raise NotImplementedError(f"{type(self).__name__}: an optimizer must define step(self, closure=None)")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters, for example layers that are unfrozen during training.

        Args:
            param_group: `params` and any options that differ from the defaults.

        Example:
            >>> optimizer = fb.optim.SGD([fb.zeros(2)], lr=0.1)
            >>> optimizer.add_param_group({"params": fb.zeros(3), "lr": 0.01})
            >>> [group["lr"] for group in optimizer.param_groups]
            [0.1, 0.01]
        """
        name = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{name}: a parameter group must be a dict, got {type(param_group).__name__}")
        if "params" not in param_group:
            raise KeyError(f"{name}: a parameter group needs the key 'params', got {sorted(map(str, param_group))}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(f"{name}: the parameters of a group need a fixed order, got a set; pass a list")
        entries = [params] if isinstance(params, Tensor) else list(params)
        named = [entry for entry in entries if isinstance(entry, tuple)]
        if named and len(named) != len(entries):
            raise errors.ArgumentError(
                f"{name}: all optimizer params should be with/without names. Some param names are missing: "
                f"{len(named)} of {len(entries)} have one; name all or none"
            )
        params = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
        param_group["params"] = params
        if named:
            param_group["param_names"] = [entry[0] for entry in entries]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"{name}: parameters must be tensors, got {type(p).__name__}")
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise errors.ArgumentError(
                    f"{name}: a parameter is the result of an operation, expected a leaf; pass p.detach().requires_grad_()"
                )
        for option, default in self.defaults.items():
            if default is required and option not in param_group:
                raise errors.ArgumentError(f"{name}: a parameter group must set {option}, which has no default")
            param_group.setdefault(option, default)
        if len(params) != len(set(params)):
            warnings.warn(
                f"{name}: a parameter group with duplicate parameters: what occurs twice is updated twice per step",
                stacklevel=3,
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                has = "with" if "param_names" in param_group else "without"
                raise errors.ArgumentError(
                    f"{name}: all optimizer param groups should be with/without names. cannot add param group {has} names "
                    "to the optimizer; name all or none"
                )
            if not set(group["params"]).isdisjoint(params):
                raise errors.ArgumentError(f"{name}: some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)


def _like_parameter(value: Any, param: Tensor, group: dict[str, Any], key: Any = None) -> Any:
    """A value of a loaded state with the dtype and device of its parameter; step counts keep their own dtype."""
    if isinstance(value, Tensor):
        if key == "step":
            steps_on_device = group.get("capturable") or group.get("fused")
            return value.to(dtype=fb.float32, device=param.device) if steps_on_device else value
        if group.get("master_weights") and param.dtype in (fb.float16, fb.bfloat16):
            return value.to(dtype=fb.float32, device=param.device)
        return value.to(dtype=param.dtype if param.is_floating_point() else value.dtype, device=param.device)
    if isinstance(value, dict):
        return {k: _like_parameter(v, param, group, k) for k, v in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_like_parameter(v, param, group) for v in value)
    return value
