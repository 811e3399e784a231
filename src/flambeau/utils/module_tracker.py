"""Which modules the code that runs is in, forward and backward.

Example:
    >>> from flambeau.utils.module_tracker import ModuleTracker
    >>> class Doubling(fb.nn.Module):
    ...     def forward(self, x):
    ...         print(sorted(tracker.parents))
    ...         return x * 2
    >>> with ModuleTracker() as tracker:
    ...     _ = fb.nn.Sequential(Doubling())(fb.ones(2))
    ['Global', 'Sequential', 'Sequential.0']
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Self

from flambeau import _C, Tensor
from flambeau.autograd.graph import register_multi_grad_hook
from flambeau.nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from flambeau.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]
__dir__ = __all__.copy


class ModuleTracker:
    """A block in which ``parents`` holds the names of the modules around the code that runs, and "Global".

    A name is that of the outermost module's class followed by the path of attributes. In backward a module is entered
    when the first gradient of its results arrives, and left when those of its arguments are there.

    Example:
        >>> model = fb.nn.Linear(2, 2)
        >>> with fb.utils.module_tracker.ModuleTracker() as tracker:
        ...     handle = model.weight.register_hook(lambda grad: print(sorted(tracker.parents), tracker.is_bw))
        ...     model(fb.ones(1, 2)).sum().backward()
        ['Global', 'Linear'] True
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []
        self._resets_after = 0  # ID of a backward

    @property
    def is_bw(self) -> bool:
        """Whether backward is running."""
        return bool(_C.in_backward())

    def __enter__(self) -> Self:
        self._handles = [
            register_module_forward_pre_hook(self._before_forward),
            register_module_forward_hook(self._after_forward, always_call=True),
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _name(self, module: Module) -> str:
        if module not in self._names:
            # Not a child so far: a root, which names the modules in it.
            for path, inner in module.named_modules(prefix=type(module).__name__):
                self._names.setdefault(inner, path)
        return self._names[module]

    def _before_forward(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        tensors = _gradient_tensors(args)
        if tensors:
            register_multi_grad_hook(tensors, lambda grads: self.parents.discard(name))

    def _after_forward(self, module: Module, args: Any, result: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        tensors = _gradient_tensors(result)
        if tensors:
            register_multi_grad_hook(tensors, self._entered_backward(name), mode="any")

    def _entered_backward(self, name: str) -> Callable[[Tensor], None]:
        def enter(grad: Tensor) -> None:
            self.parents.add(name)
            running = _C.running_backwards()[-1]
            if self._resets_after != running:
                # Arguments without gradients leave their module entered; the end of backward leaves all.
                self._resets_after = running
                _C.queue_callback(self._reset)

        return enter

    def _reset(self) -> None:
        self.parents = {"Global"}


def _gradient_tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor) and leaf.requires_grad]
