"""Every name a PyTorch pickle may use, and its meaning here. No module is imported because a file names it."""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import functools
import math
import pathlib
import re
import sys
import types
import uuid
from typing import Any

import flambeau as fb
from flambeau import _C
from flambeau._files import classes, models, sparse
from flambeau._files.problems import FileError, ForbiddenError, short
from flambeau._files.tree import FACTORIES, as_parameter, dtype_named, with_gradient
from flambeau._files.unpickle import Fillable, Known

STORAGES = {
    "FloatStorage": fb.float32, "DoubleStorage": fb.float64, "HalfStorage": fb.float16, "BFloat16Storage": fb.bfloat16,
    "ByteStorage": fb.uint8, "CharStorage": fb.int8, "ShortStorage": fb.int16, "IntStorage": fb.int32, "LongStorage": fb.int64,
    "BoolStorage": fb.bool, "ComplexFloatStorage": fb.complex64, "ComplexDoubleStorage": fb.complex128,
}  # fmt: skip
_FOREIGN = (  # dtypes of PyTorch that flambeau has no kernels for
    "qint8 qint32 quint8 quint4x2 quint2x4 bits16 bits8 bits1x8 bits2x4 bits4x2 float4_e2m1fn_x2"
).split()
_NEW_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_ALIASES = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64", "short": "int16"}


NUMPY_CODE = re.compile(r"[<>=|]?([biufc]\d{1,2}|[SU]\d{1,6})")


class LoadedStorage(fb.UntypedStorage):
    """A storage of a file; `dtype` is None if the file leaves it to the tensors."""

    def __init__(self, raw: fb.Tensor, dtype: Any, swapped: bool = False) -> None:
        super().__init__(raw)
        self.dtype, self._swapped = dtype, swapped
        self._copied = 0

    def bytes_for(self, dtype: Any) -> fb.Tensor:
        """The bytes in this machine's order, for elements of a dtype."""
        if self._swapped:
            import numpy as np

            width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
            flat = np.asarray(self._tensor).view(f"u{width}")
            flat.byteswap(inplace=True)
            self._swapped = False
        return self._tensor

    def become_plain(self) -> None:
        """Converts it to a plain storage, if the file holds the storage itself and not only tensors in it."""
        dtype = self.__dict__.pop("dtype")
        self.bytes_for(dtype or fb.uint8)
        self.__dict__.update({"_element": dtype or fb.uint8})
        self.__class__ = fb.UntypedStorage if dtype is None else fb.TypedStorage  # type: ignore[assignment]

    def copy(self, size: int) -> None:
        """Accounts for copied bytes: a pickle can name the same storage many times."""
        self._copied += size
        if self._copied > 4 * self.nbytes() + (1 << 20):
            raise FileError("tensors to be conjugated or negated that expand to many times the bytes of their storage")


# ---- tensors -------------------------------------------------------------------------------------------------------------


def _integers(values: Any, what: str) -> tuple[int, ...]:
    if type(values) not in (tuple, list, fb.Size) or len(values) > 64 or any(type(v) is not int or not 0 <= v < 1 << 62 for v in values):
        raise FileError(f"a tensor with the {what} {short(values)}; expected at most 64 whole numbers from 0 on")
    return tuple(values)


def _view(storage: Any, offset: Any, size: Any, stride: Any, dtype: Any) -> fb.Tensor:
    if not isinstance(storage, LoadedStorage) or not isinstance(dtype, fb.dtype):
        raise FileError("a tensor without a storage or a dtype")
    (start,) = _integers((offset,), "offset")
    shape, steps = _integers(size, "size"), _integers(stride, "stride")
    if len(shape) != len(steps):
        raise FileError(f"a tensor of size {shape} with strides {steps}")
    if math.prod(shape):
        reach = (start + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) + 1) * dtype.itemsize
        if reach > storage.nbytes():
            raise FileError(
                f"a tensor of size {shape}, strides {steps} and offset {start} reaches byte {reach} of a storage with "
                f"{storage.nbytes()} bytes"
            )
    return _C.over_storage(storage.bytes_for(dtype), dtype, shape, steps, start)


def _resolved(t: fb.Tensor, metadata: Any, storage: LoadedStorage) -> fb.Tensor:
    """Applies at once the conjugation or negation that PyTorch defers."""
    flags = metadata if isinstance(metadata, dict) else {}
    if not flags.get("conj") and not flags.get("neg"):
        return t
    single = t
    for d, step in enumerate(t.stride()):
        if step == 0 and t.shape[d] > 1:
            single = single.narrow(d, 0, 1)
    storage.copy(single.numel() * single.itemsize)
    if flags.get("conj"):
        single = single.conj().clone() if t.dtype.is_complex else single
    if flags.get("neg"):
        single = -single
    return single.expand(t.shape)


def fill(budget: Any, target: Any, state: Any) -> None:
    """Attributes from a pickle: a dict, or a pair of dicts."""
    for part in state if isinstance(state, tuple) else (state,):
        budget.spend(16 * len(part or ()))  # each takes longer than a copied element
    classes.fill(target, state)
    classes.complete(target)


def _no_hooks(hooks: Any) -> None:
    if hooks:
        raise ForbiddenError("a tensor with backward hooks, which are functions")


def _tensor_v1(budget, keys, storage, offset, size, stride):
    return _view(storage, offset, size, stride, getattr(storage, "dtype", None))


def _tensor_v2(budget, keys, storage, offset, size, stride, requires_grad, hooks, metadata=None):
    _no_hooks(hooks)
    t = _view(storage, offset, size, stride, getattr(storage, "dtype", None))
    return with_gradient(_resolved(t, metadata, storage), requires_grad is True)


def _tensor_v3(budget, keys, storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
    _no_hooks(hooks)
    t = _view(storage, offset, size, stride, dtype)
    return with_gradient(_resolved(t, metadata, storage), requires_grad is True)


def _parameter(budget, keys, data, requires_grad, hooks):
    _no_hooks(hooks)
    if not isinstance(data, fb.Tensor):
        raise FileError("a Parameter without a tensor")
    return as_parameter(data, requires_grad is True)


def _parameter_with_state(budget, keys, data, requires_grad, hooks, state):
    made = _parameter(budget, keys, data, requires_grad, hooks)
    fill(budget, made, state)
    return made


def _from_type(budget, keys, function, cls, arguments, state):
    if not isinstance(function, Known) or function.make is None or not function.name.startswith("torch._utils._rebuild_"):
        raise ForbiddenError("a tensor made by an unknown function")
    kind = cls.kind if isinstance(cls, Known) else cls
    ours = isinstance(cls, Known) and cls.name in ("torch.Tensor", "torch.nn.parameter.Parameter")
    if not ours and not (isinstance(kind, type) and issubclass(kind, fb.Tensor)):
        raise ForbiddenError(f"a tensor of the class {getattr(cls, 'name', cls)}")
    made = function.make(budget, keys, *arguments)
    if not ours:
        wanted = bool(made.requires_grad)
        made = with_gradient(made.detach().as_subclass(kind), wanted)
    elif cls.name.endswith("Parameter"):
        made = as_parameter(made, bool(made.requires_grad))
    fill(budget, made, state)
    return made


def _meta_tensor(budget, keys, dtype, size, stride, requires_grad):
    if not isinstance(dtype, fb.dtype):
        raise FileError("a tensor without a dtype")
    t = fb.empty(_integers(size, "size"), dtype=dtype, device="meta")
    return with_gradient(t, requires_grad is True)


def _sparse(budget, keys, layout, data):
    for part in data if isinstance(data, tuple) else ():
        if type(part) is fb.Tensor:
            budget.use(part)
    return sparse.rebuilt(layout, data)


# ---- other objects ---------------------------------------------------------------------------------------------------------


def _encode(budget, keys, text, encoding):
    # A codec named by a file could be any module of the package encodings, and some take minutes for a short text.
    if type(encoding) is not str or encoding not in ("latin1", "latin-1", "utf-8", "utf8") or type(text) is not str:
        raise FileError(f"bytes in the encoding {short(encoding)}; only latin1 and utf-8 are read")
    budget.spend(len(text))
    return text.encode(encoding)


def _bytes(budget, keys, *arguments):
    if len(arguments) == 2:
        return bytearray(_encode(budget, keys, *arguments))
    if arguments and (type(arguments[0]) is not bytes or len(arguments) > 1):
        raise FileError("bytes made from something that is not bytes")
    budget.spend(sum(map(len, arguments)))
    return bytearray(*arguments)


def _filled(kind: type, keyed: bool):
    def make(budget, keys, *arguments):
        if not arguments:
            return kind()
        (items,) = arguments
        if not isinstance(items, (list, tuple, set, frozenset, dict)):
            raise FileError(f"a {kind.__name__} made from a {type(items).__name__}")
        budget.spend(len(items))
        if isinstance(items, dict) or not keyed:
            return kind(items)
        if kind in (set, frozenset):
            return kind(map(keys.check, items))
        budget.spend(len(items))
        return kind((keys.check(pair[0]), pair[1]) for pair in items)

    return make


def _default_dict(budget, keys, factory=None):
    if factory is None:
        return collections.defaultdict(None)
    kind = factory.kind if isinstance(factory, Known) else factory
    if not any(kind is known for known in (*FACTORIES.values(), *classes.registered.values())):
        raise ForbiddenError("a defaultdict with a function of its own; allow it with torch.serialization.add_safe_globals([...])")
    return collections.defaultdict(kind)


def _deque(budget, keys, items=(), maxlen=None):
    budget.spend(len(items))
    return collections.deque(items, maxlen)


def _plain(function: Any, *allowed: type):
    """A constructor of a small value from plain values only."""

    def make(budget, keys, *arguments):
        if any(type(a) not in allowed for a in arguments):
            raise FileError(f"a {function.__name__} made from {short(arguments)}")
        return function(*arguments)

    return make


def _generator(budget, keys, device="cpu"):
    if not isinstance(device, str):
        raise FileError(f"a generator's device is {device!r}, expected its name")
    return fb.Generator(device)


def _set_generator(budget, made, state):
    made.set_state(state)


def _return_type(name: str) -> Known | None:
    kind = _C.return_types.get(name)
    return Known(f"torch.return_types.{name}", lambda budget, keys, items, extra=None: kind(items)) if kind else None


def _type_of(budget, keys, value):
    if value not in (None, ..., NotImplemented):
        raise ForbiddenError("a call of type(), which would run code")
    return type(value)


def _size(budget, keys, values=()):
    return fb.Size(_integers(values, "size"))


def _layout(budget, keys, name):
    found = getattr(fb, str(name).rpartition(".")[2], None)
    if not isinstance(found, fb.layout):
        raise FileError(f"the layout {short(name)}")
    return found


# ---- NumPy -----------------------------------------------------------------------------------------------------------------


class NumpyType(Fillable):
    """numpy.dtype while it is being described."""

    def __init__(self, code: Any) -> None:
        import numpy as np

        if type(code) is not str or not NUMPY_CODE.fullmatch(code):
            raise ForbiddenError(f"a NumPy dtype {short(code)}; bools, numbers and text are read")
        self.dtype = np.dtype(code)

    def build(self, state: Any) -> None:
        """(3, byte order, None, None, None, -1, -1, 0)"""
        if state[1] not in ("<", ">", "|", "="):
            raise FileError(f"the byte order {short(state[1])}")
        self.dtype = self.dtype.newbyteorder(state[1])


def _numpy_type(budget, keys, code, align=False, copy=True):
    return NumpyType(code)


def _as_bytes(data: Any) -> bytes:
    """Bytes; Python 2 wrote them as text, which encoding="latin1" reads without loss."""
    if type(data) not in (bytes, str):
        raise ForbiddenError("a NumPy array of objects")
    return data.encode("latin1") if type(data) is str else data


def _numpy_scalar(budget, keys, kind, data):
    import numpy as np

    data = _as_bytes(data)
    if not isinstance(kind, NumpyType) or len(data) != kind.dtype.itemsize:
        raise FileError("a NumPy scalar without dtype or bytes")
    return np.frombuffer(data, dtype=kind.dtype)[0]


def _numpy_array(budget, keys, cls, shape, code):
    import numpy as np

    return np.empty(0, dtype=np.uint8)


def _numpy_from_buffer(budget, keys, data, kind, shape, order, axes=None):
    import numpy as np

    made = np.empty(0, dtype=np.uint8)
    if order not in ("C", "F") or axes is not None:
        raise FileError(f"a NumPy array in the order {short(order)}")
    fill_array(made, (1, shape, kind, order == "F", bytes(data) if type(data) is bytearray else data), budget)
    return made


def fill_array(target: Any, state: Any, budget: Any) -> None:
    """ndarray's state: (1, shape, dtype, column-major, bytes)."""
    _, shape, kind, fortran, data = state
    sizes, data = _integers(shape, "shape"), _as_bytes(data)
    if not isinstance(kind, NumpyType) or len(sizes) > 32:
        raise ForbiddenError("a NumPy array of objects")
    if math.prod(sizes) * kind.dtype.itemsize != len(data):
        raise FileError(f"a NumPy array of shape {sizes} and dtype {kind.dtype} with {len(data)} bytes")
    budget.spend(len(data))
    target.__setstate__((1, sizes, kind.dtype, bool(fortran), data))


# ---- the table -------------------------------------------------------------------------------------------------------------


@functools.cache
def _table() -> dict[str, Any]:
    plain_numbers = (int, float, bool, str)
    table: dict[str, Any] = {}

    def add(name: str, make: Any = None, blank: Any = None, kind: Any = None) -> None:
        table[name] = Known(name, make, blank, kind)

    for version, make in {"": _tensor_v1, "_v2": _tensor_v2, "_v3": _tensor_v3}.items():
        add(f"torch._utils._rebuild_tensor{version}", make)
    add("torch._utils._rebuild_parameter", _parameter)
    add("torch._utils._rebuild_parameter_with_state", _parameter_with_state)
    add("torch._tensor._rebuild_from_type_v2", _from_type)
    add("torch._utils._rebuild_sparse_tensor", _sparse)
    add("torch._utils._rebuild_meta_tensor_no_storage", _meta_tensor)
    add("torch.Tensor")
    add("torch.nn.parameter.Parameter")
    add("torch.Size", _size)
    add("torch.device", _plain(fb.device, str, int))
    add("torch.serialization._get_layout", _layout)
    for module in ("torch", "torch.cuda"):
        for name, dtype in STORAGES.items():
            add(f"{module}.{name}", kind=dtype)
            add(f"{module}.{name.replace('Storage', 'Tensor')}")
    add("torch.storage.UntypedStorage")
    add("torch.UntypedStorage")
    for code in [d.name for d in vars(_C).values() if isinstance(d, fb.dtype)]:
        table[f"torch.{code}"] = dtype_named(code)
    for alias, code in _ALIASES.items():
        table[f"torch.{alias}"] = dtype_named(code)
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d", "strided"):
        table[f"torch.{name}"] = getattr(fb, name)

    add("_codecs.encode", _encode)
    add("collections.OrderedDict", _filled(collections.OrderedDict, True))
    add("collections.Counter", _filled(collections.Counter, True))
    add("collections.defaultdict", _default_dict)
    add("collections.deque", _deque)
    simple_values = (int, str, bytes, float, datetime.timedelta, datetime.timezone)
    for small in (datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone):
        add(f"datetime.{small.__name__}", _plain(small, *simple_values), kind=small)
    for number in (decimal.Decimal, fractions.Fraction):
        add(f"{number.__module__}.{number.__name__}", _plain(number, str, int), kind=number)
    for path in (type(pathlib.Path()), pathlib.PurePosixPath, pathlib.PureWindowsPath):
        for module in ("pathlib", "pathlib._local"):
            add(f"{module}.{path.__name__}", _plain(path, str), kind=path)
    table["uuid.UUID"] = Known("uuid.UUID", blank=lambda: classes.blank(uuid.UUID), fill=fill, kind=uuid.UUID)
    for module in ("builtins", "__builtin__"):
        table[f"{module}.getattr"] = Known(f"{module}.getattr", lambda *_: None, kind=getattr)
        add(f"{module}.type", _type_of)
        table[f"{module}.NotImplemented"], table[f"{module}.Ellipsis"] = NotImplemented, ...
        add(f"{module}.bytearray", _bytes)
        add(f"{module}.bytes", lambda *arguments: bytes(_bytes(*arguments)))
        add(f"{module}.set", _filled(set, True), kind=set)
        add(f"{module}.frozenset", _filled(frozenset, True))
        add(f"{module}.complex", _plain(complex, int, float))
        add(f"{module}.slice", _plain(slice, int, type(None)))
        add(f"{module}.range", _plain(range, int))
        add(f"{module}.xrange", _plain(range, int))
        add(f"{module}.list", _filled(list, False), kind=list)
        add(f"{module}.tuple", _filled(tuple, False), kind=tuple)
        add(f"{module}.dict", _filled(dict, True), kind=dict)
        for simple in (int, float, str):
            add(f"{module}.{simple.__name__}", _plain(simple, *plain_numbers), kind=simple)
    add("argparse.Namespace", blank=argparse.Namespace)
    add("types.SimpleNamespace", lambda budget, keys: types.SimpleNamespace())
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        add(f"{module}.scalar", _numpy_scalar)
        add(f"{module}._reconstruct", _numpy_array)
    for module in ("numpy.core.numeric", "numpy._core.numeric"):
        add(f"{module}._frombuffer", _numpy_from_buffer)
    table["flambeau.Generator"] = Known("flambeau.Generator", _generator, fill=_set_generator)
    add("numpy.dtype", _numpy_type)
    add("numpy.ndarray")
    return table


def is_built_in(name: str) -> bool:
    """Whether loading knows the name without add_safe_globals()."""
    return name in _table() or name.startswith("numpy.dtypes.") or models.function(name) is not None


def _registered(module: str, name: str) -> Known | None:
    """A class or function registered by add_safe_globals(): created as data if possible, else by its own code."""
    full = f"{module}.{name}"
    cls: Any = classes.registered.get(full)
    if cls is None:
        # Outer, named only as the owner of a registered Outer.Inner.
        return Known(full, module=module) if any(known.startswith(full + ".") for known in classes.registered) else None
    if not isinstance(cls, type):
        return Known(full, lambda budget, keys, *arguments: cls(*arguments), value=cls, module=module)

    def make(budget, keys, *arguments):
        try:
            return classes.called(cls, keys, *arguments)
        except ForbiddenError:
            return cls(*arguments)

    def blank(*arguments):
        own = next((base for base in cls.__mro__ if "__new__" in vars(base)), object)
        simple = own is classes.data_base(cls) or classes.is_namedtuple(cls) or own.__module__.split(".")[0] == "flambeau"
        return classes.blank(cls, *arguments) if simple else cls.__new__(cls, *arguments)

    return Known(full, make, blank, cls, _restore, cls, module)


def _restore(budget: Any, target: Any, state: Any) -> None:
    if classes.restores_itself(type(target)):
        target.__setstate__(state)
    else:
        fill(budget, target, state)


def _imported(module: str, name: str) -> Known | None:
    """A class that the program has imported, for weights_only=False: its objects are data; none of its code runs."""
    cls: Any = classes.imported_class(module, name)
    if cls is None:
        return None
    full = f"{module}.{name}"

    def fill_data(budget: Any, target: Any, state: Any) -> None:
        if not classes.is_module(target) and classes.restores_itself(type(target)):
            raise ForbiddenError(
                f"an object of {full}, whose __setstate__ would have to run; if you trust the class, allow it with "
                f"torch.serialization.add_safe_globals([{name}])"
            )
        fill(budget, target, state)

    def make(budget, keys, *arguments):
        try:
            return classes.called(cls, keys, *arguments)
        except ForbiddenError as error:
            raise ForbiddenError(
                f"{error}; if you trust it, allow it with torch.serialization.add_safe_globals([{name}])"
            ) from None

    return Known(full, make, lambda *arguments: classes.blank(cls, *arguments), cls, fill_data, None, module)


def find(module: str, name: str) -> Any:
    """The meaning of a name; raises an error that mentions the name if it is unknown."""
    full = f"{module}.{name}"
    found = _table().get(full)
    if found is None:
        found = _registered(_NEW_MODULES.get(module, module), name) or models.function(full)
    if found is None and module == "torch.return_types":
        found = _return_type(name)
    if found is not None:
        return found
    root = module.split(".")[0]
    if root == "torch" and (name in _FOREIGN or name.endswith(("Storage", "_rebuild_qtensor"))):
        raise FileError(f"uses {full}, which flambeau does not have: it has tensors of bool, integers, floats and complex numbers")
    if root in classes.BLOCKED:
        raise ForbiddenError(
            f"Weights only load failed: unsupported GLOBAL {full} whose module {module} is blocked: no file may use it, whatever "
            "weights_only and add_safe_globals() say; save tensors and plain containers, such as a module's state_dict()"
        )
    full = full.replace("__builtin__.", "builtins.")
    short_name = full.removeprefix("builtins.")
    way = "weights_only=False makes objects of classes that the program has imported, without running their code"
    if sys.modules.get(module) is None:
        way += f" (import {module} first)"
    raise ForbiddenError(
        f"Weights only load failed: Unsupported global: GLOBAL {short_name} was not an allowed global by default. Loading runs no "
        f"code of a file. If you trust {name} with any arguments, use `torch.serialization.add_safe_globals([{full}])` or the "
        f"`torch.serialization.safe_globals([{full}])` context manager to allowlist it; {way}; a state_dict() needs neither"
    )


def find_with_imported(module: str, name: str) -> Any:
    """find() for weights_only=False, which also accepts classes that the program has imported."""
    if f"{module}.{name}" in _table() or classes.registered.get(f"{module}.{name}") is not None:
        return find(module, name)
    return _imported(_NEW_MODULES.get(module, module), name) or find(module, name)
