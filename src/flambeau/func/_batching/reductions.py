"""Rules for ops along dimensions: reductions, scans, sorting. The dimensions of an example are shifted by one."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau._C import Tensor
from flambeau.func._batching import Frame, call, decomposition, named_rule, rule


def _prepared(frame: Frame, x: Tensor) -> tuple[Tensor, bool]:
    """The physical tensor, with a dimension to reduce even for 0-d examples, and whether that was added."""
    physical = frame.physical(x)
    return (physical.unsqueeze(1), True) if physical.ndim == 1 else (physical, False)


def _finished(frame: Frame, result: Any, added: bool) -> Any:
    """0-d examples give 0-d results."""
    if not added:
        return result
    if isinstance(result, Tensor):
        return result.reshape(frame.size)
    return type(result)([part.reshape(frame.size) for part in result])


def _kept(result: Any, rank: int, keepdim: bool) -> Any:
    """A full reduction with keepdim has `rank` ones."""
    if not keepdim:
        return result
    shape = (result.shape[0], *(1,) * rank)
    return result.reshape(shape)


@named_rule(
    "all", "amax", "amin", "any", "linalg.vector_norm", "logsumexp", "mean", "nansum", "std", "std_mean", "sum", "var", "var_mean"
)
def over_dims(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Reductions over several dimensions, or all."""
    first, *_ = arguments
    x, added = _prepared(frame, arguments[first])
    new = {**arguments, first: x}
    if "unbiased" in new:
        new["correction"] = int(new.pop("unbiased"))
    rank = arguments[first].ndim
    dims = new.get("dim")
    if dims is None or dims == ():
        new["dim"] = tuple(range(1, x.ndim))
    else:
        new["dim"] = frame.dims(dims, rank)
    return _finished(frame, call(name, new), added)


@rule("count_nonzero")
def count_nonzero(frame: Frame, arguments: dict[str, Any]) -> Any:
    """The number of elements that are not zero."""
    x, added = _prepared(frame, arguments["input"])
    dims = arguments.get("dim")
    dims = tuple(range(1, x.ndim)) if dims is None or dims == () else frame.dims(dims, arguments["input"].ndim)
    return _finished(frame, fb.count_nonzero(x, dims), added)


@rule("norm")
def norm(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Norms of vectors and matrices."""
    x, added = _prepared(frame, arguments["input"])
    dims = arguments.get("dim")
    dims = tuple(range(1, x.ndim)) if dims is None else frame.dims(dims, arguments["input"].ndim)
    keepdim, dtype = arguments.get("keepdim", False), arguments.get("dtype")
    return _finished(frame, fb.norm(x, arguments["p"], dims, keepdim, dtype=dtype), added)


@named_rule("argmax", "argmin", "median", "nanmedian", "prod")
def over_one_dim(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Reductions over one dimension or, without dim, over the flattened example."""
    x, added = _prepared(frame, arguments["input"])
    rank = arguments["input"].ndim
    rest = {key: value for key, value in arguments.items() if key not in ("input", "dim", "keepdim")}
    keepdim = arguments.get("keepdim", False)
    if arguments.get("dim") is not None:
        full = {"input": x, "dim": frame.dim(arguments["dim"], rank), "keepdim": keepdim, **rest}
        return _finished(frame, call(name, full), added)
    result = call(name, {"input": x.flatten(1), "dim": 1, **rest})
    return _kept(result if isinstance(result, Tensor) else result[0], rank, keepdim)


@named_rule("max", "min")
def extreme(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Three ops under one name: of two tensors, over a dimension, over everything."""
    x = arguments["input"]
    if "other" in arguments:
        return frame.peel((fb.maximum if name == "max" else fb.minimum)(x, arguments["other"]))
    physical, added = _prepared(frame, x)
    if "dim" in arguments:
        dim = frame.dim(arguments["dim"], x.ndim)
        return _finished(frame, call(name, {"input": physical, "dim": dim, "keepdim": arguments["keepdim"]}), added)
    return (fb.amax if name == "max" else fb.amin)(physical, tuple(range(1, physical.ndim)))


@rule("aminmax")
def aminmax(frame: Frame, arguments: dict[str, Any]) -> Any:
    """Smallest and largest."""
    x, added = _prepared(frame, arguments["input"])
    rank, dim, keepdim = arguments["input"].ndim, arguments["dim"], arguments["keepdim"]
    if dim is not None:
        return _finished(frame, fb.aminmax(x, dim=frame.dim(dim, rank), keepdim=keepdim), added)
    result: Any = fb.aminmax(x.flatten(1), dim=1)
    return type(result)([_kept(part, rank, keepdim) for part in result])


@named_rule(
    "argsort", "cummax", "cummin", "cumprod", "cumsum", "kthvalue", "log_softmax", "logcumsumexp", "mode", "softmax", "sort", "topk"
)
def along_dim(frame: Frame, name: str, arguments: dict[str, Any]) -> Any:
    """Ops along one dimension."""
    x, added = _prepared(frame, arguments["input"])
    dim = frame.dim(arguments["dim"], arguments["input"].ndim)
    return _finished(frame, call(name, {**arguments, "input": x, "dim": dim}), added)


@decomposition("msort")
def msort(input):
    """Sorts along the first dimension."""
    return fb.sort(input, 0).values


@decomposition("trace")
def trace(input):
    """The sum of the diagonal."""
    return input.diagonal().sum(-1)
