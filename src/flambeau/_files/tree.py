"""Containers as JSON: objects that can be named are written as data, all others are rejected; nothing in a file is
executed.

Plain values and lists are JSON's own; everything else is an object with its kind as the first key:
{"tuple": [1, 2]}, {"dict": {"a": 1}}, {"dict": [[1, "a"]]} if a key is not a string, {"tensor": "name"}.
"""

from __future__ import annotations

import argparse
import base64
import collections
import enum
import math
import re
import sys
import types
from typing import Any

import flambeau as fb
from flambeau._files import classes, sparse
from flambeau._files.problems import MAX_DEPTH, FileError, ForbiddenError, Keys
from flambeau._tensor.layouts import _Named
from flambeau.errors import ArgumentError

FACTORIES = {"list": list, "dict": dict, "set": set, "int": int, "float": float, "str": str, "tuple": tuple}
SPACES = {"Namespace": argparse.Namespace, "SimpleNamespace": types.SimpleNamespace}
_CONSTANTS = (
    "contiguous_format", "preserve_format", "channels_last", "channels_last_3d", "strided", "sparse_coo", "sparse_csr", "sparse_csc",
    "sparse_bsr", "sparse_bsc",
)  # fmt: skip


def parameter_class() -> Any:
    """nn.Parameter, or None if nn has not been imported."""
    nn = sys.modules.get("flambeau.nn")
    return getattr(nn, "Parameter", None)


def as_parameter(data: fb.Tensor, requires_grad: bool) -> fb.Tensor:
    """The tensor as an nn.Parameter; unchanged if this build has no nn."""
    try:
        from flambeau.nn import Parameter
    except ImportError:
        return with_gradient(data, requires_grad)
    return Parameter(data, requires_grad)


def with_gradient(t: fb.Tensor, requires_grad: bool) -> fb.Tensor:
    """The tensor itself, requiring gradients if requested."""
    if requires_grad:
        t.requires_grad = True
    return t


def is_parameter(t: fb.Tensor) -> bool:
    """Whether the tensor is an nn.Parameter."""
    known = parameter_class()
    return known is not None and isinstance(t, known)


def is_foreign(t: fb.Tensor) -> bool:
    """Whether the tensor is of a class that is not flambeau's own."""
    return type(t) is not fb.Tensor and type(t).__module__.split(".")[0] != "flambeau"


def check_tensor(t: fb.Tensor) -> bool:
    """Whether the tensor is a Parameter; rejects what a safetensors file cannot hold."""
    if t.is_meta:
        raise ArgumentError("save: a tensor on the meta device has no values to save; load it, or use to_empty() first")
    if is_parameter(t):
        return True
    if is_foreign(t):
        raise ArgumentError(
            f"save: a tensor of the class {type(t).__name__}: a safetensors file holds data, not classes; "
            "save t.as_subclass(fb.Tensor) and convert after loading, or use format='pt'"
        )
    return False


class Encoder:
    """Converts an object to JSON; collects its tensors under names that reflect their position."""

    def __init__(self) -> None:
        self.tensors: dict[str, fb.Tensor] = {}
        self._names: dict[int, str] = {}
        self._open: set[int] = set()

    def name(self, t: fb.Tensor, path: tuple[str, ...]) -> str:
        """The tensor's name in the file; the same object keeps its first."""
        if id(t) not in self._names:
            wanted = ".".join(path) or "tensor"
            name, count = wanted, 1
            while name in self.tensors or name == "__metadata__":
                count += 1
                name = f"{wanted}#{count}"
            self._names[id(t)] = name
            self.tensors[name] = t
        return self._names[id(t)]

    def encode(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """The JSON for a value."""
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if abs(value) < 1 << 63 else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, fb.Tensor):
            return self._tensor(value, path)
        if id(value) in self._open:
            raise ArgumentError(f"save: the {kind.__name__} at '{'.'.join(path)}' contains itself")
        if len(path) > MAX_DEPTH:
            raise ArgumentError(f"save: containers are nested deeper than {MAX_DEPTH} levels")
        self._open.add(id(value))
        try:
            return self._other(value, kind, path)
        finally:
            self._open.discard(id(value))

    def _tensor(self, t: fb.Tensor, path: tuple[str, ...]) -> Any:
        if sparse.is_sparse(t):
            layout, parts = sparse.parts(t)
            return {"sparse": [layout, *self._items(parts, path)], "requires_grad": t.requires_grad}
        node: dict[str, Any] = {"Parameter" if check_tensor(t) else "tensor": self.name(t, path)}
        if t.requires_grad:
            node["requires_grad"] = True
        if t.__dict__:
            node["attributes"] = {k: self.encode(v, (*path, k)) for k, v in t.__dict__.items()}
        return node

    def _items(self, values: Any, path: tuple[str, ...]) -> list[Any]:
        return [self.encode(v, (*path, str(i))) for i, v in enumerate(values)]

    def _pairs(self, value: Any, path: tuple[str, ...]) -> Any:
        if all(type(k) is str for k in value):
            return {k: self.encode(v, (*path, k)) for k, v in value.items()}
        return [[self.encode(k, (*path, "key")), self.encode(v, (*path, str(k)))] for k, v in value.items()]

    def _other(self, value: Any, kind: type, path: tuple[str, ...]) -> Any:
        name = kind.__name__
        if kind is list:
            return self._items(value, path)
        if kind is dict:
            return {"dict": self._pairs(value, path)}
        if kind in (collections.OrderedDict, collections.Counter):
            node = {name: self._pairs(value, path)}
            if value.__dict__:
                node["attributes"] = {k: self.encode(v, (*path, k)) for k, v in value.__dict__.items()}
            return node
        if kind is collections.defaultdict:
            factory = value.default_factory
            if factory is not None and FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
                raise self._refusal(value, path, "its default_factory is a function; convert it with dict()")
            return {name: self._pairs(value, path), "factory": factory and factory.__name__}
        if kind in (tuple, set, frozenset):
            return {name: self._items(value, path)}
        if kind is collections.deque:
            return {name: self._items(value, path), "maxlen": value.maxlen}
        if kind is fb.Size:
            return {"Size": list(value)}
        if kind in (bytes, bytearray):
            return {name: base64.b64encode(value).decode()}
        if kind is complex:
            return {name: [self.encode(value.real), self.encode(value.imag)]}
        if kind in (slice, range):
            return {name: self._items((value.start, value.stop, value.step), path)}
        if kind is fb.dtype:
            return {"dtype": value.name}
        if kind is fb.device:
            return {"device": str(value)}
        if isinstance(value, _Named):
            return {"constant": value.name}
        if kind is fb.Generator:
            return {"Generator": self.encode(value.get_state(), (*path, "state"))}
        if name in SPACES and SPACES[name] is kind:
            return {name: {k: self.encode(v, (*path, k)) for k, v in vars(value).items()}}
        if kind.__module__ == "flambeau.return_types":
            return {"return_type": [name, *self._items(value, path)]}
        if kind.__module__ == "numpy":
            return self._numpy(value, path)
        return self._registered(value, kind, path)

    def _numpy(self, value: Any, path: tuple[str, ...]) -> Any:
        import numpy as np

        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            return {"ndarray": self.name(fb.asarray(np.ascontiguousarray(value)).reshape(value.shape), path)}
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            return {"numpy": [value.dtype.newbyteorder("<").str, base64.b64encode(value.tobytes()).decode()]}
        raise self._refusal(value, path, "NumPy arrays and scalars can be saved when they hold bools or numbers")

    def _registered(self, value: Any, kind: type, path: tuple[str, ...]) -> Any:
        full = classes.registered_name(kind)
        if full is None:
            way = "save plain containers and tensors"
            if hasattr(value, "state_dict"):
                way = "save its state_dict()"
            elif not callable(value):
                way += f", or name the class with fb.serialization.add_safe_globals([{kind.__name__}])"
            raise self._refusal(value, path, way)
        if isinstance(value, enum.Enum):
            return {"enum": [full, self.encode(value.value, path)]}
        if isinstance(value, tuple):
            return {"namedtuple": [full, *self._items(value, path)]}
        attributes = classes.attributes_of(value)
        return {"object": [full, {k: self.encode(v, (*path, k)) for k, v in attributes.items()}]}

    def _refusal(self, value: Any, path: tuple[str, ...], way: str) -> ArgumentError:
        where = f" at '{'.'.join(path)}'" if path else ""
        kind = type(value).__name__
        return ArgumentError(
            f"save: an object of type {kind}{where} is not data that a safetensors file can hold; {way}, or use format='pt'"
        )


class Decoder:
    """Converts JSON back to the object; `tensor(name)` returns its tensors."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self._keys = Keys()
        self._made: dict[str, fb.Tensor] = {}

    def decode(self, node: Any, depth: int = 0) -> Any:
        """The value of a JSON node."""
        if depth > MAX_DEPTH:
            raise FileError(f"containers nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, list):
            return [self.decode(x, depth + 1) for x in node]
        if not isinstance(node, dict):
            return node
        kind = next(iter(node), "")
        read = getattr(self, f"_read_{kind}", None)
        if read is None:
            raise FileError(f"an object of the unknown kind '{kind}'; it was written by a newer version")
        return read(node, node[kind], depth + 1)

    def _list(self, body: Any, depth: int) -> list[Any]:
        if not isinstance(body, list):
            raise FileError("the structure is damaged: a list was expected")
        return [self.decode(x, depth) for x in body]

    def _into(self, made: Any, body: Any, depth: int) -> Any:
        pairs = body.items() if isinstance(body, dict) else body
        for k, v in pairs:
            key = k if isinstance(body, dict) else self._keys.check(self.decode(k, depth))
            made[key] = self.decode(v, depth)
        return made

    def _attributes(self, made: Any, node: Any, depth: int) -> Any:
        if "attributes" in node:
            classes.fill(made, {k: self.decode(v, depth) for k, v in node["attributes"].items()})
        return made

    def _read_int(self, node, body, depth):
        return int(body, 16)

    def _read_float(self, node, body, depth):
        return float(body)

    def _read_dict(self, node, body, depth):
        return self._into({}, body, depth)

    def _read_OrderedDict(self, node, body, depth):
        return self._attributes(self._into(collections.OrderedDict(), body, depth), node, depth)

    def _read_Counter(self, node, body, depth):
        return self._attributes(self._into(collections.Counter(), body, depth), node, depth)

    def _read_defaultdict(self, node, body, depth):
        factory = node.get("factory")
        return self._into(collections.defaultdict(None if factory is None else FACTORIES[factory]), body, depth)

    def _read_tuple(self, node, body, depth):
        return tuple(self._list(body, depth))

    def _read_set(self, node, body, depth):
        return {self._keys.check(x) for x in self._list(body, depth)}

    def _read_frozenset(self, node, body, depth):
        return frozenset(self._read_set(node, body, depth))

    def _read_deque(self, node, body, depth):
        return collections.deque(self._list(body, depth), node.get("maxlen"))

    def _read_Size(self, node, body, depth):
        return fb.Size(self._list(body, depth))

    def _read_bytes(self, node, body, depth):
        return base64.b64decode(body, validate=True)

    def _read_bytearray(self, node, body, depth):
        return bytearray(base64.b64decode(body, validate=True))

    def _read_complex(self, node, body, depth):
        return complex(*self._list(body, depth))

    def _read_slice(self, node, body, depth):
        return slice(*self._list(body, depth))

    def _read_range(self, node, body, depth):
        return range(*self._list(body, depth))

    def _read_dtype(self, node, body, depth):
        return dtype_named(body)

    def _read_device(self, node, body, depth):
        return fb.device(body)

    def _read_constant(self, node, body, depth):
        if body not in _CONSTANTS:
            raise FileError(f"the unknown constant {body!r}")
        return getattr(fb, body)

    def _read_Generator(self, node, body, depth):
        made = fb.Generator()
        made.set_state(self.decode(body, depth))
        return made

    def _read_Namespace(self, node, body, depth):
        made = SPACES[next(iter(node))]()
        classes.fill(made, {k: self.decode(v, depth) for k, v in body.items()})
        return made

    _read_SimpleNamespace = _read_Namespace

    def _read_return_type(self, node, body, depth):
        name, *items = body
        return fb._C.return_types[name](self._list(items, depth))

    def _read_numpy(self, node, body, depth):
        import numpy as np

        if not re.fullmatch(r"[<|][biufc]\d{1,2}", body[0]):
            raise FileError(f"a NumPy scalar of dtype {body[0]}")
        kind = np.dtype(body[0])
        return np.frombuffer(base64.b64decode(body[1], validate=True), dtype=kind, count=1)[0]

    def _read_ndarray(self, node, body, depth):
        return self._tensor(body).numpy()

    def _read_sparse(self, node, body, depth):
        t = sparse.rebuilt(body[0], [self.decode(part, depth + 1) for part in body[1:]])
        return with_gradient(t, bool(node.get("requires_grad", False)))

    def _read_tensor(self, node, body, depth):
        if body not in self._made:
            t = self._tensor(body)
            wanted = bool(node.get("requires_grad", False))
            t = as_parameter(t, wanted) if "Parameter" in node else with_gradient(t, wanted)
            self._made[body] = t
            self._attributes(t, node, depth)
        return self._made[body]

    _read_Parameter = _read_tensor

    def _class(self, name: str) -> Any:
        if name not in classes.registered:
            raise ForbiddenError(
                f"uses the class {name}, which is not known here; if you trust it, name it with "
                "fb.serialization.add_safe_globals([...]): its objects are then made without running its code"
            )
        return classes.plain(classes.registered[name])

    def _read_enum(self, node, body, depth):
        return classes.member(self._class(body[0]), self.decode(body[1], depth))

    def _read_namedtuple(self, node, body, depth):
        return classes.filled_tuple(self._class(body[0]), self._list(body[1:], depth))

    def _read_object(self, node, body, depth):
        made = classes.blank(self._class(body[0]))
        classes.fill(made, {k: self.decode(v, depth) for k, v in body[1].items()})
        return made


def dtype_named(name: Any) -> fb.dtype:
    """The dtype with this name; raises an error if there is none."""
    found = getattr(fb._C, name, None) if isinstance(name, str) else None
    if not isinstance(found, fb.dtype):
        raise FileError(f"a tensor of dtype {name}, which flambeau does not have")
    return found
