"""Tensors that a Module registers when they are assigned to it: parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import flambeau as fb
from flambeau import _C, Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError, StateError

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]
__dir__ = __all__.copy


class _Marked(type):
    """isinstance() also accepts tensors of other classes with the attribute `_is_param` or `_is_buffer`."""

    _mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        mark = cls._mark
        return _MARKED.get(mark) is cls and isinstance(instance, Tensor) and hasattr(instance, mark)


_MARKED: dict[str, type[Any]] = {}


class Parameter(Tensor, metaclass=_Marked):
    """A tensor that is learned: assigned to a Module it appears in parameters() and state_dict().

    A tensor of a class of its own keeps that class and is marked as a parameter.

    Args:
        data: the values; the memory is shared, the history is not.
        requires_grad: whether gradients are recorded for it.

    Example:
        >>> fb.nn.Parameter(fb.zeros(2), requires_grad=False)
        Parameter containing:
        tensor([0., 0.])
    """

    _mark = "_is_param"
    __torch_function__: Any = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = fb.empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(f"Parameter: expected a tensor, got {type(data).__name__}; make one with fb.tensor()")
        if type(data) is Tensor or type(data) is Parameter or cls is not Parameter:
            return data.detach().as_subclass(cls).requires_grad_(requires_grad)
        own: Any = data.detach().as_subclass(type(data)).requires_grad_(requires_grad)
        own.__dict__["_is_param"] = True
        return own

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copy = self.detach().clone().as_subclass(type(self)).requires_grad_(self.requires_grad)
            memo[id(self)] = copy
            _copy_attributes(self, copy, memo)
        return memo[id(self)]

    def __repr__(self) -> str:  # type: ignore[override]  # no keywords here
        text = super().__repr__()
        # The text names a class that derives from Parameter.
        return f"Parameter({text})" if not text.startswith("tensor(") else "Parameter containing:\n" + text

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (
            _rebuild,
            (type(self), self.detach().as_subclass(Tensor), self.requires_grad),
            dict(self.__dict__) or None,
        )


_MARKED["_is_param"] = Parameter


def _copy_attributes(source: Tensor, target: Tensor, memo: dict[Any, Any]) -> None:
    if source.__dict__:
        import copy

        target.__dict__.update(copy.deepcopy(source.__dict__, memo))


def _rebuild(cls: type[Any], data: Tensor, requires_grad: bool) -> Tensor:
    """Rebuilds a pickled parameter."""
    return data.as_subclass(cls).requires_grad_(requires_grad)


class Buffer(Tensor, metaclass=_Marked):
    """A tensor that belongs to a Module's state without being learned: assigned to a Module it appears in buffers().

    The result is the tensor's own class, marked as a buffer: isinstance(result, Buffer) holds.

    Args:
        data: the values; the memory is shared.
        persistent: whether state_dict() contains it.

    Example:
        >>> m = fb.nn.Module()
        >>> m.mean = fb.nn.Buffer(fb.zeros(2))
        >>> [name for name, _ in m.named_buffers()]
        ['mean']
    """

    _mark = "_is_buffer"

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = fb.empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(f"Buffer: expected a tensor, got {type(data).__name__}; make one with fb.tensor()")
        own: Any = data.detach().as_subclass(type(data)).requires_grad_(data.requires_grad)
        own.__dict__.update(persistent=persistent, _is_buffer=True)
        return own


_MARKED["_is_buffer"] = Buffer


_WAY_OUT = "run a forward pass of its module first, or call materialize()"

# Allowed for a tensor without a shape: reading or setting its attributes, moving and converting it.
_OF_PLACEHOLDERS = frozenset(
    ["__get__", "__set__", "_convert", "as_subclass", "bfloat16", "bool", "byte", "char", "copy_", "cpu", "cuda", "double"]
    + ["float", "get_device", "half", "int", "is_complex", "is_floating_point", "is_shared", "long", "register_hook"]
    + ["requires_grad_", "short", "to", "type"]
)


class UninitializedTensorMixin:
    """A tensor without shape or values yet; materialize() gives it both."""

    _become: type[Any] = Tensor
    device: Any  # the tensor's, like those below
    dtype: Any
    requires_grad: Any

    def materialize(self, shape: int | Sequence[int], device: Device = None, dtype: fb.dtype | None = None) -> None:
        """Gives the tensor its shape; the values stay uninitialised.

        Args:
            shape: sizes of the dimensions.
            device: where to put it; where the placeholder is by default.
            dtype: element type; the placeholder's by default.

        Example:
            >>> p = fb.nn.UninitializedParameter()
            >>> p.materialize((2, 3))
            >>> p.shape
            flambeau.Size([2, 3])
        """
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        self.__class__ = self._become  # type: ignore[assignment]  # classes are not fixed in Python
        self.data = fb.empty(shape, device=device, dtype=dtype)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raises for every op except those that need no values: the placeholder would look like an empty tensor."""
        name = getattr(func, "__name__", "")
        if name in _OF_PLACEHOLDERS:
            return _C._disabled_torch_function_impl(func, types, args, kwargs or {})
        raise ArgumentError(f"{name}: attempted to use an uninitialized parameter; {_WAY_OUT}")

    @property
    def shape(self) -> Any:
        """Raises: there is no shape before materialize()."""
        raise StateError(f"shape: can't access the shape of an uninitialized parameter or buffer; {_WAY_OUT}")

    def share_memory_(self) -> Any:
        """Raises: there is no memory before materialize()."""
        raise StateError(f"share_memory_: can't share memory on an uninitialized parameter or buffer; {_WAY_OUT}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            made: Any = type(self)
            memo[id(self)] = made(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet, as lazy modules hold before their first forward.

    Args:
        requires_grad: whether gradients are recorded for it.
        device: where it will be.
        dtype: the element type it will have.

    Example:
        >>> p = fb.nn.UninitializedParameter()
        >>> fb.nn.parameter.is_lazy(p)
        True
    """

    _become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Device = None, dtype: fb.dtype | None = None) -> Self:
        return fb.empty(0, device=device, dtype=dtype).as_subclass(cls).requires_grad_(requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet, as lazy modules hold before their first forward.

    Args:
        requires_grad: whether gradients are recorded for it.
        device: where it will be.
        dtype: the element type it will have.
        persistent: whether state_dict() contains it.

    Example:
        >>> fb.nn.parameter.is_lazy(fb.nn.UninitializedBuffer())
        True
    """

    _become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Device = None, dtype: fb.dtype | None = None, persistent: bool = True
    ) -> Self:
        own = fb.empty(0, device=device, dtype=dtype).as_subclass(cls).requires_grad_(requires_grad)
        own.__dict__.update(persistent=persistent, _is_buffer=True)
        return own


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer still waits for its shape.

    Example:
        >>> fb.nn.parameter.is_lazy(fb.nn.Parameter(fb.zeros(2)))
        False
    """
    return isinstance(param, UninitializedTensorMixin)
