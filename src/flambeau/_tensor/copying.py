"""Copying and pickling of tensors."""

from __future__ import annotations

import copy as _copy
import pickle
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._settings.strict import strict_or_warn
from flambeau.errors import StateError


def _with_attributes(result: Tensor, cls: type, attributes: dict[str, Any]) -> Tensor:
    if cls is not Tensor:
        result = result.as_subclass(cls)
    if attributes:
        result.__dict__.update(attributes)
    return result


def _shallow(self):
    """copy.copy(): a new tensor object on the same memory."""
    alias = _C.over_storage(self, self.dtype, self.shape, self.stride(), self.storage_offset())
    copy = _with_attributes(alias, type(self), self.__dict__)
    return copy.requires_grad_(self.requires_grad)


def copied_bytes(t: Tensor, memo: Any) -> Tensor:
    """The copy of a tensor's storage within one copy.deepcopy()."""
    key = ("flambeau storage", t._storage_ptr(), t._storage_nbytes())
    if key not in memo:
        # The memo keeps the original alive: its address must not be reused meanwhile.
        memo[key] = (_C.storage_bytes(t), _C.storage_bytes(t).clone())
    return memo[key][1]


def _deep(self, memo):
    """copy.deepcopy(): each storage is copied once, so that tensors sharing memory still share it in the copy."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment; "
            "use clone(), or deepcopy of detach()"
        )
    if self.numel() == 0:
        result = self.clone()
    else:
        result = _C.over_storage(copied_bytes(self, memo), self.dtype, self.shape, self.stride(), self.storage_offset())
    if type(self) is not Tensor:
        result = result.as_subclass(type(self))
    memo[id(self)] = result
    result.requires_grad = self.requires_grad
    if self.grad is not None:
        result.grad = _copy.deepcopy(self.grad, memo)
    if self.__dict__:
        result.__dict__.update(_copy.deepcopy(self.__dict__, memo))
    return result


def _memory_order(t: Tensor) -> tuple[int, ...]:
    """Dimensions from the slowest to the fastest in memory; row-major if the tensor has gaps."""
    if t._is_row_major():
        return tuple(range(t.ndim))
    order = tuple(sorted(range(t.ndim), key=lambda d: -t.stride(d)))
    dense = t.permute(order)._is_row_major() if t.ndim else True
    return order if dense else tuple(range(t.ndim))


def _rebuild(data, kind: str, shape, order, cls, requires_grad=False):
    """The tensor of a pickle: bytes in memory order."""
    dtype = getattr(_C, kind)
    sizes = tuple(shape[d] for d in order)
    strides, step = [0] * len(order), 1
    for d in reversed(order):
        strides[d], step = step, step * max(shape[d], 1)
    view = memoryview(data)
    if view.nbytes == 0:
        result = _C.namespaces[""]["empty"](sizes, dtype=dtype).permute(
            tuple(order.index(d) for d in range(len(order)))
        )
    else:
        import numpy as np

        source = np.frombuffer(view, dtype=np.uint8)
        address = source.__array_interface__["data"][0]
        raw = _C.from_address("pickle", address, _C.uint8, (view.nbytes,), (1,), source, view.readonly)
        # Copied into our own memory: aligned, writable, resizable.
        result = _C.over_storage(raw.clone(), dtype, shape, tuple(strides), 0)
    result = result if cls is Tensor else result.as_subclass(cls)
    return result.requires_grad_() if requires_grad else result


def _rebuild_on(where: str, host: Tensor, cls, requires_grad):
    """Rebuilds a pickled tensor of another device than the CPU."""
    result = host._to_device(_C.device(where))
    result = result if cls is Tensor else result.as_subclass(cls)
    return result.requires_grad_() if requires_grad else result


def _rebuild_meta(kind: str, shape, cls, requires_grad, strides=None):
    """Rebuilds a pickled tensor without values."""
    options = {"dtype": getattr(_C, kind), "device": "meta"}
    make = _C.namespaces[""]
    result = make["empty"](shape, **options) if strides is None else make["empty_strided"](shape, strides, **options)
    result = result if cls is Tensor else result.as_subclass(cls)
    return result.requires_grad_() if requires_grad else result


def _reduce(self, protocol):
    """Pickles only the elements, not the rest of a larger storage; attributes follow as the state."""
    if not self.is_leaf:
        strict_or_warn("pickle: only leaves can be pickled, and this tensor has a history; pickle detach() of it", StateError)
    if self.is_meta:
        made = (self.dtype.name, tuple(self.shape), type(self), self.requires_grad, tuple(self.stride()))
        return _rebuild_meta, made, dict(self.__dict__) or None
    plain = self.detach() if self.requires_grad else self
    if not self.is_cpu:
        return _rebuild_on, (str(self.device), plain.cpu(), type(self), self.requires_grad), dict(self.__dict__) or None
    order = _memory_order(self)
    dense = plain.permute(order).contiguous() if self.ndim else plain
    size = self.numel() * self.itemsize
    first = dense.storage_offset() * self.itemsize
    raw = memoryview(_C.storage_bytes(dense))[first : first + size]
    data: Any = pickle.PickleBuffer(raw) if protocol >= 5 else bytes(raw)
    args = (data, self.dtype.name, tuple(self.shape), order, type(self), self.requires_grad)
    return _rebuild, args, dict(self.__dict__) or None


def _setstate(self, state):
    """Sets a pickled state: attributes; in old pickles of PyTorch storage, offset, size and strides."""
    if isinstance(state, dict):
        self.__dict__.update(state)
    elif isinstance(state, tuple) and len(state) == 4:
        self.set_(*state)
    else:
        raise TypeError(f"__setstate__: expected a dictionary of attributes, or storage, offset, size and strides, got {state!r}")


def _dir(self):
    """Names of methods and properties, and the attributes of this tensor."""
    return sorted({*dir(type(self)), *self.__dict__})


METHODS = {"__copy__": _shallow, "__deepcopy__": _deep, "__dir__": _dir, "__reduce_ex__": _reduce, "__setstate__": _setstate}
