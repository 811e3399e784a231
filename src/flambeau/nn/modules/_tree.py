"""The members of a Module: parameters, buffers and submodules, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flambeau import Tensor
from flambeau.nn.modules._hooks import registration_hooks
from flambeau.nn.parameter import Parameter

if TYPE_CHECKING:
    from flambeau.nn.modules.module import Module

_TABLES = ("_parameters", "_buffers", "_modules")


class Tree:
    """The part of Module that registers members and walks over them."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    training: bool

    # ---- attributes ----------------------------------------------------------------------------------------------------

    def _need_init(self, what: str, name: str) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {what} before Module.__init__() call: '{name}' of {type(self).__name__}; "
                f"begin its __init__ with super().__init__()"
            )

    def _forget(self, name: str, keep: str) -> None:
        """The name is about to be reassigned: removes it from all tables but one."""
        self.__dict__.pop(name, None)
        for table in _TABLES:
            if table != keep:
                self.__dict__[table].pop(name, None)
        if keep != "_buffers":
            self._non_persistent_buffers_set.discard(name)

    def _check_name(self, op: str, name: Any, table: str) -> None:
        kind = table[1:-1]
        self._need_init(kind + "s", str(name))
        if not isinstance(name, str):
            raise TypeError(f"{op}: {kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f"{op}: name '{name}' may not contain a dot, which separates the names of submodules")
        if name == "":
            raise KeyError(f"{op}: the name may not be empty")
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"{op}: attribute '{name}' already exists in {type(self).__name__}")

    # ---- registering ---------------------------------------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that belongs to the state of the module but is not learned.

        Args:
            name: name of the attribute.
            tensor: its value; None is allowed, and left out of the state_dict.
            persistent: whether state_dict() contains it.

        Example:
            >>> m = fb.nn.Module()
            >>> m.register_buffer("steps", fb.tensor(0))
            >>> m.state_dict()["steps"]
            tensor(0)
        """
        self._check_name("register_buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: '{name}' must be a tensor or None, got {type(tensor).__name__}")
        for hook in registration_hooks["buffer"].values():
            tensor = _replaced(hook(self, name, tensor), tensor)
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter.

        Args:
            name: name of the attribute.
            param: the parameter; None keeps the name with no value.

        Example:
            >>> m = fb.nn.Module()
            >>> m.register_parameter("scale", fb.nn.Parameter(fb.ones(1)))
            >>> [name for name, _ in m.named_parameters()]
            ['scale']
        """
        self._check_name("register_parameter", name, "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"register_parameter: '{name}' must be a Parameter or None, got {type(param).__name__}; "
                    f"wrap it in nn.Parameter()"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"register_parameter: '{name}' is the result of an op; a parameter must be a leaf: "
                    f"compute it in forward(), or wrap it in nn.Parameter()"
                )
        for hook in registration_hooks["parameter"].values():
            param = _replaced(hook(self, name, param), param)
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule.

        Args:
            name: name of the attribute.
            module: the submodule; None keeps the name with no value.

        Example:
            >>> m = fb.nn.Module()
            >>> m.add_module("act", fb.nn.ReLU())
            >>> m.act
            ReLU()
        """
        self._check_name("add_module", name, "_modules")
        if module is not None and not isinstance(module, Tree):
            hint = "; call it in forward(), or use the module of that name" if callable(module) else ""
            raise TypeError(f"add_module: '{name}' must be a Module or None, got {type(module).__name__}{hint}")
        for hook in registration_hooks["module"].values():
            module = _replaced(hook(self, name, module), module)
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule; the same as add_module().

        Example:
            >>> m = fb.nn.Module()
            >>> m.register_module("act", fb.nn.ReLU())
            >>> m.act
            ReLU()
        """
        self.add_module(name, module)

    # ---- finding by path -----------------------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path; the module itself for an empty one.

        Example:
            >>> m = fb.nn.Sequential(fb.nn.Sequential(fb.nn.ReLU()))
            >>> m.get_submodule("0.0")
            ReLU()
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(
                    f"get_submodule: {type(module).__name__} has no attribute '{name}' (in '{target}')"
                )
            module = getattr(module, name)
            if not isinstance(module, Tree):
                raise AttributeError(f"get_submodule: '{name}' is not a Module (in '{target}')")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a dotted path.

        Args:
            target: the path; all but its last part must exist.
            module: what to put there.
            strict: whether the last part must exist already.

        Example:
            >>> m = fb.nn.Sequential(fb.nn.ReLU())
            >>> m.set_submodule("0", fb.nn.Tanh())
            >>> m[0]
            Tanh()
        """
        if target == "":
            raise ValueError("set_submodule: the path is empty; a module cannot replace itself")
        if not isinstance(module, Tree):
            raise ValueError(f"set_submodule: expected a Module, got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"set_submodule: {type(parent).__name__} has no attribute '{name}' (in '{target}')")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Tree):
            raise AttributeError(f"set_submodule: '{name}' is not a Module (in '{target}')")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path.

        Example:
            >>> m = fb.nn.Sequential(fb.nn.Linear(2, 3))
            >>> m.get_parameter("0.weight").shape
            flambeau.Size([3, 2])
        """
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), name, None)
        if not isinstance(found, Parameter):
            raise AttributeError(f"get_parameter: '{target}' is {_kind(found)}, not a Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path.

        Example:
            >>> fb.nn.BatchNorm1d(2).get_buffer("running_mean")
            tensor([0., 0.])
        """
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if name not in owner._buffers:
            raise AttributeError(f"get_buffer: '{target}' is {_kind(getattr(owner, name, None))}, not a buffer")
        found: Any = owner._buffers[name]
        return found

    # ---- walking -------------------------------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Names and direct submodules, each module once.

        Example:
            >>> [name for name, _ in fb.nn.Sequential(fb.nn.ReLU()).named_children()]
            ['0']
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Direct submodules, each once.

        Example:
            >>> list(fb.nn.Sequential(fb.nn.ReLU()).children())
            [ReLU()]
        """
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Paths and modules: this one first, then all below it.

        Args:
            memo: modules already seen.
            prefix: prepended to every path.
            remove_duplicate: whether a module reached by two paths comes once.

        Example:
            >>> [path for path, _ in fb.nn.Sequential(fb.nn.ReLU()).named_modules()]
            ['', '0']
        """
        memo = set() if memo is None else memo
        me: Any = self  # a Module, of which this class is a mixin
        if me in memo:
            return
        if remove_duplicate:
            memo.add(me)
        yield prefix, me
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it.

        Args:
            remove_duplicate: whether a module reached by two paths comes once.

        Example:
            >>> len(list(fb.nn.Sequential(fb.nn.ReLU()).modules()))
            2
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def _named_members(
        self, get_members_fn: Callable[..., Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Paths and a function's list for every module, without None and, on request, without duplicates."""
        seen: set[Any] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Paths and parameters.

        Args:
            prefix: prepended to every path.
            recurse: whether to include submodules.
            remove_duplicate: whether a parameter reached by two paths comes once.

        Example:
            >>> [name for name, _ in fb.nn.Linear(2, 3).named_parameters()]
            ['weight', 'bias']
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, as an optimizer takes them.

        Args:
            recurse: whether to include submodules.

        Example:
            >>> sum(p.numel() for p in fb.nn.Linear(2, 3).parameters())
            9
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Paths and buffers.

        Args:
            prefix: prepended to every path.
            recurse: whether to include submodules.
            remove_duplicate: whether a buffer reached by two paths comes once.

        Example:
            >>> [name for name, _ in fb.nn.BatchNorm1d(2).named_buffers()]
            ['running_mean', 'running_var', 'num_batches_tracked']
        """
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers.

        Args:
            recurse: whether to include submodules.

        Example:
            >>> len(list(fb.nn.BatchNorm1d(2).buffers()))
            3
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer


def _replaced(answer: Any, value: Any) -> Any:
    """The result of a registration hook replaces the value, unless it is None."""
    return value if answer is None else answer


def _kind(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
