"""The global generators of the modules random and NumPy, seeded for every sample.

Both are Mersenne Twisters of 624 words, and their own ways in (random.seed, numpy.random.set_state) take up to 50 µs,
more than a small sample takes to load. So their words are written where they lie. The places are looked up once, on
generators made for the purpose, and proved by a round trip; where that fails, the public functions put the same words
in place.
"""

from __future__ import annotations

import ctypes
import functools
import random
import struct
import sys
from typing import Any, cast

import flambeau as fb
from flambeau import _C

_WORDS = struct.Struct("624I")
_PYTHON, _NUMPY = 0, 1  # salts: the two generators shall not give the same numbers
_MAGIC = 0.7316204958137405


def _memory(address: int, count: int) -> Any:
    return (ctypes.c_ubyte * count).from_address(address)


@functools.cache
def _python_layout() -> tuple[int, int] | None:
    """Offsets of the words and of the position in a random.Random; None if they are not where they can be seen."""
    if sys.implementation.name != "cpython":
        return None
    probe = random.Random(1)
    *words, position = probe.getstate()[1]
    size = random.Random.__basicsize__
    at = bytes(_memory(id(probe), size)).find(_WORDS.pack(*words))
    if at < 4 or at + _WORDS.size > size:
        return None
    place = ctypes.c_int.from_address(id(probe) + at - 4)
    if place.value != position:
        return None
    _memory(id(probe) + at, _WORDS.size)[:] = _C.twister_words(5, 6, _PYTHON)
    place.value = 17
    return (at, at - 4) if probe.getstate()[1] == (*_WORDS.unpack(_C.twister_words(5, 6, _PYTHON)), 17) else None


@functools.cache
def _numpy_layout() -> int | None:
    """Offset, in a RandomState, of the mark that it keeps a second normal number; None if it cannot be seen."""
    import numpy as np

    if sys.implementation.name != "cpython":
        return None
    bits = np.random.MT19937(1)
    probe = np.random.RandomState(bits)
    state = cast(Any, probe.get_state(legacy=False))
    state.update(has_gauss=1, gauss=_MAGIC)
    probe.set_state(state)
    size = np.random.RandomState.__basicsize__
    at = bytes(_memory(id(probe), size)).find(struct.pack("d", _MAGIC)) - 8
    address = bits.ctypes.state_address
    if at < 8 or ctypes.c_int.from_address(id(probe) + at).value != 1:
        return None
    ctypes.c_int.from_address(id(probe) + at).value = 0
    words = _C.twister_words(5, 6, _NUMPY)
    _memory(address, _WORDS.size)[:] = words
    ctypes.c_int.from_address(address + _WORDS.size).value = 17
    found = cast(Any, probe.get_state(legacy=False))
    same = found["state"]["key"].tobytes() == words and found["state"]["pos"] == 17 and found["has_gauss"] == 0
    return at if same else None


def _bit_generator() -> Any:
    from numpy.random import mtrand

    return mtrand.get_bit_generator()


class Twisters:
    """The generators as they are now; other() tells when NumPy's was exchanged for another."""

    def __init__(self) -> None:
        import numpy as np

        self._np = np.random
        self.bits = _bit_generator()
        self.python: Any = random._inst  # type: ignore[attr-defined]  # not in the stub
        layout, gauss = _python_layout(), _numpy_layout()
        self.addresses: tuple[Any, ...] = ()
        if layout and gauss and type(self.bits) is np.random.MT19937:
            words, position = (id(self.python) + offset for offset in layout)
            there = self.bits.ctypes.state_address
            state: Any = np.random.mtrand._rand  # type: ignore[attr-defined]  # not in the stub
            self.addresses = (self.python, words, position, there, there + _WORDS.size, id(state) + gauss)
            self._spans = [
                memoryview(_memory(start, count)).cast("B")
                for start, count in ((min(words, position), _WORDS.size + 4), (there, _WORDS.size + 4), (id(state) + gauss, 16))
            ]

    def seed(self, seed: int, index: int) -> None:
        """Seeds flambeau, random and NumPy for a sample."""
        if self.addresses:
            _C.seed_sample(seed, index, *self.addresses)
        else:
            _C.seed_sample(seed, index)
            self._seed_slowly(seed, index)

    def _seed_slowly(self, seed: int, index: int) -> None:
        words = _C.twister_words(seed, index, _PYTHON)
        self.python.setstate((3, (*_WORDS.unpack(words), 623), None))
        if type(self.bits) is self._np.MT19937:
            numbers = _WORDS.unpack(_C.twister_words(seed, index, _NUMPY))
            self._np.set_state(("MT19937", cast(Any, numbers), 623, 0, 0.0))
        else:  # numpy.random.set_bit_generator() was used
            self._np.set_state({**type(self.bits)(_C.mix(seed, index)).state, "has_gauss": 0, "gauss": 0.0})

    def save(self) -> Any:
        """The states of flambeau, random and NumPy."""
        ours = fb.default_generator.get_state()
        if not self.addresses:
            return ours, self.python.getstate(), self._np.get_state(legacy=False)
        return ours, self.python.gauss_next, [bytes(span) for span in self._spans]

    def restore(self, saved: Any) -> None:
        """Puts back what save() gave."""
        ours, python, numpy = saved
        fb.default_generator.set_state(ours)
        if not self.addresses:
            self.python.setstate(python)
            self._np.set_state(numpy)
            return
        self.python.gauss_next = python
        with self.bits.lock:  # a thread that draws has it, without the interpreter's
            for span, data in zip(self._spans, numpy, strict=True):
                span[:] = data


_known: Twisters | None = None


def twisters() -> Twisters:
    """The generators of random and NumPy; looked up again when NumPy's was exchanged."""
    global _known
    if _known is None or _known.bits is not _bit_generator():
        _known = Twisters()
    return _known
