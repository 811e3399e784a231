"""Running code written for PyTorch: `import torch` gives flambeau.

On the command line `python -m flambeau script.py` does it for a whole script, in pytest the plugin
`-p flambeau.compat.pytest_plugin`; here is what both use.

Example:
    >>> with fb.compat.torch():
    ...     import torch
    ...     from torch import nn
    >>> torch.Tensor is fb.Tensor, nn.Linear is fb.nn.Linear
    (True, True)
"""

from __future__ import annotations

import re
import sys
import types

from flambeau import _C
from flambeau._registry.names import package_dir as _package_dir
from flambeau._settings.strict import be_lenient
from flambeau.compat._finder import Finder, is_torch
from flambeau.compat._message import missing

__all__ = ["explain", "install", "is_installed", "torch", "uninstall"]
__dir__ = _package_dir(__name__)

_finder: Finder | None = None
_hidden: dict[str, types.ModuleType] = {}


def install() -> None:
    """From now on, `import torch` gives flambeau in this process; a second call changes nothing.

    Dtypes and sizes print as PyTorch's do, `torch.float32`. "cuda" is the accelerator that FLAMBEAU_DEVICE names, or a GPU.
    A PyTorch that was imported before keeps working where it was imported, and comes back with uninstall().

    Example:
        >>> fb.compat.install()
        >>> import torch
        >>> str(torch.__version__)
        '2.13.0+flambeau'
        >>> fb.compat.uninstall()
    """
    global _finder
    if _finder is not None:
        return
    for name in [name for name in sys.modules if is_torch(name)]:
        _hidden[name] = sys.modules.pop(name)
    _finder = Finder()
    _C.show_package("torch")
    _C.lend_name_of_cuda(True)
    be_lenient(True)
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Ends what install() began; modules that were imported meanwhile keep what they have.

    Example:
        >>> fb.compat.uninstall()
        >>> fb.compat.is_installed()
        False
    """
    global _finder
    if _finder is None:
        return
    sys.meta_path.remove(_finder)
    _finder.close()
    _C.show_package("flambeau")
    _C.lend_name_of_cuda(False)
    be_lenient(False)
    _finder = None
    for name in [name for name in sys.modules if is_torch(name)]:
        del sys.modules[name]
    sys.modules.update(_hidden)
    _hidden.clear()


def is_installed() -> bool:
    """Whether `import torch` gives flambeau now.

    Example:
        >>> with fb.compat.torch():
        ...     fb.compat.is_installed()
        True
    """
    return _finder is not None


class torch:
    """Within the block, `import torch` gives flambeau; what was imported stays usable after it.

    Example:
        >>> with fb.compat.torch() as torch:
        ...     import torch.nn.functional as F
        ...     y = F.relu(torch.tensor([-1.0, 2.0]))
        >>> y
        tensor([0., 2.])
    """

    def __enter__(self) -> types.ModuleType:
        import importlib

        self._outermost = not is_installed()
        install()
        return importlib.import_module("torch")

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            explain(error)
        if self._outermost:
            uninstall()


def explain(error: BaseException) -> None:
    """Adds a line to an error about a name that flambeau, its tensors, modules or optimizers do not have.

    Args:
        error: an AttributeError or ImportError; any other is unchanged.

    Example:
        >>> try:
        ...     fb.zeros(2).no_such_method()
        ... except AttributeError as error:
        ...     fb.compat.explain(error)
        ...     print(error.__notes__[0].partition(";")[0])
        Tensor.no_such_method: not in flambeau 0.1.0
    """
    if getattr(error, "__notes__", None) or not isinstance(error, (AttributeError, ImportError)) or not error.name:
        return
    if isinstance(error, ImportError):
        wanted = re.match(r"cannot import name '(\w+)'", str(error))
        if wanted and error.name.partition(".")[0] == "flambeau":
            error.add_note(missing(f"torch{error.name[len('flambeau') :]}.{wanted.group(1)}"))
        return
    owner = error.obj if isinstance(error.obj, type) else type(error.obj)
    # Classes of the user, such as a model, may lack attributes that the user forgot.
    if owner.__module__.partition(".")[0] == "flambeau":
        error.add_note(missing(f"{owner.__name__}.{error.name}"))
