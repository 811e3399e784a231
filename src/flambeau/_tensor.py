"""What a tensor can do besides ops: construction, conversion, properties, Python protocols, copying and pickling."""

from __future__ import annotations

import builtins
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, device, dtype
from flambeau._core import Size, preserve_format, strided
from flambeau.errors import ArgumentError

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_numpy", "frombuffer", "tensor"]  # fmt: skip


# ---- making tensors ------------------------------------------------------------------------------------------------------


def _check_requires_grad(op: str, requires_grad: builtins.bool) -> None:
    if requires_grad:
        raise RuntimeError(f"{op}: requires_grad=True is not available yet: gradients come with the autograd release")


def _check_device(op: str, where: Any) -> None:
    if where is not None and device(where).type != "cpu":
        raise RuntimeError(f"{op}: device '{where}' has no backend in this build; use device='cpu'")


def _is_array(data: Any) -> builtins.bool:
    return hasattr(data, "__array_interface__") or hasattr(data, "__array__")


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of data: a number, nested sequences, a NumPy array or a tensor.

    Args:
        data: what to copy.
        dtype: element type; by default that of the data (Python floats take the default dtype).
        device: where to put it.
        requires_grad: not available yet, must be False.
        pin_memory: not available without an accelerator, must be False.

    Example:
        >>> fb.tensor([[1, 2], [3, 4]])
        tensor([[1, 2],
                [3, 4]])
    """
    _check_requires_grad("tensor", requires_grad)
    _check_device("tensor", device)
    if pin_memory:
        raise RuntimeError("tensor: pin_memory=True needs an accelerator, and none is available")
    if isinstance(data, Tensor):
        copy = data.clone()
        return copy if dtype is None else copy.to(dtype)
    if _is_array(data):
        copy = _from_array(data).clone()
        return copy if dtype is None else copy.to(dtype)
    return _C.tensor_from_data(data, dtype)


def as_tensor(data, dtype=None, device=None):
    """A tensor on the data, without a copy where possible (tensors and NumPy arrays of the right dtype).

    Example:
        >>> fb.as_tensor([1.0, 2.0])
        tensor([1., 2.])
    """
    _check_device("as_tensor", device)
    if not isinstance(data, Tensor):
        data = _from_array(data) if _is_array(data) else _C.tensor_from_data(data, dtype)
    return data if dtype is None else data.to(dtype)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """A tensor from anything array-like: tensors, NumPy arrays, DLPack producers, buffers, nested sequences.

    Args:
        obj: the data.
        dtype: element type, that of the data by default.
        device: where to put it.
        copy: True always copies, False never does (an error if that is impossible), None copies when needed.
        requires_grad: not available yet, must be False.

    Example:
        >>> fb.asarray([1, 2])
        tensor([1, 2])
    """
    _check_requires_grad("asarray", requires_grad)
    _check_device("asarray", device)
    if isinstance(obj, Tensor):
        shared = obj
    elif _is_array(obj):
        shared = _from_array(obj)
    elif hasattr(obj, "__dlpack__"):
        shared = from_dlpack(obj)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        shared = frombuffer(obj, dtype=dtype or _C.uint8)
    else:
        if copy is False:
            raise ArgumentError("asarray: copy=False, but a sequence can only be copied; pass an array or tensor")
        return _C.tensor_from_data(obj, dtype)
    result = shared if dtype is None else shared.to(dtype)
    if copy is False and result is not shared:
        raise ArgumentError(f"asarray: copy=False, but converting {shared.dtype} to {dtype} needs a copy")
    return result.clone() if copy and result is shared else result


def legacy_new(*args, device=None, dtype=None):
    """Tensor(2, 3): uninitialised; Tensor([1, 2]): data; both in the default dtype."""
    _check_device("Tensor", device)
    kind = dtype or _C.get_default_dtype()
    if len(args) == 1 and not isinstance(args[0], builtins.int):
        data = args[0]
        if isinstance(data, Size):
            return _namespace("empty")(data, dtype=kind)
        if isinstance(data, Tensor):
            return data.to(kind).detach() if data.dtype != kind else data.view_as(data)
        return tensor(data, dtype=kind)
    return _namespace("empty")(args, dtype=kind)


def _namespace(name: str):
    return _C.namespaces[""][name]


# ---- exchange ------------------------------------------------------------------------------------------------------------

_FROM_NUMPY = {
    "|b1": _C.bool, "|u1": _C.uint8, "|i1": _C.int8,
    "<u2": _C.uint16, "<u4": _C.uint32, "<u8": _C.uint64, "<i2": _C.int16, "<i4": _C.int32, "<i8": _C.int64,
    "<f2": _C.float16, "<f4": _C.float32, "<f8": _C.float64, "<c8": _C.complex64, "<c16": _C.complex128,
}  # fmt: skip
_TO_NUMPY = {d: s for s, d in _FROM_NUMPY.items()}


def _from_array(data):
    """A tensor on the memory of any object with the array interface or __array__."""
    import numpy as np

    array = data if isinstance(data, np.ndarray) else np.asarray(data)
    if not array.dtype.isnative and array.dtype.kind in "uifc":
        array = array.astype(array.dtype.newbyteorder("="))
    return from_numpy(array)


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
    kind = _FROM_NUMPY.get(array.dtype.str)
    view = array
    if kind is None and array.dtype.name == "bfloat16":
        kind, view = _C.bfloat16, array.view(np.uint16)
    if kind is None:
        raise TypeError(
            f"from_numpy: can't convert an array of dtype {array.dtype}; supported are bool, integers, float16/32/64, "
            "complex64/128 and ml_dtypes.bfloat16 in native byte order"
        )
    size = kind.itemsize
    if builtins.any(s % size for s in view.strides):
        raise ArgumentError(f"from_numpy: strides {view.strides} are not a multiple of the item size {size}; copy the array")
    address = view.__array_interface__["data"][0]
    # The storage begins at the lowest address that a negative stride reaches.
    low = high = 0
    if view.size:
        for n, s in zip(view.shape, view.strides, strict=True):
            reach = (n - 1) * s
            low, high = builtins.min(low, low + reach), builtins.max(high, high + reach)
    nbytes = high - low + size if view.size else 0
    steps = tuple(s // size for s in view.strides)
    return _C.from_address(address + low, nbytes, kind, view.shape, steps, -low // size, array, not array.flags.writeable)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A one-dimensional tensor on an object with the buffer protocol.

    Args:
        buffer: bytes, bytearray, memoryview, array.array, mmap …
        dtype: how to read the bytes.
        count: number of elements; -1 takes all.
        offset: bytes to skip.
        requires_grad: not available yet, must be False.

    Example:
        >>> fb.frombuffer(bytearray([1, 0, 2, 0]), dtype=fb.int16)
        tensor([1, 2], dtype=flambeau.int16)
    """
    import numpy as np

    _check_requires_grad("frombuffer", requires_grad)
    view = memoryview(buffer).cast("B")
    size = dtype.itemsize
    if view.nbytes == 0 or count == 0:
        raise ArgumentError("frombuffer: both buffer length and count must not be 0")
    if not 0 <= offset < view.nbytes:
        raise ArgumentError(f"frombuffer: offset {offset} must be from 0 to the buffer's {view.nbytes} bytes (excluded)")
    room = view.nbytes - offset
    if count < 0:
        if room % size:
            raise ArgumentError(f"frombuffer: {room} bytes after the offset are not a multiple of {size}, the size of {dtype}")
        count = room // size
    if count * size > room:
        raise ArgumentError(f"frombuffer: {count} elements of {dtype} need {count * size} bytes, the buffer has {room} after the offset")
    array = np.frombuffer(view, dtype=np.uint8)
    address = array.__array_interface__["data"][0] + offset
    return _C.from_address(address, count * size, dtype, (count,), (1,), 0, array, view.readonly)


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
    from flambeau._dlpack import from_dlpack as take

    return take(ext_tensor, device=device, copy=copy)


def _numpy(self, *, force=False):
    """numpy(force=False)

    The tensor as a NumPy array on the same memory; bfloat16 needs the ml_dtypes package.

    Args:
        force: accepted for PyTorch's sake; every tensor here can be shared as it is.

    Example:
        >>> fb.arange(3).numpy()
        array([0, 1, 2])
    """
    import numpy as np

    if self.dtype == _C.bfloat16:
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(
                "numpy: NumPy has no bfloat16 of its own; convert with .float() or install the package ml_dtypes"
            ) from None
        return np.asarray(_ArrayView(self)).view(ml_dtypes.bfloat16)
    return np.asarray(_ArrayView(self))


class _ArrayView:
    """Carries the array interface of a tensor to NumPy, and keeps the tensor alive as the array's base."""

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(self, t: Tensor) -> None:
        self._tensor = t
        self.__array_interface__ = _interface(t)


def _interface(t: Tensor) -> dict[str, Any]:
    kind = "<u2" if t.dtype == _C.bfloat16 else _TO_NUMPY[t.dtype]
    address = t.data_ptr() if t.numel() else builtins.max(t._storage_ptr(), 0)
    size = t.itemsize
    strides = None if t._is_row_major() else tuple(s * size for s in t.stride())
    return {"shape": tuple(t.shape), "typestr": kind, "data": (address, t._read_only), "strides": strides, "version": 3}


def _array_interface(self):
    """NumPy's array interface: address, shape, strides and type of the memory."""
    if self.dtype == _C.bfloat16:
        raise AttributeError("__array_interface__: NumPy has no bfloat16; convert with .float()")
    return _interface(self)


def _array(self, dtype=None, copy=None):
    """Converts to a NumPy array (NumPy calls this)."""
    import numpy as np

    array = self.float().numpy() if self.dtype == _C.bfloat16 and dtype is None else self.numpy()
    if dtype is not None and array.dtype != np.dtype(dtype):
        if copy is False:
            raise ArgumentError(f"__array__: copy=False, but converting {self.dtype} to {np.dtype(dtype)} needs a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def _array_wrap(self, array, context=None, return_scalar=False):
    """NumPy ufuncs of a tensor give a tensor back."""
    import numpy as np

    if isinstance(array, np.ndarray) and array.dtype.str in _FROM_NUMPY:
        return from_numpy(array)
    return array


def _array_namespace(self, *, api_version=None):
    """The array API standard's namespace for this tensor, flambeau.array_api."""
    from flambeau import array_api

    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ArgumentError(f"__array_namespace__: api_version {api_version!r} is not supported; the newest is '2025.12'")
    return array_api


# ---- conversion ----------------------------------------------------------------------------------------------------------


def _to(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """to(dtype) / to(device, dtype=None) / to(other), with non_blocking=False, copy=False, memory_format=preserve_format

    The tensor converted to another dtype or moved to another device; itself when nothing changes and copy is False.

    Example:
        >>> fb.ones(2).to(fb.int64)
        tensor([1, 1])
    """
    rest = list(args)
    if rest and (isinstance(rest[0], Tensor)):
        other = rest.pop(0)
        dtype, device = other.dtype, other.device
    elif rest and (rest[0] is None or isinstance(rest[0], (str, _C.device, builtins.int)) and not isinstance(rest[0], builtins.bool)):
        device = rest.pop(0)
        if rest and (rest[0] is None or not isinstance(rest[0], builtins.bool)):
            dtype = rest.pop(0)
    elif rest:
        dtype = rest.pop(0)
    if rest:
        rest.pop(0)  # non_blocking: copies on the CPU are never in flight
    if rest:
        copy = rest.pop(0)
    if rest:
        raise TypeError(f"to: too many arguments: {args}")
    _check_device("to", device)
    if dtype is not None and not isinstance(dtype, _C.dtype):
        dtype = _python_dtype("to", dtype)
    kind = dtype or self.dtype
    fmt = preserve_format if memory_format is None else memory_format
    if fmt is preserve_format or fmt is None:
        if kind == self.dtype:
            return self.clone() if copy else self
        return self._convert(kind)
    if kind == self.dtype and not copy and self.is_contiguous(memory_format=fmt):
        return self
    result = self._convert(kind) if kind != self.dtype else self
    return result.clone(memory_format=fmt)


def _python_dtype(op: str, kind: Any):
    table = {builtins.float: _C.float64, builtins.int: _C.int64, builtins.bool: _C.bool, complex: _C.complex128}
    if kind in table:
        return table[kind]
    raise TypeError(f"{op}: expected a dtype, device or tensor, got {type(kind).__name__}")


def _converter(name: str, kind: dtype):
    def convert(self, memory_format=preserve_format):
        return _to(self, kind, memory_format=memory_format)

    convert.__name__ = name
    convert.__doc__ = f"""{name}(memory_format=preserve_format)

    The tensor as {kind.name}.

    Example:
        >>> fb.zeros(1).{name}().dtype
        {kind}
    """
    return convert


def _type(self, dtype=None, non_blocking=False):
    """type(dtype=None)

    The tensor's type as a string, or the tensor converted to a dtype (also by PyTorch's type names).

    Example:
        >>> fb.zeros(1).type()
        'flambeau.FloatTensor'
    """
    if dtype is None:
        return f"flambeau.{_TYPE_NAMES[self.dtype]}"
    if isinstance(dtype, str):
        short = dtype.rpartition(".")[2]
        for kind, name in _TYPE_NAMES.items():
            if name == short:
                return self.to(kind)
        raise ArgumentError(f"type: invalid type {dtype!r}; expected one of {', '.join(_TYPE_NAMES.values())}")
    return self.to(dtype)


_TYPE_NAMES = {
    _C.float32: "FloatTensor", _C.float64: "DoubleTensor", _C.float16: "HalfTensor", _C.bfloat16: "BFloat16Tensor",
    _C.uint8: "ByteTensor", _C.int8: "CharTensor", _C.int16: "ShortTensor", _C.int32: "IntTensor", _C.int64: "LongTensor",
    _C.bool: "BoolTensor", _C.uint16: "UInt16Tensor", _C.uint32: "UInt32Tensor", _C.uint64: "UInt64Tensor",
    _C.complex64: "ComplexFloatTensor", _C.complex128: "ComplexDoubleTensor",
}  # fmt: skip


def _type_as(self, other):
    """type_as(other)

    The tensor in the dtype and on the device of another.

    Example:
        >>> fb.ones(1).type_as(fb.zeros(1, dtype=fb.int64))
        tensor([1])
    """
    return self.to(other)


def _cpu(self, memory_format=preserve_format):
    """cpu(memory_format=preserve_format)

    The tensor on the CPU; itself when it is there already.

    Example:
        >>> fb.ones(2).cpu()
        tensor([1., 1.])
    """
    return _to(self, "cpu", memory_format=memory_format)


def _cuda(self, device=None, non_blocking=False, memory_format=preserve_format):
    """cuda(device=None)

    Raises: this build has no CUDA backend.

    Example:
        >>> fb.ones(2).cuda()
        Traceback (most recent call last):
            ...
        RuntimeError: cuda: no CUDA backend in this build; test with fb.zeros(1).is_cuda, use device='cpu'
    """
    raise RuntimeError("cuda: no CUDA backend in this build; test with fb.zeros(1).is_cuda, use device='cpu'")


def _to_device(self, device, /, *, stream=None):
    """to_device(device, /, *, stream=None)

    The tensor on another device (the array API's spelling of to()).

    Example:
        >>> fb.ones(2).to_device("cpu")
        tensor([1., 1.])
    """
    if stream is not None:
        raise ArgumentError("to_device: the CPU has no streams; leave stream at None")
    return _to(self, device)


def _tolist(self):
    """tolist()

    Nested lists of Python numbers; a number for a 0-d tensor.

    Example:
        >>> fb.arange(4).view(2, 2).tolist()
        [[0, 1], [2, 3]]
    """
    return _C.tolist(self)


# ---- Python protocols ----------------------------------------------------------------------------------------------------


def _iter(self):
    """Iterates over the first dimension."""
    if self.ndim == 0:
        raise TypeError("iter: iteration over a 0-d tensor")
    return iter(self.unbind(0))


def _contains(self, element):
    """Whether any element equals a number or 0-d tensor."""
    if isinstance(element, (Tensor, builtins.int, builtins.float, complex, builtins.bool)):
        return builtins.bool((self == element).any())
    raise RuntimeError(f"contains: expected a tensor or number, got {type(element).__name__}")


def _repr(self, *, tensor_contents=None):
    from flambeau._printing import tensor_repr

    return tensor_repr(self)


def _format(self, spec):
    from flambeau._printing import tensor_format

    return tensor_format(self, spec)


def _complex_number(self):
    return complex(self.item())


def _reversed(self):
    """The first dimension reversed; a view."""
    return self if self.ndim == 0 else self[::-1]


def _deepcopy(self, memo):
    """Copies the storage once, so that tensors sharing memory still share it in the copy."""
    if id(self) in memo:
        return memo[id(self)]
    key = ("flambeau storage", self._storage_ptr(), self._storage_nbytes())
    if self._storage_nbytes() == 0 or self.numel() == 0:
        result = self.clone()
    else:
        if key not in memo:
            memo[key] = _storage_bytes(self).clone()
        result = memo[key].view(self.dtype).as_strided(self.shape, self.stride(), self.storage_offset())
    if type(self) is not Tensor:
        result = result.as_subclass(type(self))
    memo[id(self)] = result
    for name, value in self.__dict__.items():
        import copy

        setattr(result, name, copy.deepcopy(value, memo))
    return result


def _storage_bytes(t: Tensor) -> Tensor:
    """All bytes of a tensor's storage, as uint8."""
    return _C.from_address(t._storage_ptr(), t._storage_nbytes(), _C.uint8, (t._storage_nbytes(),), (1,), 0, t, t._read_only)


def _rebuild(data: bytes, kind: str, shape, cls, attributes):
    d = getattr(_C, kind)
    if len(data):
        result = frombuffer(bytearray(data), dtype=d).view(shape)
    else:
        result = _namespace("empty")(shape, dtype=d)
    if cls is not Tensor:
        result = result.as_subclass(cls)
    for name, value in attributes.items():
        setattr(result, name, value)
    return result


def _reduce_ex(self, protocol):
    data = _storage_bytes(self.contiguous().clone()) if self.numel() else None
    raw = data.numpy().tobytes() if data is not None else b""
    raw = raw[: self.numel() * self.itemsize]
    return _rebuild, (raw, self.dtype.name, tuple(self.shape), type(self), dict(self.__dict__))


def _set_data(self, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"data: expected a tensor, got {type(value).__name__}")
    self._set_impl(value)


def _set_requires_grad(self, value):
    _check_requires_grad("requires_grad", value)


def _share_nothing(self):
    """detach()

    The same data without history; a view, since there is no gradient yet.

    Example:
        >>> fb.ones(2).detach()
        tensor([1., 1.])
    """
    return self.view_as(self)


def _is_set_to(self, tensor):
    """is_set_to(tensor)

    Whether both are the same view of the same memory.

    Example:
        >>> x = fb.ones(2)
        >>> x.is_set_to(x.view(2))
        True
    """
    return (
        self.data_ptr() == tensor.data_ptr() and self.shape == tensor.shape and self.stride() == tensor.stride()
        and self.dtype == tensor.dtype
    )  # fmt: skip


def _methods() -> dict[str, Any]:
    identity_doc = """{name}()

    The tensor itself: conjugation and negation are never lazy here.

    Example:
        >>> fb.ones(2).{name}()
        tensor([1., 1.])
    """
    false_doc = """{name}()

    False: {why}.

    Example:
        >>> fb.ones(2).{name}()
        False
    """

    def constant(name, value, doc):
        def method(self):
            return self if value is None else value

        method.__name__, method.__doc__ = name, doc
        return method

    table = {
        "numpy": _numpy, "__array__": _array, "__array_wrap__": _array_wrap, "__array_namespace__": _array_namespace,
        "to": _to, "type": _type, "type_as": _type_as, "cpu": _cpu, "to_device": _to_device, "cuda": _cuda, "tolist": _tolist,
        "is_set_to": _is_set_to, "detach": _share_nothing,
        "__iter__": _iter, "__contains__": _contains, "__repr__": _repr, "__str__": _repr, "__format__": _format,
        "__complex__": _complex_number, "__reversed__": _reversed, "__deepcopy__": _deepcopy, "__reduce_ex__": _reduce_ex,
    }  # fmt: skip
    for name in ("resolve_conj", "resolve_neg"):
        table[name] = constant(name, None, identity_doc.format(name=name))
    for name, why in {
        "is_conj": "conjugation is never lazy here", "is_neg": "negation is never lazy here",
        "is_inference": "there is no inference mode yet", "is_shared": "the memory belongs to this process alone",
        "is_pinned": "there is no accelerator to pin memory for",
    }.items():  # fmt: skip
        table[name] = constant(name, False, false_doc.format(name=name, why=why))
    for name, kind in {
        "float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16, "int": _C.int32,
        "long": _C.int64, "short": _C.int16, "char": _C.int8, "byte": _C.uint8, "bool": _C.bool,
        "cfloat": _C.complex64, "cdouble": _C.complex128,
    }.items():  # fmt: skip
        table[name] = _converter(name, kind)
    return table


def _flag(value, doc):
    return property(lambda self: value, doc=doc)


def _install() -> None:
    for name, method in _methods().items():
        setattr(Tensor, name, method)
    Tensor.__array_priority__ = 1000
    Tensor.__array_interface__ = property(_array_interface)
    Tensor.layout = property(lambda self: strided, doc="How the elements are stored: fb.strided.")
    Tensor.data = property(lambda self: self.view_as(self), _set_data, doc="The same memory, without history.")
    Tensor.requires_grad = property(lambda self: False, _set_requires_grad, doc="Whether gradients are recorded; not available yet.")
    Tensor.grad = property(lambda self: None, doc="The gradient; None until autograd is there.")
    Tensor.grad_fn = property(lambda self: None, doc="The op that made this tensor; None until autograd is there.")
    Tensor.is_leaf = _flag(True, "True: every tensor is a leaf until autograd is there.")
    Tensor.names = property(lambda self: (None,) * self.ndim, doc="Names of the dimensions: always None.")
    for name in ("is_cuda", "is_sparse", "is_quantized", "is_mkldnn", "is_meta", "is_mps", "is_xpu", "is_nested", "is_sparse_csr"):
        setattr(Tensor, name, _flag(False, "False: there are only dense tensors on the CPU."))
    Tensor.is_cpu = _flag(True, "True: every tensor lives on the CPU.")
    Tensor.T = property(lambda self: self.permute(tuple(range(self.ndim))[::-1]), doc="Dimensions in reverse order; a view.")
    Tensor.mT = property(_matrix_transpose, doc="The last two dimensions exchanged; a view.")
    Tensor.H = property(_matrix_h, doc="The conjugate transpose of a matrix.")
    Tensor.mH = property(lambda self: _matrix_transpose(self).conj(), doc="The last two dimensions exchanged, conjugated.")
    Tensor.real = property(lambda self: _namespace("real")(self), _set_part("real"), doc="The real part; a view.")
    Tensor.imag = property(lambda self: _namespace("imag")(self), _set_part("imag"), doc="The imaginary part; a view.")
    Tensor.__doc__ = """A multi-dimensional array of one dtype. Make one with fb.tensor(), fb.zeros() and the like.

    Example:
        >>> fb.tensor([1.0, 2.0]) * 2
        tensor([2., 4.])
    """


def _set_part(name: str):
    def setter(self, value):
        _namespace(name)(self).copy_(as_tensor(value))

    return setter


def _matrix_transpose(self):
    if self.ndim < 2:
        raise ArgumentError(f"mT: only tensors with at least two dimensions have a matrix transpose, got shape {tuple(self.shape)}")
    return self.transpose(-2, -1)


def _matrix_h(self):
    if self.ndim not in (0, 2):
        raise ArgumentError(f"H: expected a matrix or 0-d tensor, got shape {tuple(self.shape)}; use mH for batches")
    return self.conj() if self.ndim == 0 else self.transpose(0, 1).conj()


_install()
