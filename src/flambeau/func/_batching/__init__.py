"""Batching for vmap: the tensor type that represents one example of many, and the table of rules, one per op.

A `Batched` tensor looks like a single example (shape, dtype) and holds the physical tensor of all examples, with the
batch dimension first. An op with such an argument is handed to `dispatch`, which looks up the rule under the op's name;
the rule makes one call (or a few) on the physical tensors. Nothing loops over examples: an op without a rule is an
error. Levels distinguish nested vmaps; the physical tensor of an inner level may itself be batched at an outer one, and
since it is an ordinary tensor underneath, it carries the graph for gradients.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import operator
import threading
import warnings
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._tensor import layouts
from flambeau.errors import ArgumentError, OutOfRangeError, StateError

RULES: dict[str, Callable[..., Any]] = {}
RANDOM: set[str] = set()  # ops that draw numbers: they follow the innermost vmap, whatever their arguments


class Level:
    """One running vmap: its depth on this thread, the number of examples, and how it treats randomness."""

    def __init__(self, depth: int, size: int, randomness: str) -> None:
        self.depth, self.size, self.randomness, self.active = depth, size, randomness, True


class _Stack(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []


_stack = _Stack()


def levels() -> list[Level]:
    """The vmaps running on this thread, outermost first."""
    return _stack.levels


def enter(level: Level) -> None:
    """Begins a level on this thread."""
    _stack.levels.append(level)
    _C.set_draws_in_vmap(True)


def leave(level: Level) -> None:
    """Ends a level."""
    _stack.levels.remove(level)
    _C.set_draws_in_vmap(bool(_stack.levels))


@contextlib.contextmanager
def set_aside(level: Level):
    """Runs a block at the enclosing levels."""
    place = _stack.levels.index(level)
    hidden = _stack.levels[place:]
    del _stack.levels[place:]
    _C.set_draws_in_vmap(bool(_stack.levels))
    try:
        yield
    finally:
        _stack.levels.extend(hidden)
        _C.set_draws_in_vmap(True)


def _forbidden(name: str, why: str):
    def method(self, *args, **kwargs):
        raise StateError(f"vmap: {name} {why}")

    method.__name__ = name
    return method


class Batched(Tensor):
    """One example of many: the argument of a function given to vmap."""

    physical: Tensor
    level: Level

    __torch_function__ = _C._disabled_torch_function_impl

    @classmethod
    def __flambeau_dispatch__(cls, name: str, arguments: dict[str, Any]) -> Any:
        return dispatch(name, arguments)

    @classmethod
    def __flambeau_function__(cls, function: Any, args: tuple[Any, ...]) -> Any:
        from flambeau.func._batching.function import apply_batched

        return apply_batched(function, args)

    # NumPy's functions would read memory; with an array on the left, the operator is handled here
    __array_ufunc__ = None
    requires_grad = property(lambda self: self.physical.requires_grad)
    grad_fn = property(lambda self: self.physical.grad_fn)
    is_leaf = property(lambda self: self.physical.is_leaf)
    grad = property(lambda self: None)
    data = property(lambda self: self._no_data("accessing `data`"), lambda self, value: self._no_data("mutating directly with `.data`"))

    def _no_data(self, what: str) -> Any:
        raise StateError(f"{what} under vmap transform is not allowed; use detach(), or copy_() to write")

    def detach(self):
        """The same examples without history."""
        return wrap(self.physical.detach(), self.level)

    def is_contiguous(self, *args, **kwargs):
        """Whether the tensor of all examples is contiguous."""
        return self.physical.is_contiguous(*args, **kwargs)

    def storage_offset(self):
        """The position of the first example in memory."""
        return self.physical.storage_offset()

    def stride(self, dim=None):
        """Strides of one example."""
        strides = self.physical.stride()[1:]
        return strides if dim is None else strides[dim]

    def __repr__(self, **kwargs):
        return f"Batched(level={self.level.depth}, size={self.level.size}, physical={self.physical!r})"

    __str__ = __repr__

    def __format__(self, spec):
        return repr(self)

    def __copy__(self):
        return wrap(self.physical, self.level)

    def __deepcopy__(self, memo):
        return wrap(self.physical.clone(), self.level)


_VALUES = "needs the values of one example, but inside vmap a tensor stands for all of them; "
_BRANCH = _VALUES + (
    "data-dependent control flow, and .item() on a Tensor, are not possible: use fb.where() instead of if, and return the value from "
    "the function to look at it outside"
)
_LEAVE = _VALUES + "return the tensor from the function first"
_GRADIENT = (
    "(Tensor.{}, and with it torch.autograd.functional) is not available inside vmap; use fb.func.grad or fb.func.vjp "
    "inside, or call it outside"
)
for _name in ("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__contains__"):
    setattr(Batched, _name, _forbidden(_name, _BRANCH))
for _name in (
    "__array__", "__bytes__", "__dlpack__", "data_ptr", "untyped_storage", "storage", "share_memory_",
    "__reduce_ex__",
):  # fmt: skip
    setattr(Batched, _name, _forbidden(_name, _LEAVE))
Batched.__array_interface__ = property(_forbidden("__array_interface__", _LEAVE))  # NumPy's access to the memory
for _name in ("backward", "requires_grad_", "retain_grad", "register_hook", "register_post_accumulate_grad_hook"):
    setattr(Batched, _name, _forbidden(_name, _GRADIENT.format(f"{_name}()")))


_stand_ins: dict[Any, Tensor] = {}


def wrap(physical: Tensor, level: Level) -> Batched:
    """Wraps the examples along the first dimension of physical."""
    kind = physical.dtype
    if kind not in _stand_ins:
        # An op that was missed would read this: NaN makes the mistake visible.
        _stand_ins[kind] = _C.tensor_from_data(math.nan if kind.is_floating_point else 0, kind)
    example = _stand_ins[kind].expand(tuple(physical.shape)[1:]).as_subclass(Batched)
    example.physical, example.level = physical, level
    return example


def raw(x: Tensor) -> Tensor:
    """The physical tensor below all levels, with one leading dimension per level, outermost first."""
    while isinstance(x, Batched):
        x = x.physical
    return x


def levels_of(x: Tensor) -> list[Level]:
    """The levels a tensor is batched at, outermost first."""
    found = []
    while isinstance(x, Batched):
        found.append(x.level)
        x = x.physical
    return found[::-1]


def rewrap(x: Tensor, at: list[Level]) -> Tensor:
    """The inverse of raw: one leading dimension of x per level."""
    for level in at:
        x = wrap(x, level)
    return x


def at_all_levels(x: Tensor) -> Tensor:
    """The tensor batched at every running level, expanded where it was the same for all examples."""
    have, base, dim = levels_of(x), raw(x), 0
    for level in levels():
        if level in have:
            dim += 1
            continue
        base = base.unsqueeze(dim)
        base = base.expand((*base.shape[:dim], level.size, *base.shape[dim + 1 :]))
        dim += 1
    return rewrap(base, levels())


class Frame:
    """The context of a rule: the level it batches for."""

    def __init__(self, name: str, level: Level) -> None:
        self.name, self.level, self.size = name, level, level.size

    def is_batched(self, x: Any) -> bool:
        """Whether x differs per example at this level."""
        return isinstance(x, Batched) and x.level is self.level

    def physical(self, x: Tensor) -> Tensor:
        """All examples, batch first; expanded if x is the same for all."""
        if self.is_batched(x):
            return x.physical
        return x.unsqueeze(0).expand((self.size, *x.shape))

    def peel(self, x: Any) -> Any:
        """The physical tensor if x is batched here, otherwise x."""
        return x.physical if self.is_batched(x) else x

    def aligned(self, x: Any, rank: int) -> Any:
        """The physical tensor with an example's rank raised to `rank`; an unbatched tensor, which broadcasts, as is."""
        if not self.is_batched(x):
            return x
        missing = rank - x.ndim
        return x.physical if missing <= 0 else x.physical[(slice(None), *(None,) * missing)]

    def dim(self, dim: int, rank: int) -> int:
        """The position of an example's dimension in the physical tensor."""
        rank = max(rank, 1)
        if not -rank <= dim < rank:
            raise OutOfRangeError(f"{self.name}: dim {dim} is out of range for a tensor with {rank} dimension(s) inside vmap")
        return dim % rank + 1

    def dims(self, dims: Any, rank: int) -> tuple[int, ...]:
        """The same for one or several dimensions."""
        return tuple(self.dim(d, rank) for d in ((dims,) if isinstance(dims, int) else dims))

    def wrap(self, result: Any) -> Any:
        """Physical results as examples."""
        if isinstance(result, Tensor):
            return wrap(result, self.level)
        if isinstance(result, (tuple, list)):
            parts = [self.wrap(part) for part in result]
            return type(result)(parts)
        return result


def rule(*names: str):
    """Registers a rule `f(frame, arguments) -> physical result` for ops by name."""

    def register(f):
        for name in names:
            RULES[name] = lambda frame, name, arguments: frame.wrap(f(frame, arguments))
        return f

    return register


def named_rule(*names: str):
    """The same for a rule that serves several ops: `f(frame, name, arguments) -> physical result`."""

    def register(f):
        for name in names:
            RULES[name] = lambda frame, name, arguments: frame.wrap(f(frame, name, arguments))
        return f

    return register


def decomposition(*names: str):
    """Registers ops as compositions of other ops on the examples, which have their own rules: `f(**arguments)`."""

    def register(f):
        for name in names:
            RULES[name] = lambda frame, name, arguments: f(**arguments)
        return f

    return register


# An operator, unlike its function, takes a number on the left.
_OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "true_divide": operator.truediv, "div": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "pow": operator.pow, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "bitwise_left_shift": operator.lshift,
    "bitwise_right_shift": operator.rshift, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def call(name: str, arguments: dict[str, Any]) -> Any:
    """Calls an op of the table by name, all arguments by keyword."""
    space, _, short = name.rpartition(".")
    function = _C.namespaces.get(space, {}).get(short)
    first = next(iter(arguments.values()))
    if isinstance(first, (int, float, complex)) and name in _OPERATORS:
        return _OPERATORS[name](first, *list(arguments.values())[1:2])
    if function is not None:
        return function(**arguments)
    rest = dict(arguments)
    rest.pop(next(iter(rest)))
    if type(rest.get("memory_format")) is int:  # a default, which the table keeps as a number
        formats = (layouts.contiguous_format, layouts.preserve_format, layouts.channels_last, layouts.channels_last_3d)
        rest["memory_format"] = formats[rest["memory_format"]]
    return getattr(first, short)(**rest)



def tensors_in(arguments: dict[str, Any]) -> list[Tensor]:
    """The tensors among the arguments of an op, those in lists and index tuples included."""
    found: list[Tensor] = []
    for value in arguments.values():
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [item for item in value if isinstance(item, Tensor)]
    return found


# In-place ops that change which part of the memory a tensor covers, not the memory.
_RESHAPING = {"squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}


def dispatch(name: str, arguments: dict[str, Any]) -> Any:
    """Runs an op with a batched argument, by the rule for its innermost level."""
    if arguments.get("out") is not None:
        raise ArgumentError(
            f"vmap: Batching rule not implemented for aten::{name}.out; the fallback path doesn't work on out= or view ops; use the "
            "result instead of out="
        )
    batched = [t.level for t in tensors_in(arguments) if isinstance(t, Batched)]
    for level in batched:
        if not level.active:
            raise StateError(f"{name}: a tensor from inside a vmap is used after that vmap ended; return it from the function")
    level = max(batched, key=lambda level: level.depth)
    if name in RANDOM:
        level = levels()[-1]
    frame = Frame(name, level)
    found = RULES.get(name)
    if found is None and name.endswith("_") and name[:-1] in RULES:
        return _store(frame, name, arguments)
    if found is None:
        return _without_rule(frame, name, arguments)
    return found(frame, name, arguments)


# The size of their results depends on the values, or they need the values themselves.
BY_VALUE = {
    "allclose", "argwhere", "bincount", "equal", "masked_select", "nonzero", "nonzero_numpy", "unique", "unique_consecutive",
}  # fmt: skip
# They refer to memory, which a single example does not have.
BY_MEMORY = {"_as_strided_", "resize_", "resize_as_", "set_"}


class Loops:
    """How compat treats ops without a batching rule; PyTorch has private functions that set the same."""

    allowed = True
    warn = True


def _without_rule(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    if name in BY_VALUE:
        raise StateError(
            f"vmap: {name} gives a result whose size or flow depends on the values, which differ per example (data-dependent "
            "control flow is not supported inside vmap); call it outside, or use a form of fixed size such as where()"
        )
    from flambeau import compat

    if name in BY_MEMORY or name.startswith("_fused_") or not (compat.is_installed() and Loops.allowed):
        raise StateError(
            f"vmap: Batching rule not implemented for {name}; call it outside of vmap, write it with other ops, or loop over the examples"
        )
    if Loops.warn:
        warnings.warn(
            f"There is a performance drop because we have not yet implemented the batching rule for {name}: vmap runs it once per "
            "example. Call it outside of vmap, or write it with other ops.", stacklevel=4,
        )  # fmt: skip
    return _looped(frame, name, arguments)


def _example(frame: Frame, value: Any, i: int) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([_example(frame, item, i) for item in value])
    return value.physical[i] if frame.is_batched(value) else value


def _looped(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """One call per example, results stacked: what PyTorch does for ops without a rule."""
    if frame.size == 0:
        raise StateError(f"vmap: The fallback path does not support vmap over dims of size 0, as {name} without a rule would need")
    if name.endswith("_"):
        check_writable(frame, next(iter(arguments.values())))
    results = [call(name, {k: _example(frame, v, i) for k, v in arguments.items()}) for i in range(frame.size)]
    if name.endswith("_"):
        return next(iter(arguments.values()))
    if isinstance(results[0], Tensor):
        return frame.wrap(_C.namespaces[""]["stack"](results))
    if not isinstance(results[0], (tuple, list)) or not all(isinstance(x, Tensor) for x in results[0]):
        raise StateError(f"vmap: Batching rule not implemented for {name}, and its result is not made of tensors; call it outside of vmap")
    return type(results[0])([frame.wrap(_C.namespaces[""]["stack"](list(parts))) for parts in zip(*results, strict=True)])


def check_writable(frame: Frame, target: Any) -> None:
    """Raises an error if the target of an in-place op inside vmap has no separate memory for every example."""
    if not frame.is_batched(target):
        raise ArgumentError(
            f"vmap: {frame.name}(self, *extra_args) is not possible because there exists a Tensor in extra_args that has more "
            "elements than `self`: inside vmap the tensor written to is the same for all examples, while the values differ per "
            "example; use the form that returns a new tensor, or make the tensor from a batched one (zeros_like, clone)"
        )


def _store(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """The in-place form of an op by its rule: copies the result into the tensor."""
    target = next(iter(arguments.values()))
    check_writable(frame, target)
    result = RULES[name[:-1]](frame, name[:-1], arguments)
    if name in _RESHAPING:
        target._set_impl(result)
        target.physical = result.physical
        return target
    if result.shape != target.shape:
        raise ArgumentError(
            f"{name}: the result has shape {tuple(result.shape)}, the tensor it is written to {tuple(target.shape)}"
        )
    target.physical.copy_(result.physical)
    return target


def load_rules() -> None:
    """Fills the table of rules."""
    families = """
        pointwise reductions shaping joining products convolution normalization layers layout linalg indexing scattering quantized
        randomness
    """
    for family in families.split():
        importlib.import_module(f"{__name__}.{family}")
