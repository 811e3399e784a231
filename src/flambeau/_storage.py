"""Storages: the memory under tensors, as bytes or as elements of one dtype."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import flambeau as fb
from flambeau import _C, Tensor
from flambeau.errors import ArgumentError


class _Storage:
    """The memory under a tensor as elements of a dtype."""

    def __init__(self, owner: Tensor, dtype: Any) -> None:
        self._tensor, self._element = owner, dtype

    @property
    def _flat(self) -> Tensor:
        """All of the memory as a 1-d tensor."""
        return _C.over_storage(self._tensor, self._element, (self.size(),), (1,), 0)

    def _like(self, flat: Tensor) -> Any:
        """A storage of this kind with the elements of a 1-d tensor."""
        made = type(self).__new__(type(self))
        _Storage.__init__(made, flat.clone(), self._element)
        return made

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self._tensor.device

    is_cuda = property(lambda self: False, doc="Whether the memory is a CUDA device's.")

    def data_ptr(self) -> builtins.int:
        """Address of the first byte."""
        return self._tensor._storage_ptr()

    def nbytes(self) -> builtins.int:
        """How many bytes there are."""
        return self._tensor._storage_nbytes()

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

    def share_memory_(self) -> Any:
        """Moves the memory to where other processes can see it."""
        self._tensor.share_memory_()
        return self

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._flat.tolist()

    def fill_(self, value: Any) -> Any:
        """Sets every element."""
        self._flat.fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: builtins.bool = False) -> Any:
        """Copies the elements of another storage of the same length."""
        if source.size() != self.size():
            raise ValueError(f"copy_: a storage of {source.size()} elements cannot be copied to one of {self.size()}")
        self._flat.copy_(source._flat)
        return self

    def cpu(self) -> Any:
        """The storage itself, which is in the memory of the processor."""
        return self

    def __getitem__(self, index: Any) -> Any:
        found = self._flat[index]
        return found.item() if found.ndim == 0 else self._like(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat[index] = value._flat if isinstance(value, _Storage) else value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def clone(self) -> Any:
        """A copy with memory of its own."""
        return self._like(self._flat)

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

    def __init__(self, source: Any = 0) -> None:
        if isinstance(source, builtins.int) and not isinstance(source, builtins.bool):
            source = fb.empty(source, dtype=fb.uint8)
        elif isinstance(source, (list, tuple, bytes, bytearray)):
            source = _C.tensor_from_data(list(source), _C.uint8)
        if not isinstance(source, Tensor):
            raise TypeError(f"UntypedStorage: expected a tensor, a number of bytes or bytes, got {type(source).__name__}")
        super().__init__(source, _C.uint8)

    @classmethod
    def from_file(cls, filename: Any, shared: builtins.bool = False, nbytes: builtins.int = 0) -> UntypedStorage:
        """The bytes of a file, mapped: they come into memory when used.

        Args:
            filename: the file.
            shared: whether writes reach the file.
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

        with open(filename, "r+b" if shared else "rb") as file:
            there = file.seek(0, 2)
            if nbytes > there:
                raise ArgumentError(f"from_file: {filename} has {there} bytes, {nbytes} were asked for")
            if there == 0:
                return cls(0)
            mapped = mmap.mmap(file.fileno(), nbytes or there, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        return cls(fb.frombuffer(mapped, dtype=fb.uint8))

    def __repr__(self) -> str:
        return f"UntypedStorage of {self.nbytes()} bytes on {self.device}"


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

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: fb.dtype | None) -> None:
        if not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(f"TypedStorage: wrap_storage must be an UntypedStorage, got {type(wrap_storage).__name__}")
        super().__init__(wrap_storage._tensor, dtype)

    dtype = property(lambda self: self._element, doc="The dtype of the elements.")
    _untyped_storage = property(_Storage.untyped, doc="The same memory as bytes; what older code asks for.")

    def to(self, dtype: fb.dtype | None) -> TypedStorage:
        """The elements converted to a dtype, in memory of their own."""
        return TypedStorage(wrap_storage=UntypedStorage(self._flat.to(dtype, copy=True)), dtype=dtype)

    def __repr__(self) -> str:
        head = "".join(f" {value}\n" for value in self.tolist())
        return f"{head}[{type(self).__name__}(dtype={self.dtype}, device={self.device}) of size {self.size()}]"


def _add_conversions() -> None:
    names = {
        "float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16, "long": _C.int64, "int": _C.int32,
        "short": _C.int16, "char": _C.int8, "byte": _C.uint8, "bool": _C.bool,
    }  # fmt: skip

    def conversion(name, dtype):
        def convert(self):
            return self.to(dtype)

        convert.__name__, convert.__doc__ = name, f"The elements as {dtype.name}, in memory of their own."
        return convert

    for name, dtype in names.items():
        setattr(TypedStorage, name, conversion(name, dtype))


_add_conversions()


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


for _name, _method in {"untyped_storage": _untyped_storage, "storage": _storage, "set_": _set_}.items():
    setattr(Tensor, _name, _method)

__all__ = ["TypedStorage", "UntypedStorage"]
