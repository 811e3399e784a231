"""Parameters that are computed from others each time they are used."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip
__dir__ = __all__.copy

_depth = 0
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within this block every parametrized tensor is computed once.

    Example:
        >>> m = fb.nn.utils.parametrizations.weight_norm(fb.nn.Linear(3, 2))
        >>> with fb.nn.utils.parametrize.cached():
        ...     m.weight is m.weight
        True
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _cache.clear()


def _keep_as(tensor: Tensor, like: Tensor) -> Tensor:
    """A parameter if the original was one."""
    return Parameter(tensor, like.requires_grad) if isinstance(like, Parameter) else tensor


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensor or tensors they start from.

    `original`, or `original0`, `original1` and so on, hold what is learned; calling the list gives the value.

    Args:
        modules: the parametrizations, in the order in which they are applied.
        original: the tensor that they are to give.
        unsafe: whether shape and dtype may change.

    Example:
        >>> m = fb.nn.utils.parametrizations.weight_norm(fb.nn.Linear(3, 2))
        >>> isinstance(m.parametrizations.weight, fb.nn.utils.parametrize.ParametrizationList)
        True
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList: requires at least one parametrization")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with fb.no_grad():
            start: Any = original
            module: Any
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    # without an inverse the parameter keeps its own value
                    with contextlib.suppress(NotImplementedError):
                        start = module.right_inverse(start)
        self.is_tensor = isinstance(start, Tensor)
        if not self.is_tensor and not isinstance(start, Sequence):
            raise ValueError(
                f"ParametrizationList: right_inverse must return a Tensor or a Sequence of tensors, got {type(start).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            for what in ("dtype", "device"):
                if getattr(original, what) != getattr(start, what):
                    raise ValueError(
                        f"ParametrizationList: When right_inverse outputs one tensor, it may not change the {what}: expected "
                        f"{getattr(original, what)}, got {getattr(start, what)}"
                    )
            # the parameter stays the same object, which an optimizer may already hold
            with fb.no_grad():
                original.data = start.detach().clone() if start is original else start.detach()
            _register(self, "original", original)
        else:
            for i, part in enumerate(start):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "ParametrizationList: right_inverse must return a Tensor or a Sequence of tensors, got element "
                        f"{i} of the sequence with type {type(part).__name__}"
                    )
                _register(self, f"original{i}", _keep_as(part, original))
        if not unsafe:
            _check_kept("ParametrizationList", self(), dtype, shape)

    def __reversed__(self) -> Iterator[Module]:
        return iter(list(self)[::-1])

    def _originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the parametrizations give a value.

        Example:
            >>> m = fb.nn.utils.parametrizations.weight_norm(fb.nn.Linear(3, 2))
            >>> m.parametrizations.weight.right_inverse(fb.ones(2, 3))
            >>> fb.allclose(m.weight, fb.ones(2, 3))
            True
        """
        with fb.no_grad():
            start: Any = value
            module: Any
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"right_inverse: {type(module).__name__} does not define it, so its tensor cannot be assigned"
                    )
                start = module.right_inverse(start)
            parts = [start] if self.is_tensor else list(start)
            if len(parts) != self.ntensors:
                raise ValueError(f"right_inverse: expected {self.ntensors} tensors, got {len(parts)}")
            for original, part in zip(self._originals(), parts, strict=True):
                if part.dtype != original.dtype:
                    raise ValueError(f"right_inverse: expected dtype {original.dtype}, got {part.dtype}")
                original.data = part.detach()

    def forward(self) -> Tensor:
        modules = iter(self)
        value = next(modules)(*self._originals())
        for module in modules:
            value = module(value)
        return value


def _register(owner: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        owner.register_parameter(name, tensor)
    else:
        owner.register_buffer(name, tensor)


def _parametrized_class(module: Module) -> None:
    """Gives the module a separate class, which can have properties."""
    original = type(module)

    def refuse(self):
        raise RuntimeError(
            f"pickle: a parametrized {original.__name__} cannot be pickled; save its state_dict() and register the "
            f"parametrizations again"
        )

    def deepcopy(self, memo):
        if id(self) not in memo:
            twin = self.__new__(type(self))
            memo[id(self)] = twin
            twin.__dict__ = copy.deepcopy(self.__dict__, memo)
            own = {k: v for k, v in vars(type(self)).items() if isinstance(v, property)}
            twin.__class__ = type(type(self).__name__, (original,), {**vars(type(self)), **own})
        return memo[id(self)]

    body = {"__getstate__": refuse, "__deepcopy__": deepcopy, "__module__": __name__}
    module.__class__ = type(f"Parametrized{original.__name__}", (original,), body)


def _inject_property(module: Module, name: str) -> None:
    """Defines a property of the module's class that computes the tensor."""

    def get(self: Any) -> Tensor:
        if not _depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a tensor of a module the result of a parametrization; several are applied one after the other.

    The parametrization is a module of one tensor. If it has a method right_inverse, the tensor can be assigned to.

    Args:
        module: the module, changed in place.
        tensor_name: of the parameter or buffer.
        parametrization: what computes it.
        unsafe: whether it may change shape and dtype.

    Example:
        >>> class Positive(fb.nn.Module):
        ...     def forward(self, x): return x.exp()
        >>> m = fb.nn.utils.parametrize.register_parametrization(fb.nn.Linear(3, 2), "weight", Positive())
        >>> bool((m.weight > 0).all())
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        known: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_further(getattr(module, tensor_name), parametrization)
        known.append(parametrization)
        known.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"register_parametrization: module '{module}' does not have a parameter, a buffer, or a parametrized tensor "
            f"with name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    new = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _parametrized_class(module)
        module.parametrizations = ModuleDict()
    _inject_property(module, tensor_name)
    module.parametrizations[tensor_name] = new
    return module


def _check_kept(op: str, value: Any, dtype: fb.dtype, shape: fb.Size) -> None:
    """Rejects the result of a parametrization unless it is a tensor with the dtype and shape of its input."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{op}: A parametrization must return a tensor, got {type(value).__name__}")
    for what, got, expected in (("dtype", value.dtype, dtype), ("shape", value.shape, shape)):
        if got != expected:
            raise ValueError(
                f"{op}: Registering a parametrization may not change the {what} of the tensor, unless unsafe=True: expected "
                f"{expected}, got {got}"
            )


def _check_further(value: Tensor, parametrization: Any) -> None:
    with fb.no_grad():
        result = parametrization(value)
        _check_kept("register_parametrization", result, value.dtype, value.shape)
        if hasattr(parametrization, "right_inverse"):
            back = parametrization.right_inverse(result)
            if not isinstance(back, Tensor):
                raise ValueError(
                    f"register_parametrization: parametrization.right_inverse must return a tensor, got {type(back).__name__}"
                )
            for what in ("dtype", "shape"):
                if getattr(back, what) != getattr(value, what):
                    raise ValueError(
                        f"register_parametrization: The tensor returned by parametrization.right_inverse must have the same {what} "
                        f"as {getattr(value, what)}, got {getattr(back, what)}"
                    )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or one tensor of it, is parametrized.

    Example:
        >>> fb.nn.utils.parametrize.is_parametrized(fb.nn.Linear(3, 2))
        False
    """
    parametrizations = module._modules.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a parametrized tensor a plain one again.

    Args:
        module: the module, changed in place.
        tensor_name: of the tensor.
        leave_parametrized: whether it keeps its computed value; otherwise it gets the original back.

    Example:
        >>> m = fb.nn.utils.parametrizations.weight_norm(fb.nn.Linear(3, 2))
        >>> fb.nn.utils.parametrize.remove_parametrizations(m, "weight")
        Linear(in_features=3, out_features=2, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: module {module} does not have a parametrization on {tensor_name}")
    parametrizations: Any = module.parametrizations[tensor_name]
    originals = parametrizations._originals()
    original = originals[0]
    if leave_parametrized:
        with fb.no_grad():
            value = getattr(module, tensor_name)
        if parametrizations.is_tensor:
            original.data = value.detach()
        else:
            original = _keep_as(value.detach(), original)
    elif not parametrizations.is_tensor:
        raise ValueError(
            "remove_parametrizations: leave_parametrized=False needs a single original tensor, and there are "
            f"{parametrizations.ntensors}"
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type[Any]:
    """The class that a module had before it was parametrized.

    Example:
        >>> m = fb.nn.utils.parametrizations.weight_norm(fb.nn.Linear(3, 2))
        >>> fb.nn.utils.parametrize.type_before_parametrizations(m) is fb.nn.Linear
        True
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Module:
    """Gives a module the parametrizations of another, and the tensors they start from.

    Args:
        from_module: where they are.
        to_module: where they go, changed in place.
        tensor_name: of one tensor; all by default.

    Example:
        >>> m = fb.nn.utils.parametrizations.weight_norm(fb.nn.Linear(3, 2))
        >>> other = fb.nn.utils.parametrize.transfer_parametrizations_and_params(m, fb.nn.Linear(3, 2))
        >>> fb.equal(other.weight, m.weight)
        True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(source._originals()[0]))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target: Any = to_module.parametrizations[name]
        for mine, theirs in zip(target._originals(), source._originals(), strict=True):
            with fb.no_grad():
                mine.data = theirs.detach().clone()
    return to_module
