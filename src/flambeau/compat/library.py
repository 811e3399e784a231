"""Ops defined outside: what `torch.library` and `torch.ops` offer.

An op named "space::name" is kept here and found again as `torch.ops.space.name`; `torch.ops.aten` finds flambeau's own
functions under PyTorch's internal names.

Example:
    >>> from flambeau.compat import library
    >>> @library.custom_op("demo::twice", mutates_args=())
    ... def twice(x: fb.Tensor) -> fb.Tensor:
    ...     return x.detach() * 2
    >>> twice.register_autograd(lambda ctx, grad: grad * 2)
    >>> x = fb.ones(2, requires_grad=True)
    >>> library.ops.demo.twice(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
"""

from __future__ import annotations

import functools
import inspect
import pathlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Self

import flambeau as fb
from flambeau import quantization
from flambeau.autograd import Function
from flambeau.compat import absent, foreach, inner_ops
from flambeau.errors import ArgumentError, StateError
from flambeau.nn.grad import convolution_backward

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "ops", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_vmap",
]  # fmt: skip

# Kernels by purpose, the one to run first; all run on the CPU.
_KEYS = ("CPU", "cpu", "default", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "")


class CustomOpDef:
    """An op defined outside: its kernels, and how to differentiate it.

    Example:
        >>> from flambeau.compat import library
        >>> library.define("demo::same", "(Tensor x) -> Tensor")
        >>> library.ops.demo.same
        <op demo::same>
    """

    def __init__(self, name: str, schema: str = "") -> None:
        self._name, self._schema = name, schema
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self.differentiable = False  # composed of flambeau's ops: no gradient formulas needed

    def __repr__(self) -> str:
        return f"<op {self._name}>"

    @property
    def default(self) -> Self:
        """The op itself: there is one overload."""
        return self

    _opoverload = default

    def kernel(self) -> Callable[..., Any]:
        """The function to run."""
        for key in _KEYS:
            if key in self._kernels:
                return self._kernels[key]
        raise StateError(f"{self._name}: no kernel for the CPU; register one with register_kernel or impl")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kernel = self.kernel()
        batched = any(hasattr(type(a), "__flambeau_function__") for a in _Flat((*args, *kwargs.values())).flat)
        if self._backward is None and not (batched and self._vmap is not None):
            return kernel(*args, **kwargs)
        if kwargs:
            bound = inspect.signature(kernel).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        call = _Call(self, _Flat(args), kwargs)
        return call.result(_Recorded.apply(call, *call.args.flat))

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None, /) -> Any:
        """Adds a kernel for devices ("cpu"; None for all); also as a decorator."""
        if func is None:
            return lambda fn: self.register_kernel(device_types, fn)
        for device in [device_types] if isinstance(device_types, str) or device_types is None else device_types:
            self._kernels[device or "default"] = func
        return func

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Ignored: fake tensors are for PyTorch's compiler."""
        return fn

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Registers a batching rule: func(info, in_dims, *args) returns (output, out_dims); also as a decorator."""
        if func is None:
            return self.register_vmap
        self._vmap = func
        return func

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """Registers a gradient: backward(ctx, *grads) after setup_context(ctx, inputs, output)."""
        if not self.differentiable:
            self._backward, self._setup_context = backward, setup_context


class _Flat:
    """Arguments with lists of tensors flattened, since a Function records only tensors among its own arguments."""

    def __init__(self, args: Iterable[Any]) -> None:
        self.flat: list[Any] = []
        self.lengths: list[int | None] = []
        for arg in args:
            listed = isinstance(arg, (list, tuple)) and bool(arg) and all(isinstance(x, fb.Tensor) for x in arg)
            self.lengths.append(len(arg) if listed else None)
            self.flat += arg if listed else [arg]

    def nested(self, flat: Iterable[Any]) -> tuple[Any, ...]:
        """Restores the arguments' nesting for one value per flattened argument."""
        values = iter(flat)
        return tuple(next(values) if n is None else [next(values) for _ in range(n)] for n in self.lengths)

    def spread(self, nested: Iterable[Any]) -> list[Any]:
        """The inverse; None stands for a list of None."""
        flat: list[Any] = []
        for value, n in zip(nested, self.lengths, strict=True):
            flat += [value] if n is None else [None] * n if value is None else value
        return flat


class _Call:
    """The non-tensor data of one call of an op."""

    outputs: _Flat

    def __init__(self, op: CustomOpDef, args: _Flat, kwargs: dict[str, Any]) -> None:
        self.op, self.args, self.kwargs, self.several = op, args, kwargs, False

    def flat(self, output: Any) -> Any:
        """Flattens the op's result for a Function, and stores its structure."""
        self.several = isinstance(output, tuple)
        self.outputs = _Flat(output if self.several else (output,))
        return tuple(self.outputs.flat) if self.several or self.outputs.lengths[0] is not None else output

    def result(self, flat: Any) -> Any:
        """Restores the structure of the op's result."""
        nested = self.outputs.nested(flat if isinstance(flat, tuple) else (flat,))
        return nested if self.several else nested[0]


class _Context:
    """A Function's context for the op's own functions: `needs_input_grad` has the structure of the op's arguments."""

    def __init__(self, inner: Any, call: _Call) -> None:
        self.__dict__.update(_inner=inner, _call=call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    @property
    def needs_input_grad(self) -> tuple[Any, ...]:
        return self._call.args.nested(self._inner.needs_input_grad[1:])


class _Recorded(Function):
    """One call of an op with a registered gradient."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *flat: Any) -> Any:
        args, op = call.args.nested(flat), call.op
        output = op.kernel()(*args, **call.kwargs)
        if op._setup_context is not None:
            keywords = {"keyword_only_inputs": call.kwargs} if call.kwargs else {}
            op._setup_context(_Context(ctx, call), inputs=args, output=output, **keywords)
        ctx.recorded_call = call
        return call.flat(output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, call: _Call, *flat: Any) -> Any:
        args, op, dims = call.args.nested(flat), call.op, call.args.nested(in_dims[1:])
        if op._vmap is not None:
            output, out_dims = op._vmap(info, dims, *args, **call.kwargs)
            flat_output = call.flat(output)
            if isinstance(flat_output, tuple) and not isinstance(out_dims, int):
                out_dims = tuple(call.outputs.spread(out_dims if call.several else (out_dims,)))
            return flat_output, out_dims
        warnings.warn(
            f"There is a performance drop because we have not yet implemented the batching rule for {op._name}: vmap runs it once "
            "per example; add a rule with register_vmap", stacklevel=2,
        )  # fmt: skip
        results = []
        for i in range(info.batch_size):
            one = [a if dim is None else a.select(dim, i) for a, dim in zip(flat, in_dims[1:], strict=True)]
            results.append(op(*call.args.nested(one), **call.kwargs))
        parts = [call.flat(result) for result in results]
        if isinstance(parts[0], fb.Tensor):
            return fb.stack(parts), 0
        return tuple(fb.stack(list(same)) for same in zip(*parts, strict=True)), (0,) * len(parts[0])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call = ctx.recorded_call
        answer = call.op._backward(_Context(ctx, call), *call.outputs.nested(grads))
        # A list is the gradients of an op's only argument if that is a list.
        alone = isinstance(answer, list) and len(call.args.lengths) == 1 and call.args.lengths[0] is not None
        if alone or not isinstance(answer, (tuple, list)):
            answer = (answer,)
        return (None, *call.args.spread(answer))


_ops: dict[str, dict[str, CustomOpDef]] = {}


def _find(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    space, _, short = str(op).partition("::")
    short = short.partition(".")[0]
    if short not in _ops.get(space, {}):
        raise ArgumentError(f"library: operator {op} does not exist; define it first")
    return _ops[space][short]


def define(qualname: str, schema: str = "", *, lib: Library | None = None, tags: Any = ()) -> None:
    """Defines an op: define("space::name", "(Tensor x) -> Tensor")."""
    space, mark, short = qualname.partition("::")
    if not mark:
        raise ArgumentError(f"define: expected a name such as 'space::name', got {qualname!r}")
    short = short.partition("(")[0].partition(".")[0]
    _ops.setdefault(space, {})[short] = CustomOpDef(f"{space}::{short}", schema)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Creates an op from a function; used as a decorator. Its gradient is set by register_autograd()."""
    if fn is None:
        return lambda inner: custom_op(name, inner, mutates_args=mutates_args, device_types=device_types, schema=schema)
    define(name, schema or "")
    op = _find(name)
    op.__doc__ = fn.__doc__
    op.register_kernel(device_types, fn)
    return op


def impl(qualname: Any, types: Any, func: Callable[..., Any] | None = None, *, lib: Any = None) -> Any:
    """Gives a defined op a kernel for devices or one of PyTorch's dispatch keys; also as a decorator."""
    return _find(qualname).register_kernel(types, func)


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Gives a defined op a kernel for devices; also as a decorator."""
    return _find(op).register_kernel(device_types, func)


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Registers the gradient of an op; see CustomOpDef.register_autograd."""
    _find(op).register_autograd(backward, setup_context=setup_context)


def _decorates(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Ignored: fake tensors are for PyTorch's compiler. Called as register_fake(op, func) or as a decorator."""
    return func if func is not None else lambda inner: inner


register_fake = impl_abstract = _decorates


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Registers the batching rule of an op; see CustomOpDef.register_vmap. Also as a decorator."""
    return _find(op).register_vmap(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Within autocast on a device, the op's floating inputs are converted to a dtype first."""
    found = _find(op)
    if device_type != "cpu":
        return
    inner = found.kernel()

    def cast(value: Any) -> Any:
        return value.to(cast_inputs) if isinstance(value, fb.Tensor) and value.is_floating_point() else value

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not fb.is_autocast_enabled("cpu"):
            return inner(*args, **kwargs)
        with fb.autocast("cpu", enabled=False):
            return inner(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})

    found._kernels = {"cpu": kernel}


class Library:
    """Defines and implements ops of one namespace: Library("space", "DEF").

    Example:
        >>> from flambeau.compat import library
        >>> lib = library.Library("demo", "DEF")
        >>> lib.define("plus_one(Tensor x) -> Tensor")
        'plus_one'
        >>> lib.impl("plus_one", lambda x: x + 1, "CPU")
        >>> library.ops.demo.plus_one(fb.zeros(1))
        tensor([1.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ArgumentError(f"Library: kind must be 'DEF', 'IMPL' or 'FRAGMENT', got {kind!r}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Defines an op from a schema such as "name(Tensor x) -> Tensor"; returns its name."""
        define(f"{self.ns}::{schema.partition('(')[0]}", schema)
        return schema.partition("(")[0]

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Gives an op a kernel. Keys of other devices, of fake tensors and of autocast are stored without effect."""
        name = op_name if isinstance(op_name, CustomOpDef) or "::" in str(op_name) else f"{self.ns}::{op_name}"
        _find(name).register_kernel(dispatch_key or self.dispatch_key or "default", fn)


class _Aten:
    """One of flambeau's functions under an internal name; all its overloads are the function itself."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> _Aten:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return self

    # Policies of selective checkpoints compare the function itself.
    def __eq__(self, other: object) -> bool:
        return self._function is (other._function if isinstance(other, _Aten) else other)

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return f"<op aten::{self._name}>"


def _to_copy(self: fb.Tensor, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **options: Any) -> fb.Tensor:
    return self.to(device=device, dtype=dtype, copy=True, memory_format=memory_format)


def _slice(self: fb.Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> fb.Tensor:
    return self[(slice(None),) * (dim % self.dim()) + (slice(start, end, step),)]


def _sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    number = int(size)
    if (min is not None and number < min) or (max is not None and number > max):
        raise ArgumentError(f"sym_constrain_range: {number} is out of the range {min} to {max} (None: no bound)")


# Internal names that no public function has.
_INNER: dict[str, Callable[..., Any]] = {
    **inner_ops.OPS,
    "_local_scalar_dense": fb.Tensor.item,
    "_log_softmax_backward_data": inner_ops.log_softmax_backward,
    "_pin_memory": fb.Tensor.pin_memory,
    "_softmax_backward_data": inner_ops.softmax_backward,
    "_to_copy": _to_copy,
    "_weight_int8pack_mm": quantization._weight_int8pack_mm,
    "alias": lambda self: self.view_as(self),
    "convolution_backward": convolution_backward,
    "index": lambda self, indices: self[tuple(slice(None) if i is None else i for i in indices)],
    "slice": _slice,
    "sym_constrain_range": _sym_constrain_range,
    "sym_constrain_range_for_size": _sym_constrain_range,
    "sym_numel": fb.Tensor.numel,
    "sym_size": fb.Tensor.size,
    "sym_storage_offset": fb.Tensor.storage_offset,
    "sym_stride": fb.Tensor.stride,
}


@functools.lru_cache(4096)  # one object per op, so that tables keyed by ops work
def _aten(op: str) -> _Aten | None:
    if op in _INNER:
        return _Aten(op, _INNER[op])
    for place in (fb, fb.nn.functional, fb.Tensor):
        function = getattr(place, op, None)
        if callable(function):
            return _Aten(op, function)
    module, _, name = op.partition("_")  # fft_rfft is fft.rfft
    if module in ("fft", "linalg", "special") and callable(function := getattr(getattr(fb, module), name, None)):
        return _Aten(op, function)
    listed = foreach.find(op)
    return None if listed is None else _Aten(op, listed)


class _Space:
    """`torch.ops.space`."""

    def __init__(self, name: str) -> None:
        self._space = name

    def __getattr__(self, op: str) -> Any:
        if op in _ops.get(self._space, {}):
            return _ops[self._space][op]
        if self._space in ("aten", "prims"):
            found = _aten(op)
            if found is not None:
                return found
            # Tables of exporters and profilers name such ops without calling them.
            if (op.startswith("_") and not op.startswith("__")) or op.endswith("_backward"):
                return absent.placeholder(f"torch.ops.{self._space}.{op}")
        raise AttributeError(f"'torch.ops.{self._space}' object has no attribute '{op}'")


class _Ops:
    """`torch.ops`: namespaces of ops."""

    def __getattr__(self, space: str) -> _Space:
        if space.startswith("__"):
            raise AttributeError(space)
        return _Space(space)

    def load_library(self, path: Any) -> None:
        """Raises an error, as such libraries are linked with PyTorch's; torchvision's ops are replaced by our own."""
        file = pathlib.Path(path)
        if file.parent.name == "torchvision" and file.stem.partition(".")[0] in ("_C", "_C_stable"):
            from flambeau.compat import vision_ops

            return vision_ops.register()
        raise OSError(f"load_library: {path}: compiled for PyTorch, which is not here")


ops = _Ops()
