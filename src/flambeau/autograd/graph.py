"""The recorded graph: its nodes, hooks on them, and tensors saved for backward."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from flambeau import _C, Tensor
from flambeau.errors import StateError
from flambeau.utils.hooks import RemovableHandle

if TYPE_CHECKING:

    class Node:
        """A recorded op, as the compiled core defines it."""

        metadata: dict[Any, Any]
        next_functions: tuple[tuple[Node | None, int], ...]

        def name(self) -> str: ...
        def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle: ...
        def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle: ...

else:
    from flambeau._C import Node

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks", "visualize",
]  # fmt: skip
__dir__ = __all__.copy


class Handle(RemovableHandle):
    """A handle on hooks stored by the core."""

    def __init__(self, remove: Callable[[], Any]) -> None:
        super().__init__(OrderedDict())
        self._remove: Callable[[], Any] | None = remove

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        if self._remove is not None:
            self._remove()
            self._remove = None


class GradientEdge(NamedTuple):
    """One output of a node: where a tensor's gradient arrives. backward() and grad() take it in place of the tensor."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of a tensor arrives.

    Args:
        tensor: a tensor that requires gradients.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> fb.autograd.graph.get_gradient_edge(x * 2).node.name()
        'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError("get_gradient_edge: It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*tensor._gradient_edge())


class saved_tensors_hooks:
    """Tensors saved for backward inside are passed to pack; its result is saved, and unpack restores the tensor.

    Args:
        pack_hook: called with each tensor when it is kept; must not change it.
        unpack_hook: called with what pack_hook returned when backward needs the tensor.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> with fb.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), fb.from_numpy):
        ...     y = (x * x).sum()
        >>> y.backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("saved_tensors_hooks: pack_hook and unpack_hook must be callable")
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> Any:
        if _disabled:
            raise RuntimeError(_disabled[-1])
        _C.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc: Any) -> None:
        _C.pop_saved_hooks()


_disabled: list[str] = []


class disable_saved_tensors_hooks:
    """Entering saved_tensors_hooks inside is an error with this message.

    Args:
        error_message: what the error says.

    Example:
        >>> with fb.autograd.graph.disable_saved_tensors_hooks("not here"):
        ...     y = fb.ones(2) * 2
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        _disabled.append(self.error_message)

    def __exit__(self, *exc: Any) -> None:
        _disabled.pop()


class save_on_cpu(saved_tensors_hooks):
    """Tensors kept for backward inside are moved to the CPU, and back when needed.

    Args:
        pin_memory: into pinned memory; without an accelerator there is none, and this has no effect.
        device_type: the accelerator; kept for old code.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> with fb.autograd.graph.save_on_cpu():
        ...     y = (x * x).sum()
        >>> y.backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: Tensor) -> tuple[Any, Tensor]:
            return t.device, t.clone() if t.device.type == "cpu" else t.cpu()

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            where, t = packed
            return t.to(where)

        super().__init__(pack, unpack)


class _Handle:
    """Represents one version of a tensor saved by graphs; it lives as long as they do."""

    __slots__ = ("__weakref__",)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Tensors kept for backward may be changed in place inside: backward gets copies, made right before the change.

    What is not changed is not copied. A change made after the block is an error in backward again, as without it.

    Entering it gives an object with `clear()`, which forgets the copies and what is kept; backward through graphs
    recorded before is then an error.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> with fb.autograd.graph.allow_mutation_on_saved_tensors():
        ...     y = x.clone()
        ...     z = (y * y).sum()
        ...     y += 5
        >>> z.backward()
        >>> x.grad
        tensor([2., 2.])
    """

    _open = threading.local()

    def __init__(self) -> None:
        super().__init__(self._pack, self._unpack)
        self.cloned: weakref.WeakKeyDictionary[_Handle, Tensor] = weakref.WeakKeyDictionary()
        self.original: weakref.WeakKeyDictionary[_Handle, tuple[Tensor, int]] = weakref.WeakKeyDictionary()
        # One handle for values saved by several ops: the same elements in the same version.
        self.tid_to_weakhandle: weakref.WeakValueDictionary[Any, _Handle] = weakref.WeakValueDictionary()

    def __enter__(self) -> Self:
        if getattr(self._open, "context", None) is not None:
            raise StateError("allow_mutation_on_saved_tensors contexts cannot be nested; the one that is open already allows changes")
        super().__enter__()
        self._open.context = self
        from flambeau.autograd._copy_on_change import CopyOnChange

        self._mode = CopyOnChange(self._before_change)
        self._mode.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._mode.__exit__(*exc)
        self._open.context = None
        super().__exit__(*exc)

    def clear(self) -> None:
        """Forgets copies and saved values: backward through previously recorded graphs raises an error."""
        self.cloned.clear()
        self.original.clear()
        self.tid_to_weakhandle.clear()

    def _pack(self, t: Tensor) -> _Handle:
        key = (t.data_ptr(), t.dtype, tuple(t.shape), t.stride(), t._version)
        handle = self.tid_to_weakhandle.get(key)
        if handle is None:
            handle = self.tid_to_weakhandle[key] = _Handle()
            self.original[handle] = t, t._version
        return handle

    def _unpack(self, handle: _Handle) -> Tensor:
        if handle in self.cloned:
            return self.cloned[handle]
        if handle not in self.original:
            raise StateError(
                "Trying to backward through a graph whose kept tensors clear() of allow_mutation_on_saved_tensors has forgotten; call "
                "backward() before clear()"
            )
        t, version = self.original[handle]
        if t._version != version:
            raise StateError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape "
                f"{tuple(t.shape)} was saved at version {version} and is now at version {t._version}; it was changed outside of "
                "allow_mutation_on_saved_tensors, or by something that block cannot see: change it inside, or change a clone()"
            )
        return t

    def _before_change(self, targets: list[Tensor]) -> None:
        memory = {t.untyped_storage().data_ptr() for t in targets}
        for handle, (t, version) in list(self.original.items()):
            if handle not in self.cloned and t._version == version and t.untyped_storage().data_ptr() in memory:
                self.cloned[handle] = t.clone()
                del self.original[handle]


@dataclasses.dataclass
class _Progress:
    """The gradients that have arrived at a hook of several tensors in one backward."""

    thread: int
    missing: int
    gradients: list[Tensor | None]


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> Handle:
    """Calls a function once per backward: when the gradients of all the tensors are there, or that of the first.

    Args:
        tensors: tensors that require gradients.
        fn: called with the list of gradients (None for tensors that the backward does not reach), or, in mode "any", with the first one.
        mode: "all" or "any".

    Example:
        >>> x, y = fb.ones(2, requires_grad=True), fb.ones(2, requires_grad=True)
        >>> h = fb.autograd.graph.register_multi_grad_hook([x, y], lambda grads: print(len(grads)))
        >>> (x * y).sum().backward()
        2
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    progress: dict[int, _Progress] = {}  # by running backward; several threads may run one

    def make(i: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            running = _C.running_backwards()
            with lock:
                state = progress.get(running[0])
                if state is None:
                    thread = threading.get_ident()
                    for number in [n for n, p in progress.items() if p.thread == thread and n not in running]:
                        del progress[number]  # done, or stopped by an error
                    missing = sum(map(_C.backward_reaches, tensors)) if mode == "all" else 1
                    state = progress[running[0]] = _Progress(thread, missing, [None] * len(tensors))
                state.gradients[i] = grad
                state.missing -= 1
                if state.missing != 0:
                    return
            fn(state.gradients if mode == "all" else grad)

        return hook

    handles = [t.register_hook(make(i)) for i, t in enumerate(tensors)]
    return Handle(lambda: [h.remove() for h in handles])


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Counts a change of the tensor's memory that was made by other means.

    Args:
        tensor: a tensor, or several.

    Example:
        >>> x = fb.ones(2)
        >>> fb.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        _C.mark_written(t)


def visualize(*args: Any, **kwargs: Any) -> Any:
    """A picture of the graph behind tensors; see flambeau.autograd._visualize."""
    from flambeau.autograd._visualize import visualize as draw

    return draw(*args, **kwargs)
