"""The meta device: tensors with a shape and a dtype, and no values.

An op on such tensors runs on the CPU on zeros of the same shapes, each of which is one zero in memory, and what comes
out is again without values. So every op gives the right shape, at the price of computing; changing such a tensor in
place does nothing; whatever needs values is an error. Gradients do not flow through them.

Example:
    >>> with fb.device("meta"):
    ...     layer = fb.nn.Linear(100_000, 100_000)
    >>> layer.weight.device, layer(fb.empty(2, 100_000, device="meta")).shape
    (device(type='meta'), flambeau.Size([2, 100000]))
"""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._tensor.layouts import channels_last, channels_last_3d, contiguous_format, preserve_format
from flambeau.errors import StateError

_DEVICE = _C.device("meta")
_FORMATS = {f.code: f for f in (contiguous_format, preserve_format, channels_last, channels_last_3d)}
# Their shapes depend on values.
_BY_VALUE = frozenset({"argwhere", "bincount", "masked_select", "nonzero", "unique", "unique_consecutive", "histc"})
# Made without computing: {op: the argument that is the shape}.
_BY_SHAPE = {"empty": "size", "zeros": "size", "ones": "size", "full": "size", "rand": "size", "randn": "size"}


def is_meta(device: Any) -> bool:
    """Whether a device, or the default one if it is None, is the meta device."""
    where = _C.get_default_device() if device is None else _C.device(device)
    return where.type == "meta"


def like(value: Any) -> Any:
    """The same without values; containers of tensors keep their class."""
    if isinstance(value, Tensor):
        if value.device.type == "meta":
            return value
        made = _C.meta(tuple(value.shape), value.dtype)
        return made.requires_grad_() if value.requires_grad and value.is_leaf else made
    if isinstance(value, (tuple, list)):
        items = [like(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def moved(x: Tensor, dtype: Any, device: Any) -> Tensor:
    """What x.to(device, dtype) gives when one of the devices is the meta device."""
    if _C.device(device).type != "meta":
        raise _lacks_values("to")
    return x if x.is_meta and x.dtype == dtype else _C.meta(tuple(x.shape), dtype)


def _zeros(value: Any) -> Any:
    """The same with zeros for values; small ones can be written to, as batch norm does with its statistics."""
    if isinstance(value, Tensor) and value.device.type == "meta":
        if value.numel() <= 1 << 16:
            return _C.namespaces[""]["zeros"](tuple(value.shape), dtype=value.dtype, device="cpu")
        return _C.namespaces[""]["zeros"]((), dtype=value.dtype, device="cpu").expand(tuple(value.shape))
    if type(value) in (tuple, list):
        return type(value)([_zeros(item) for item in value])
    return value


def _function(name: str) -> Any:
    space, _, short = name.rpartition(".")
    found = _C.namespaces.get(space, {}).get(short)
    return getattr(Tensor, short) if found is None else found


def _has_meta(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_meta(item) for item in value)
    return isinstance(value, Tensor) and value.device.type == "meta"


def _lacks_values(op: str) -> StateError:
    return StateError(f"{op}: Cannot copy out of meta tensor; no data! It has a shape and a dtype only: load it, or use to_empty()")


def dispatch(name: str, arguments: dict[str, Any]) -> Any:
    """Answers an op that met a tensor without values, or is to make one.

    Args:
        name: the op's name, with `_` at its end for the form that changes its input.
        arguments: {parameter: value}.
    """
    first = next(iter(arguments.values()), None)
    if name in _BY_VALUE:
        raise StateError(f"{name}: the shape of the result depends on values, and a tensor on the meta device has none")
    if name in ("getitem", "setitem_"):
        return _index(name, **arguments)
    if name.endswith("_") and not name.endswith("__"):
        if not _has_meta(first):
            raise _lacks_values(name)
        return first  # nothing to change
    target = arguments.pop("out", None)
    if target is not None:
        return target
    if name in _BY_SHAPE and is_meta(arguments.get("device")) and not _has_meta(list(arguments.values())):
        dtype = arguments.get("dtype") or _dtype_of_fill(arguments.get("fill_value"))
        return _C.meta(tuple(arguments[_BY_SHAPE[name]]), dtype).requires_grad_(bool(arguments.get("requires_grad")))
    wanted = arguments.get("device")
    if "device" in arguments:
        arguments["device"] = _C.device("cpu")
    if isinstance(first, (bool, int, float, complex)) and _has_meta(arguments.get("other")):
        arguments["input"] = _C.tensor_from_data(first, None)  # an operator with the number on the left
    if isinstance(arguments.get("memory_format"), int):  # the core knows it by its code
        arguments["memory_format"] = _FORMATS[arguments["memory_format"]]
    with _C.device("cpu"):
        zeros = {key: _zeros(value) for key, value in arguments.items()}
        result = _function(name)(*zeros.values()) if name == "einsum" else _function(name)(**zeros)
    if wanted is not None and _C.device(wanted).type != "meta":
        if not name.startswith(("empty", "zeros", "ones", "full", "rand", "new_")):
            raise _lacks_values(name)
        return result  # empty_like(x, device="cpu") takes the shape only
    if not _has_tensor(result):
        raise StateError(f"{name}: the result depends on values, and a tensor on the meta device has none")
    return like(result)


def _has_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or isinstance(value, (tuple, list)) and any(map(_has_tensor, value))


def _dtype_of_fill(value: Any) -> Any:
    if value is None or isinstance(value, float):
        return _C.get_default_dtype()
    return _C.tensor_from_data(value, None).dtype


def _index(name: str, input: Any, index: Any, value: Any = None) -> Any:
    if name == "setitem_":
        if not _has_meta(input):
            raise _lacks_values("setitem")
        return input
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, Tensor) and part.dtype == _C.bool and _has_meta(part) for part in parts):
        raise StateError("getitem: how many elements a mask chooses depends on values, and one on the meta device has none")
    return like(_zeros(input)[tuple(_zeros(part) for part in parts)])
