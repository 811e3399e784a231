"""The import hook: `torch` and `torch.x.y` are found as flambeau and flambeau.x.y.

Submodules are flambeau's own module objects under a second name, so classes, state and speed are the same. Only `torch`
itself is a separate module, since its version differs. A missing name raises an error that mentions it and the
documentation page to read.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau import __version__ as flambeau_version
from flambeau.compat import absent, private
from flambeau.compat._message import missing
from flambeau.compat.version import __version__

# Modules that exist only for the sake of scripts.
_ALIASES = {
    "torch.version": "flambeau.compat.version",
    "torch.__config__": "flambeau.compat.config",
    "torch.torch_version": "flambeau.compat.version",
    "torch.library": "flambeau.compat.library",
    "torch._utils": "flambeau.compat.flattening",
    "torch._higher_order_ops.associative_scan": "flambeau.compat.higher_order",
    "torch._tensor_str": "flambeau.compat.printed",
    "torch.profiler.profiler": "flambeau.profiler",
    "torch.distributed.distributed_c10d": "flambeau.distributed",
    "torch.distributed._composable.fsdp": "flambeau.distributed.fsdp",
    "torch.distributed.checkpoint.default_planner": "flambeau.distributed.checkpoint",
    "torch.distributed.checkpoint.filesystem": "flambeau.distributed.checkpoint",
    "torch.distributed.checkpoint.metadata": "flambeau.distributed.checkpoint",
    "torch.distributed.checkpoint.planner": "flambeau.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict_loader": "flambeau.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict_saver": "flambeau.distributed.checkpoint",
    "torch.distributed.checkpoint.storage": "flambeau.distributed.checkpoint",
    "torch.distributed.constants": "flambeau.distributed",
    "torch.distributed.launch": "flambeau.distributed.run",
    "torch.distributed._tensor": "flambeau.distributed.tensor",
    "torch.distributed._tensor.device_mesh": "flambeau.distributed.device_mesh",
    "torch.distributed._tensor.placement_types": "flambeau.distributed.tensor.placement_types",
    "torch.distributed.tensor.device_mesh": "flambeau.distributed.device_mesh",
    "torch.jit.annotations": "flambeau.compat.annotations",
    "torch.cuda.amp.autocast_mode": "flambeau.cuda.amp",
    "torch.cuda.amp.grad_scaler": "flambeau.cuda.amp",
    "torch.utils.data._utils.pin_memory": "flambeau.compat.pinning",
    "functorch": "flambeau.compat.functorch",
    "functorch.experimental": "flambeau.compat.functorch",
    "torch.cpu.amp": "flambeau.compat.cpu_amp",
    "torch.cpu.amp.autocast_mode": "flambeau.compat.cpu_amp",
    "torch.cpu.amp.grad_scaler": "flambeau.compat.cpu_amp",
}
# Submodules that `import torch` always sets as attributes.
_AT_ONCE = ("version", "torch_version", "__config__", "__future__")


def is_torch(name: str) -> bool:
    """Whether a module counts as part of PyTorch: `functorch` is a separate package that comes with it."""
    return name.partition(".")[0] in ("torch", "functorch")


def _target(name: str) -> str:
    return _ALIASES.get(name, "flambeau" + name[len("torch") :])


class _Loader(importlib.abc.Loader):
    """Returns a module that already exists under flambeau's name."""

    def __init__(self, finder: Finder) -> None:
        self.finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self.finder.module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        # The import system has just overwritten the spec of flambeau.x with that of "torch.x".
        self.finder.restore_spec(module)


class _Torch(importlib.metadata.Distribution):
    """Read by importlib.metadata.version("torch")."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return flambeau.__path__[0]


class Finder(importlib.abc.MetaPathFinder):
    """Finds `torch` and everything below it; records what has to be undone."""

    def __init__(self) -> None:
        self._loader = _Loader(self)
        self._specs: dict[str, Any] = {}
        self._undo: list[tuple[types.ModuleType, Any]] = []
        self._known: dict[str, types.ModuleType] = {}

    # ---- called by the import system
    # -------------------------------------------------------------------------------------

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not is_torch(fullname):
            return None
        module = self.module(fullname)
        self._specs[module.__name__] = getattr(module, "__spec__", None)
        # All count as packages: then `from torch.nn import Missing` asks this finder, and the error can explain.
        return importlib.machinery.ModuleSpec(fullname, self._loader, is_package=True)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        if context is None or context.name in (None, "torch"):
            yield _Torch()

    def restore_spec(self, module: types.ModuleType) -> None:
        """Restores a flambeau module's own spec."""
        if module.__name__ != "torch":
            module.__spec__ = self._specs.get(module.__name__)

    # ---- modules ---------------------------------------------------------------------------------------------------------

    def module(self, name: str) -> types.ModuleType:
        """The module for "torch" or "torch.x"; raises ModuleNotFoundError with an explanation if there is none."""
        if name not in self._known:
            self._known[name] = self._make_torch() if name == "torch" else self._adopt(name, self._import(name))
        return self._known[name]

    def _import(self, name: str) -> types.ModuleType:
        target = _target(name)
        try:
            return importlib.import_module(target)
        except ModuleNotFoundError as error:
            # Without exc.name: the import system would drop the message of an exception that has it.
            if error.name is None or not (target + ".").startswith(error.name + "."):
                raise
            if absent.is_absent(name):
                return absent.module(name)
            raise ModuleNotFoundError(missing(name)) from None

    def _make_torch(self) -> types.ModuleType:
        torch = types.ModuleType("torch", f"flambeau {flambeau_version} under PyTorch's name.")
        hidden = ("__name__", "__loader__", "__spec__", "__package__", "__builtins__", "__getattr__", "__dir__", "__doc__")
        torch.__dict__.update({key: value for key, value in vars(flambeau).items() if key not in hidden})
        torch.__dict__.update(__version__=__version__, __path__=[], __getattr__=self._attributes("torch", flambeau.__getattr__))
        torch.__dict__["__dir__"] = lambda: dir(flambeau)
        for key in _AT_ONCE:
            torch.__dict__[key] = self.module(f"torch.{key}")
        self._adopt("torch._C", flambeau._C)
        self._adopt_loaded("torch", "flambeau")
        self._keep_functions("torch", flambeau)
        return torch

    def _adopt(self, name: str, module: types.ModuleType) -> types.ModuleType:
        """Lets a flambeau module explain missing names; registers it and its submodules under torch's name too."""
        if module.__name__.startswith("flambeau.compat") and name not in _ALIASES:
            return module
        before = module.__dict__.get("__getattr__")
        if not isinstance(before, _Attributes):
            self._undo.append((module, before))
            # A module with several names uses its own in explanations: missing names are looked up there.
            own = name if module.__name__.startswith("flambeau.compat") else "torch" + module.__name__[len("flambeau") :]
            module.__dict__["__getattr__"] = self._attributes(own, before)
        self._known[name] = module
        self._adopt_loaded(name, module.__name__)
        self._keep_functions(name, module)
        return module

    def _keep_functions(self, name: str, module: types.ModuleType) -> None:
        """Registers submodules whose name in this module is a function's (autograd.gradcheck) as imported from the
        start.

        The import system sets a module that it loads as an attribute of its parent, which would replace the function.
        """
        prefix = module.__name__ + "."
        below = {key[len(prefix) :]: key for key in sys.modules if key.startswith(prefix) and "." not in key[len(prefix) :]}
        below |= {full[len(name) + 1 :]: target for full, target in _ALIASES.items() if full.rpartition(".")[0] == name}
        for last, target in below.items():
            taken = vars(module).get(last)
            if taken is not None and not isinstance(taken, types.ModuleType):
                sys.modules[f"{name}.{last}"] = self._known[f"{name}.{last}"] = importlib.import_module(target)

    def _adopt_loaded(self, name: str, target: str) -> None:
        for key, module in list(sys.modules.items()):
            parent, _, last = key.rpartition(".")
            if parent == target and not last.startswith("_") and last != "compat" and f"{name}.{last}" not in self._known:
                self._adopt(f"{name}.{last}", module)

    def _attributes(self, name: str, before: Callable[[str], Any] | None) -> _Attributes:
        return _Attributes(self, name, before)

    def close(self) -> None:
        """Restores every module's own behavior."""
        for module, before in reversed(self._undo):
            if before is None:
                del module.__dict__["__getattr__"]
            else:
                module.__dict__["__getattr__"] = before
        self._undo.clear()
        stand_ins = [(name, module) for name, module in self._known.items() if module.__name__ == name]
        for name, module in stand_ins:
            # `import torch.nn.quantized` has left the module that stands for it in flambeau.nn, under its own name.
            parent, _, last = name.rpartition(".")
            if parent in self._known and vars(self._known[parent]).get(last) is module:
                delattr(self._known[parent], last)
        self._known.clear()


class _Attributes:
    """A module's `__getattr__`: tries the module's own first, adopts modules it loads, explains missing names."""

    def __init__(self, finder: Finder, name: str, before: Callable[[str], Any] | None) -> None:
        self.finder, self.name, self.before = finder, name, before

    def __call__(self, attribute: str) -> Any:
        value = self._ask(attribute)
        full = f"{self.name}.{attribute}"
        if isinstance(value, types.ModuleType) and value.__name__ == _target(full):
            found = self.finder.module(full)
            if self.name == "torch" and (own := sys.modules.get("torch")) is not None:
                vars(own).setdefault(attribute, found)  # models use torch.compiler and torch.jit in every layer
            return found
        return value

    def _ask(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(f"module '{self.name}' has no attribute '{attribute}'")
        if self.before is not None:
            try:
                return self.before(attribute)
            except AttributeError as error:
                # An error from inside a module being loaded is a separate fault and propagates.
                if attribute not in str(error):
                    raise
        full = f"{self.name}.{attribute}"
        if full in _ALIASES or absent.is_absent(full):
            return self.finder.module(full)
        for table in (private, absent):
            value = table.name(self.name, attribute)
            if value is not None:
                return value
        raise AttributeError(missing(full), name=attribute)
