"""flambeau: a define-by-run deep learning library with PyTorch's names, on a compact C++20 core.

Example:
    >>> import flambeau as fb
    >>> (fb.arange(3) * 2).sum()
    tensor(6)
"""

import functools as _functools
import importlib as _importlib
import math as _math
import os as _os
import sys as _sys
import types as _types

from flambeau._core import load as _load_core

_load_core()

from flambeau import _C, errors
from flambeau._C import (
    Generator,
    Tensor,
    bfloat16,
    bool,
    can_cast,
    complex32,
    complex64,
    complex128,
    device,
    dtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    get_default_device,
    get_default_dtype,
    get_num_threads,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_device,
    set_default_dtype,
    set_num_threads,
    uint8,
    uint16,
    uint32,
    uint64,
)
from flambeau._registry.lazy import load as _load
from flambeau._tensor.layouts import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from flambeau.errors import OutOfMemoryError

_C.set_errors(errors.BY_KIND)

__version__ = "0.1.0"

half = float16
float = float32
double = float64
short = int16
int = int32
long = int64
chalf = complex32
cfloat = complex64
cdouble = complex128

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None

from flambeau import autograd
from flambeau._settings.memory import *
from flambeau._settings.system import *
from flambeau._tensor.legacy import *
from flambeau._tensor.methods import *
from flambeau.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from flambeau.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from flambeau.storage import *


def _load_ops() -> None:
    """Registers the ops written in Python, then publishes every op in its namespace."""
    folder = _os.path.join(_os.path.dirname(__file__), "_ops")
    for file in sorted(_os.listdir(folder)):
        if file.endswith(".py") and not file.startswith("_"):
            _importlib.import_module(f"flambeau._ops.{file[:-3]}")
    for space, functions in _C.namespaces.items():
        if space.startswith("nn"):
            continue  # published when flambeau.nn.functional is first used
        if not space:
            globals().update({k: v for k, v in functions.items() if k not in globals() and not k.startswith("_")})
            continue
        name = f"flambeau.{space}"
        module = _sys.modules.get(name) or _types.ModuleType(name, f"Functions of {name}.")
        module.__dict__.update(functions)
        module.__dict__.setdefault("__all__", sorted(name for name in functions if not name.startswith("_")))
        module.__dict__.setdefault("__dir__", module.__all__.copy)
        _sys.modules[name] = module
        globals()[space] = module


_load_ops()

return_types = _types.ModuleType("flambeau.return_types", "Named tuples that ops return.")
return_types.__dict__.update(_C.return_types, __all__=sorted(_C.return_types), __dir__=_C.return_types.copy)
_sys.modules["flambeau.return_types"] = return_types
if "linalg" in globals():
    globals()["linalg"].LinAlgError = errors.LinAlgError
    globals()["linalg"].__all__.append("LinAlgError")

# Loaded on first use, so that `import flambeau` stays fast.
_LAZY = (
    "__future__", "accelerator", "amp", "array_api", "backends", "compat", "compiler", "cpu", "cuda", "distributed", "distributions", "fft",
    "func", "functional", "futures", "gguf", "hub", "jit", "masked", "monitor", "multiprocessing", "nn", "opencl", "optim", "overrides",
    "profiler", "quantization", "quasirandom", "random", "serialization", "signal", "sparse", "testing", "types", "utils", "version",
    "xpu",
)  # fmt: skip
# Names also available at the top level: all that these modules list, and some of others.
_LISTED = (
    "_ops._lobpcg", "amp._state", "nn._native", "nn._native_layers", "nn._native_norms", "sparse._compressed", "sparse._tensor",
)  # fmt: skip
_CHOSEN = {
    "amp": ["GradScaler", "autocast"],
    "compiler": ["compile"],
    "func": ["vmap"],
    "nn.functional": """
        alpha_dropout bilinear celu celu_ cosine_similarity dropout feature_alpha_dropout group_norm hardshrink layer_norm
        pairwise_distance prelu rms_norm rrelu rrelu_ selu selu_ threshold threshold_
    """.split(),
    "quantization": ["quantize_"],
    "serialization": ["load", "save"],
}


@_functools.cache
def _elsewhere() -> dict[str, str]:
    """{name: the module that provides it on first use}"""
    from flambeau._registry.names import listed

    found = {name: module for module in _LISTED for name in listed(f"flambeau.{module}")}
    return found | {name: module for module, names in _CHOSEN.items() for name in names}


def __getattr__(name: str):
    if name in _LAZY:
        return _load(f"flambeau.{name}")
    if name == "__all__":
        modules = {*_LAZY, *(name for name, value in globals().items() if isinstance(value, _types.ModuleType))}
        return [name for name in __dir__() if name not in modules and not name.startswith("_")]
    if not name.startswith("_") and (module := _elsewhere().get(name)) is not None:
        return getattr(_load(f"flambeau.{module}"), name)
    raise AttributeError(f"module 'flambeau' has no attribute '{name}'", name=name, obj=_NamesLike(name))


class _NamesLike:
    """Stands in for this module for "did you mean" suggestions: CPython gives none among 750 or more names."""

    def __init__(self, name: str):
        self.length = len(name)

    def __dir__(self):
        return [name for name in __dir__() if -2 <= len(name) - self.length <= 2]


def __dir__():
    public = {name for name in globals() if not name.startswith("_")} | {"__version__"}
    return sorted({*public, *_LAZY, *_elsewhere()})
