"""Sending tensors between processes: their memory moves to shared memory, the message contains its position."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import flambeau as fb
from flambeau import _C, Tensor
from flambeau.multiprocessing import _arena
from flambeau.storage import _rebuilt

__all__ = ["copying", "empty_shared", "init_reductions", "is_shared", "rebuild_tensor", "reduce_tensor", "share"]
__dir__ = __all__.copy

_mode = threading.local()  # .copying: the sender's memory is not moved

# In a copying message, smaller tensors are sent as bytes.
_SMALL = 2048


@contextlib.contextmanager
def copying() -> Any:
    """Messages pickled in the block contain copies: for senders that keep writing to their tensors."""
    before = getattr(_mode, "copying", False)
    _mode.copying = True
    try:
        yield
    finally:
        _mode.copying = before


def _must_copy(tensor: Tensor) -> bool:
    # A queue of the standard module pickles in its own thread: memory must not move while others compute with it.
    return (
        getattr(_mode, "copying", False) or tensor._read_only or threading.current_thread().name == "QueueFeederThread"
    )


def empty_shared(shape: Sequence[int], dtype: fb.dtype) -> Tensor:
    """An uninitialised tensor in shared memory.

    Args:
        shape: its sizes.
        dtype: its dtype.

    Example:
        >>> from flambeau.multiprocessing.reductions import empty_shared
        >>> empty_shared((2, 3), fb.float32).is_shared()
        True
    """
    count, strides = 1, []
    for size in reversed(shape):
        strides.append(count)
        count *= max(size, 1)
    block = _arena.arena.allocate(count * dtype.itemsize)
    return _C.from_address("share_memory_", block.data, dtype, tuple(shape), tuple(reversed(strides)), block, False)


def share(tensor: Tensor) -> _arena.Block:
    """Moves the storage of a tensor, and so every view of it, to shared memory; returns its block."""
    known = _arena._by_data.get(tensor._storage_ptr())
    if known is None:
        known = _arena.arena.allocate(tensor._storage_nbytes())
        _C.shared_move(tensor, known.data, known)
    return known


def is_shared(tensor: Tensor) -> bool:
    """Whether other processes can see the memory of a tensor.

    Example:
        >>> from flambeau.multiprocessing.reductions import is_shared
        >>> is_shared(fb.ones(2))
        False
    """
    return tensor._storage_ptr() in _arena._by_data


def reduce_tensor(tensor: Tensor) -> Any:
    """The message for a tensor, in the form pickle expects."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "share_memory_: Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not cross "
            "process boundaries; send detach() of it"
        )
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor.__reduce_ex__(4)
    plain = tensor.detach()
    if _arena._by_data.get(plain._storage_ptr()) is None and _must_copy(plain):
        if plain.numel() * plain.itemsize <= _SMALL:
            return tensor.__reduce_ex__(4)
        plain = empty_shared(plain.shape, plain.dtype).copy_(plain)
    block = share(plain)
    view = (plain._storage_nbytes(), plain.dtype.name, tuple(plain.shape), plain.stride(), plain.storage_offset())
    attributes = dict(tensor.__dict__) or None
    return rebuild_tensor, (type(tensor), _arena.send(block), view, tensor.requires_grad), attributes


def rebuild_tensor(cls: type[Tensor], message: Any, view: Any, requires_grad: bool) -> Any:
    """The tensor of a message, on the sender's memory."""
    nbytes, kind, shape, strides, offset = view
    block = _arena.receive(message)
    whole = _C.from_address("share_memory_", block.data, _C.uint8, (nbytes,), (1,), block, False)
    tensor = _C.over_storage(whole, getattr(_C, kind), shape, strides, offset)
    if cls is not Tensor:
        tensor = tensor.as_subclass(cls)
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_storage(cls: Any, element: fb.dtype, whole: Tensor) -> Any:
    """The storage of a message, on the sender's memory."""
    return _rebuilt(cls, element, whole)


def _override(pickler: Any, value: Any):
    if isinstance(value, (fb.TypedStorage, fb.UntypedStorage)):
        return rebuild_storage, (type(value), value._element, value._whole())
    return reduce_tensor(value) if isinstance(value, Tensor) else NotImplemented


def init_reductions() -> None:
    """Lets the standard module's queues, pipes, pools and process arguments send tensors this way.

    Example:
        >>> from flambeau.multiprocessing.reductions import init_reductions
        >>> init_reductions()  # importing flambeau.multiprocessing does it too
    """
    # Not register(): it handles exact classes only, and tensors have subclasses.
    ForkingPickler.reducer_override = _override  # type: ignore[method-assign]  # the hook pickle looks for
