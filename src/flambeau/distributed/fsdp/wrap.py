"""Which modules inside a model are wrapped by themselves: policies for FullyShardedDataParallel's auto_wrap_policy.

A policy is called as policy(module=…, recurse=…, nonwrapped_numel=…). With recurse=True it says whether to look at the
modules inside; with recurse=False, whether to wrap the module, of which `nonwrapped_numel` elements of parameters are in
no wrapped module inside.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.errors import ArgumentError
from flambeau.nn.modules.activation import MultiheadAttention
from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap",
]  # fmt: skip
__dir__ = __all__.copy


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module is wrapped.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import always_wrap_policy
        >>> always_wrap_policy(fb.nn.Linear(1, 1), False, 2)
        True
    """
    return True


class _Policy(ABC):
    """Policies that know the whole model."""

    @abstractmethod
    def wanted(self, module: Module) -> dict[str, Any] | None:
        """Extra arguments for the wrapper of a module; None if it is not wrapped."""

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or self.wanted(module) is not None


class ModuleWrapPolicy(_Policy):
    """Modules of some classes are wrapped.

    Args:
        module_classes: the classes.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
        >>> ModuleWrapPolicy({fb.nn.Linear})(fb.nn.Linear(1, 1), recurse=False)
        True
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def wanted(self, module: Module) -> dict[str, Any] | None:
        """No further arguments for modules of the classes."""
        return {} if isinstance(module, tuple(self._module_classes)) else None

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes_str})"


class CustomPolicy(_Policy):
    """Modules that a function chooses are wrapped.

    Args:
        lambda_fn: of a module; returns whether to wrap it, or a dictionary of arguments for its wrapper.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import CustomPolicy
        >>> CustomPolicy(lambda module: isinstance(module, fb.nn.Linear))(fb.nn.ReLU(), recurse=False)
        False
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def wanted(self, module: Module) -> dict[str, Any] | None:
        """The function's result."""
        answer = self._lambda_fn(module)
        if not isinstance(answer, (bool, dict)):
            raise ArgumentError(
                "CustomPolicy: The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned "
                f"{answer!r}"
            )
        return answer if isinstance(answer, dict) else {} if answer else None


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:  # fmt: skip
    """Modules that a function chooses are wrapped; bind the function by functools.partial.

    Args:
        module: the module.
        recurse: whether the question is about the modules inside.
        nonwrapped_numel: not used.
        lambda_fn: of a module; returns whether to wrap it.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import lambda_auto_wrap_policy
        >>> lambda_auto_wrap_policy(fb.nn.ReLU(), False, 0, lambda module: isinstance(module, fb.nn.ReLU))
        True
    """
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type[Module]]
) -> bool:  # fmt: skip
    """Modules of some classes are wrapped; bind them by functools.partial.

    Args:
        module: the module.
        recurse: whether the question is about the modules inside.
        nonwrapped_numel: not used.
        transformer_layer_cls: the classes, such as that of a transformer's block.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import transformer_auto_wrap_policy
        >>> transformer_auto_wrap_policy(fb.nn.ReLU(), False, 0, {fb.nn.Linear})
        False
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None, exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:  # fmt: skip
    """Modules with many parameters of their own are wrapped; bind the number by functools.partial.

    Args:
        module: the module.
        recurse: whether the question is about the modules inside.
        nonwrapped_numel: elements of parameters that are in no wrapped module inside.
        min_num_params: from how many on a module is wrapped.
        force_leaf_modules: classes whose modules are not looked into; MultiheadAttention by default.
        exclude_wrap_modules: classes whose modules are never wrapped; lists and dictionaries of modules by default.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import size_based_auto_wrap_policy
        >>> size_based_auto_wrap_policy(fb.nn.Linear(9, 9), False, 90, min_num_params=50)
        True
    """
    # Programs written for PyTorch change these attributes of the function; mypy knows none on functions.
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules  # type: ignore[attr-defined]
    excluded = size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules  # type: ignore[attr-defined]
    large = nonwrapped_numel >= int(min_num_params)
    return large and not isinstance(module, tuple(leaves if recurse else excluded))


# The defaults; mypy knows no attributes on functions.
size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


class _Wrapping:
    """The settings of enable_wrap()."""

    wrapper: Callable[..., Module] | None = None
    options: dict[str, Any] = {}


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, wrap() wraps modules.

    Args:
        wrapper_cls: FullyShardedDataParallel, or another class of wrappers.
        wrapper_kwargs: arguments for it.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import enable_wrap, wrap
        >>> with enable_wrap(wrapper_cls=fb.nn.Sequential):
        ...     print(type(wrap(fb.nn.ReLU())).__name__)
        Sequential
    """
    before = _Wrapping.wrapper, _Wrapping.options
    _Wrapping.wrapper, _Wrapping.options = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _Wrapping.wrapper, _Wrapping.options = before


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module, wrapped inside enable_wrap(), else as it is.

    Args:
        module: the module.
        wrap_overrides: arguments for the wrapper, in place of enable_wrap()'s.

    Example:
        >>> from flambeau.distributed.fsdp.wrap import wrap
        >>> wrap(fb.nn.ReLU())
        ReLU()
    """
    return module if _Wrapping.wrapper is None else _Wrapping.wrapper(module, **{**_Wrapping.options, **wrap_overrides})


def _or_policy(module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]) -> bool:
    """Wraps modules chosen by any of several policies."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def _module_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, module_classes: set[type[Module]]) -> bool:
    """Wraps modules of some classes."""
    return recurse or isinstance(module, tuple(module_classes))


def wrap_inside(
    root: Module, policy: Callable[..., bool], wrapper: Callable[[Module, dict[str, Any]], Module], ignored: set[Module]
) -> None:
    """Wraps the modules inside a model that a policy chooses; shared ones once."""
    done: dict[Module, tuple[Module, int]] = {}

    def numel(module: Module) -> int:
        return sum(p.numel() for p in module.parameters())

    def visit(module: Module, itself: bool) -> tuple[Module, int]:
        """The module or its wrapper, and how many elements of its parameters are in wrapped modules."""
        if module in done:
            return done[module]
        total = numel(module)
        if not policy(module=module, recurse=True, nonwrapped_numel=total):
            return module, 0
        wrapped = 0
        for name, child in list(module.named_children()):
            if child in ignored or "_fsdp_wrapped_module" in child._modules:
                continue
            new, count = visit(child, True)
            wrapped += count
            if new is not child:
                setattr(module, name, new)
        if itself and policy(module=module, recurse=False, nonwrapped_numel=total - wrapped):
            options = policy.wanted(module) if isinstance(policy, _Policy) else {}
            done[module] = wrapper(module, options or {}), total
            return done[module]
        return module, wrapped

    visit(root, False)


def policy_of(choice: Any) -> Callable[..., bool]:
    """The policy for a function, a policy, or a set of classes."""
    if isinstance(choice, (set, frozenset, list, tuple)):
        return ModuleWrapPolicy(choice)
    if not callable(choice):
        raise TypeError(f"FullyShardedDataParallel: auto_wrap_policy must be a policy or a function, got {type(choice).__name__}")
    return choice
