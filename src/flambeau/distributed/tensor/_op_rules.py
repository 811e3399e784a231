"""The rules of ops on DTensors; see Note [Labels of dimensions] in _rules.py."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import _C, Tensor
from flambeau.distributed.tensor._dtensor import DTensor, make
from flambeau.distributed.tensor._redistribute import local_part, redistribute_local
from flambeau.distributed.tensor._rules import (
    Labels,
    Plan,
    as_dtensors,
    call,
    dims_of,
    flat_tensors,
    own,
    positions,
    replaced,
    rule,
    run,
    without,
    wrap_dim,
)  # fmt: skip
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from flambeau.errors import ArgumentError, DTypeError

_ALIKE = "zeros_like ones_like empty_like full_like clone contiguous where masked_fill copy_ fill_ zero_ _to_device bitwise_not".split()
# The operands in which ops are linear. For a product, one factor at a time.
_LINEAR = {
    "neg": ["input"], "clone": ["input"], "contiguous": ["input"], "_convert": ["input"], "zeros_like": ["input"],
    "add": ["input", "other"], "sub": ["input", "other"], "mul": ["input"], "div": ["input"], "true_divide": ["input"],
    "zero_": ["input"],
}  # fmt: skip


# ---- element by element ------------------------------------------------------------------------------------------------


def _broadcast(arguments: dict[str, Any]) -> tuple[dict[str, Labels], Labels]:
    """Operands aligned at their last dimensions; an expanded dimension has no axis."""
    tensors = flat_tensors(arguments)
    rank = max(t.ndim for t in tensors.values())
    sizes = fb.broadcast_shapes(*[tuple(t.shape) for t in tensors.values()])
    labels = {}
    for key, t in tensors.items():
        start = rank - t.ndim
        labels[key] = tuple(f"d{start + d}" if t.shape[d] == sizes[start + d] else None for d in range(t.ndim))
    return labels, tuple(positions(rank))


def _pointwise(name: str) -> Any:
    linear = frozenset(_LINEAR.get(name, ()))

    def plan(arguments: dict[str, Any]) -> Plan:
        labels, out = _broadcast(arguments)
        active = linear
        # A number added to each term would be added several times.
        if name in ("add", "sub") and not all(isinstance(arguments.get(k), Tensor) for k in linear):
            active = frozenset()
        if name == "_convert" and not _is_float(arguments.get("dtype")):
            active = frozenset()
        return Plan(labels, [out], active)

    return plan


def _is_float(dtype: Any) -> bool:
    return dtype is None or dtype.is_floating_point


def _elementwise() -> list[str]:
    """Names of the ops with the elementwise flag."""
    flag = _C.op_flags["ELEMENTWISE"]
    return [name for name, (overloads, *_) in _C.registry().items() if any(flags & flag for _, flags, _ in overloads)]


for _name in {*_elementwise(), *_ALIKE}:
    rule(_name)(_pointwise(_name))


# ---- reductions --------------------------------------------------------------------------------------------------------


def _reduction(reduce_op: str, even: bool = False, linear: bool = False) -> Any:
    def plan(arguments: dict[str, Any]) -> Plan:
        t = arguments["input"]
        if reduce_op not in ("sum", "avg") and t.requires_grad and fb.is_grad_enabled():
            return _over_whole_dimensions(arguments)  # the gradient goes to one process's element only
        labels = tuple(positions(t.ndim))
        out = without(labels, dims_of(arguments.get("dim"), t.ndim), bool(arguments.get("keepdim")))
        return Plan({"input": labels}, [out], frozenset(["input"] if linear else ()), reduce_op, even)

    return plan


rule("sum")(_reduction("sum", linear=True))
rule("mean")(_reduction("avg", even=True, linear=True))
rule("prod")(_reduction("product"))
rule("amax")(_reduction("max", even=True))
rule("amin")(_reduction("min", even=True))


def _over_whole_dimensions(arguments: dict[str, Any]) -> Plan:
    """Ops that need the dimensions they reduce over whole, and return results with or without them."""
    t = arguments["input"]
    blocked = dims_of(arguments.get("dim"), t.ndim)
    labels = tuple(None if d in blocked else f"d{d}" for d in range(t.ndim))
    return Plan({"input": labels}, [without(labels, blocked, bool(arguments.get("keepdim")))])


rule(*"argmax argmin max min median mode logsumexp var std all any std_mean var_mean nanmean nansum count_nonzero".split())(
    _over_whole_dimensions
)


@rule(*"softmax log_softmax cumsum cumprod logcumsumexp sort argsort topk cummax cummin flip roll renorm".split())
def _along(arguments: dict[str, Any]) -> Plan:
    """Ops that keep the rank and need dimensions whole."""
    t = arguments["input"]
    blocked = dims_of(arguments["dims"] if "dims" in arguments else arguments.get("dim"), t.ndim)
    labels = tuple(None if d in blocked else f"d{d}" for d in range(t.ndim))
    return Plan({"input": labels}, [labels])


@rule("tril", "triu")
def _triangle(arguments: dict[str, Any]) -> Plan:
    t = arguments["input"]
    labels = (*positions(t.ndim - 2), None, None)
    return Plan({"input": labels}, [labels])


@rule("_nn.row_norm")
def _row_norm(arguments: dict[str, Any]) -> Plan:
    t, dims = arguments["input"], arguments["dims"]
    labels = (*positions(t.ndim - dims), *[None] * dims)
    inputs: dict[str, Labels] = {"input": labels}
    for key in ("weight", "bias"):
        if arguments.get(key) is not None:
            inputs[key] = (None,) * arguments[key].ndim
    return Plan(inputs, [labels])


@own("linalg.vector_norm", "norm")
def _norm(name: str, arguments: dict[str, Any]) -> Any:
    """Norms of all elements from the norms of the parts; others need their dimensions whole."""
    t = arguments["x" if "x" in arguments else "input"]
    order = arguments.get("ord", arguments.get("p", 2))
    order = 2.0 if order in (None, "fro") else order
    parts_only = arguments.get("dim") is None and all(not isinstance(p, Partial) for p in t._placements)
    if not parts_only or not isinstance(order, (int, float)) or order <= 0 or arguments.get("keepdim"):
        key = "x" if "x" in arguments else "input"
        inner = run(name, arguments, Plan({key: (None,) * t.ndim}, [()])) if arguments.get("dim") is None else None
        if inner is None:
            raise DTypeError(f"{name}: with dim= is not available for DTensors; use .full_tensor() first")
        return inner
    local = t._local if t._local.numel() else t._local.new_zeros(1)
    own_norm = fb.linalg.vector_norm(local, order)
    cut = [isinstance(p, Shard) for p in t._placements]
    if not any(cut):
        return make(own_norm, t._mesh, [Replicate()] * t._mesh.ndim, ())
    if math.isinf(order):
        return make(own_norm, t._mesh, [Partial("max") if c else Replicate() for c in cut], ())
    power = make(own_norm**order, t._mesh, [Partial() if c else Replicate() for c in cut], ())
    return power ** (1.0 / order)


# ---- products ----------------------------------------------------------------------------------------------------------


@rule("matmul", "mm", "bmm", "mv", "dot")
def _matmul(arguments: dict[str, Any]) -> Plan:
    keys = list(flat_tensors(arguments))
    a, b = (arguments[key] for key in keys)
    rank = max(a.ndim, b.ndim, 2)
    sizes = fb.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))

    def batch(t: Tensor) -> Labels:
        start = rank - t.ndim
        return tuple(f"b{start + d}" if t.shape[d] == sizes[start + d] else None for d in range(t.ndim - 2))

    left: Labels = ("k",) if a.ndim == 1 else (*batch(a), "m", "k")
    right: Labels = ("k",) if b.ndim == 1 else (*batch(b), "k", "n")
    out = (*[f"b{d}" for d in range(rank - 2)], *["m"] * (a.ndim > 1), *["n"] * (b.ndim > 1))
    return Plan({keys[0]: left, keys[1]: right}, [out])


@own("_nn.linear")
def _linear(name: str, arguments: dict[str, Any]) -> Any:
    """A product and a sum; if the product is a sum over processes, one of them adds the bias."""
    t, bias = arguments["input"], arguments["bias"]
    batch = positions(t.ndim - 1, "b")
    labels: dict[str, Labels] = {"input": (*batch, "k"), "weight": ("n", "k")}
    plan = Plan(labels, [(*batch, "n")])
    if bias is None:
        return run(name, arguments, plan)
    tensors = as_dtensors(name, flat_tensors(arguments))
    summed = any(
        p == Shard(t.ndim - 1) or w == Shard(1)
        for p, w in zip(tensors["input"]._placements, tensors["weight"]._placements, strict=True)
    )
    if not summed:
        return run(name, arguments, plan._replace(inputs=labels | {"bias": ("n",)}))
    out = run(name, arguments | {"bias": None}, plan)
    own_bias = tensors["bias"]
    wanted = [o if o.is_partial() else p for o, p in zip(out._placements, own_bias._placements, strict=True)]
    return out + own_bias.redistribute(placements=wanted)


@own("addmm", "baddbmm")
def _addmm(name: str, arguments: dict[str, Any]) -> Any:
    values = list(arguments.values())
    beta, alpha = arguments.get("beta", 1), arguments.get("alpha", 1)
    product = fb.matmul(values[1], values[2])
    product = product if alpha == 1 else product * alpha
    return values[0] * beta + product if beta != 1 else values[0] + product


# ---- shapes ------------------------------------------------------------------------------------------------------------


@rule("permute")
def _permute(arguments: dict[str, Any]) -> Plan:
    t = arguments["input"]
    labels = positions(t.ndim)
    return _view_plan(labels, tuple(labels[wrap_dim(d, t.ndim)] for d in arguments["dims"]))


def _view_plan(labels: Any, out: Labels, **options: Any) -> Plan:
    return Plan({"input": tuple(labels)}, [out], frozenset(["input"]), **options)


@rule("t")
def _t(arguments: dict[str, Any]) -> Plan:
    labels = positions(arguments["input"].ndim)
    return _view_plan(labels, tuple(labels[::-1]))


@rule("transpose", "swapaxes", "swapdims")
def _transpose(arguments: dict[str, Any]) -> Plan:
    t, *dims = list(arguments.values())[:3]
    a, b = (wrap_dim(d, t.ndim) for d in dims)
    labels = positions(t.ndim)
    out = labels.copy()
    if out:
        out[a], out[b] = labels[b], labels[a]
    return _view_plan(labels, tuple(out))


@rule("unsqueeze")
def _unsqueeze(arguments: dict[str, Any]) -> Plan:
    t = arguments["input"]
    labels = positions(t.ndim)
    dim = wrap_dim(arguments["dim"], t.ndim + 1)
    return _view_plan(labels, (*labels[:dim], None, *labels[dim:]))


@rule("squeeze")
def _squeeze(arguments: dict[str, Any]) -> Plan:
    t = arguments["input"]
    gone = {d for d in dims_of(arguments.get("dim"), t.ndim) if t.shape[d] == 1}
    labels = tuple(None if t.shape[d] == 1 else f"d{d}" for d in range(t.ndim))

    def local(called: dict[str, Any], outputs: Any, mesh: Any) -> dict[str, Any]:
        return called | {"dim": sorted(gone)}  # a part may have size 1 where the whole has more

    return _view_plan(labels, tuple(label for d, label in enumerate(labels) if d not in gone), local=local)


def _local_shape(key: str, shape: tuple[int, ...]) -> Any:
    def local(called: dict[str, Any], outputs: list[list[Placement]], mesh: Any) -> dict[str, Any]:
        return called | {key: local_part(shape, mesh, outputs[0])[0]}

    return local


@rule("expand")
def _expand(arguments: dict[str, Any]) -> Plan:
    t = arguments["input"]
    key = next(k for k in arguments if k != "input" and isinstance(arguments[k], (tuple, list)))
    wanted = list(arguments[key])
    start = len(wanted) - t.ndim
    shape = tuple(t.shape[d - start] if size == -1 and d >= start else size for d, size in enumerate(wanted))
    labels = tuple(f"d{start + d}" if t.shape[d] == shape[start + d] else None for d in range(t.ndim))
    out = (*[None] * start, *labels)
    return _view_plan(labels, out, local=_local_shape(key, shape))


@own("flatten")
def _flatten(name: str, arguments: dict[str, Any]) -> Any:
    t, start, end = list(arguments.values())[:3]
    start, end = wrap_dim(start, t.ndim), wrap_dim(end, t.ndim)
    return t.reshape(*t.shape[:start], math.prod(t.shape[start : end + 1]), *t.shape[end + 1 :])


@own("unflatten")
def _unflatten(name: str, arguments: dict[str, Any]) -> Any:
    t, dim, sizes = list(arguments.values())[:3]
    dim = wrap_dim(dim, t.ndim)
    return t.reshape(*t.shape[:dim], *sizes, *t.shape[dim + 1 :])


@rule("view", "reshape")
def _view(arguments: dict[str, Any]) -> Plan:
    """Of dimensions that are merged or split, the first may be sharded, into equal pieces."""
    t = arguments["input"]
    key = "shape" if "shape" in arguments else next(k for k in arguments if k != "input")
    wanted = arguments[key]
    if not isinstance(wanted, (tuple, list)):
        raise DTypeError("view: a DTensor cannot be seen as another dtype; use .to_local() first")
    known = math.prod(size for size in wanted if size != -1)
    shape = tuple(t.numel() // max(known, 1) if size == -1 else size for size in wanted)
    labels, out = [None] * t.ndim, [None] * len(shape)
    i = j = 0
    while i < t.ndim and j < len(shape):
        first_in, first_out, a, b = i, j, int(t.shape[i]), int(shape[j])
        while a != b:
            if a < b:
                i += 1
                a *= int(t.shape[i]) if i < t.ndim else b
            else:
                j += 1
                b *= int(shape[j]) if j < len(shape) else a
            if i >= t.ndim or j >= len(shape):
                raise ArgumentError(f"view: shape '{list(wanted)}' is invalid for input of size {t.numel()}")
        same = i == first_in and j == first_out
        divisible = math.gcd(int(t.shape[first_in]), int(shape[first_out]))
        if same or divisible > 1:
            labels[first_in] = out[first_out] = f"d{first_in}"  # type: ignore[call-overload]
        i, j = i + 1, j + 1
    return _even_view(t, labels, tuple(out), shape, key)


def _even_view(t: Tensor, labels: list[Any], out: Labels, shape: tuple[int, ...], key: str) -> Plan:
    """Drops an axis whose pieces would not be whole pieces of the result's dimension."""
    mesh = t._mesh if isinstance(t, DTensor) else None
    parts = mesh.size() if mesh is not None else 1
    kept: list[Any] = []
    for label in out:
        if label is None:
            kept.append(None)
            continue
        a, b = int(t.shape[labels.index(label)]), int(shape[out.index(label)])
        if a == b or (a % parts == 0 and b % parts == 0):
            kept.append(label)
        else:
            labels[labels.index(label)] = None
            kept.append(None)
    return _view_plan(labels, tuple(kept), local=_local_shape(key, shape))


@own("repeat_interleave")
def _repeat_interleave(name: str, arguments: dict[str, Any]) -> Any:
    t, repeats, dim = arguments["input"], arguments["repeats"], arguments.get("dim")
    if isinstance(repeats, (tuple, list)):
        repeats = repeats[0] if len(repeats) == 1 else None
    elif isinstance(repeats, Tensor):
        repeats = int(repeats) if repeats.numel() == 1 else None
    if repeats is None:
        raise DTypeError("repeat_interleave: repeats must be a number for DTensors; use .full_tensor() first")
    t, dim = (t.reshape(-1), 0) if dim is None else (t, wrap_dim(dim, t.ndim))
    sizes = list(t.shape)
    wide = t.unsqueeze(dim + 1).expand(*sizes[: dim + 1], repeats, *sizes[dim + 1 :])
    return wide.reshape(*sizes[:dim], sizes[dim] * repeats, *sizes[dim + 1 :])


@own("_result_type")
def _result_type(name: str, arguments: dict[str, Any]) -> Any:
    tensors = {key: fb.empty(tuple(t.shape), dtype=t.dtype, device="meta") for key, t in flat_tensors(arguments).items()}
    return call(name, replaced(arguments, tensors))


@rule("chunk", "split", "tensor_split", "unbind", "select", "narrow")
def _along_one(arguments: dict[str, Any]) -> Plan:
    t = arguments["input"]
    dim = wrap_dim(arguments.get("dim") or 0, t.ndim)
    labels = tuple(None if d == dim else f"d{d}" for d in range(t.ndim))
    gone = "select" in arguments or "index" in arguments or not any(
        k in arguments for k in ("chunks", "split_size", "split_size_or_sections", "indices_or_sections", "length", "sections")
    )
    return _view_plan(labels, tuple(label for d, label in enumerate(labels) if not (gone and d == dim)))


@rule("getitem")
def _getitem(arguments: dict[str, Any]) -> Plan:
    """Dimensions indexed as a whole keep their axes; others, and those indexed by tensors, have none."""
    t, index = arguments["input"], arguments["index"]
    items = list(index) if isinstance(index, tuple) else [index]
    basic = all(item is None or item is Ellipsis or isinstance(item, (int, slice)) and not isinstance(item, bool) for item in items)
    tensors = flat_tensors(arguments)
    if not basic:
        inputs = {key: (None,) * x.ndim for key, x in tensors.items()}
        with fb.no_grad():
            metas = {key: fb.empty(tuple(x.shape), dtype=x.dtype, device="meta") for key, x in tensors.items()}
            if any(x.dtype == fb.bool for key, x in tensors.items() if key != "input"):
                raise DTypeError("getitem: a mask is not available for DTensors; use .full_tensor() first")
            rank = call("getitem", replaced(arguments, metas)).ndim
        return Plan(inputs, [(None,) * rank])
    used = sum(item is not None and item is not Ellipsis for item in items)
    spot = next((k for k, item in enumerate(items) if item is Ellipsis), len(items))
    fill = [slice(None)] * (t.ndim - used)
    items = [*items[:spot], *fill, *items[spot + 1 :]]
    labels: list[Any] = []
    out: list[Any] = []
    for item in items:
        if item is None:
            out.append(None)
            continue
        whole = isinstance(item, slice) and item.indices(t.shape[len(labels)]) == (0, t.shape[len(labels)], 1)
        labels.append(f"d{len(labels)}" if whole else None)
        if isinstance(item, slice):
            out.append(labels[-1])

    def local(called: dict[str, Any], outputs: Any, mesh: Any) -> dict[str, Any]:
        return called | {"index": tuple(items)}

    return _view_plan(labels, tuple(out), local=local)


@rule("cat")
def _cat(arguments: dict[str, Any]) -> Plan:
    tensors = flat_tensors(arguments)
    first = next(iter(tensors.values()))
    dim = wrap_dim(arguments.get("dim", 0), first.ndim)
    labels = tuple(None if d == dim else f"d{d}" for d in range(first.ndim))
    return Plan(dict.fromkeys(tensors, labels), [labels], frozenset(tensors))


@rule("stack")
def _stack(arguments: dict[str, Any]) -> Plan:
    tensors = flat_tensors(arguments)
    labels = positions(next(iter(tensors.values())).ndim)
    dim = wrap_dim(arguments.get("dim", 0), len(labels) + 1)
    return Plan(dict.fromkeys(tensors, tuple(labels)), [(*labels[:dim], None, *labels[dim:])], frozenset(tensors))


@own("index_select")
def _index_select(name: str, arguments: dict[str, Any]) -> Any:
    """Rows by index, as in embeddings. If the rows are sharded, each process looks up its own: the result is a sum."""
    tensors = as_dtensors(name, flat_tensors(arguments))
    t, index = tensors["input"], tensors["index"]
    dim = wrap_dim(arguments["dim"], t.ndim)
    labels = tuple("i" if d == dim else f"d{d}" for d in range(t.ndim))
    cut = [d for d, p in enumerate(t._placements) if p == Shard(dim)]
    if not cut or index._placements[cut[0]] != Replicate() or len(cut) > 1:
        inner = tuple(None if d == dim else label for d, label in enumerate(labels))
        return run(name, arguments, Plan({"input": inner, "index": ("i",)}, [labels]))
    sizes, offsets = local_part(tuple(t.shape), t._mesh, t._placements)
    # The other dimensions of the mesh as for whole rows; the index is replicated along the one that shards rows.
    where = redistribute_local(index._local, tuple(index.shape), t._mesh, index._placements, [Replicate()] * t._mesh.ndim)
    inside = (where >= offsets[dim]) & (where < offsets[dim] + sizes[dim])
    found = t._local.index_select(dim, (where - offsets[dim]).clamp(0, max(sizes[dim] - 1, 0)))
    mask = inside.view(*[-1 if d == dim else 1 for d in range(t.ndim)])
    found = fb.where(mask, found, fb.zeros((), dtype=found.dtype))
    placements = [Partial() if d in cut else p for d, p in enumerate(t._placements)]
    shape = tuple(index.shape[0] if d == dim else size for d, size in enumerate(t.shape))
    return make(found, t._mesh, placements, shape)


@rule("gather", "scatter", "scatter_add", "index_add")
def _by_index(arguments: dict[str, Any]) -> Plan:
    tensors = flat_tensors(arguments)
    out = tensors["index"] if "src" not in tensors and "source" not in tensors else tensors["input"]
    return Plan({key: (None,) * t.ndim for key, t in tensors.items()}, [(None,) * out.ndim])


# ---- optimizers --------------------------------------------------------------------------------------------------------


@own(*"_fused_sgd _fused_rmsprop _fused_adagrad _fused_adadelta _fused_adam _fused_nadam _fused_radam _fused_adamax".split())
def _fused(name: str, arguments: dict[str, Any]) -> Any:
    """A step on the local parts of parameters, gradients and states."""
    params = next(value for value in arguments.values() if isinstance(value, (list, tuple)))

    def local(value: Any, like: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        if isinstance(like, DTensor) and value.shape == like.shape:
            value = value.redistribute(placements=like._placements)
        return value._local

    called = {
        key: [local(x, params[i]) for i, x in enumerate(value)] if isinstance(value, (list, tuple)) and len(value) == len(params)
        else value for key, value in arguments.items()
    }  # fmt: skip
    return call(name, called)


@own("uniform_", "normal_", "bernoulli_", "exponential_", "geometric_", "log_normal_", "cauchy_", "random_")
def _drawn(name: str, arguments: dict[str, Any]) -> Any:
    """The piece of what one process would draw for the whole: the same for every number of processes with one seed."""
    x = arguments["input"]
    if x._local.is_meta:
        return x
    part = fb.empty(tuple(x.shape), dtype=x.dtype, device=x._local.device)
    getattr(part, name)(**{key: value for key, value in arguments.items() if key != "input"})
    for dim, (start, length) in enumerate(zip(*reversed(local_part(tuple(x.shape), x._mesh, x._placements)), strict=True)):
        part = part.narrow(dim, start, length)
    x._local.copy_(part)
    return x
