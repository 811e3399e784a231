"""Nested containers of tensors: take them apart into leaves and put them together again.

Containers are dict (and OrderedDict, defaultdict), list, tuple, named tuple, the named results of ops, deque, and
what is
registered; everything else, None included, is a leaf.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from flambeau.errors import ArgumentError

__all__ = [
    "GetAttrKey", "KeyEntry", "KeyPath", "LeafSpec", "MappingKey", "PyTreeSpec", "SequenceKey", "TreeSpec", "arg_tree_leaves",
    "broadcast_prefix", "is_namedtuple", "is_namedtuple_class", "is_structseq", "is_structseq_class", "key_get", "keystr",
    "register_dataclass", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten",
    "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_",
    "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_leaf",
]  # fmt: skip


class _Container(NamedTuple):
    flatten: Callable[[Any], tuple[list[Any], Any]]
    unflatten: Callable[[list[Any], Any], Any]
    with_keys: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None  # None: numbered children


def _flatten_mapping(tree):
    return list(tree.values()), list(tree.keys())


class MappingKey(NamedTuple):
    """The place of a child in a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The child of a mapping at this place."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """The place of a child in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The child of a sequence at this place."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """The place of a child that is an attribute: of a named tuple or a dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The child of an object at this place."""
        return getattr(obj, self.name)


KeyEntry = Any
KeyPath = tuple[Any, ...]


def _dict_flatten_with_keys(tree: Any) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """A mapping's children, each with its place, and the keys; what flatten_with_keys_fn of a mapping is given as."""
    values, keys = _flatten_mapping(tree)
    return [(MappingKey(key), value) for key, value in zip(keys, values, strict=True)], keys


def _fields_with_keys(tree: Any) -> tuple[list[tuple[GetAttrKey, Any]], Any]:
    return [(GetAttrKey(name), value) for name, value in zip(tree._fields, tree, strict=True)], type(tree)


_CONTAINERS: dict[type[Any], _Container] = {
    dict: _Container(_flatten_mapping, lambda values, keys: dict(zip(keys, values, strict=True)), _dict_flatten_with_keys),
    OrderedDict: _Container(
        _flatten_mapping, lambda values, keys: OrderedDict(zip(keys, values, strict=True)), _dict_flatten_with_keys
    ),
    defaultdict: _Container(
        lambda tree: (list(tree.values()), (tree.default_factory, list(tree.keys()))),
        lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
        _dict_flatten_with_keys,
    ),
    list: _Container(lambda tree: (list(tree), None), lambda values, _: list(values)),
    tuple: _Container(lambda tree: (list(tree), None), lambda values, _: tuple(values)),
    deque: _Container(lambda tree: (list(tree), tree.maxlen), lambda values, maxlen: deque(values, maxlen)),
}
_NAMED_TUPLE = _Container(lambda tree: (list(tree), type(tree)), lambda values, cls: cls(*values), _fields_with_keys)
_NAMED_RESULT = _Container(lambda tree: (list(tree), type(tree)), lambda values, cls: cls(values))


def _container(tree: Any) -> tuple[Any, _Container | None]:
    cls = type(tree)
    if cls in _CONTAINERS:
        return cls, _CONTAINERS[cls]
    if isinstance(tree, tuple) and hasattr(cls, "_fields"):
        return "namedtuple", _NAMED_TUPLE
    if isinstance(tree, tuple) and hasattr(cls, "n_sequence_fields"):
        return "result", _NAMED_RESULT
    return None, None


class TreeSpec:
    """The shape of a nested container without its leaves; equal for equal shapes.

    Args:
        kind: the container's class, or None for a leaf.
        context: what its class needs besides the children, for example keys.
        children: the specs of the children.
    """

    def __init__(self, kind: Any, context: Any, children: list[TreeSpec]) -> None:
        self.kind, self.context, self.children = kind, context, children
        self.num_leaves: int = 1 if kind is None else sum(child.num_leaves for child in children)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The container of this shape with these leaves."""
        return tree_unflatten(leaves, self)

    def is_leaf(self) -> bool:
        """Whether this stands for a single leaf."""
        return self.kind is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (self.kind, self.context, self.children) == (
            other.kind, other.context, other.children
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.kind if isinstance(self.kind, str) else id(self.kind), self.num_leaves))

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        name = self.kind if isinstance(self.kind, str) else self.kind.__name__
        context = "" if self.context is None else f"{self.context}, "
        return f"TreeSpec({name}, {context}[{', '.join(map(repr, self.children))}])"


LEAF = TreeSpec(None, None, [])
PyTree = Any
Context = Any
PyTreeSpec = TreeSpec
# Under PyTorch's names: the containers, and how a mapping is taken apart and put together.
SUPPORTED_NODES = _CONTAINERS
_dict_flatten = _flatten_mapping


def _dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _get_node_type(tree: Any) -> Any:
    """The class a container is registered under; a leaf's own class."""
    kind = _container(tree)[0]
    return type(tree) if kind is None else kind


class LeafSpec(TreeSpec):
    """The spec of a single leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def treespec_leaf() -> TreeSpec:
    """The shape of a single leaf."""
    return LEAF


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class is one of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is a named tuple, or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether a class is one of the interpreter's own named tuples, as named results of ops are."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "n_sequence_fields", None), int)


def is_structseq(obj: Any) -> bool:
    """Whether an object is of a class that is_structseq_class() says yes to, or is such a class."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def register_pytree_node(
    cls: type[Any],
    flatten_fn: Callable[..., Any],
    unflatten_fn: Callable[..., Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[..., Any] | None = None,
    from_dumpable_context: Callable[..., Any] | None = None,
    flatten_with_keys_fn: Callable[..., Any] | None = None,
) -> None:
    """Makes a class a container.

    Args:
        cls: the class.
        flatten_fn: object → (list of children, context).
        unflatten_fn: (children, context) → object.
        serialized_type_name: a name for exporters, of which there are none here; like the next two, without effect.
        to_dumpable_context: for exporters.
        from_dumpable_context: for exporters.
        flatten_with_keys_fn: object → (list of (place, child), context), for functions that give paths.
    """
    if cls in _CONTAINERS:
        raise ArgumentError(f"register_pytree_node: {cls.__name__} is registered already")
    _CONTAINERS[cls] = _Container(flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes a dataclass a container, whose children are its fields.

    Args:
        cls: the class.
        field_names: which fields; by default those that __init__ takes, less drop_field_names.
        drop_field_names: fields that are not children and get their default when the object is made again.
        serialized_type_name: for exporters.
    """
    if not dataclasses.is_dataclass(cls) and field_names is None:
        raise ArgumentError(f"register_dataclass: {cls.__name__} is not a dataclass; name its fields in field_names")
    if field_names is None:
        dropped = set(drop_field_names or ())
        field_names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
    names = list(field_names)

    def with_keys(obj: Any) -> Any:
        given = [name for name in names if getattr(obj, name) is not None]
        return [(GetAttrKey(name), getattr(obj, name)) for name in given], (given, [n for n in names if n not in given])

    def flatten(obj: Any) -> Any:
        pairs, context = with_keys(obj)
        return [value for _, value in pairs], context

    def unflatten(values: Any, context: Any) -> Any:
        given, empty = context
        return cls(**dict(zip(given, values, strict=True)), **dict.fromkeys(empty))

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=with_keys
    )


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a nested container, in order, and its shape.

    Args:
        tree: the container.
        is_leaf: says for a container whether to take it as a leaf.
    """
    leaves: list[Any] = []

    def visit(node: Any) -> TreeSpec:
        kind, container = (None, None) if is_leaf and is_leaf(node) else _container(node)
        if container is None:
            leaves.append(node)
            return LEAF
        children, context = container.flatten(node)
        return TreeSpec(kind, context, [visit(child) for child in children])

    return leaves, visit(tree)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The container of a given shape with these leaves; the inverse of tree_flatten."""
    remaining = list(leaves)
    if len(remaining) != treespec.num_leaves:
        raise ArgumentError(f"tree_unflatten: got {len(remaining)} leaves, expected {treespec.num_leaves} for {treespec}")
    stream = iter(remaining)

    def build(spec: TreeSpec) -> Any:
        if spec.kind is None:
            return next(stream)
        children = [build(child) for child in spec.children]
        if spec.kind == "namedtuple":
            return _NAMED_TUPLE.unflatten(children, spec.context)
        if spec.kind == "result":
            return _NAMED_RESULT.unflatten(children, spec.context)
        return _CONTAINERS[spec.kind].unflatten(children, spec.context)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a nested container, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves of a nested container, one by one."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The shape of a nested container."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A container of the same shape with func applied to each leaf (and to the leaves of the rests at the same place)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves]
    for rest in rests:
        others, other_spec = tree_flatten(rest, is_leaf)
        if other_spec != spec:
            raise ArgumentError(f"tree_map: the containers differ: {spec} and {other_spec}")
        columns.append(others)
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_only(kinds: Any, func: Callable[..., Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """tree_map() that leaves alone what is not of the given class (or classes, or what a function says no to)."""
    fits = kinds if callable(kinds) and not isinstance(kinds, type) else lambda leaf: isinstance(leaf, kinds)
    return tree_map(lambda leaf: func(leaf) if fits(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """tree_map() for functions that change the leaves in place; gives the container itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only_(kinds: Any, func: Callable[..., Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """tree_map_only() for functions that change the leaves in place; gives the container itself."""
    tree_map_only(kinds, func, tree, is_leaf)
    return tree


def tree_all_only(
    kinds: Any, predicate: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether the predicate holds for every leaf of the given class (or classes)."""
    return all(predicate(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kinds))


def tree_any_only(
    kinds: Any, predicate: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether the predicate holds for a leaf of the given class (or classes)."""
    return any(predicate(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kinds))


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether an object is a leaf and not a container."""
    return bool(is_leaf and is_leaf(tree)) or _container(tree)[1] is None


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of the arguments of a call, in order."""
    return [leaf for value in (*args, *kwargs.values()) for leaf in tree_leaves(value)]


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves of a nested container, each with its path, and its shape."""
    found: list[tuple[KeyPath, Any]] = []

    def visit(node: Any, path: KeyPath) -> None:
        container = None if is_leaf and is_leaf(node) else _container(node)[1]
        if container is None:
            found.append((path, node))
        elif container.with_keys is not None:
            for key, child in container.with_keys(node)[0]:
                visit(child, (*path, key))
        else:
            for i, child in enumerate(container.flatten(node)[0]):
                visit(child, (*path, SequenceKey(i)))

    visit(tree, ())
    return found, tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a nested container, each with its path."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """tree_map() whose function is given the path first."""
    paths = iter([path for path, _ in tree_leaves_with_path(tree, is_leaf)])
    return tree_map(lambda *leaves: func(next(paths), *leaves), tree, *rests, is_leaf=is_leaf)


def keystr(kp: KeyPath) -> str:
    """A path as text, for messages."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_any(predicate: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether the predicate holds for a leaf."""
    return any(predicate(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_all(predicate: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether the predicate holds for every leaf."""
    return all(predicate(leaf) for leaf in tree_leaves(tree, is_leaf))


def broadcast_prefix(prefix: Any, spec: TreeSpec) -> list[Any] | None:
    """One value per leaf of spec from a container that may stop at any depth, as in_dims does; None if it does not fit."""
    if spec.is_leaf():
        return [prefix] if tree_structure(prefix).is_leaf() else None
    kind, container = _container(prefix)
    if container is None:
        return [prefix] * spec.num_leaves
    children, context = container.flatten(prefix)
    same = kind == spec.kind or {kind, spec.kind} <= {tuple, "namedtuple", "result"}
    if not same or len(children) != len(spec.children) or (kind in (dict, OrderedDict) and context != spec.context):
        return None
    values: list[Any] = []
    for child, child_spec in zip(children, spec.children, strict=True):
        part = broadcast_prefix(child, child_spec)
        if part is None:
            return None
        values += part
    return values
