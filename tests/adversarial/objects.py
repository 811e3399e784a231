"""Objects that lie, raise, or change what is being read while they are read.

ADVERSARIES maps a name to a function that makes one. It is given a victim, a tensor that takes part in the same call, and
a container that holds the object; either may be changed while the call reads its arguments.
"""

from __future__ import annotations

import array
import ctypes
import gc
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

import flambeau as fb


class Mischief(Exception):
    """What misbehaving objects raise."""


# ---- what is done to the victim --------------------------------------------------------------------------------------


def empty_it(victim: Any, box: list) -> None:
    victim.data = fb.empty(0, dtype=victim.dtype)
    box.clear()


def shrink_it(victim: Any, box: list) -> None:
    if not victim.requires_grad and victim.numel():
        victim.resize_(max(victim.numel() // 2, 1))
    del box[1:]


def grow_it(victim: Any, box: list) -> None:
    victim.data = fb.zeros(50_000, dtype=victim.dtype)
    box.extend([0] * 10_000)


def other_dtype(victim: Any, box: list) -> None:
    victim.data = victim.to(fb.uint8 if victim.dtype != fb.uint8 else fb.float64)
    box[:] = [None] * len(box)


def free_storage(victim: Any, box: list) -> None:
    victim.untyped_storage().resize_(0)
    box.clear()


def re_enter(victim: Any, box: list) -> None:
    fb.tensor(box)
    victim.add_(1)
    victim.reshape(-1)[:1].sum().item()


def collect(victim: Any, box: list) -> None:
    box.clear()
    gc.collect()


def fail(victim: Any, box: list) -> None:
    raise Mischief("no")


ACTIONS = (empty_it, shrink_it, grow_it, other_dtype, free_storage, re_enter, collect, fail)


class Acting:
    """Does something to the victim whenever it is asked for a value."""

    def __init__(self, act: Callable[[Any, list], None], victim: Any, box: list, value: Any) -> None:
        self._act, self._victim, self._box, self._value, self._calls = act, victim, box, value, 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._act.__name__}>"

    def _answer(self) -> Any:
        self._calls += 1
        if self._calls < 100:  # the action may read this object again
            self._act(self._victim, self._box)
        return self._value


class ActingIndex(Acting):
    def __index__(self) -> Any:
        return self._answer()


class ActingFloat(Acting):
    def __float__(self) -> Any:
        return self._answer()


class ActingBool(Acting):
    def __bool__(self) -> Any:
        return self._answer()


class ActingSequence(Acting):
    def __len__(self) -> int:
        self._answer()
        return 2

    def __getitem__(self, i: Any) -> Any:
        self._answer()
        if i not in (0, 1):
            raise IndexError(i)
        return i


class ActingIterator(Acting):
    def __iter__(self) -> Any:
        for i in range(2):
            self._answer()
            yield i


class ActingArray(Acting):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._answer()
        return np.arange(6.0).reshape(2, 3)


class ActingDLPack(Acting):
    def __dlpack__(self, **_: Any) -> Any:
        self._answer()
        return fb.arange(3).__dlpack__()

    def __dlpack_device__(self) -> Any:
        self._answer()
        return (1, 0)


class ActingHandler(Acting):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for a in args:
            if isinstance(a, ActingHandler):
                a._answer()
        return NotImplemented


class Dying:
    """Does something when it is dropped, which a call may do in the middle."""

    def __init__(self, act: Callable[[Any, list], None], victim: Any, box: list) -> None:
        self._act, self._victim, self._box = act, victim, box

    def __index__(self) -> int:
        return 1

    def __del__(self) -> None:
        self._act(self._victim, self._box)


# ---- plain lies --------------------------------------------------------------------------------------------------------


class LongList(list):
    """A list that claims another length and other items than it has."""

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, i: Any) -> Any:
        raise Mischief("not here")


class ShortTuple(tuple):
    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        raise Mischief("not here")


class NegativeLength:
    def __len__(self) -> int:
        return -1

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, int) and i > 2:  # `in` would go on for ever
            raise IndexError
        return self


class Endless:
    """A sequence that contains itself."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> Any:
        if i > 1:
            raise IndexError
        return self


class OddInt(int):
    def __index__(self) -> int:
        return 1 << 70

    def __eq__(self, other: object) -> bool:
        raise Mischief("incomparable")

    __hash__ = int.__hash__


class OddText(str):
    def __eq__(self, other: object) -> bool:
        raise Mischief("incomparable")

    def __hash__(self) -> int:
        raise Mischief("unhashable")


class Impostor:
    """Says that it is a tensor."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return fb.Tensor


class WrongIndex:
    def __index__(self) -> Any:
        return "one"


class WrongArray:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return "no array"


class WrongInterface:
    def __init__(self, **changes: Any) -> None:
        self._kept = np.arange(6.0)
        self.__array_interface__ = {**self._kept.__array_interface__, **changes}


class WrongDLPack:
    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Any:
        return (1, 0)


class Liar(fb.Tensor):
    """A tensor whose attributes say something else than its memory."""

    shape = (1000, 1000)
    ndim = 2
    dtype = "nonsense"
    dim = numel = stride = None


def used_capsule() -> Any:
    capsule = fb.arange(3).__dlpack__()
    fb.from_dlpack(WrongDLPack(capsule))
    return capsule


def released_view() -> memoryview:
    view = memoryview(bytearray(16))
    view.release()
    return view


def holding(value: Any) -> list:
    box: list = [value, 1, 2]
    return box


def _acting(kind: type, act: Any, value: Any) -> Callable[[Any], Any]:
    return lambda victim: kind(act, victim, [], value)


def _listed(act: Any) -> Callable[[Any], Any]:
    def make(victim: Any) -> Any:
        box: list = []
        box[:] = [ActingIndex(act, victim, box, 1), 1, 2]
        return box

    return make


def _mixed(act: Any) -> Callable[[Any], Any]:
    def make(victim: Any) -> Any:
        box: list = []
        box[:] = [victim, ActingIndex(act, victim, box, 0), victim]
        return box

    return make


ADVERSARIES: dict[str, Callable[[Any], Any]] = {
    **{f"index that does {a.__name__}": _acting(ActingIndex, a, 1) for a in ACTIONS},
    **{f"float that does {a.__name__}": _acting(ActingFloat, a, 0.5) for a in (empty_it, fail)},
    **{f"bool that does {a.__name__}": _acting(ActingBool, a, True) for a in (empty_it, fail)},
    **{f"sequence that does {a.__name__}": _acting(ActingSequence, a, 1) for a in (empty_it, shrink_it, re_enter, fail)},
    **{f"iterator that does {a.__name__}": _acting(ActingIterator, a, 1) for a in (grow_it, fail)},
    **{f"array that does {a.__name__}": _acting(ActingArray, a, 1) for a in (empty_it, fail)},
    **{f"dlpack that does {a.__name__}": _acting(ActingDLPack, a, 1) for a in (empty_it, fail)},
    **{f"handler that does {a.__name__}": _acting(ActingHandler, a, 1) for a in (empty_it, free_storage, fail)},
    **{f"list with an index that does {a.__name__}": _listed(a) for a in ACTIONS},
    **{f"list of tensors and an index that does {a.__name__}": _mixed(a) for a in (empty_it, shrink_it, free_storage)},
    "list with something that dies": lambda victim: [Dying(empty_it, victim, []), 1],
    "long list": lambda _: LongList([1, 2]),
    "short tuple": lambda _: ShortTuple((1, 2)),
    "negative length": lambda _: NegativeLength(),
    "endless": lambda _: Endless(),
    "odd int": lambda _: OddInt(1),
    "odd text": lambda _: OddText("mean"),
    "lone surrogate": lambda _: "\ud800",
    "impostor": lambda _: Impostor(),
    "wrong index": lambda _: WrongIndex(),
    "list of wrong indices": lambda _: [WrongIndex(), 1],
    "wrong array": lambda _: WrongArray(),
    "interface without memory": lambda _: WrongInterface(data=(0, False)),
    "interface with a negative shape": lambda _: WrongInterface(shape=(-3,)),
    "interface of nonsense": lambda _: WrongInterface(typestr="?x", shape="ab"),
    "no capsule": lambda _: WrongDLPack("capsule"),
    "used capsule": lambda _: WrongDLPack(used_capsule()),
    "mock": lambda _: mock.MagicMock(),
    "mock of a tensor": lambda _: mock.MagicMock(spec=fb.Tensor),
    "liar": lambda _: fb.ones(2, 3).as_subclass(Liar),
    "type": lambda _: fb.Tensor,
    "released view": lambda _: released_view(),
    "array of characters": lambda _: array.array("u", "ab"),
    "foreign memory": lambda _: (ctypes.c_float * 3)(),
    "the victim in a cycle": lambda victim: (lambda c: (c.append(c), c)[1])([victim]),
    "object": lambda _: object(),
    "read-only": lambda _: fb.from_numpy(np.frombuffer(b"\0" * 24, np.float32)),
    "meta": lambda _: fb.empty(2, 3, device="meta"),
    "sparse": lambda _: fb.eye(3).to_sparse(),
}
