"""Host memory for asynchronous copies to accelerators: pin_memory() and is_pinned().

Drivers keep their own copy of uploaded data until the transfer is done, so copies from any memory are asynchronous.
Pinned memory keeps PyTorch's contract: tensors in separate whole pages, registered as pinned.
"""

from __future__ import annotations

import bisect
import mmap
import threading
import weakref
from typing import Any

import flambeau as fb
from flambeau import _C

_lock = threading.Lock()
_ranges: list[tuple[int, int]] = []  # beginnings and ends, sorted


def _forget(where: tuple[int, int]) -> None:
    with _lock:
        _ranges.remove(where)


def is_pinned(tensor: Any) -> bool:
    """Whether the memory of a tensor on the CPU is pinned."""
    if tensor.device.type != "cpu" or not _ranges:
        return False
    address = tensor._storage_ptr()
    with _lock:
        place = bisect.bisect_right(_ranges, (address, 1 << 64)) - 1
        return place >= 0 and _ranges[place][0] <= address < _ranges[place][1]


def pin(tensor: Any, device: Any = None) -> Any:
    """The tensor in pinned memory; unchanged if it is already there."""
    if tensor.device.type != "cpu":
        raise RuntimeError(f"pin_memory: cannot pin a tensor on '{tensor.device}', only dense CPU tensors can be pinned")
    if device is None and not fb.accelerator.is_available():
        raise RuntimeError("pin_memory: there is no accelerator to pin memory for")
    if device is not None:
        fb.accelerator._device(device)
    if is_pinned(tensor):
        return tensor
    source = tensor.detach()
    plain = source if source.is_contiguous() else source.clone(memory_format=fb.preserve_format)
    extent = 1 + sum((n - 1) * s for n, s in zip(plain.shape, plain.stride(), strict=True)) if plain.numel() else 0
    pages = mmap.mmap(-1, max(extent * plain.element_size(), 1))
    whole = fb.frombuffer(pages, dtype=fb.uint8)
    address = whole.data_ptr()
    where = (address, address + len(pages))
    with _lock:
        bisect.insort(_ranges, where)
    weakref.finalize(pages, _forget, where)
    made = whole[: extent * plain.element_size()].view(plain.dtype).as_strided(plain.shape, plain.stride())
    return made.copy_(plain)


def pin_all(data: Any, device: Any = None) -> Any:
    """Containers with their tensors in pinned memory; calls pin_memory() of objects that have it."""
    if isinstance(data, _C.Tensor):
        return pin(data, device)
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, dict):
        made = {key: pin_all(value, device) for key, value in data.items()}
        return made if type(data) is dict else type(data)(made)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_all(value, device) for value in data))
    if isinstance(data, (list, tuple)):
        return type(data)(pin_all(value, device) for value in data)
    return data.pin_memory() if hasattr(data, "pin_memory") else data
