"""Private names of PyTorch that libraries use all the same, by the module they are found in.

They exist under PyTorch's names only: `torch._assert` is here, `flambeau._assert` is not.

Example:
    >>> with fb.compat.torch() as torch:
    ...     torch._assert(True, "never seen")
"""

from __future__ import annotations

import contextlib
import copy
import enum
import importlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as fb
from flambeau import quantization
from flambeau._registry import private
from flambeau._tensor import methods
from flambeau.compat import foreach, inner_ops, internals

__all__ = ["name"]


# ---- torch ---------------------------------------------------------------------------------------------------------------


def _assert(condition: Any, message: str) -> None:
    assert condition, message


def _check_with(error: type[Exception], op: str) -> Callable[..., None]:
    def check(cond: bool, message: Callable[[], Any] | None = None) -> None:
        if not isinstance(cond, bool):
            raise TypeError(f"{op}: cond must be a bool, but got {type(cond)}")
        if not cond:
            raise error(f"{op}: {'Expected cond to be True' if message is None else message()}")

    check.__name__ = op
    return check


def _shape_as_tensor(input: fb.Tensor) -> fb.Tensor:
    return fb.tensor(list(input.shape), dtype=fb.int64)


def _ops() -> Any:
    return importlib.import_module("flambeau.compat.library").ops


class TensorType:
    """TorchScript's type of tensors in annotations; there is one, returned by get()."""

    _one: Any = None

    @classmethod
    def get(cls) -> Any:
        """The type."""
        if cls._one is None:
            cls._one = cls()
        return cls._one

    def __repr__(self) -> str:
        return "Tensor"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TensorType)

    def __hash__(self) -> int:
        return hash("Tensor")


# ---- torch._C ------------------------------------------------------------------------------------------------------------


class DispatchKey(enum.Enum):
    """Names of PyTorch's backends and layers; only those of autocast have an effect here."""

    CPU, CUDA, Meta, Autograd, AutogradCPU, AutocastCPU, AutocastCUDA, AutocastXPU, CompositeImplicitAutograd, AutogradCUDA = range(10)


class DispatchKeySet:
    """A set of keys, joined with `|`."""

    def __init__(self, *keys: DispatchKey) -> None:
        self.keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self.keys | other.keys))

    def has(self, key: DispatchKey) -> bool:
        """Whether a key is in the set."""
        return key in self.keys


@contextlib.contextmanager
def _exclude_keys(keys: DispatchKeySet) -> Iterator[None]:
    with fb.autocast("cpu", enabled=False) if keys.has(DispatchKey.AutocastCPU) else contextlib.nullcontext():
        yield


def _switch(value: Any = None) -> bool:
    """Sets a switch of PyTorch's compiler, which is always off; returns the previous value."""
    return False


# ---- others --------------------------------------------------------------------------------------------------------------


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def _identity(fn: Any) -> Any:
    return fn


def _activation(activation: str) -> Any:
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(fb.nn.functional, activation)


def _get_clones(module: Any, N: int) -> Any:
    from flambeau.nn.modules.container import ModuleList

    return ModuleList(copy.deepcopy(module) for _ in range(N))


def _addindent(s_: str, numSpaces: int) -> str:
    """The text with every line but the first moved to the right, for a __repr__."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def _trunc_normal(tensor: fb.Tensor, mean: float, std: float, a: float, b: float, generator: Any = None) -> fb.Tensor:
    return fb.nn.init.trunc_normal_(tensor, mean, std, a, b, generator)


def _is_zipfile(f: Any) -> bool:
    start = f.tell()
    magic = f.read(4)
    f.seek(start)
    return magic == b"PK\x03\x04"


def _neither(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Whether to update parameters by foreach or by fused ops: neither, the default is a loop over them."""
    return False, False


def _tqdm() -> Any:
    return importlib.import_module("tqdm").tqdm


class _Reduction:
    """Reductions as numbers, as PyTorch's losses pass them."""

    @staticmethod
    def get_enum(reduction: str) -> int:
        """0, 1 or 2 for "none", "mean" and "sum"."""
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(f"{reduction!r} is not a valid value for reduction; expected 'none', 'mean' or 'sum'")
        return ("none", "mean", "sum").index(reduction)


def _value_of(x: Any) -> Any:
    return x.item() if isinstance(x, fb.Tensor) else x


_TABLE: dict[str, dict[str, Any]] = {
    "torch": {
        "Future": importlib.import_module("flambeau.futures").Future,
        "TensorType": TensorType,
        "_assert": _assert,
        "_check": _check_with(RuntimeError, "_check"),
        "_check_index": _check_with(IndexError, "_check_index"),
        "_check_not_implemented": _check_with(NotImplementedError, "_check_not_implemented"),
        "_check_type": _check_with(TypeError, "_check_type"),
        "_check_value": _check_with(ValueError, "_check_value"),
        "_dirichlet_grad": private.dirichlet_grad,
        "_log_softmax_backward_data": inner_ops.log_softmax_backward,
        "_segment_reduce": fb.segment_reduce,
        "_weight_int8pack_mm": quantization._weight_int8pack_mm,
        "_sample_dirichlet": private.sample_dirichlet,
        "_shape_as_tensor": _shape_as_tensor,
        "_softmax_backward_data": inner_ops.softmax_backward,
        "_standard_gamma": private.standard_gamma,
        "_standard_gamma_grad": private.standard_gamma_grad,
        "_storage_classes": {fb.UntypedStorage, fb.TypedStorage, *(getattr(fb, name) for name in fb.storage._STORAGE_NAMES.values())},
        "_tensor_classes": {getattr(fb, name) for name in methods._TYPE_NAMES.values() if hasattr(fb, name)},
        **{name: op for name, op in inner_ops.OPS.items() if name.startswith("_")},
        "expand_copy": lambda input, size, *, implicit=False: input.expand(size).clone(),
    },
    "torch._C": {
        "has_lapack": True,
        "has_spectral": True,
        "DispatchKey": DispatchKey,
        "DispatchKeySet": DispatchKeySet,
        "TensorBase": fb.Tensor,
        "_ExcludeDispatchKeyGuard": _exclude_keys,
        "_TensorBase": fb.Tensor,
        "_get_privateuse1_backend_name": lambda: "privateuseone",
        "_get_tracing_state": lambda: None,
        "_is_tracing": lambda: False,
        "_log_api_usage_once": lambda event: None,
        "_log_api_usage_metadata": lambda event, metadata: None,
    },
    "torch.hub": {
        "HASH_REGEX": re.compile(r"-([a-f0-9]*)\."),
        "_get_torch_home": _get_torch_home,
        "_hub_dir": None,
        "urlparse": importlib.import_module("urllib.parse").urlparse,
    },
    "torch.jit": {
        "_overload": _identity,
        "_overload_method": _identity,
        "_script_if_tracing": _identity,
        "_unwrap_optional": lambda x: x,
    },
    "torch.nn": {"_reduction": _Reduction},
    "torch.nn.functional": {"_Reduction": _Reduction},
    "torch.nn.init": {"_no_grad_trunc_normal_": _trunc_normal},
    "torch.nn.modules.module": {"_addindent": _addindent},
    "torch.nn.modules.normalization": {"_shape_t": int | list[int] | fb.Size},
    "torch.nn.modules.transformer": {"_get_activation_fn": _activation, "_get_clones": _get_clones},
    "torch.optim.optimizer": {
        "ParamsT": Any,
        "_default_to_fused_or_foreach": _neither,
        "_get_capturable_supported_devices": lambda supports_xla=True: [],
        "_get_value": _value_of,
        "_params_t": Any,
    },
    "torch.serialization": {"_is_zipfile": _is_zipfile},
    "torch.storage": {"_dtype_to_storage_type_map": lambda: dict(fb.storage._STORAGE_NAMES)},
}
# Created on demand: they import something, or need an optional package.
_LATE: dict[str, dict[str, Callable[[], Any]]] = {
    "torch": {"ops": _ops},
    "torch._C": {
        "DisableTorchFunction": lambda: fb.overrides.DisableTorchFunction,
        "DisableTorchFunctionSubclass": lambda: fb.overrides.DisableTorchFunctionSubclass,
    },
    "torch.hub": {"tqdm": _tqdm},
    "torch.nn.modules.module": {
        "_EXTRA_STATE_KEY_SUFFIX": lambda: importlib.import_module("flambeau.nn.modules._state").EXTRA_STATE,
        "_IncompatibleKeys": lambda: importlib.import_module("flambeau.nn.modules._state")._IncompatibleKeys,
    },
    "torch.utils.model_zoo": {"tqdm": _tqdm},
}


def name(owner: str, short: str) -> Any:
    """A name of one of PyTorch's modules; None if none is kept for it.

    Example:
        >>> from flambeau.compat import private
        >>> private.name("torch.jit", "_overload") is not None, private.name("torch", "_no_such_name") is None
        (True, True)
    """
    late = _LATE.get(owner, {}).get(short) or internals.LATE.get(owner, {}).get(short)
    if late is not None:
        return late()
    if owner == "torch" and short.startswith("_foreach_"):
        return foreach.find(short)
    if owner == "torch._C" and short.startswith("_jit_"):
        return _switch
    return _TABLE.get(owner, {}).get(short, internals.TABLE.get(owner, {}).get(short))
