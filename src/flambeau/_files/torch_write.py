"""Writes .pt files: a pickle and the bytes of each storage, as torch.load() reads them.

Tensors and plain data are written so that torch.load(weights_only=True) accepts them; other objects use the protocol of
the pickle module (__reduce_ex__, __getstate__, copyreg), functions and classes their names.
"""

from __future__ import annotations

import collections
import copyreg
import functools
import pickle
import struct
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as fb
from flambeau._files import classes, models, sparse, zip_format
from flambeau._files.known import STORAGES
from flambeau._files.layout import Block, blocks, row_major_bytes
from flambeau._files.locations import location_tag, packages
from flambeau._files.problems import MAX_DEPTH, MAX_OBJECT_DEPTH
from flambeau._files.safetensors_format import row_major
from flambeau._files.target import Writer
from flambeau._files.torch_read import MAGIC, PROTOCOL
from flambeau._files.tree import FACTORIES, SPACES, is_foreign, is_parameter
from flambeau.errors import ArgumentError

_STORAGE_NAMES = {dtype: name for name, dtype in STORAGES.items()}
_BY_NAME = (types.FunctionType, types.BuiltinFunctionType)
_SINGLETONS: dict[Any, Any] = {type(None): None, type(NotImplemented): NotImplemented, type(...): ...}
# Pickles of protocol 2 use the names of Python 2's modules.
_OLD_MODULES = {"builtins": "__builtin__", "copyreg": "copy_reg", "flambeau.return_types": "torch.return_types"}


class _Pairs(list):
    """Pairs of a key and a value where a dict is expected."""

    def items(self) -> Any:
        return self


class Stored:
    """One storage of the file: a block of memory, or one tensor copied to be without gaps.

    Args:
        key: its name in the file.
        block: the memory.
        untyped: whether it is saved as an UntypedStorage too.
    """

    def __init__(self, key: str, block: Block, untyped: bool) -> None:
        self.key, self._block = key, block
        kinds = {t.dtype for t in block.tensors}
        # Bytes viewed with several dtypes, or with one that has no storage class, are stored as untyped.
        self.dtype = next(iter(kinds)) if len(kinds) == 1 and kinds <= set(_STORAGE_NAMES) and not untyped else None
        self.only_bytes = untyped and kinds == {fb.uint8}
        first = block.tensors[0]
        backwards = any(step < 0 for t in block.tensors for step in t.stride())
        if backwards and not block.alone:
            raise ArgumentError(
                "save: PyTorch's format has no negative strides, and a reversed view shares its memory with another tensor; "
                "clone() one of them, or save as safetensors"
            )
        gaps = first.numel() * first.itemsize < block.end - block.start
        self._copied = block.alone and (backwards or gaps)
        self.nbytes = first.numel() * first.itemsize if self._copied else block.nbytes

    def parts(self) -> Iterable[memoryview]:
        """The bytes."""
        return [row_major_bytes(self._block.tensors[0])] if self._copied else self._block.parts()

    def place(self, t: fb.Tensor) -> tuple[int, tuple[int, ...]]:
        """Offset and strides of a tensor in this storage."""
        return (0, row_major(tuple(t.shape))) if self._copied else (self._block.offset(t), tuple(t.stride()))

    @property
    def count(self) -> int:
        """Its length in elements of its dtype."""
        return self.nbytes // (self.dtype.itemsize if self.dtype else 1)


class Pickler:
    """Writes a pickle of protocol 2.

    Args:
        storage: gives the storage of a tensor; None on a first round that only collects tensors.
        legacy: whether references to storages have the sixth element of the older format.
    """

    def __init__(self, storage: Callable[[fb.Tensor], Stored] | None, legacy: bool) -> None:
        self._storage, self._legacy = storage, legacy
        self._out: list[bytes] = []
        self._memo: dict[int, int] = {}
        self._alive: list[Any] = []  # an address in the memo must not be reused for another object
        self.tensors: list[fb.Tensor] = []
        # The dense parts of sparse tensors, created once: the second pass uses the storages of the first.
        self.sparse: dict[int, Any] = {}
        # Results of reducing objects, for the same reason.
        self.reduced: dict[int, Any] = {}
        # Tensors that cover the memory of storages saved as such.
        self.storages: dict[int, fb.Tensor] = {}
        self.untyped: list[fb.Tensor] = []

    def dump(self, value: Any) -> bytes:
        """The pickle."""
        self._out = [b"\x80\x02"]
        self._put(value, ())
        return b"".join([*self._out, b"."])

    # ---- pieces

    def _emit(self, *parts: bytes) -> None:
        self._out.extend(parts)

    def _name(self, module: str, name: str) -> None:
        self._emit(f"c{module}\n{name}\n".encode())

    def _text(self, value: str) -> None:
        body = value.encode("utf-8", "surrogatepass")
        self._emit(b"X", struct.pack("<I", len(body)), body)

    def _integer(self, value: int) -> None:
        if 0 <= value < 256:
            self._emit(b"K", bytes([value]))
        elif -(1 << 31) <= value < 1 << 31:
            self._emit(b"J", struct.pack("<i", value))
        else:
            body = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self._emit(b"\x8a" + bytes([len(body)]) if len(body) < 256 else b"\x8b" + struct.pack("<I", len(body)), body)

    def _remember(self, value: Any) -> None:
        index = len(self._memo)
        self._memo[id(value)] = index
        self._alive.append(value)
        self._emit(b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index))

    def _recall(self, value: Any) -> None:
        index = self._memo[id(value)]
        self._emit(b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index))

    def _items(self, values: Iterable[Any], path: tuple[str, ...]) -> None:
        for i, value in enumerate(values):
            self._put(value, (*path, str(i)))

    def _tuple(self, values: tuple, path: tuple[str, ...]) -> None:
        if not values:
            self._emit(b")")
        elif len(values) < 4:
            self._items(values, path)
            self._emit(bytes([0x84 + len(values)]))
        else:
            self._emit(b"(")
            self._items(values, path)
            self._emit(b"t")

    def _pairs(self, value: Any, path: tuple[str, ...]) -> None:
        if value:
            self._emit(b"(")
            for k, v in value.items():
                self._put(k, (*path, "key"))
                self._put(v, (*path, str(k)))
            self._emit(b"u")

    def _call(self, module: str, name: str, arguments: tuple, path: tuple[str, ...]) -> None:
        self._name(module, name)
        self._tuple(arguments, path)
        self._emit(b"R")

    def _state(self, attributes: dict[str, Any], path: tuple[str, ...]) -> None:
        if attributes:
            self._emit(b"}")
            self._pairs(attributes, path)
            self._emit(b"b")

    # ---- values

    def _put(self, value: Any, path: tuple[str, ...]) -> None:
        kind = type(value)
        if value is None or kind is bool:
            self._emit({None: b"N", True: b"\x88", False: b"\x89"}[value])
        elif kind is int:
            self._integer(value)
        elif kind is float:
            self._emit(b"G", struct.pack(">d", value))
        elif kind is str:
            self._text(value)
        elif id(value) in self._memo:
            self._recall(value)
        elif len(path) > (MAX_OBJECT_DEPTH if self.reduced else MAX_DEPTH):
            raise ArgumentError(f"save: containers are nested deeper than {MAX_DEPTH} levels")
        else:
            if isinstance(value, fb.Tensor):
                self._tensor(value, path)
            elif isinstance(value, (fb.TypedStorage, fb.UntypedStorage)):
                self._bare_storage(value)
            elif not self._container(value, kind, path):
                self._object(value, kind, path)
            if kind not in (bytes, fb.dtype) and id(value) not in self._memo:
                self._remember(value)

    def _container(self, value: Any, kind: type, path: tuple[str, ...]) -> bool:
        # A list or dict is memoised before its elements are written: one of them may refer back to it.
        if kind is dict:
            self._emit(b"}")
            self._remember(value)
            self._pairs(value, path)
        elif kind is list:
            self._emit(b"]")
            self._remember(value)
            if value:
                self._emit(b"(")
                self._items(value, path)
                self._emit(b"e")
        elif kind is tuple:
            self._tuple(value, path)
            if id(value) in self._memo:  # an element referred back to the tuple, which wrote it
                self._emit(b"0")
                self._recall(value)
        elif kind is collections.OrderedDict:
            self._call("collections", "OrderedDict", (), path)
            self._remember(value)
            self._pairs(value, path)
            self._state(value.__dict__, path)
        elif kind is collections.Counter:
            self._call("collections", "Counter", (dict(value),), path)
        elif kind is collections.defaultdict:
            factory = value.default_factory
            self._name("collections", "defaultdict")
            if factory is None:
                self._emit(b")R")
            elif FACTORIES.get(getattr(factory, "__name__", "")) is factory:
                self._name("__builtin__", getattr(factory, "__name__", ""))
                self._emit(b"\x85R")
            else:
                self._put(factory, (*path, "default_factory"))
                self._emit(b"\x85R")
            self._remember(value)
            self._pairs(value, path)
        elif kind is collections.deque:
            self._call("collections", "deque", (list(value), value.maxlen), path)
        elif kind in (set, frozenset):
            self._call("__builtin__", type(value).__name__, (list(value),), path)
        else:
            return False
        return True

    def _object(self, value: Any, kind: type, path: tuple[str, ...]) -> None:
        name = kind.__name__
        if kind is bytes:
            self._call("_codecs", "encode", (value.decode("latin1"), "latin1"), path)
        elif kind is bytearray:
            self._call("__builtin__", "bytearray", (bytes(value),), path)
        elif kind is complex:
            self._call("__builtin__", "complex", (value.real, value.imag), path)
        elif kind in (slice, range):
            self._call("__builtin__", "slice" if kind is slice else "xrange", (value.start, value.stop, value.step), path)
        elif kind is fb.Size:
            self._call("torch", "Size", (tuple(value),), path)
        elif kind is fb.dtype:
            self._name("torch", value.name)
        elif kind is fb.device:
            self._call("torch", "device", (value.type,) if value.index is None else (value.type, value.index), path)
        elif name in SPACES and SPACES[name] is kind:
            self._name(kind.__module__, name)
            self._emit(b")\x81" if name == "Namespace" else b")R")
            self._state(vars(value), path)
        elif isinstance(value, fb.layout):
            self._call("torch.serialization", "_get_layout", (f"torch.{value.name}",), path)
        elif isinstance(value, fb.memory_format):
            self._name("torch", value.name)
        elif kind.__module__ == "numpy" and self._is_numbers(value):
            self._numpy(value, path)
        elif (function := models.function_name(value)) is not None:
            self._name(*function)
        elif isinstance(value, type) or kind in _BY_NAME:
            self._global(value, None, path)
        else:
            self._reduced(value, kind, path)

    def _global(self, value: Any, name: str | None, path: tuple[str, ...]) -> None:
        """A class, function or constant, by its importable name."""
        if value in _SINGLETONS:
            self._call("__builtin__", "type", (_SINGLETONS[value],), path)
            return
        name = str(name or getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
        module = pickle.whichmodule(value, name)  # type: ignore[attr-defined]
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not value and any(value is known for known in classes.registered.values()):
            self._name(value.__module__, value.__qualname__)
            return
        if found is not value:
            where = f" at '{'.'.join(path)}'" if path else ""
            what = "an object of type" if isinstance(value, type) else "the function"
            raise ArgumentError(
                f"save: {what} {getattr(value, '__name__', value)}{where} cannot be pickled: it is not found as {module}.{name}; "
                "define it at the top of a module"
            )
        owner, _, last = name.rpartition(".")
        if owner:
            # Python's unpickler accepts dotted names from protocol 4 on.
            self._name("__builtin__", "getattr")
            self._global(functools.reduce(getattr, owner.split("."), sys.modules[module]), owner, path)
            self._text(last)
            self._emit(b"\x86R")
        else:
            self._name(_OLD_MODULES.get(module, module), name)

    def _reduced(self, value: Any, kind: type, path: tuple[str, ...]) -> None:
        """Any other object, like the pickle module: __reduce_ex__(2) says how to recreate it."""
        if id(value) not in self.reduced:
            self.reduced[id(value)] = self._reduction(value, kind, path)
        made = self.reduced[id(value)]
        if isinstance(made, str):
            self._global(value, made, path)
            return
        function, arguments, state, elements, pairs, setter = made
        if getattr(function, "__name__", "") == "__newobj__" and arguments and isinstance(arguments[0], type):
            self._put(arguments[0], path)
            self._tuple(arguments[1:], path)
            self._emit(b"\x81")
        else:
            self._put(function, path)
            self._put(arguments, path)
            self._emit(b"R")
        if id(value) in self._memo:  # an argument referred back to the object, which wrote it
            self._emit(b"0")
            self._recall(value)
            return
        self._remember(value)
        if elements:
            self._emit(b"(")
            self._items(elements, path)
            self._emit(b"e")
        self._pairs(pairs, path)
        if state is not None and setter is not None:
            self._put(setter, path)
            self._recall(value)
            self._put(state, path)
            self._emit(b"\x86R0")
        elif state is not None:
            self._put(state, path)
            self._emit(b"b")

    def _reduction(self, value: Any, kind: type, path: tuple[str, ...]) -> Any:
        """What __reduce_ex__ returns, with all six elements, checked."""
        reduce = copyreg.dispatch_table.get(kind)
        try:
            made = reduce(value) if reduce else value.__reduce_ex__(2)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise self._refusal(value, path, f"it cannot be pickled: {error}") from error
        if isinstance(made, str):
            return made
        if type(made) is not tuple or not 2 <= len(made) <= 6 or not callable(made[0]) or type(made[1]) is not tuple:
            raise self._refusal(value, path, "its __reduce__ must return a text or a tuple of 2 to 6 elements")
        function, arguments, state, elements, pairs, setter = (*made, None, None, None, None)[:6]
        return function, arguments, state, list(elements or ()), _Pairs(pairs or ()), setter

    @staticmethod
    def _is_numbers(value: Any) -> bool:
        import numpy as np

        return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufc"

    def _numpy(self, value: Any, path: tuple[str, ...]) -> None:
        import numpy as np

        array = isinstance(value, np.ndarray)
        self._name("numpy.core.multiarray", "_reconstruct" if array else "scalar")
        if array:
            self._name("numpy", "ndarray")
            self._tuple((0,), path)
            self._put(b"b", path)
            self._emit(b"\x87R(")
            self._integer(1)
            self._tuple(value.shape, path)
        self._call("numpy", "dtype", (value.dtype.str[1:], False, True), path)
        order = value.dtype.str[0]
        self._tuple((3, order, None, None, None, -1, -1, 0), path)
        self._emit(b"b")
        if array:
            self._put(False, path)
        self._put(value.tobytes(), path)
        self._emit(b"tb" if array else b"\x86R")

    # ---- tensors

    def _tensor(self, t: fb.Tensor, path: tuple[str, ...]) -> None:
        if sparse.is_sparse(t):
            layout, parts = self.sparse.setdefault(id(t), sparse.parts(t))
            self._name("torch._utils", "_rebuild_sparse_tensor")
            self._call("torch.serialization", "_get_layout", (f"torch.{layout}",), path)
            self._tuple(parts, path)
            self._emit(b"\x86R")
            return
        if not type(t).__reduce_ex__.__module__.startswith("flambeau."):  # the class defines how it is recreated
            self._reduced(t, type(t), path)
            return
        if t.is_meta:
            self._name("torch._utils", "_rebuild_meta_tensor_no_storage")
            self._emit(b"(")
            self._put(t.dtype, path)
            self._tuple(tuple(t.shape), path)
            self._tuple(row_major(tuple(t.shape)), path)
            self._put(bool(t.requires_grad), path)
            self._emit(b"tR")
            return
        self.tensors.append(t)
        attributes = dict(t.__dict__)
        foreign = type(t) if is_foreign(t) else None
        if foreign is None and is_parameter(t):
            self._name("torch._utils", "_rebuild_parameter_with_state" if attributes else "_rebuild_parameter")
            self._emit(b"(")
            self._rebuilt(t, False, path)
            self._put(bool(t.requires_grad), path)
            self._call("collections", "OrderedDict", (), path)
            if attributes:
                self._put(attributes, path)
            self._emit(b"tR")
        elif attributes or foreign:
            self._name("torch._tensor", "_rebuild_from_type_v2")
            self._emit(b"(")
            named = (lambda: self._put(foreign, path)) if foreign else (lambda: self._name("torch", "Tensor"))
            self._arguments(t, bool(t.requires_grad), path, between=named)
            self._put(attributes, path)
            self._emit(b"tR")
        else:
            self._rebuilt(t, bool(t.requires_grad), path)

    def _rebuilt(self, t: fb.Tensor, requires_grad: bool, path: tuple[str, ...]) -> None:
        self._arguments(t, requires_grad, path)
        self._emit(b"R")

    def _arguments(self, t: fb.Tensor, requires_grad: bool, path: tuple[str, ...], between: Any = None) -> None:
        stored = self._storage(t) if self._storage else None
        typed = stored is None or stored.dtype is not None
        self._name("torch._utils", "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3")
        if between:
            between()
        self._emit(b"(")
        self._reference(t, stored)
        if stored is None:
            self._emit(b"t")
            return
        offset, strides = stored.place(t)
        self._integer(offset)
        self._tuple(tuple(t.shape), path)
        self._tuple(strides, path)
        self._put(requires_grad, path)
        self._call("collections", "OrderedDict", (), path)
        if stored.dtype is None:
            self._name("torch", t.dtype.name)
        self._emit(b"t")

    def _bare_storage(self, value: Any) -> None:
        """A storage saved as an object, whether or not tensors of the file use it."""
        t = self.storages.setdefault(id(value), value._flat)
        self.tensors.append(t)
        if isinstance(value, fb.UntypedStorage):
            self.untyped.append(t)
        stored = self._storage(t) if self._storage else None
        if stored is not None and isinstance(value, fb.TypedStorage) and stored.dtype != value.dtype:
            raise ArgumentError(
                "save: Cannot save multiple tensors or storages that view the same data as different types: a storage of "
                f"{value.dtype.name} has its memory in common with others; save value.untyped() or a clone() of it"
            )
        self._reference(t, stored)

    def _reference(self, t: fb.Tensor, stored: Stored | None) -> None:
        """The persistent id of a tensor's storage."""
        self._emit(b"(")
        self._text("storage")
        if stored is None:
            self._emit(b"t")
            return
        if stored.dtype is None:
            self._name("torch.storage", "UntypedStorage")
        else:
            self._name("torch", _STORAGE_NAMES[stored.dtype])
        self._text(stored.key)
        self._text(location_tag(fb.UntypedStorage(t)) if packages or t.device.type != "cpu" else "cpu")
        self._integer(stored.count)
        self._emit(b"NtQ" if self._legacy else b"tQ")

    def _refusal(self, value: Any, path: tuple[str, ...], way: str) -> ArgumentError:
        where = f" at '{'.'.join(path)}'" if path else ""
        return ArgumentError(f"save: an object of type {type(value).__name__}{where} is not data that a .pt file can hold; {way}")


def _planned(value: Any, legacy: bool) -> tuple[bytes, list[Stored]]:
    scout = Pickler(None, legacy)
    try:
        scout.dump(value)
    except RecursionError:
        raise ArgumentError("save: objects are nested too deeply to be written") from None
    tensors = scout.tensors
    stored: list[Stored] = []
    home: dict[int, Stored] = {}
    whole = {id(t) for t in scout.untyped}
    for block in blocks(tensors):
        stored.append(Stored(str(len(stored)), block, any(id(t) in whole for t in block.tensors)))
        home.update({id(tensors[i]): stored[-1] for i in block.members})
    writer = Pickler(lambda t: home[id(t)], legacy)
    writer.sparse, writer.reduced, writer.storages = scout.sparse, scout.reduced, scout.storages
    return writer.dump(value), stored


def write_zip(writer: Writer, value: Any) -> None:
    """The current format."""
    data, stored = _planned(value, False)
    order = sys.byteorder.encode()
    records: list[zip_format.Record] = [("archive/data.pkl", len(data), lambda: [data])]
    records.append(("archive/byteorder", len(order), lambda: [order]))
    records += [(f"archive/data/{s.key}", s.nbytes, s.parts) for s in stored]
    records.append(("archive/version", 2, lambda: [b"3\n"]))
    zip_format.write(writer, records)


def write_legacy(writer: Writer, value: Any) -> None:
    """The format before PyTorch 1.6."""
    data, stored = _planned(value, True)
    if any(s.dtype is None and not s.only_bytes for s in stored):
        raise ArgumentError(
            "save: Cannot save multiple tensors or storages that view the same data as different types, nor uint16, uint32 "
            "and uint64, in PyTorch's old format; leave "
            "_use_new_zipfile_serialization=True"
        )
    machine = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    for head in (MAGIC, PROTOCOL, machine):
        writer.write(Pickler(None, True).dump(head))
    writer.write(data)
    writer.write(Pickler(None, True).dump([s.key for s in stored]))
    for s in stored:
        writer.write(struct.pack("<q", s.count))
        for part in s.parts():
            writer.write(part)
