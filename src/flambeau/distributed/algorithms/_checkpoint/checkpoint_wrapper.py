"""Activation checkpointing and offloading: modules whose intermediate results are recomputed, or kept on the CPU."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.autograd.graph import save_on_cpu
from flambeau.nn.modules.module import Module
from flambeau.utils.checkpoint import checkpoint

_PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(enum.Enum):
    """The implementation of utils.checkpoint to use."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(Module):
    """A wrapper that changes what the inner module saves in forward. state_dict() keeps the inner module's names."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self.register_load_state_dict_pre_hook(self._pre_load_state_dict_hook)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module.__getitem__(key)  # type: ignore[operator]  # of a container

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), parameter

    @staticmethod
    def _post_state_dict_hook(module: Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> dict[str, Any]:
        inner = prefix + _PREFIX
        for key in [key for key in state_dict if key.startswith(inner)]:
            state_dict[prefix + key[len(inner) :]] = state_dict.pop(key)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(module: Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        inner = prefix + _PREFIX
        for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(inner)]:
            state_dict[inner + key[len(prefix) :]] = state_dict.pop(key)


class OffloadWrapper(ActivationWrapper):
    """Keeps what forward saves on the CPU until backward."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu(pin_memory=False):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Saves only the arguments of forward; backward runs it again."""

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl, self._function, self._options = checkpoint_impl, checkpoint_fn, checkpoint_fn_kwargs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._checkpoint_wrapped_module
        if self._function is not None:
            return self._function(inner, *args, **self._options, **kwargs)
        # the reentrant one takes positional arguments only
        if self.checkpoint_impl == CheckpointImpl.REENTRANT and kwargs:
            names = list(kwargs)

            def run(*values: Any) -> Any:
                return inner(*values[: len(args)], **dict(zip(names, values[len(args) :], strict=True)))

            return checkpoint(run, *args, *kwargs.values(), use_reentrant=True, **self._options)
        reentrant = self.checkpoint_impl == CheckpointImpl.REENTRANT
        return checkpoint(inner, *args, use_reentrant=reentrant, **self._options, **kwargs)


def offload_wrapper(module: Module) -> Module:
    """The module in an OffloadWrapper."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
) -> Module:  # fmt: skip
    """The module in a CheckpointWrapper."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda module: True, auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:  # fmt: skip
    """Wraps the modules inside a model for which check_fn is true."""
    wanted = check_fn
    if auto_wrap_policy is not None:
        policy = auto_wrap_policy

        def wanted(module: Module) -> bool:
            return policy(module=module, recurse=False, nonwrapped_numel=-1)

    done: dict[int, Module] = {}  # a module may occur several times

    def wrap(parent: Module) -> None:
        for name, child in list(parent.named_children()):
            wrap(child)
            if isinstance(child, ActivationWrapper) or not wanted(child):
                continue
            if id(child) not in done:
                done[id(child)] = checkpoint_wrapper_fn(child)
            setattr(parent, name, done[id(child)])

    wrap(model)


__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
    "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip
