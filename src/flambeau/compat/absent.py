"""Parts of PyTorch that flambeau does not have, as modules that can be imported and fail where they are used.

Libraries import exporters, graph rewriters and process groups at their top, whether a script uses them or not. Such a
module hands out placeholder classes: they can be imported, subclassed and named in annotations; nothing is an instance of
one, and calling one raises an error that names it.

Example:
    >>> from flambeau.compat import absent
    >>> Tracer = absent.module("torch.fx").Tracer
    >>> isinstance(3, Tracer)
    False
    >>> Tracer()
    Traceback (most recent call last):
        ...
    flambeau.errors.StateError: torch.fx.Tracer: not in flambeau 0.1.0; see the page "Differences from PyTorch" (docs/differences.md)
"""

from __future__ import annotations

import functools
import types
from typing import Any

from flambeau.compat import harmless
from flambeau.compat._message import missing
from flambeau.errors import StateError

__all__ = ["Placeholder", "is_absent", "module", "name"]

# These and everything below them. What scripts probe for with `try: import` is not here: it stays missing.
_MODULES = frozenset(
    """
    torch.ao torch.export torch.fx torch.futures torch.nn.intrinsic torch.nn.qat torch.nn.quantized torch.onnx torch.package
    torch.quantization torch._custom_ops torch._dynamo torch._higher_order_ops
    torch._prims_common torch.backends.quantized torch.distributed._functional_collectives
    torch.distributed.algorithms torch.distributed.autograd torch.distributed.checkpoint torch.distributed.device_mesh
    torch.distributed.elastic torch.distributed.fsdp torch.distributed.nn torch.distributed.optim torch.distributed.pipelining
    torch.distributed.rpc torch.distributed.tensor torch.distributed._tensor
    torch.utils.cpp_extension torch.utils.mobile_optimizer
    """.split()
)
# Single names of modules that are there.
_NAMES = {
    "torch.distributed": frozenset({"FileStore", "Store", "TCPStore", "init_device_mesh"}),
    "torch.jit": frozenset({"RecursiveScriptModule", "ScriptFunction", "TracerWarning", "load", "save"}),
    "torch.cuda": frozenset({"CUDAGraph", "CUDAPluggableAllocator", "ExternalStream", "MemPool", "graph", "make_graphed_callables"}),
    # Dtypes are mentioned in tables; a tensor of one of these cannot be made.
    "torch": frozenset(
        """
        ScriptFunction bits16 bits8 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu
        int1 int2 int3 int4 int5 int6 int7 per_channel_affine per_tensor_affine qint32 qint8 quint2x4 quint4x2 quint8 uint1
        uint2 uint3 uint4 uint5 uint6 uint7
        """.split()
    ),
}


class Placeholder(type):
    """The class of placeholders: classes that stand for something PyTorch has, and refuse to be called."""

    __stands_for__: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise StateError(missing(cls.__stands_for__))

    def __getattr__(cls, attribute: str) -> Any:
        # A class that derives from a placeholder lacks what its author forgot.
        if attribute.startswith("__") or "__stands_for__" not in cls.__dict__:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{attribute}'")
        return _value(f"{cls.__stands_for__}.{attribute}")

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __repr__(cls) -> str:
        return f"<{cls.__stands_for__}, not in flambeau>"


@functools.cache  # one object per name, so that it can be a key and compared
def _value(full: str) -> Any:
    if full in harmless.TABLE:
        return harmless.TABLE[full]
    owner, _, short = full.rpartition(".")
    return Placeholder(short, (), {"__stands_for__": full, "__module__": owner, "__doc__": missing(full)})


def is_absent(full: str) -> bool:
    """Whether a dotted name is, or is below, a module that stands for one of PyTorch's.

    Example:
        >>> from flambeau.compat import absent
        >>> absent.is_absent("torch.fx.node"), absent.is_absent("torch.npu")
        (True, False)
    """
    parts = full.split(".")
    return any(".".join(parts[:end]) in _MODULES for end in range(2, len(parts) + 1))


def module(full: str) -> types.ModuleType:
    """A module that stands for one of PyTorch's; see is_absent().

    Example:
        >>> from flambeau.compat import absent
        >>> absent.module("torch.onnx").is_in_onnx_export()
        False
    """
    made = types.ModuleType(full, missing(full))
    made.__dict__["__path__"] = []

    def attribute(short: str) -> Any:
        if short.startswith("__"):
            raise AttributeError(f"module '{full}' has no attribute '{short}'")
        value = made.__dict__[short] = _value(f"{full}.{short}")
        return value

    made.__dict__["__getattr__"] = attribute
    return made


def name(owner: str, short: str) -> Any:
    """The placeholder for a name of a module that is there otherwise; None if none is kept for it.

    Example:
        >>> from flambeau.compat import absent
        >>> absent.name("torch.jit", "load")
        <torch.jit.load, not in flambeau>
    """
    return _value(f"{owner}.{short}") if short in _NAMES.get(owner, ()) else None
