"""Storages: the memory under tensors, as bytes or as elements of one dtype.

Example:
    >>> fb.storage.TypedStorage is fb.TypedStorage
    True
"""

from __future__ import annotations

import builtins
import operator
import os
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

import flambeau as fb
from flambeau import _C, Tensor
from flambeau._tensor.copying import copied_bytes
from flambeau._tensor.exchange import mapped_files, remember_file
from flambeau.errors import ArgumentError, StateError


class _Storage:
    """The memory under a tensor as elements of a dtype."""

    def __init__(self, owner: Tensor, dtype: Any) -> None:
        self._tensor, self._element = owner, dtype

    @property
    def _flat(self) -> Tensor:
        """All of the memory as a 1-d tensor."""
        if self._tensor.is_meta:
            raise NotImplementedError("storage: Not available for 'meta' device: a storage there has a size, but no elements")
        return _C.over_storage(self._tensor, self._element, (self.size(),), (1,), 0)

    def _whole(self) -> Tensor:
        """The memory as bytes."""
        if self._tensor.is_meta:
            raise NotImplementedError("storage: Cannot copy out of meta tensor; no data! Make a storage with device='cpu'")
        return _C.over_storage(self._tensor, _C.uint8, (self.nbytes(),), (1,), 0)

    def _like(self, flat: Tensor) -> Any:
        """A storage of this kind with the elements of a 1-d tensor."""
        made = type(self).__new__(type(self))
        _Storage.__init__(made, flat.clone(), self._element)
        return made

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self._tensor.device

    @property
    def is_cuda(self) -> builtins.bool:
        """Whether the memory is a CUDA device's."""
        return False

    @property
    def is_hpu(self) -> builtins.bool:
        """Whether the memory is a Gaudi device's."""
        return False

    @property
    def is_sparse(self) -> builtins.bool:
        """False: storages are dense."""
        return False

    @property
    def is_sparse_csr(self) -> builtins.bool:
        """False: storages are dense."""
        return False

    _cdata = property(lambda self: self.data_ptr(), doc="A number that tells storages apart.")

    def get_device(self) -> builtins.int:
        """The index of the device; -1 for the CPU."""
        return -1 if self.device.index is None else self.device.index

    @property
    def filename(self) -> str | None:
        """The file that is mapped here for sharing, if it is one."""
        return mapped_files.get(self.data_ptr())

    def resizable(self) -> builtins.bool:
        """Whether resize_() can give it more memory."""
        return not self._tensor._read_only

    def resize_(self, size: Any) -> Self:
        """Gives the storage room for more elements, in place; the new ones are not set.

        A storage does not become smaller: tensors that look at its end would look at memory of others.
        """
        size = builtins.int(size)
        if size < self.size() and not self._tensor.is_meta:
            raise StateError(
                f"resize_: a storage of {self.size()} elements cannot shrink to {size}, tensors may look at the end; make a new one"
            )
        if self._tensor.is_meta:
            self._tensor = fb.empty(size, dtype=self._element, device="meta")
        else:
            self._whole().resize_(size * self._element.itemsize)
        return self

    def is_pinned(self, device: Any = None) -> builtins.bool:
        """Whether the memory is pinned."""
        return self._tensor.is_pinned()

    def pin_memory(self, device: Any = None) -> Any:
        """The storage in pinned memory, for copies to an accelerator; itself, if it is there."""
        return self if self.is_pinned() else self._around(self._tensor.pin_memory(device))

    def _around(self, tensor: Any) -> Any:
        return tensor.untyped_storage() if isinstance(self, UntypedStorage) else tensor.storage()

    def cuda(self, device: Any = None, non_blocking: builtins.bool = False) -> Any:
        """A copy on a CUDA device; an error where there is none."""
        return self._around(self._tensor.cuda(device, non_blocking))

    def data_ptr(self) -> builtins.int:
        """Address of the first byte; 0 on the meta device."""
        return 0 if self._tensor.is_meta else self._tensor._storage_ptr()

    def nbytes(self) -> builtins.int:
        """How many bytes there are; on the meta device, how many the tensor would have."""
        return self._tensor.nbytes if self._tensor.is_meta else self._tensor._storage_nbytes()

    def element_size(self) -> builtins.int:
        """Bytes per element."""
        return self._element.itemsize

    def size(self) -> builtins.int:
        """How many elements there are."""
        return self.nbytes() // self._element.itemsize

    __len__ = size

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self if isinstance(self, UntypedStorage) else UntypedStorage(self._tensor)

    def is_shared(self) -> builtins.bool:
        """Whether other processes can see the memory."""
        return self._tensor.is_shared()

    def share_memory_(self) -> Self:
        """Moves the memory to where other processes can see it."""
        if self._tensor.is_meta:
            raise RuntimeError("share_memory_: only available on CPU, this storage is on the meta device")
        self._tensor.share_memory_()
        return self

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._flat.tolist()

    def fill_(self, value: Any) -> Self:
        """Sets every element."""
        self._flat.fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: builtins.bool = False) -> Self:
        """Copies the elements of another storage of the same length."""
        if source.size() != self.size():
            raise ArgumentError(f"copy_: a storage of {source.size()} elements cannot be copied to one of {self.size()}")
        if source._tensor.is_meta:
            source._whole()  # raises
        self._flat.copy_(source._flat)
        return self

    def cpu(self) -> Self:
        """The storage itself, which is in the memory of the processor."""
        if self._tensor.is_meta:
            self._whole()  # raises
        return self

    def __getitem__(self, index: Any) -> Any:
        found = self._flat[index]
        return found.item() if found.ndim == 0 else self._like(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat[index] = value._flat if isinstance(value, _Storage) else value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def clone(self) -> Any:
        """A copy with its own memory."""
        return self._like(self._flat)

    def new(self) -> Any:
        """An empty storage of this kind."""
        return self._like(self._flat[:0])

    def __copy__(self) -> Any:
        return self.clone()

    def __deepcopy__(self, memo: Any) -> Any:
        # A copy.deepcopy() of tensors and storages copies shared memory once.
        made = type(self).__new__(type(self))
        _Storage.__init__(made, self._tensor if self._tensor.is_meta else copied_bytes(self._tensor, memo), self._element)
        return made

    def __sizeof__(self) -> builtins.int:
        return object.__sizeof__(self) + self.nbytes()

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self), self._element, self._whole().clone())

    def _write_file(self, f: Any, is_real_file: Any, save_size: Any, element_size: builtins.int) -> None:
        """Writes the bytes to a file, after the number of elements if `save_size`."""
        import struct

        if save_size:
            f.write(struct.pack("<q", self.nbytes() // element_size))
        f.write(bytes(self._whole().numpy()))

    def __str__(self) -> str:
        package = str(_C.float32).partition(".")[0]
        kind = type(self).__name__ if type(self) in (UntypedStorage, TypedStorage) else "TypedStorage"
        text = "".join(f" {value}\n" for value in self.tolist())
        dtype = "" if isinstance(self, UntypedStorage) else f"dtype={self._element}, "
        return f"{text}[{package}.storage.{kind}({dtype}device={self.device}) of size {self.size()}]"

    __repr__ = __str__

    def __eq__(self, other: Any) -> builtins.bool:
        return type(other) is type(self) and self.data_ptr() == other.data_ptr() and self.nbytes() == other.nbytes()

    def __hash__(self) -> builtins.int:
        return hash((self.data_ptr(), self.nbytes()))


class UntypedStorage(_Storage):
    """The bytes under a tensor. Tensors that are views of each other have the same storage.

    Args:
        source: a tensor whose storage to show; a number of bytes, or a list of bytes, for a storage of its own.

    Example:
        >>> x = fb.zeros(4)
        >>> x.untyped_storage().nbytes()
        16
        >>> x.untyped_storage().data_ptr() == x[1:].untyped_storage().data_ptr()
        True
        >>> fb.UntypedStorage([1, 2]).tolist()
        [1, 2]
    """

    def __init__(self, source: Any = 0, *, device: Any = None) -> None:
        device = _place("UntypedStorage", device)
        if isinstance(source, builtins.int) and not isinstance(source, builtins.bool):
            source = fb.empty(source, dtype=fb.uint8, device=device)
        elif isinstance(source, (list, tuple, bytes, bytearray)):
            source = _C.tensor_from_data(list(source), _C.uint8).to(device)
        if not isinstance(source, Tensor):
            raise TypeError(f"UntypedStorage: expected a tensor, a number of bytes or bytes, got {type(source).__name__}")
        super().__init__(source, _C.uint8)

    @classmethod
    def from_file(cls, filename: Any, shared: builtins.bool = False, nbytes: builtins.int = 0) -> Self:
        """The bytes of a file, mapped: they come into memory when used.

        Args:
            filename: the file.
            shared: whether writes reach the file, which is made or becomes longer when it has fewer bytes.
            nbytes: how many bytes; 0 means all.

        Example:
            >>> import os, tempfile
            >>> path = os.path.join(tempfile.mkdtemp(), "bytes")
            >>> with open(path, "wb") as f:
            ...     n = f.write(bytes(range(4)))
            >>> fb.UntypedStorage.from_file(path)[1:3].tolist()
            [1, 2]
        """
        import mmap

        flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
        with os.fdopen(os.open(filename, flags, 0o600), "r+b" if shared else "rb") as file:
            there = file.seek(0, 2)
            if nbytes > there and shared:
                there = file.truncate(nbytes)
            if nbytes > there:
                raise ArgumentError(f"from_file: {filename} has {there} bytes, {nbytes} were asked for")
            if there == 0:
                return cls(0)
            mapped = mmap.mmap(file.fileno(), nbytes or there, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        made = cls(fb.frombuffer(mapped, dtype=fb.uint8))
        if shared:
            remember_file(mapped, made.data_ptr(), filename)
        return made

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: Any = None, count: builtins.int = -1, offset: builtins.int = 0, dtype: Any = None) -> Any:
        """The bytes of an object with the buffer protocol, copied; elements of `dtype` from `byte_order` to this machine's.

        Args:
            buffer: bytes, bytearray, memoryview …
            byte_order: "native", "little" or "big"; not needed for elements of one byte.
            count: how many elements; -1 takes all.
            offset: bytes to skip.
            dtype: what the elements are; bytes by default.

        Example:
            >>> fb.UntypedStorage.from_buffer(bytes([0, 1, 0, 2]), "big", dtype=fb.int16).tolist()
            [1, 0, 2, 0]
        """
        import sys

        dtype = _C.uint8 if dtype is None else dtype
        if dtype.itemsize > 1 and byte_order not in ("native", "little", "big"):
            raise ArgumentError(f"from_buffer: byte_order must be 'native', 'little' or 'big', got {byte_order!r}")
        flat = fb.frombuffer(bytearray(memoryview(buffer).cast("B")), dtype=dtype, count=count, offset=offset)
        made = cls(flat.clone())
        if byte_order in ("little", "big") and byte_order != sys.byteorder:
            made.byteswap(dtype)
        return made

    def byteswap(self, dtype: Any) -> None:
        """Reverses the bytes of each element of `dtype`, in place."""
        width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        whole = self._whole()
        whole.copy_(whole.view(-1, width).flip(1).reshape(-1))

    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:
        """The name of its type; only bytes convert to bytes."""
        if dtype is None:
            return f"{str(_C.float32).partition('.')[0]}.UntypedStorage"
        raise ArgumentError("type: an untyped storage has no dtype to convert from; use TypedStorage(wrap_storage=…, dtype=…)")


def _rebuilt(kind: Any, dtype: Any, flat: Tensor) -> Any:
    made = kind.__new__(kind)
    _Storage.__init__(made, flat, dtype)
    return made


def _place(op: str, device: Any) -> fb.device:
    """The device of a storage: the CPU, or the meta device."""
    place = fb.device("cpu" if device is None else device)
    if place.type not in ("cpu", "meta"):
        raise RuntimeError(f"{op}: Storage device not recognized: '{device}' has no backend in this build; use device='cpu'")
    return place


class TypedStorage(_Storage):
    """The memory under a tensor as elements of its dtype; what Tensor.storage() gives.

    Args:
        wrap_storage: an UntypedStorage.
        dtype: the dtype of its elements.

    Example:
        >>> s = fb.tensor([1.0, 2.0, 3.0])[1:].storage()
        >>> s.tolist(), s.size(), s.dtype
        ([1.0, 2.0, 3.0], 3, flambeau.float32)
    """

    def __init__(self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None) -> None:
        op = type(self).__name__
        place = _place(op, device)
        dtype = type(self)._fixed or dtype
        if wrap_storage is not None:
            if args:
                raise RuntimeError(f"{op}: No positional arguments should be given when using 'wrap_storage'; got {len(args)}")
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(f"{op}: wrap_storage must be an UntypedStorage, got {type(wrap_storage).__name__}")
            if not isinstance(dtype, fb.dtype):
                raise TypeError(f"{op}: Argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
            super().__init__(wrap_storage._tensor, dtype)
            return
        dtype = dtype or _C.get_default_dtype()
        if len(args) > 1:
            raise RuntimeError(f"{op}: Too many positional arguments given; got {len(args)}, expected a size or a sequence")
        source = args[0] if args else 0
        if hasattr(source, "__index__") and not isinstance(source, (Tensor, np.ndarray)):
            source = operator.index(source)  # a NumPy integer is a size too
        if isinstance(source, Tensor) or not isinstance(source, (builtins.int, list, tuple, _Storage, range)):
            raise TypeError(f"{op}: Argument type not recognized: {type(source).__name__}; expected a size or a sequence")
        if isinstance(source, builtins.int):
            flat = fb.empty(source, dtype=dtype, device=place)
        else:
            flat = _C.tensor_from_data(list(source), dtype).to(place)
        super().__init__(flat, dtype)

    # The dtype of a class such as FloatStorage.
    _fixed: Any = None

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._element
    _untyped_storage = property(_Storage.untyped, doc="The same memory as bytes; what older code asks for.")

    def to(self, dtype: Any) -> TypedStorage:
        """The elements converted to a dtype, in new memory."""
        return TypedStorage(wrap_storage=UntypedStorage(self._flat.to(dtype, copy=True)), dtype=dtype)

    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:
        """The name of its type, or the elements converted to a dtype."""
        if dtype is not None:
            return self.to(dtype if isinstance(dtype, fb.dtype) else _by_name(dtype))
        name = _STORAGE_NAMES.get(self._element, "TypedStorage")
        return f"{str(_C.float32).partition('.')[0]}.{name}"

    def pickle_storage_type(self) -> str:
        """The name PyTorch's files give to storages of this dtype."""
        return _STORAGE_NAMES[self._element]

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: Any = None, count: builtins.int = -1, offset: builtins.int = 0, dtype: Any = None,
        device: Any = None,
    ) -> Self:  # fmt: skip
        """The elements in an object with the buffer protocol, copied; see UntypedStorage.from_buffer()."""
        _place("from_buffer", device)
        dtype = cls._fixed or dtype or _C.get_default_dtype()
        return cls(wrap_storage=UntypedStorage.from_buffer(buffer, byte_order, count, offset, dtype), dtype=dtype)

    @classmethod
    def from_file(cls, filename: Any, shared: builtins.bool = False, size: builtins.int = 0) -> Self:
        """The elements of a file, mapped; see UntypedStorage.from_file()."""
        dtype = cls._fixed
        if dtype is None:
            raise RuntimeError("from_file can only be called on derived classes such as FloatStorage")
        return cls(wrap_storage=UntypedStorage.from_file(filename, shared, size * dtype.itemsize), dtype=dtype)

    @classmethod
    def _new_shared(cls, size: builtins.int, *, device: Any = None) -> TypedStorage:
        """A storage that other processes can see."""
        return cls(size).share_memory_()


def _add_conversions() -> None:
    names = {
        "float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16, "long": _C.int64, "int": _C.int32,
        "short": _C.int16, "char": _C.int8, "byte": _C.uint8, "bool": _C.bool, "complex_float": _C.complex64,
        "complex_double": _C.complex128, "float8_e5m2": _C.float8_e5m2, "float8_e4m3fn": _C.float8_e4m3fn,
        "float8_e5m2fnuz": _C.float8_e5m2fnuz, "float8_e4m3fnuz": _C.float8_e4m3fnuz,
    }  # fmt: skip

    def conversion(name: str, dtype: Any) -> Any:
        def convert(self: Any) -> Any:
            return self.to(dtype)

        convert.__name__, convert.__doc__ = name, f"The elements as {dtype.name}, in memory of their own."
        return convert

    for name, dtype in names.items():
        setattr(TypedStorage, name, conversion(name, dtype))


_add_conversions()

_STORAGE_NAMES: dict[Any, str] = {
    _C.float32: "FloatStorage", _C.float64: "DoubleStorage", _C.float16: "HalfStorage", _C.bfloat16: "BFloat16Storage",
    _C.uint8: "ByteStorage", _C.int8: "CharStorage", _C.int16: "ShortStorage", _C.int32: "IntStorage", _C.int64: "LongStorage",
    _C.bool: "BoolStorage", _C.complex64: "ComplexFloatStorage", _C.complex128: "ComplexDoubleStorage",
}  # fmt: skip


def _by_name(name: Any) -> Any:
    """The dtype of a class such as FloatStorage, or of its name."""
    short = name if isinstance(name, str) else getattr(name, "__name__", "")
    for dtype, known in _STORAGE_NAMES.items():
        if known == short.rpartition(".")[2]:
            return dtype
    raise ArgumentError(f"type: {name!r} is not a storage type; expected one of {', '.join(_STORAGE_NAMES.values())}")


class _LegacyMeta(type):
    """isinstance(x.storage(), FloatStorage) checks the dtype."""

    _fixed: Any

    def __instancecheck__(cls, obj: Any) -> builtins.bool:
        return cls in type(obj).__mro__ or (
            cls._fixed is not None and isinstance(obj, TypedStorage) and obj._element == cls._fixed
        )


class _LegacyStorage(TypedStorage, metaclass=_LegacyMeta):
    """PyTorch's storages named after their dtype."""

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._element


def _legacy(dtype: Any) -> Any:
    name = _STORAGE_NAMES[dtype]
    doc = f"""Storages of {dtype.name}: TypedStorage with the dtype fixed.

    Args:
        source: a number of elements, or a sequence of them.
        wrap_storage: an UntypedStorage to look at instead.

    Example:
        >>> fb.{name}([1, 0]).tolist() == fb.tensor([1, 0], dtype={str(dtype).replace("flambeau", "fb")}).tolist()
        True
    """
    return _LegacyMeta(name, (_LegacyStorage,), {"__doc__": doc, "__module__": __name__, "_fixed": dtype})


FloatStorage: Any = _legacy(_C.float32)
DoubleStorage: Any = _legacy(_C.float64)
HalfStorage: Any = _legacy(_C.float16)
BFloat16Storage: Any = _legacy(_C.bfloat16)
ByteStorage: Any = _legacy(_C.uint8)
CharStorage: Any = _legacy(_C.int8)
ShortStorage: Any = _legacy(_C.int16)
IntStorage: Any = _legacy(_C.int32)
LongStorage: Any = _legacy(_C.int64)
BoolStorage: Any = _legacy(_C.bool)
ComplexFloatStorage: Any = _legacy(_C.complex64)
ComplexDoubleStorage: Any = _legacy(_C.complex128)


def _untyped_storage(self) -> UntypedStorage:
    """untyped_storage()

    The bytes under the tensor.

    Example:
        >>> fb.zeros(4).untyped_storage().nbytes()
        16
    """
    return UntypedStorage(self)


def _storage(self) -> TypedStorage:
    """storage()

    The memory under the tensor, as elements of its dtype.

    Example:
        >>> fb.tensor([[1, 2], [3, 4]])[1].storage().tolist()
        [1, 2, 3, 4]
    """
    return TypedStorage(wrap_storage=UntypedStorage(self), dtype=self.dtype)


_set_tensor = Tensor.set_


def _set_(self, source=None, storage_offset=0, size=None, stride=None):
    """set_(source=None, storage_offset=0, size=None, stride=None)

    Makes the tensor look at other memory: another tensor's, with its shape, or a storage, with the shape that is given.

    Args:
        source: a tensor or a storage; none makes the tensor empty.
        storage_offset: the first element, when a size is given or the source is a storage.
        size: the shape; by default all elements of a storage.
        stride: steps in elements; by default those of a contiguous tensor.

    Example:
        >>> fb.zeros(1).set_(fb.tensor([1.0, 2.0, 3.0, 4.0]).untyped_storage(), 1, (2,))
        tensor([2., 3.])
    """
    if source is None:
        return _set_tensor(self, fb.empty(0, dtype=self.dtype))
    if isinstance(source, Tensor) and size is None:
        return _set_tensor(self, source)
    if isinstance(source, TypedStorage) and source.dtype != self.dtype:
        raise ArgumentError(
            f"set_: Expected a Storage of type {self.dtype} or an UntypedStorage, but got a storage of {source.dtype}; "
            "take its untyped(), or convert it with to()"
        )
    storage = source.untyped() if isinstance(source, _Storage) else UntypedStorage(source)
    if size is None:
        size = (storage.nbytes() // self.dtype.itemsize - storage_offset,)
    if stride is None:
        stride, step = [], 1
        for n in reversed(tuple(size)):
            stride.insert(0, step)
            step *= max(n, 1)
    view = _C.over_storage(storage._tensor, self.dtype, tuple(size), tuple(stride), storage_offset)
    return _set_tensor(self, view)


def _storage_type(self) -> Any:
    """storage_type()

    The class of storages with this tensor's dtype.

    Example:
        >>> fb.zeros(1).storage_type() is fb.FloatStorage
        True
    """
    name = _STORAGE_NAMES.get(self.dtype)
    return TypedStorage if name is None else globals()[name]


_METHODS = {"untyped_storage": _untyped_storage, "storage": _storage, "storage_type": _storage_type, "set_": _set_}
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)

__all__ = [
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage", "DoubleStorage",
    "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage", "TypedStorage", "UntypedStorage",
]  # fmt: skip
__dir__ = __all__.copy
