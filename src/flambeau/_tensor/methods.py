"""Tensor features other than ops: construction, conversion, properties, Python protocols."""

from __future__ import annotations

import builtins
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, device, dtype
from flambeau._tensor import copying, exchange, hooks
from flambeau._tensor.exchange import from_array, from_dlpack, from_file, from_numpy, frombuffer, is_array, to_dlpack
from flambeau._tensor.layouts import Size, preserve_format, strided
from flambeau.errors import ArgumentError, DTypeError, StateError

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_file", "from_numpy", "frombuffer", "tensor", "to_dlpack"]  # fmt: skip


# ---- making tensors ------------------------------------------------------------------------------------------------------


def _check_device(op: str, where: Any) -> None:
    if where is not None and device(where).type not in ("cpu", "meta", "sim", "opencl", "cuda"):
        raise RuntimeError(f"{op}: device '{where}' has no backend in this build; use device='cpu'")


def _placed(result, where):
    """The tensor on a device; on the default one for None."""
    target = _C.get_default_device() if where is None else device(where)
    return result if target.type == result.device.type == "cpu" else result._to_device(target)


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of data: a number, nested sequences, a NumPy array or a tensor.

    Args:
        data: what to copy.
        dtype: element type; by default that of the data (Python floats take the default dtype).
        device: device of the result.
        requires_grad: whether operations on the tensor are recorded for backward.
        pin_memory: whether the result is in pinned memory, which needs an accelerator.

    Example:
        >>> fb.tensor([[1, 2], [3, 4]])
        tensor([[1, 2],
                [3, 4]])
    """
    _check_device("tensor", device)
    if pin_memory:
        return tensor(data, dtype=dtype, device=device).pin_memory().requires_grad_(requires_grad)
    if isinstance(data, Tensor) or is_array(data):
        copy = (data.detach() if isinstance(data, Tensor) else from_array(data)).clone()
        result = copy if dtype is None else copy.to(dtype)
    elif type(data) is not list and hasattr(data, "untyped"):
        result = _of_storage("tensor", data, dtype).clone()
    elif type(data) is not list and hasattr(data, "__dlpack__"):
        copy = from_dlpack(data).clone()
        result = copy if dtype is None else copy.to(dtype)
    else:
        result = _C.tensor_from_data(data, dtype)
    if device is not None or not isinstance(data, Tensor):  # a tensor keeps its device
        result = _placed(result, device)
    return result.requires_grad_() if requires_grad else result


def _of_storage(op: str, storage: Any, dtype: Any) -> Tensor:
    """The elements of a storage as a 1-d tensor on its memory."""
    if dtype is not None and getattr(storage, "dtype", dtype) != dtype:
        raise ArgumentError(
            f"{op}: Expected a Storage of type {dtype} or an UntypedStorage, but got a storage of {storage.dtype}; "
            "take its untyped(), or convert it with to()"
        )
    kind = dtype or getattr(storage, "dtype", _C.get_default_dtype())
    return _C.over_storage(storage.untyped()._flat, kind, (storage.nbytes() // kind.itemsize,), (1,), 0)


def as_tensor(data, dtype=None, device=None):
    """A tensor on the data, without a copy where possible (tensors and NumPy arrays of the right dtype).

    Example:
        >>> fb.as_tensor([1.0, 2.0])
        tensor([1., 2.])
    """
    _check_device("as_tensor", device)
    if not isinstance(data, Tensor):
        data = _placed(from_array(data) if is_array(data) else _C.tensor_from_data(data, dtype), device)
    return data if dtype is None and device is None else data.to(device, dtype)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """A tensor from anything array-like: tensors, NumPy arrays, DLPack producers and capsules, buffers, nested sequences.

    Args:
        obj: the data.
        dtype: element type, that of the data by default.
        device: device of the result.
        copy: True always copies, False never does (an error if that is impossible), None copies when needed.
        requires_grad: whether operations on the tensor are recorded for backward; None keeps what a tensor has, with
            its history, and False leaves it behind.

    Example:
        >>> fb.asarray([1, 2])
        tensor([1, 2])
    """
    _check_device("asarray", device)
    if isinstance(obj, Tensor):
        shared = obj
    elif hasattr(obj, "untyped"):
        shared = _of_storage("asarray", obj, dtype or getattr(obj, "dtype", _C.uint8))
    elif is_array(obj):
        shared = from_array(obj)
    elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        shared = from_dlpack(obj)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        shared = frombuffer(obj, dtype=dtype or _C.uint8)
    else:
        if copy is False:
            raise ArgumentError("can't alias arbitrary sequence into a tensor: asarray with copy=False takes an array or tensor")
        return _placed(_C.tensor_from_data(obj, dtype), device).requires_grad_(bool(requires_grad))
    result = shared if dtype is None else shared.to(dtype)
    if device is not None or not isinstance(obj, Tensor):
        result = _placed(result, device)
    if copy is False and result is not shared:
        raise ArgumentError(
            f"can't alias tensor with dtype '{shared.dtype.name}' into dtype '{dtype.name}': asarray with copy=False does not convert"
        )
    result = result.clone() if copy and result is shared else result
    if requires_grad and not result.requires_grad:
        return (result.detach() if result is obj else result).requires_grad_()
    return result.detach() if requires_grad is False and result.requires_grad else result


def legacy_new(*args, size=None, data=None, device=None, dtype=None):
    """Tensor(): empty; Tensor(2, 3): uninitialised; Tensor([1, 2]) and Tensor(storage): data; Tensor(tensor): the same again."""
    _check_device("Tensor", device)
    kind = dtype or _C.get_default_dtype()
    if size is not None or data is not None:
        if args or size is not None and data is not None:
            raise TypeError("new: expected sizes or data, one of them")
        args = (Size(size),) if data is None else (data,)
    if not args:
        return _namespace("empty")((0,), dtype=kind, device=device)
    first = args[0]
    if len(args) > 1 or isinstance(first, Size) or hasattr(first, "__index__") and _is_whole(first):
        return _namespace("empty")(first if isinstance(first, Size) else args, dtype=kind, device=device)
    if isinstance(first, Tensor):
        return first.view_as(first) if dtype is None or first.dtype == dtype else first.to(dtype).detach()
    if hasattr(first, "untyped"):
        return _namespace("empty")((0,), dtype=kind).set_(first)
    if isinstance(first, str) or not hasattr(first, "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__}); for one number write tensor({first!r})")
    return tensor(first, dtype=kind, device=device)


def _is_whole(value: Any) -> builtins.bool:
    return not isinstance(value, (builtins.bool, Tensor)) and not getattr(value, "ndim", 0)


def _namespace(name: str):
    return _C.namespaces[""][name]


# ---- conversion ----------------------------------------------------------------------------------------------------------


def _to(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """to(dtype) / to(device, dtype=None) / to(other), with non_blocking=False, copy=False, memory_format=preserve_format

    The tensor converted to another dtype or moved to another device; itself when nothing changes and copy is False.

    Example:
        >>> fb.ones(2).to(fb.int64)
        tensor([1, 1])
    """
    if len(args) == 1 and type(args[0]) is _C.dtype and memory_format is None and not copy and dtype is None and device is None:
        return self if args[0] == self.dtype else self._convert(args[0])  # by far the most frequent call
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
        rest.pop(0)  # non_blocking: copies on the CPU are never asynchronous
    if rest:
        copy = rest.pop(0)
    if rest:
        raise TypeError(f"to: too many arguments: {args}")
    _check_device("to", device)
    if dtype is not None and not isinstance(dtype, _C.dtype):
        dtype = _python_dtype("to", dtype)
    kind = dtype or self.dtype
    if device is not None and (target := _C.device(device)) != self.device and (target.type != "cpu" or self.device.type != "cpu"):
        moved = self._to_device(target)
        copy = copy and moved is self
        self = moved
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


def _own(self, name: str, general):
    """The method of a tensor's class if it overrides the general one, as `Tensor.values(sparse)` requires."""
    own = getattr(type(self), name)
    return None if own is general else own


def _of_sparse(name: str, layout: str, what: str):
    """A method of sparse tensors only: SparseTensor overrides it, a dense tensor raises an error."""

    def method(self):
        if (own := _own(self, name, method)) is not None:
            return own(self)
        raise StateError(f"{name} expected sparse {layout}tensor layout but got Strided; convert it with .to_sparse()")

    method.__name__ = name
    method.__doc__ = f"""{name}()

    {what} Only sparse tensors have it.

    Example:
        >>> fb.eye(2).is_sparse
        False
    """
    return method


def _sparse_dim(self):
    """sparse_dim()

    How many dimensions the indices of a sparse tensor speak of: none of a dense tensor's.

    Example:
        >>> fb.eye(2).sparse_dim(), fb.eye(2).to_sparse().sparse_dim()
        (0, 2)
    """
    return 0 if (own := _own(self, "sparse_dim", _sparse_dim)) is None else own(self)


def _dense_dim(self):
    """dense_dim()

    How many dimensions are stored densely: all of a dense tensor's.

    Example:
        >>> fb.eye(2).dense_dim(), fb.eye(2).to_sparse().dense_dim()
        (2, 0)
    """
    return self.ndim if (own := _own(self, "dense_dim", _dense_dim)) is None else own(self)


def _type(self, dtype=None, non_blocking=False):
    """type(dtype=None)

    The tensor's type as a string, or the tensor converted to a dtype (also by PyTorch's type names and classes).

    Example:
        >>> fb.zeros(1).type()
        'flambeau.FloatTensor'
    """
    if dtype is None:
        name = _TYPE_NAMES.get(self.dtype) or f"{self.dtype.name.capitalize()}Tensor"
        return f"{str(self.dtype).partition('.')[0]}.{'cuda.' if self.is_cuda else ''}{name}"
    if isinstance(dtype, str):
        short = dtype.rpartition(".")[2]
        for kind, name in _TYPE_NAMES.items():
            if name == short:
                return self.to("cuda" if ".cuda." in dtype else _home(self), kind, non_blocking=non_blocking)
        raise ArgumentError(f"type: invalid type {dtype!r}; expected one of {', '.join(_TYPE_NAMES.values())}")
    if isinstance(dtype, builtins.type) and hasattr(dtype, "tensor_dtype"):
        kind = dtype.tensor_dtype()
        return self.to("cuda" if hasattr(dtype, "element") else _home(self), kind, non_blocking=non_blocking)
    return self.to(_C.get_default_dtype() if dtype is Tensor else dtype)


def _home(tensor):
    """Where a type without "cuda" places a tensor: on the CPU, unless it is a meta tensor."""
    return tensor.device if tensor.is_meta else "cpu"


_TYPE_NAMES: dict[Any, str] = {
    _C.float32: "FloatTensor", _C.float64: "DoubleTensor", _C.float16: "HalfTensor", _C.bfloat16: "BFloat16Tensor",
    _C.uint8: "ByteTensor", _C.int8: "CharTensor", _C.int16: "ShortTensor", _C.int32: "IntTensor", _C.int64: "LongTensor",
    _C.bool: "BoolTensor", _C.uint16: "UInt16Tensor", _C.uint32: "UInt32Tensor", _C.uint64: "UInt64Tensor",
    _C.complex64: "ComplexFloatTensor", _C.complex128: "ComplexDoubleTensor", _C.complex32: "ComplexHalfTensor",
}  # fmt: skip


def _record_stream(self, s):
    """record_stream(s)

    Says that another stream uses the tensor. Memory is not given to others before all streams are done with it, whether
    they were named or not, so this makes no difference.

    Args:
        s: the stream.

    Example:
        >>> fb.ones(2, device="sim").record_stream(fb.accelerator.current_stream("sim"))
    """
    if not hasattr(s, "wait_stream"):
        raise TypeError(f"record_stream: expected a stream, got {type(s).__name__}")
    if self.device.type in ("cpu", "meta"):
        raise ArgumentError(f"record_stream: the tensor is on '{self.device}', which has no streams")


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
    """cuda(device=None, non_blocking=False)

    The tensor on a CUDA device: itself if it is there, else a copy.

    Args:
        device: which one, an index or a device; the first one by default.
        non_blocking: no effect: the copy runs in the background in any case.
        memory_format: strides of a copy.

    Example:
        >>> x = fb.ones(2).cuda() if fb.cuda.is_available() else fb.ones(2)
    """
    if isinstance(device, int):
        device = _C.device("cuda", device)
    target = _C.device("cuda" if device is None else device)
    if target.type != "cuda":
        raise ArgumentError(f"cuda: expected a CUDA device, got '{target}'")
    return self.to(target, non_blocking=non_blocking, memory_format=memory_format)


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
    raise RuntimeError(f"contains: Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


def _repr(self, *, tensor_contents=None):
    from flambeau._tensor.printing import tensor_repr

    if type(self) is not Tensor and _C._is_overridden(self):
        from flambeau.overrides import handle_torch_function

        return handle_torch_function(Tensor.__repr__, (self,), self)
    return tensor_repr(self)


def _format(self, spec):
    from flambeau._tensor.printing import tensor_format

    return tensor_format(self, spec)


def _complex_number(self):
    return complex(self.item())


def _reversed(self):
    """The first dimension reversed; a view."""
    return self if self.ndim == 0 else self[::-1]


def _set_data(self, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"data: expected a tensor, got {type(value).__name__}")
    if self.layout is not value.layout:
        raise DTypeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type: data: a tensor of "
            f"layout {self.layout} cannot become one of {value.layout}; convert with .to_dense() or .to_sparse()"
        )
    if self.requires_grad and not (value.is_floating_point() or value.is_complex()):
        raise StateError(
            f"data: data set to a tensor that requires gradients must be floating point or complex dtype, got {value.dtype}; "
            "convert it, or call requires_grad_(False) first"
        )
    self._set_impl(value)


def _share_memory(self):
    """share_memory_()

    Moves this tensor into memory that other processes share; see flambeau.multiprocessing.

    Example:
        >>> fb.ones(2).share_memory_().is_shared()
        True
    """
    from flambeau.multiprocessing import _share_memory_  # the import replaces the method by this function

    return _share_memory_(self)


def _is_set_to(self, tensor):
    """is_set_to(tensor)

    Whether both are the same view of the same memory.

    Example:
        >>> x = fb.ones(2)
        >>> x.is_set_to(x.view(2))
        True
    """
    return (
        self._storage_nbytes() > 0 and self.data_ptr() == tensor.data_ptr() and self.shape == tensor.shape
        and self.stride() == tensor.stride() and self.dtype == tensor.dtype
    )  # fmt: skip


def _module_load(self, other, assign=False):
    """module_load(other, assign=False)

    What a module holds after load_state_dict() has met this tensor and `other`; a subclass may override it.

    Modules ask it when `fb.__future__.set_swap_module_params_on_conversion(True)` was called.

    Args:
        other: the tensor in the dictionary.
        assign: whether `other` itself is taken, in place of a copy of its values.

    Example:
        >>> fb.zeros(2).module_load(fb.ones(2))
        tensor([1., 1.])
    """
    return other.detach() if assign else self.copy_(other).detach()


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
        "to": _to, "record_stream": _record_stream, "type": _type,
        "type_as": _type_as, "cpu": _cpu, "to_device": _to_device, "cuda": _cuda, "tolist": _tolist,
        "is_set_to": _is_set_to, "module_load": _module_load, "share_memory_": _share_memory, **hooks.METHODS,
        "__iter__": _iter, "__contains__": _contains, "__repr__": _repr, "__format__": _format,
        "__complex__": _complex_number, "__reversed__": _reversed,
        **exchange.METHODS, **copying.METHODS,
    }  # fmt: skip
    for name in ("resolve_conj", "resolve_neg"):
        table[name] = constant(name, None, identity_doc.format(name=name))
    for name, why in {
        "is_conj": "conjugation is never lazy here", "is_neg": "negation is never lazy here",
        "is_shared": "the memory belongs to this process alone",
    }.items():  # fmt: skip
        table[name] = constant(name, False, false_doc.format(name=name, why=why))
    for name, kind in {
        "float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16, "int": _C.int32,
        "long": _C.int64, "short": _C.int16, "char": _C.int8, "byte": _C.uint8, "bool": _C.bool,
        "chalf": _C.complex32, "cfloat": _C.complex64, "cdouble": _C.complex128,
    }.items():  # fmt: skip
        table[name] = _converter(name, kind)
    for name, (layout, what) in {
        "is_coalesced": ("coordinate ", "Whether the places are sorted and none repeats."),
        "coalesce": ("coordinate ", "The places sorted, the values of repeated places added."),
        "indices": ("coordinate ", "The coordinates of the kept elements."), "values": ("", "The kept elements."),
        "crow_indices": ("row compressed ", "Where each row begins among the values."),
        "col_indices": ("row compressed ", "The columns of the values."),
        "ccol_indices": ("column compressed ", "Where each column begins among the values."),
        "row_indices": ("column compressed ", "The rows of the values."),
    }.items():  # fmt: skip
        table[name] = _of_sparse(name, layout, what)
    table |= {"sparse_dim": _sparse_dim, "dense_dim": _dense_dim}
    return table


def _flag(value, doc):
    return property(lambda self: value, doc=doc)


def _install() -> None:
    for name, method in _methods().items():
        setattr(Tensor, name, method)
    Tensor.layout = property(lambda self: strided, doc="How the elements are stored: fb.strided.")
    Tensor.data = property(lambda self: self._untracked(), _set_data, doc="The same memory, without history.")
    Tensor.names = property(lambda self: (None,) * self.ndim, doc="Names of the dimensions: always None.")
    for name in ("is_sparse", "is_quantized", "is_mkldnn", "is_mps", "is_xpu", "is_nested", "is_sparse_csr"):
        setattr(Tensor, name, _flag(False, "False: this is a dense tensor on the CPU."))
    Tensor.is_cuda = property(lambda self: self.device.type == "cuda", doc="Whether it lives on a CUDA device.")
    Tensor.is_cpu = property(lambda self: self.device.type == "cpu", doc="Whether it lives on the CPU.")
    Tensor.is_meta = property(lambda self: self.device.type == "meta", doc="Whether it has a shape and a dtype, and no values.")
    Tensor.T = property(lambda self: self.permute(tuple(range(self.ndim))[::-1]), doc="Dimensions in reverse order; a view.")
    Tensor.mT = property(_matrix_transpose, doc="The last two dimensions exchanged; a view.")
    Tensor.H = property(_matrix_h, doc="The conjugate transpose of a matrix.")
    Tensor.mH = property(lambda self: _matrix_transpose(self).conj(), doc="The last two dimensions exchanged, conjugated.")
    Tensor.real = property(lambda self: _namespace("real")(self), _set_part("real"), doc="The real part; a view.")
    Tensor.imag = property(lambda self: _namespace("imag")(self), _set_part("imag"), doc="The imaginary part; a view.")
    Tensor.__torch_function__ = classmethod(_torch_function)
    Tensor._make_subclass = staticmethod(_make_subclass)
    Tensor.__doc__ = """A multi-dimensional array of one dtype. Make one with fb.tensor(), fb.zeros() and the like.

    Example:
        >>> fb.tensor([1.0, 2.0]) * 2
        tensor([2., 4.])
    """


def _torch_function(cls, func, types, args=(), kwargs=None):
    """The default for classes derived from Tensor: computes as usual, and converts results to the class."""
    from flambeau.overrides import _default

    return _default(cls, func, types, args, kwargs)


def _make_subclass(cls, data, require_grad=False):
    """The same memory as an object of a subclass, without history."""
    return data.detach().as_subclass(cls).requires_grad_(require_grad)


def _set_part(name: str):
    def setter(self, value):
        _namespace(name)(self).copy_(as_tensor(value))

    return setter


def _matrix_transpose(self):
    if self.ndim < 2:
        raise ArgumentError(f"mT: tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor.")
    return self.transpose(-2, -1)


def _matrix_h(self):
    if self.ndim not in (0, 2):
        raise ArgumentError(f"H: tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor; use mH for batches")
    return self.conj() if self.ndim == 0 else self.transpose(0, 1).conj()


_install()
