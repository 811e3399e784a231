"""More of PyTorch's private names, for larger libraries: small functions, and the classes they compare with.

Like those of `private`, they exist under PyTorch's names only.
"""

from __future__ import annotations

import datetime
import importlib
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.autograd import grad_mode
from flambeau.compat import fetchers
from flambeau.compat.exceptions import ExceptionWrapper
from flambeau.errors import ArgumentError, DTypeError, StateError

__all__ = ["TABLE", "LATE"]


# ---- torch ---------------------------------------------------------------------------------------------------------------


def _assert_async(condition: Tensor, message: str = "") -> None:
    """Checks synchronously: nothing on the CPU runs later."""
    if not fb.is_nonzero(condition):
        raise StateError(f"_assert_async: {message or 'Expected Tensor with single nonzero value, but got zero'}")


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], str]) -> None:
    if not cond:
        raise error_type(message())


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Callable[[], str] | None = None) -> None:
    if not isinstance(cond, Tensor):
        raise TypeError(f"_check_tensor_all: cond must be a tensor, but got {type(cond)}")
    if cond.dtype != fb.bool:
        raise TypeError(f"_check_tensor_all: cond tensor must have dtype torch.bool, but got {cond.dtype}")
    if not bool(cond.all()):
        raise error_type("Expected cond to be True" if message is None else str(message()))


def _check_tensor_all(cond: Tensor, message: Callable[[], str] | None = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)


def _coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """The start of each row's entries, from their sorted row indices."""
    rows = fb.arange(size + 1, dtype=input.dtype)
    return fb.searchsorted(input.contiguous(), rows).to(fb.int32 if out_int32 else fb.int64)


def _csr_to_coo(crow: Tensor, col: Tensor, *, out_int32: bool = False, transpose: bool = False) -> Tensor:
    """Row and column indices of every entry, from the starts of the rows."""
    rows = fb.repeat_interleave(fb.arange(crow.numel() - 1), crow.diff().long())
    pair = (col.long(), rows) if transpose else (rows, col.long())
    return fb.stack(pair).to(fb.int32 if out_int32 else fb.int64)


def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices of int8 (the left one may be of uint8), in int32."""
    for name, x in (("self", input), ("mat2", mat2)):
        if x.dim() != 2:
            raise ArgumentError(f"_int_mm: Expected {name} to be of dimension 2 but got {x.dim()}")
        if x.dtype != fb.int8 and not (x is input and x.dtype == fb.uint8):
            raise DTypeError(f"_int_mm: Expected {name} dtype to be of type int8 but got {x.dtype}")
    if input.size(1) != mat2.size(0):
        raise ArgumentError(f"_int_mm: self.size(1) needs to match mat2.size(0) but got {input.size(1)} and {mat2.size(0)}")
    if out is not None and out.dtype != fb.int32:
        raise DTypeError(f"_int_mm: Expected result dtype to be of type kInt but got {out.dtype}")
    result = fb.mm(input.to(fb.int32), mat2.to(fb.int32))
    return result if out is None else out.resize_(result.shape).copy_(result)


def _validate_compressed(layout: Any) -> Callable[..., None]:
    def validate(starts: Tensor, plain: Tensor, values: Tensor, size: Any, check: Any = None) -> None:
        """Raises an error if these are not parts of a tensor with this layout."""
        fb.sparse_compressed_tensor(starts, plain, values, size, layout=layout)

    return validate


def _validate_sparse_compressed_tensor_args(
    starts: Tensor, plain: Tensor, values: Tensor, size: Any, layout: Any, check: Any = None
) -> None:
    fb.sparse_compressed_tensor(starts, plain, values, size, layout=layout)


def _validate_sparse_coo_tensor_args(indices: Tensor, values: Tensor, size: Any, is_coalesced: Any = None, check: Any = None) -> None:
    fb.sparse_coo_tensor(indices, values, size, is_coalesced=is_coalesced)


# ---- others --------------------------------------------------------------------------------------------------------------


def _transforms_active() -> bool:
    """Whether the caller runs inside vmap."""
    batching = sys.modules.get("flambeau.func._batching")
    return batching is not None and bool(batching.levels())


def _loops() -> Any:
    from flambeau.func._batching import Loops

    return Loops


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    from flambeau.nn.modules.module import _parse_to

    device, dtype, memory_format = _parse_to(*args, **kwargs)
    return None if device is None else fb.device(device), dtype, bool(kwargs.get("non_blocking", False)), memory_format


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return fb.randn(tuple(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    return value if dim == 0 else value.reshape(*value.shape[:-dim], -1).sum(-1)


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    with fb.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    with fb.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    if isinstance(device, int):
        return device
    where = None if device is None else fb.device(device)
    if where is not None and where.type == "cpu" and allow_cpu:
        return -1
    if where is None or where.type == "cpu" or where.index is None:
        raise ArgumentError(f"_get_device_index: expected a device of an accelerator with its number, got {device!r}")
    return where.index


def _data_iterators() -> Any:
    from flambeau.utils.data._utils import iterator

    return iterator


def _holder(name: str, **values: Any) -> types.ModuleType:
    """A module with these names."""
    made = types.ModuleType(name)
    made.__dict__.update(values)
    return made


TABLE: dict[str, dict[str, Any]] = {
    "torch": {
        "_assert_async": _assert_async,
        "_check_tensor_all": _check_tensor_all,
        "_check_tensor_all_with": _check_tensor_all_with,
        "_check_with": _check_with,
        "_convert_indices_from_coo_to_csr": _coo_to_csr,
        "_convert_indices_from_csr_to_coo": _csr_to_coo,
        "_int_mm": _int_mm,
        "_validate_sparse_coo_tensor_args": _validate_sparse_coo_tensor_args,
        "_validate_sparse_compressed_tensor_args": _validate_sparse_compressed_tensor_args,
        **{
            f"_validate_sparse_{name}_tensor_args": _validate_compressed(getattr(fb, f"sparse_{name}"))
            for name in ("bsc", "bsr", "csc", "csr")
        },
        "legacy_contiguous_format": fb.contiguous_format,
        "sym_float": float,
        "sym_int": int,
        "sym_ite": lambda b, t, f: t if b else f,
        "sym_max": max,
        "sym_min": min,
        "sym_not": lambda x: not x,
        "sym_sum": sum,
    },
    "torch._C": {
        "_LinAlgError": fb.errors.LinAlgError,
        "_TensorMeta": type(Tensor),
        "_autograd": _holder("torch._C._autograd", SavedTensor=fb._C.SavedTensor),
        "_are_functorch_transforms_active": _transforms_active,
        "_get_accelerator": lambda check=False: fb.device("cpu"),
        "_get_default_device": lambda: str(fb.get_default_device()),
        "_debug_only_are_vmap_fallback_warnings_enabled": lambda: _loops().warn,
        "_debug_only_display_vmap_fallback_warnings": lambda on: setattr(_loops(), "warn", bool(on)),
        "_nn": _holder("torch._C._nn", _parse_to=_parse_to),
        "_set_math_sdp_allow_fp16_bf16_reduction": lambda on: None,
    },
    "torch.autograd": {
        "SavedTensor": fb._C.SavedTensor,
        "_force_original_view_tracking": grad_mode._force_original_view_tracking,
        "is_multithreading_enabled": grad_mode._is_multithreading_enabled,
        "is_view_replay_enabled": grad_mode._is_view_replay_enabled,
    },
    "torch._utils": {
        "ExceptionWrapper": ExceptionWrapper,
        "_element_size": lambda dtype: dtype.itemsize,
        "_get_device_index": _get_device_index,
    },
    "torch.distributed": {
        "_get_default_group": lambda: fb.distributed._group.member(None, "_get_default_group"),
        "_object_to_tensor": lambda obj, *_: ((message := fb.distributed._objects._pickled(obj)), fb.tensor([message.numel()])),
        "_tensor_to_object": lambda message, size, *_: fb.distributed._objects._unpickled(message[: int(size)]),
        "_rank_not_in_group": lambda group: group is fb.distributed.GroupMember.NON_GROUP_MEMBER,
        "constants": _holder("torch.distributed.constants", default_pg_timeout=datetime.timedelta(minutes=30)),
    },
    "torch.distributions.utils": {"_standard_normal": _standard_normal, "_sum_rightmost": _sum_rightmost},
    "torch.nn.attention.flex_attention": {"_DEFAULT_SPARSE_BLOCK_SIZE": 128},
    "torch.nn.init": {"_no_grad_normal_": _no_grad_normal_, "_no_grad_uniform_": _no_grad_uniform_},
    "torch.serialization": {"DEFAULT_PROTOCOL": 2, "FILE_LIKE": Any, "MAP_LOCATION": Any},
    "torch.utils.data._utils.collate": {"np_str_obj_array_pattern": re.compile(r"[SaUO]")},
    "torch.utils.data._utils": {"HAS_NUMPY": True, "MP_STATUS_CHECK_INTERVAL": 5.0, "python_exit_status": False},
    "torch.utils.data._utils.fetch": {name: getattr(fetchers, name) for name in fetchers.__all__ if name != "_DatasetKind"},
    "torch.utils.data.dataloader": {"_DatasetKind": fetchers._DatasetKind},
}
# Created on demand, because they import a part of the library.
LATE: dict[str, dict[str, Callable[[], Any]]] = {
    "torch": {
        "ScriptModule": lambda: fb.jit.ScriptModule,
        "Storage": lambda: getattr(fb, fb.storage._STORAGE_NAMES[fb.get_default_dtype()]),
        "dsmm": lambda: fb.sparse.mm,
        "torch": lambda: sys.modules["torch"],
    },
    "torch.nn.functional": {"grad": lambda: importlib.import_module("flambeau.nn.grad")},
    "torch.utils.data._utils.worker": {"_worker_info": lambda: fb.utils.data.get_worker_info()},
    "torch.utils.data.dataloader": {
        "_BaseDataLoaderIter": lambda: _data_iterators().Epoch,
        "_MultiProcessingDataLoaderIter": lambda: _data_iterators().PooledEpoch,
        "_SingleProcessDataLoaderIter": lambda: _data_iterators().LocalEpoch,
        "_utils": lambda: fb.utils.data._utils,
    },
}
