"""Parts of PyTorch that flambeau does not have, as modules that can be imported and fail where they are used.

Libraries import exporters, graph rewriters and process groups at their top, whether a script uses them or not. Such a
module hands out placeholder classes: they can be imported, subclassed and named in annotations; nothing is an
instance of
one, and calling one raises an error that names it.

Example:
    >>> from flambeau.compat import absent
    >>> Tracer = absent.module("torch.fx").Tracer
    >>> isinstance(3, Tracer)
    False
    >>> Tracer()
    Traceback (most recent call last):
        ...
    flambeau.errors.StateError: torch.fx.Tracer: not in flambeau 0.1.0; see the page "Differences from PyTorch"
    (docs/differences.md)
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from flambeau.compat import harmless
from flambeau.compat._message import missing
from flambeau.errors import StateError

__all__ = ["Placeholder", "is_absent", "module", "name", "placeholder"]

# These and everything below them. Modules that scripts probe with `try: import` are not listed: they stay missing.
_MODULES = frozenset(
    """
    torch.ao torch.classes torch.cuda.profiler torch.cuda.sparse torch.export torch.fx torch.masked.maskedtensor torch.mps torch.mtia
    torch.nested torch.numa torch.quasirandom torch._C._distributed_c10d torch._C._functorch torch._inductor torch._subclasses
    torch.autograd.profiler_legacy torch.distributed._composable torch.distributed.launcher
    torch.distributed.utils torch.jit._recursive torch.utils._sympy torch.utils.data.datapipes torch.utils.data.graph_settings
    torch.nn.intrinsic torch.nn.parallel._functions
    torch.nn.parallel.parallel_apply torch.nn.parallel.replicate torch.nn.parallel.scatter_gather
    torch.nn.qat torch.nn.quantized torch.onnx torch.package
    torch.quantization torch._custom_ops torch._dynamo torch._higher_order_ops
    torch._prims_common torch.backends.quantized torch.distributed.algorithms._comm_hooks
    torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook
    torch.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks
    torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks
    torch.distributed.autograd torch.distributed.checkpoint.format_utils
    torch.distributed.checkpoint.hf_storage torch.distributed.checkpoint.optimizer
    torch.distributed.checkpoint._consolidate_hf_safetensors torch.distributed.elastic torch.distributed.fsdp._common_utils
    torch.distributed.rpc torch.distributed.tensor.debug
    torch.utils.cpp_extension torch.utils.mobile_optimizer
    """.split()
)
# Missing names of existing modules.
_NAMES = {
    "torch.distributed.optim": frozenset({"DistributedOptimizer"}),
    "torch.distributed.nn": frozenset({"RemoteModule"}),
    "torch.distributed.pipelining": frozenset(
        """
        ScheduleDualPipeV
        """.split()
    ),
    "torch.distributed.tensor.experimental": frozenset({"register_sharding"}),
    "torch.distributed.tensor.placement_types": frozenset({"_StridedShard"}),
    "torch.distributed.checkpoint": frozenset(
        """
        _load_state_dict
        AsyncCheckpointerType BytesStorageMetadata ChunkStorageMetadata HuggingFaceStorageReader HuggingFaceStorageWriter LoadPlan
        LoadPlanner MetadataIndex ReadItem SavePlan SavePlanner StorageReader StorageWriter TensorStorageMetadata WriteItem
        """.split()
    ),
    "torch.jit": frozenset({"RecursiveScriptModule", "ScriptFunction", "TracerWarning", "load", "save"}),
    "torch.cuda": frozenset(
        """
        CUDAGraph CUDAPluggableAllocator ExternalStream MemPool cudart graph make_graphed_callables mem_get_info set_rng_state
        """.split()
    ),
    "torch.masked": frozenset({"MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"}),
    "torch._C": frozenset({"Graph", "Value"}),
    "torch._tensor": frozenset({"_rebuild_from_type_v2"}),
    "torch._utils": frozenset({"_rebuild_parameter", "_rebuild_tensor_v2"}),
    "torch.autograd": frozenset({"_disable_profiler"}),
    "torch.autograd.profiler": frozenset({"emit_nvtx"}),
    "torch.backends.cuda": frozenset({"SDPAParams", "can_use_flash_attention"}),
    "torch.compiler": frozenset({"load_compiled_function"}),
    "torch.nn.functional": frozenset({"ScalingType", "scaled_mm"}),
    "torch.nn.parallel": frozenset({"gather", "scatter"}),
    "torch.sparse": frozenset({"HalfTensor"}),
    "torch.utils.data": frozenset({"IterDataPipe", "MapDataPipe", "functional_datapipe"}),
    "torch.xpu": frozenset(
        """
        current_device device get_device_capability get_device_name get_device_properties get_rng_state get_rng_state_all
        manual_seed max_memory_allocated mem_get_info memory_allocated memory_reserved reset_peak_memory_stats set_device
        set_rng_state set_rng_state_all
        """.split()
    ),
    # Dtypes are mentioned in tables; a tensor with one of these cannot be created.
    "torch": frozenset(
        """
        Event PyTorchFileReader ScriptFunction Stream SymBool SymFloat SymInt
        _make_per_tensor_quantized_tensor bits16 bits8 float4_e2m1fn_x2
        int1 int2 int3 int4 int5 int6 int7 per_channel_affine per_tensor_affine qint32 qint8 while_loop
        quint2x4 quint4x2 quint8 uint1
        uint2 uint3 uint4 uint5 uint6 uint7
        """.split()
    ),
}


class Placeholder(type):
    """The class of placeholders: classes that stand in for something in PyTorch, and raise an error when called."""

    __stands_for__: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise StateError(missing(cls.__stands_for__))

    def __getattr__(cls, attribute: str) -> Any:
        # A class derived from a placeholder may lack what its author forgot.
        if attribute.startswith("__") or "__stands_for__" not in cls.__dict__:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{attribute}'")
        return _value(f"{cls.__stands_for__}.{attribute}")

    def __getitem__(cls, item: Any) -> Any:
        return cls

    # Without it, `x in placeholder` would iterate endlessly.
    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __repr__(cls) -> str:
        return f"<{cls.__stands_for__}, not in flambeau>"


@functools.lru_cache(65536)  # one object per name, so that it can be a key and compared
def _value(full: str) -> Any:
    if full in harmless.TABLE:
        return harmless.TABLE[full]
    owner, _, short = full.rpartition(".")
    return Placeholder(short, (), {"__stands_for__": full, "__module__": owner, "__doc__": missing(full)})


def is_absent(full: str) -> bool:
    """Whether a dotted name is, or is below, a module that replaces one of PyTorch's.

    Example:
        >>> from flambeau.compat import absent
        >>> absent.is_absent("torch.fx.node"), absent.is_absent("torch.npu")
        (True, False)
    """
    parts = full.split(".")
    return any(".".join(parts[:end]) in _MODULES for end in range(2, len(parts) + 1))


def module(full: str) -> types.ModuleType:
    """A module that replaces one of PyTorch's; see is_absent().

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
    return _value(f"{owner}.{short}") if short in _NAMES.get(owner, ()) or f"{owner}.{short}" in harmless.TABLE else None


def placeholder(full: str) -> Any:
    """The placeholder for a name that flambeau does not have.

    Example:
        >>> from flambeau.compat import absent
        >>> absent.placeholder("torch.jit.load")
        <torch.jit.load, not in flambeau>
    """
    return _value(full)
