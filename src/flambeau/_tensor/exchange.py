"""Memory shared with other libraries: NumPy arrays, buffers, DLPack."""

from __future__ import annotations

import builtins
import os
import sys
import warnings
import weakref
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._settings.strict import is_lenient
from flambeau.errors import ArgumentError

_FROM_NUMPY = {
    "|b1": _C.bool, "|u1": _C.uint8, "|i1": _C.int8,
    "<u2": _C.uint16, "<u4": _C.uint32, "<u8": _C.uint64, "<i2": _C.int16, "<i4": _C.int32, "<i8": _C.int64,
    "<f2": _C.float16, "<f4": _C.float32, "<f8": _C.float64, "<c8": _C.complex64, "<c16": _C.complex128,
}  # fmt: skip
_TO_NUMPY = {d: s for s, d in _FROM_NUMPY.items()}
# NumPy has none of these; the package ml_dtypes adds all but complex32. Without it they are converted to the dtype on
# the right.
_NOT_IN_NUMPY = {
    _C.bfloat16: _C.float32, _C.complex32: _C.complex64, _C.float8_e4m3fn: _C.float32, _C.float8_e4m3fnuz: _C.float32,
    _C.float8_e5m2: _C.float32, _C.float8_e5m2fnuz: _C.float32, _C.float8_e8m0fnu: _C.float32,
}  # fmt: skip
_ML_DTYPES = {d.name: d for d in _NOT_IN_NUMPY if d != _C.complex32}


def is_array(data: Any) -> builtins.bool:
    """Whether NumPy can read the object as an array without iterating over its elements."""
    return hasattr(data, "__array_interface__") or hasattr(data, "__array__")


def _warn_of_protection(what: str) -> None:
    """PyTorch's warning for read-only memory, except where the library itself reads such memory."""
    if not sys._getframe(2).f_globals.get("__name__", "").startswith("flambeau"):
        warnings.warn(
            f"The given {what} is not writable, so its tensor is non-writable too: writing to it raises. Copy the {what} first",
            stacklevel=3,
        )


def from_array(data):
    """A tensor on the memory of any object with the array interface or __array__; copied if it cannot be shared."""
    import numpy as np

    array = data if isinstance(data, np.ndarray) else np.asarray(data)
    if array.dtype.kind in "uifc" and not (array.dtype.isnative and array.flags.aligned):
        array = array.astype(array.dtype.newbyteorder("="))
    if builtins.any(s % array.itemsize for s in array.strides):
        array = array.copy()
    return from_numpy(array)


# Names of files mapped for sharing, by the address of their memory, while they are mapped.
mapped_files: dict[builtins.int, str] = {}


def remember_file(mapping: Any, address: builtins.int, filename: Any) -> None:
    """Records the file of the storage at an address, until the mapping is gone."""
    mapped_files[address] = os.fspath(filename)
    weakref.finalize(mapping, mapped_files.pop, address, None)


def from_file(
    filename, shared=False, size=0, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """A 1-d tensor on the memory of a file, which is read on demand.

    Args:
        filename: name of the file.
        shared: whether changes are written to the file and seen by others that map it; the file is created or extended if needed.
            Otherwise it
            must be long enough, and changes stay in memory.
        size: how many elements.
        dtype: of the elements; the default dtype when not given.
        layout: only strided.
        device: only the CPU.
        pin_memory: page-locked memory, only with an accelerator.
        requires_grad: whether gradients are recorded.

    Example:
        >>> import os, tempfile
        >>> name = os.path.join(tempfile.mkdtemp(), "numbers")
        >>> t = fb.from_file(name, shared=True, size=3).fill_(2)
        >>> fb.from_file(name, size=2)
        tensor([2., 2.])
    """
    import numpy as np

    import flambeau as fb

    dtype = fb.get_default_dtype() if dtype is None else dtype
    if builtins.isinstance(size, builtins.bool) or not hasattr(size, "__index__") or size < 0:
        raise ArgumentError(f"from_file: size must be a whole number and not negative, got {size!r}")
    made = fb.empty(0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, requires_grad=requires_grad)
    if made.device.type != "cpu":
        raise ArgumentError(f"from_file: files are mapped into the CPU's memory, got device {made.device}")
    length = size * made.element_size()
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < length:
                file.truncate(length)
    elif os.path.getsize(filename) < length:
        raise ArgumentError(
            f"from_file: {filename!r} has {os.path.getsize(filename)} bytes, fewer than the {length} that {size} elements of {dtype} take"
        )
    if length == 0:
        return made
    mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(length,))
    if shared:
        remember_file(mapped, mapped.ctypes.data, filename)
    return from_numpy(np.asarray(mapped)).view(dtype).requires_grad_(builtins.bool(requires_grad))


def from_numpy(array):
    """A tensor that shares memory with a NumPy array; a read-only array stays protected.

    Args:
        array: a numpy.ndarray of a numeric or bool dtype, of any strides (negative ones too).

    Example:
        >>> import numpy as np
        >>> a = np.zeros(2)
        >>> t = fb.from_numpy(a)
        >>> a[0] = 5
        >>> t
        tensor([5., 0.], dtype=flambeau.float64)
    """
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected a numpy.ndarray, got {type(array).__name__}")
    if is_lenient() and not array.flags.writeable:
        _warn_of_protection("NumPy array")
    plain = _C.from_plain_array(array)
    if plain is not None:
        return plain
    kind = _FROM_NUMPY.get(array.dtype.str)
    if kind is None:
        kind = _ML_DTYPES.get(array.dtype.name)
    if kind is None:
        raise TypeError(
            f"from_numpy: can't convert an array of dtype {array.dtype}; supported are bool, integers, float16/32/64, "
            "complex64/128 and bfloat16 and float8_* of ml_dtypes, in native byte order"
        )
    size = array.itemsize
    steps = []
    for s in array.strides:
        step, rest = divmod(s, size)
        if rest:
            raise ArgumentError(
                f"from_numpy: strides {array.strides} are not a multiple of the item size {size}; copy the array"
            )
        steps.append(step)
    address, read_only = array.__array_interface__["data"]
    return _C.from_address("from_numpy", address, kind, array.shape, tuple(steps), array, read_only)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A one-dimensional tensor on an object with the buffer protocol.

    Args:
        buffer: bytes, bytearray, memoryview, array.array, mmap …; the tensor of a read-only one is protected.
        dtype: how to read the bytes.
        count: number of elements; -1 takes all.
        offset: bytes to skip.
        requires_grad: whether operations on the tensor are recorded for backward.

    Example:
        >>> fb.frombuffer(bytearray([1, 0, 2, 0]), dtype=fb.int16)
        tensor([1, 2], dtype=flambeau.int16)
    """
    import numpy as np

    if not isinstance(dtype, _C.dtype):
        raise TypeError(f"frombuffer: dtype must be a dtype such as fb.float32, got {type(dtype).__name__}")
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ArgumentError(
            "frombuffer: object does not implement Python buffer protocol: "
            f"expected bytes, bytearray, memoryview, array.array and the like, got {type(buffer).__name__}"
        ) from None
    if not view.c_contiguous:
        raise ArgumentError("frombuffer: the buffer is not contiguous; copy it first")
    size = dtype.itemsize
    if view.nbytes == 0 or count == 0:
        raise ArgumentError(f"frombuffer: both buffer length ({view.nbytes}) and count ({count}) must not be 0")
    if not 0 <= offset < view.nbytes:
        raise ArgumentError(
            f"frombuffer: offset ({offset} bytes) must be non-negative and less than the buffer length ({view.nbytes} bytes)"
        )
    room = view.nbytes - offset
    if count < 0:
        if room % size:
            raise ArgumentError(
                f"frombuffer: buffer length ({room} bytes) after offset ({offset} bytes) must be a multiple of {size}, "
                f"the size of {dtype}"
            )
        count = room // size
    if count * size > room:
        raise ArgumentError(
            f"frombuffer: requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must fit the "
            f"buffer length ({view.nbytes} bytes), which leaves room for {room // size} elements of {dtype}"
        )
    if view.readonly and is_lenient():
        _warn_of_protection("buffer")
    array = np.frombuffer(view, dtype=np.uint8)
    address = array.__array_interface__["data"][0] + offset
    return _C.from_address("frombuffer", address, dtype, (count,), (1,), array, view.readonly).requires_grad_(requires_grad)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor from any object that speaks DLPack, sharing memory where possible.

    Args:
        ext_tensor: an array of another library, or a DLPack capsule.
        device: None or "cpu".
        copy: True always copies, False never does, None copies when needed.

    Example:
        >>> import numpy as np
        >>> fb.from_dlpack(np.arange(3))
        tensor([0, 1, 2])
    """
    from flambeau._tensor.dlpack import take

    return take(ext_tensor, device, copy)


def to_dlpack(tensor):
    """A DLPack capsule on the memory of a tensor, for libraries that take capsules (of versions before 1.0).

    Args:
        tensor: the tensor; a read-only one is refused, because such a capsule cannot say so.

    Example:
        >>> fb.from_dlpack(fb.to_dlpack(fb.arange(3)))
        tensor([0, 1, 2])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_dlpack: expected a tensor, got {type(tensor).__name__}")
    return tensor.__dlpack__()


# ---- methods of Tensor -----------------------------------------------------------------------------------------------------


def _check_may_leave(self):
    """Rejects tensors that require gradients, which NumPy would lose: they must be detached first."""
    if self.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("numpy: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


def _numpy(self, *, force=False):
    """numpy(force=False)

    The tensor as a NumPy array on the same memory; bfloat16 and 8-bit floats need the ml_dtypes package.

    Args:
        force: of a tensor that requires gradients: the array of detach() instead of an error; under no_grad() there
            is none.

    Example:
        >>> fb.arange(3).numpy()
        array([0, 1, 2])
    """
    import numpy as np

    if not force:
        _check_may_leave(self)
    self = self.detach() if self.requires_grad else self
    if self.dtype in _NOT_IN_NUMPY:
        return _through_ml_dtypes(self)
    # Through the buffer protocol: the array's base keeps the memory alive.
    return np.asarray(self)


def _through_ml_dtypes(t):
    """The array of a tensor whose dtype NumPy itself does not have."""
    import numpy as np

    wide = _NOT_IN_NUMPY[t.dtype].name
    unsupported = f"Got unsupported ScalarType {_TORCH_NAMES.get(t.dtype, t.dtype.name.capitalize())}: numpy: NumPy has no {t.dtype.name}"
    if t.dtype == _C.complex32:
        raise TypeError(f"{unsupported}; convert with .to({wide})")
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"{unsupported} of its own; convert with .to({wide}) or install the package ml_dtypes") from None
    return np.asarray(t.view(_C.uint16 if t.itemsize == 2 else _C.uint8)).view(getattr(ml_dtypes, t.dtype.name))


_TORCH_NAMES = {_C.bfloat16: "BFloat16", _C.complex32: "ComplexHalf"}


def _array_interface(self):
    """NumPy's array interface: address, shape, strides and type of the memory."""
    _check_may_leave(self)
    if self.dtype in _NOT_IN_NUMPY:
        wide = _NOT_IN_NUMPY[self.dtype].name
        raise AttributeError(f"__array_interface__: NumPy has no {self.dtype.name}; convert with .to({wide})")
    _C.lend(self)
    address = self.data_ptr() or self._storage_ptr()
    known = {
        "shape": tuple(self.shape),
        "typestr": _TO_NUMPY[self.dtype],
        "data": (address, self._read_only),
        "version": 3,
    }
    if not self._is_row_major():
        known["strides"] = tuple(s * self.itemsize for s in self.stride())
    return known


def _array(self, dtype=None, copy=None):
    """Converts to a NumPy array (NumPy calls this); bfloat16 and 8-bit floats become float32, complex32 complex64."""
    _check_may_leave(self)
    import numpy as np

    wanted = None if dtype is None else np.dtype(dtype)
    converted = self.dtype in _NOT_IN_NUMPY
    if converted:
        if wanted is not None and wanted.name == self.dtype.name:
            array = _numpy(self)
        elif copy is False:
            raise ArgumentError(f"__array__: copy=False, but NumPy has no {self.dtype.name}: converting it needs a copy")
        else:
            array, copy = _numpy(self.to(_NOT_IN_NUMPY[self.dtype])), False
    else:
        array = _numpy(self)
    if wanted is not None and array.dtype != wanted:
        if copy is False and not converted:
            raise ArgumentError(f"__array__: copy=False, but converting {self.dtype} to {wanted} needs a copy")
        return array.astype(wanted)
    return array.copy() if copy else array


def _to_tensor(value):
    """A NumPy array (or scalar) as a tensor if its dtype has an equivalent; anything else unchanged."""
    import numpy as np

    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.str in _FROM_NUMPY:
        return from_array(value)
    return value


def _array_wrap(self, array, context=None, return_scalar=False):
    """NumPy ufuncs on a tensor return a tensor."""
    return _to_tensor(array)


def _array_namespace(self, *, api_version=None):
    """The array API standard's namespace for this tensor, flambeau.array_api."""
    from flambeau import array_api

    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ArgumentError(
            f"__array_namespace__: api_version {api_version!r} is not supported; the newest is '2025.12'"
        )
    return array_api


def _bytes(self):
    """The elements' bytes in row-major order."""
    return memoryview(_C.storage_bytes(self.contiguous().clone())).tobytes()


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)

    A DLPack capsule on the tensor's memory: what from_dlpack() of every library calls.

    Args:
        stream: None (or -1): there are no streams on the CPU.
        max_version: the newest protocol version the consumer reads; None means before 1.0.
        dl_device: where the data must be, (1, 0) or None.
        copy: True exports a copy.

    Example:
        >>> import numpy as np
        >>> np.from_dlpack(fb.arange(3))
        array([0, 1, 2])
    """
    from flambeau._tensor.dlpack import give

    return give(self, stream, max_version, dl_device, copy)


def _dlpack_device(self):
    """__dlpack_device__()

    DLPack's device type and number; (1, 0) is the CPU.

    Example:
        >>> tuple(map(int, fb.ones(2).__dlpack_device__()))
        (1, 0)
    """
    from flambeau._tensor.dlpack import DLDeviceType

    return (DLDeviceType.kDLCPU, 0)


METHODS = {
    "numpy": _numpy, "__array__": _array, "__array_wrap__": _array_wrap,
    "__array_namespace__": _array_namespace, "__bytes__": _bytes, "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device,
    "__array_interface__": property(_array_interface), "__array_priority__": 1000,
}  # fmt: skip
