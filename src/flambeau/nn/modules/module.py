"""Module: the base of everything that holds parameters."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Self

import flambeau as fb
from flambeau import Tensor
from flambeau import __future__ as future
from flambeau.nn.modules._calling import Calling
from flambeau.nn.modules._hooks import (
    GLOBAL_TABLES,
    HoldsTables,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registration_hooks,
)
from flambeau.nn.modules._state import State
from flambeau.nn.modules._tree import _TABLES, Tree, _replaced
from flambeau.nn.parameter import Buffer, Parameter, is_lazy

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
__dir__ = __all__.copy

_HOOK_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


globals().update(GLOBAL_TABLES)
sys.modules[__name__].__class__ = HoldsTables


class Module(Tree, Calling, State):
    """A piece of a model: parameters, buffers, submodules, and a forward().

    Assign parameters and submodules in __init__, after super().__init__(), and compute in forward(); call the module
    itself, which runs its hooks too.

    Example:
        >>> class Affine(fb.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.scale = fb.nn.Parameter(fb.full((2,), 3.0))
        ...
        ...     def forward(self, x):
        ...         return x * self.scale
        >>> Affine()(fb.ones(2)).tolist()
        [3.0, 3.0]
    """

    dump_patches = False
    call_super_init = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = f"{len(args)} positional" if args else f"'{next(iter(kwargs))}'"
            raise TypeError(f"{type(self).__name__}.__init__: Module takes no arguments, got {given}")
        own = self.__dict__
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        own["_non_persistent_buffers_set"] = set()
        for table in _HOOK_TABLES:
            own[table] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # Defined here, not in a base, so that super(Module, self).__setattr__ sets a plain attribute, as programs expect.
    def __getattr__(self, name: str) -> Tensor | Module:
        tables = self.__dict__
        if "_modules" in tables:
            if name in tables["_parameters"]:
                return tables["_parameters"][name]
            if name in tables["_modules"]:
                return tables["_modules"][name]
            if name in tables["_buffers"]:
                return tables["_buffers"][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        """A Parameter, Module or Buffer is registered; anything else is a plain attribute.

        Once a name belongs to one of the three, only such a value or None may be assigned to it.
        """
        tables = self.__dict__
        if isinstance(value, Parameter):
            self._need_init("parameters", name)
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
            return
        if isinstance(value, Module):
            self._need_init("modules", name)
            self._forget(name, keep="_modules")
            for hook in registration_hooks["module"].values():
                value = _replaced(hook(self, name, value), value)
            tables["_modules"][name] = value
            return
        if "_modules" in tables:
            for table, kind in (("_parameters", "Parameter"), ("_modules", "Module")):
                if name in tables[table]:
                    if value is not None:
                        raise TypeError(
                            f"setattr: '{name}' is a registered {kind}, got {type(value).__name__}; assign a {kind} or "
                            f"None, or remove it first with del"
                        )
                    tables[table][name] = None
                    return
            if isinstance(value, Tensor) and (isinstance(value, Buffer) or name in tables["_buffers"]):
                known = name in tables["_buffers"] and not isinstance(value, Buffer)
                persistent = (
                    name not in self._non_persistent_buffers_set if known else getattr(value, "persistent", True)
                )
                self._forget(name, keep="_buffers")
                if persistent:  # not passed on: a subclass's register_buffer() may take two arguments only
                    self.register_buffer(name, value)
                else:
                    self.register_buffer(name, value, persistent)
                return
            if name in tables["_buffers"]:
                if value is not None:
                    raise TypeError(
                        f"setattr: '{name}' is a registered buffer, got {type(value).__name__}; assign a tensor or None"
                    )
                tables["_buffers"][name] = None
                return
        elif isinstance(value, Buffer):
            self._need_init("buffers", name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for table in _TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        members = [key for table in _TABLES for key in self.__dict__[table]]
        names = {*dir(type(self)), *self.__dict__, *members}
        return sorted(name for name in names if not name[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def _forward_is_missing(self, *input: Any) -> Any:
        """What the module computes; every subclass defines it.

        Example:
            >>> fb.nn.Identity().forward(3)
            3
        """
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function; define forward(self, ...), '
            "or, of a container, call the modules in it"
        )

    forward: Callable[..., Any] = _forward_is_missing

    # ---- conversion ----------------------------------------------------------------------------------------------------

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Applies a function to every parameter's data, every gradient and every buffer, and stores the results."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with fb.no_grad():
            for name, param in self._parameters.items():
                if param is None:
                    continue
                if future.get_swap_module_params_on_conversion() or future.get_overwrite_module_params_on_conversion():
                    self._replace_parameter(name, param, fn)
                    continue
                gradient, data = param.grad, fn(param.data)
                if data.is_meta != param.is_meta:
                    self._replace_parameter(name, param, fn)
                    continue
                param.data = data
                if gradient is not None and gradient.layout is fb.strided:
                    gradient.data = fn(gradient.data)
                elif gradient is not None:
                    param.grad = fn(gradient.detach()).requires_grad_(gradient.requires_grad)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def _replace_parameter(self, name: str, param: Any, fn: Callable[[Tensor], Tensor]) -> None:
        """Replaces a parameter, or swaps the contents of the two; see flambeau.__future__."""
        made = fb.nn.Parameter(fn(param), param.requires_grad)
        gradient = param.grad
        converted = None if gradient is None else fn(gradient).requires_grad_(gradient.requires_grad)
        if not future.get_swap_module_params_on_conversion():
            made.grad = converted
            self._parameters[name] = made
            return
        param.grad = None  # what is swapped must have no other references
        try:
            fb.utils.swap_tensors(param, made)
            if gradient is not None and converted is not None:
                fb.utils.swap_tensors(gradient, converted)
        except RuntimeError as error:
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}") from error
        finally:
            param.grad = gradient

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Calls a function with every submodule, then with the module itself.

        Example:
            >>> fb.nn.Sequential(fb.nn.ReLU()).apply(lambda m: print(type(m).__name__))
            ReLU
            Sequential
            Sequential(
              (0): ReLU()
            )
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """to(device=None, dtype=None, non_blocking=False) / to(dtype) / to(tensor) / to(memory_format=...)

        Converts parameters and buffers in place; a dtype applies to the floating ones and the complex ones only.

        Example:
            >>> fb.nn.Linear(2, 3).to(fb.float64).weight.dtype
            flambeau.float64
        """
        device, dtype, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"to: modules are converted to floating or complex dtypes only, got {dtype}")

        def convert(t: Tensor) -> Tensor:
            kind = dtype if dtype is not None and (t.is_floating_point() or t.is_complex()) else None
            if memory_format is not None and t.ndim in (4, 5):
                return t.to(device, kind, memory_format=memory_format)
            return t.to(device, kind)

        return self._apply(convert)

    def _to_floating(self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Converts floating parameters and buffers to float32.

        Example:
            >>> fb.nn.Linear(2, 3).double().float().weight.dtype
            flambeau.float32
        """
        return self._to_floating(fb.float32)

    def double(self) -> Self:
        """Converts floating parameters and buffers to float64.

        Example:
            >>> fb.nn.Linear(2, 3).double().weight.dtype
            flambeau.float64
        """
        return self._to_floating(fb.float64)

    def half(self) -> Self:
        """Converts floating parameters and buffers to float16.

        Example:
            >>> fb.nn.Linear(2, 3).half().weight.dtype
            flambeau.float16
        """
        return self._to_floating(fb.float16)

    def bfloat16(self) -> Self:
        """Converts floating parameters and buffers to bfloat16.

        Example:
            >>> fb.nn.Linear(2, 3).bfloat16().weight.dtype
            flambeau.bfloat16
        """
        return self._to_floating(fb.bfloat16)

    def type(self, dst_type: Any) -> Self:
        """Converts all parameters and buffers to a dtype.

        Example:
            >>> fb.nn.Linear(2, 3).type(fb.float64).weight.dtype
            flambeau.float64
        """
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU.

        Example:
            >>> fb.nn.Linear(2, 3).cpu().weight.device
            device(type='cpu')
        """
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Moves parameters and buffers to a CUDA device; an error where there is none.

        Example:
            >>> fb.nn.ReLU().cuda()
            ReLU()
        """
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves parameters and buffers to a device without their values.

        Parameters that come from the meta device are new objects: tie them, and make optimizers, afterwards.

        Args:
            device: where to.
            recurse: whether to include submodules.

        Example:
            >>> fb.nn.Linear(2, 3).to_empty(device="cpu").weight.shape
            flambeau.Size([3, 2])
        """
        return self._apply(lambda t: fb.empty_like(t, device=device), recurse=recurse)

    def share_memory(self) -> Self:
        """Moves parameters and buffers into memory that child processes share.

        Example:
            >>> fb.nn.ReLU().share_memory()
            ReLU()
        """
        for tensor in (*self.parameters(), *self.buffers()):
            if is_lazy(tensor):
                tensor.share_memory_()  # raises: _apply() sees an empty tensor
        return self._apply(lambda t: t.share_memory_())

    # ---- mode ----------------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Sets `training` of this module and all below it.

        Example:
            >>> fb.nn.Dropout().train(False).training
            False
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean, got {mode.__class__.__name__}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Sets `training` to False here and below: dropout is off, batch norm uses its running statistics.

        Example:
            >>> fb.nn.Dropout().eval().training
            False
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether gradients are recorded for the parameters.

        Example:
            >>> fb.nn.Linear(2, 3).requires_grad_(False).weight.requires_grad
            False
        """
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters.

        Args:
            set_to_none: whether they become None; otherwise they are set to zero.

        Example:
            >>> m = fb.nn.Linear(2, 1)
            >>> m(fb.ones(2)).sum().backward()
            >>> m.zero_grad()
            >>> m.weight.grad is None
            True
        """
        for param in self.parameters():
            if param.grad is not None:
                if set_to_none:
                    param.grad = None
                else:
                    param.grad = param.grad.detach().zero_()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Accepted and without effect: there is no compiler yet.

        Example:
            >>> fb.nn.ReLU().compile()
        """

    # ---- text ----------------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What to print in the parentheses of this module's text; override it.

        Example:
            >>> fb.nn.Linear(2, 3).extra_repr()
            'in_features=2, out_features=3, bias=True'
        """
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({extra})"
        if not lines and not children:
            return f"{self._get_name()}()"
        body = "\n".join(f"  {line}" for line in lines + children)
        return f"{self._get_name()}(\n{body}\n)"


def _indented(text: str) -> str:
    """Indents all lines but the first by two spaces."""
    return text.replace("\n", "\n  ")


def _parse_to(
    device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False, *,
    tensor: Tensor | None = None, memory_format: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Device, dtype and memory format from the arguments of to(), in any of its forms."""
    if isinstance(device, Tensor):
        tensor, device = device, None
    if isinstance(device, fb.dtype):
        device, dtype = None, device
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if dtype is not None and not isinstance(dtype, fb.dtype):
        raise TypeError(f"to: expected a dtype, got {dtype.__class__.__name__}")
    return device, dtype, memory_format
