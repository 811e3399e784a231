"""The state of a Module as a dictionary: state_dict() and load_state_dict()."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import _C, Tensor
from flambeau import __future__ as future
from flambeau.nn.modules._hooks import RemovableHandle, add_hook
from flambeau.nn.parameter import Parameter, is_lazy

EXTRA_STATE = "_extra_state"
_WAY_OUT = "run a forward pass of the module before saving its state"


class _IncompatibleKeys(NamedTuple("IncompatibleKeys", [("missing_keys", list[str]), ("unexpected_keys", list[str])])):
    """Result of load_state_dict(): keys that only the module has, and keys that only the dictionary has."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class State:
    """The part of Module that saves and restores its state."""

    _version = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    # ---- saving --------------------------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
        """Parameters and persistent buffers by their paths, in an ordered dictionary.

        The tensors share memory with the module; they are detached unless keep_vars is set.

        Args:
            destination: a dictionary to fill, a new one by default.
            prefix: prepended to every key.
            keep_vars: whether the parameters themselves are stored, with their history.

        Example:
            >>> list(fb.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        if args:
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            answer = hook(self, destination, prefix, local_metadata)
            if answer is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError(f"state_dict post-hook must return None, got {type(answer).__name__}")
                destination = answer
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Adds this module's own tensors, without its submodules', to the dictionary."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars or is_lazy(param) else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars or is_lazy(buffer) else buffer.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """Additional state of a subclass besides tensors; override it together with set_extra_state().

        Example:
            >>> class Counter(fb.nn.Module):
            ...     def get_extra_state(self): return {"count": 3}
            ...     def set_extra_state(self, state): self.count = state["count"]
            >>> dict(Counter().state_dict())
            {'_extra_state': {'count': 3}}
        """
        raise RuntimeError(f"get_extra_state: {type(self).__name__} does not define it; override it to save more state")

    def set_extra_state(self, state: Any) -> None:
        """Restores what get_extra_state() returned; override both.

        Example:
            >>> class Counter(fb.nn.Module):
            ...     def get_extra_state(self): return {"count": 3}
            ...     def set_extra_state(self, state): self.count = state["count"]
            >>> c = Counter()
            >>> c.load_state_dict({"_extra_state": {"count": 5}})
            <All keys matched successfully>
            >>> c.count
            5
        """
        raise RuntimeError(f"set_extra_state: {type(self).__name__} does not define it; override it to load more state")

    # ---- loading -------------------------------------------------------------------------------------------------------

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copies the tensors of a dictionary into this module and those below it.

        Args:
            state_dict: a result of state_dict().
            strict: whether missing and unexpected keys are an error.
            assign: whether to assign the dictionary's tensors to the module instead of copying their values.

        Returns:
            A named tuple with missing_keys and unexpected_keys.

        Example:
            >>> m = fb.nn.Linear(2, 3)
            >>> m.load_state_dict(fb.nn.Linear(2, 3).state_dict())
            <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: Expected state_dict to be dict-like, got {type(state_dict).__name__}")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata

        # The function is an argument of itself: a closure would be a reference cycle that keeps the tensors alive.
        def load(again: Any, module: Any, local: Any, prefix: str) -> None:
            info = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                info = {**info, "assign_to_params_buffers": True}
            module._load_from_state_dict(local, prefix, info, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    again(again, child, OrderedDict((k, v) for k, v in local.items() if k.startswith(inner)), inner)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise RuntimeError("load_state_dict: a post-hook must return None; change the lists in place")

        load(load, self, state, "")
        if strict:
            for what, keys in (("Missing", missing), ("Unexpected", unexpected)):
                if keys:
                    errors.append(
                        f"{what} key(s) in state_dict: {', '.join(f'{k!r}' for k in keys)}.".replace("'", '"')
                    )
        if errors:
            lines = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[Any, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this module's own tensors, without its submodules', from the dictionary."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        own = {k: v for k, v in {**self._parameters, **persistent}.items() if v is not None}
        for name, target in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            problem = self._load_tensor(name, key, target, state_dict[key], assign)
            if problem:
                error_msgs.append(f"{problem[0]} for {key}: {problem[1]}")
        extra = prefix + EXTRA_STATE
        if type(self).set_extra_state is not State.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif extra in state_dict and strict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    head = key[len(prefix) :].partition(".")
                    known = head[0] in self._modules if head[1] else head[0] in own
                    if not known:
                        unexpected_keys.append(key)

    def _load_tensor(self, name: str, key: str, target: Tensor, source: Any, assign: bool) -> tuple[str, str] | None:
        """Copies or assigns one tensor; returns what is wrong, or None."""
        if not isinstance(source, Tensor):
            wanted = f"expected {_C.shown_package()}.Tensor or Tensor-like object from checkpoint"
            return "cannot load", f"{wanted} but received {type(source).__name__}; use fb.as_tensor()"
        lazy = is_lazy(target)
        if is_lazy(source):
            return None if lazy else ("cannot load", f"the shape of an uninitialized parameter is not known; {_WAY_OUT}")
        if not lazy and target.ndim == 0 and source.ndim == 1 and source.shape[0] == 1:
            source = source[0]  # an old format of a single number
        if not lazy and source.shape != target.shape:
            return (
                "size mismatch",
                f"copying a param with shape {_shape(source)} from checkpoint, the shape in current model is {_shape(target)}.",
            )
        if lazy and not assign:
            with fb.no_grad():
                target.materialize(source.shape)  # type: ignore[attr-defined]  # lazy, as is_lazy() said
        if target.is_meta and not source.is_meta and not assign:
            warnings.warn(
                f"load_state_dict: for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter copies no values; "
                "pass assign=True, or make the module on a real device first",
                stacklevel=2,
            )
        try:
            with fb.no_grad():
                if future.get_swap_module_params_on_conversion():
                    made = target.module_load(source, assign=assign)
                    fb.utils.swap_tensors(
                        target, Parameter(made, target.requires_grad) if name in self._parameters else made
                    )
                elif assign:
                    if name in self._parameters and not isinstance(source, Parameter):
                        source = Parameter(source, requires_grad=target.requires_grad)
                    setattr(self, name, source)
                else:
                    target.copy_(source)
        except Exception as error:
            return "cannot load", f"{_shape(source)} {source.dtype} into {_shape(target)} {target.dtype}: {error}"
        return None

    # ---- hooks ---------------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, prefix, keep_vars) before state_dict() collects this module's tensors.

        Example:
            >>> handle = fb.nn.ReLU().register_state_dict_pre_hook(lambda module, prefix, keep_vars: None)
        """
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, local_metadata) after; it may change the dictionary in place.

        Example:
            >>> m = fb.nn.Linear(2, 3)
            >>> handle = m.register_state_dict_post_hook(lambda m, state, prefix, meta: state.__delitem__(prefix + "bias"))
            >>> list(m.state_dict())
            ['weight']
        """
        public: Any = hook
        public._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Like register_state_dict_post_hook(), but the hook's return value replaces the dictionary."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "_register_state_dict_hook: Cannot register this hook: it was previously registered via register_state_dict_post_hook, "
                "which must return None; use another function"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors) before loading.

        Example:
            >>> m = fb.nn.Linear(2, 3)
            >>> handle = m.register_load_state_dict_pre_hook(lambda module, state, *rest: state.pop("old", None))
            >>> m.load_state_dict({**m.state_dict(), "old": fb.zeros(1)})
            <All keys matched successfully>
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, LoadHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, incompatible_keys) after loading; it may change the lists of keys in place.

        Example:
            >>> m = fb.nn.Linear(2, 3)
            >>> handle = m.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
            >>> m.load_state_dict({})
            <All keys matched successfully>
        """
        return add_hook(self._load_state_dict_post_hooks, hook)


class LoadHook:
    """A hook before loading that also receives its module, without keeping it alive."""

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        import functools
        import weakref

        functools.update_wrapper(self, hook)
        self.hook = hook
        self.with_module = module is not None
        self.module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        if self.module is None:
            return self.hook(*args)
        module = self.module()
        if module is None:
            warnings.warn("a load_state_dict pre-hook outlived its module and does nothing", stacklevel=2)
            return None
        return self.hook(module, *args)

    def __getstate__(self) -> Any:
        return {"hook": self.hook, "module": self.module and self.module()}

    def __setstate__(self, state: Any) -> None:
        type(self).__init__(self, state["hook"], state["module"])


def _shape(tensor: Tensor) -> str:
    return "of no shape yet" if is_lazy(tensor) else str(tensor.shape)
