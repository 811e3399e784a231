"""The rules of ops for sparse tensors: one per op, found by name. An op without a rule is an error, never a guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError, StateError
from flambeau.sparse._compressed import LAYOUTS, as_layout, block_size, elements, permuted, repeated
from flambeau.sparse._tensor import SparseTensor, flatten, make, torch_name

RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Any:
    """Registers a function of the op's arguments for ops by name."""

    def register(f):
        RULES.update(dict.fromkeys(names, f))
        return f

    return register


def dispatch(name: str, arguments: dict[str, Any]) -> Any:
    """Handles an op with a sparse tensor among its arguments."""
    if arguments.get("out") is not None:
        rest = {key: value for key, value in arguments.items() if key != "out"}
        return into(name, arguments["out"], dispatch(name, rest) if _sparse_in(rest) else getattr(fb, name)(**rest))
    if name not in RULES:
        raise DTypeError(f"{name}: not available for sparse tensors; use .to_dense() first")
    first = next((x for x in arguments.values() if isinstance(x, SparseTensor) and x._layout in LAYOUTS), None)
    if first is None or name in _OWN_LAYOUT or name.removesuffix("_") in _ZERO_TO_ZERO:
        return RULES[name](**arguments)
    target = next(iter(arguments.values()))
    if name.endswith("_") and name[:-1] in RULES and isinstance(target, SparseTensor):
        return _replaced(name, target, dispatch(name[:-1], arguments))
    # Rules know COO only; a matrix is converted back to the layout of its operand.
    plain = {key: elements(x) if isinstance(x, SparseTensor) else x for key, x in arguments.items()}
    result = RULES[name](**plain)
    if not isinstance(result, SparseTensor) or name in _TO_COORDINATES or result.sparse_dim() != first._index.shape[0]:
        return result
    if LAYOUTS[first._layout].blocks:
        return as_layout(result, first._layout, block_size(first), batched=True)
    # The product of CSC matrices is CSR, as in PyTorch.
    rows = name in ("matmul", "mm") and first._layout is fb.sparse_csc
    return as_layout(result, fb.sparse_csr if rows else first._layout, batched=True)


def _sparse_in(arguments: dict[str, Any]) -> bool:
    return any(isinstance(x, SparseTensor) for x in arguments.values())


def into(name: str, out: Any, result: Any) -> Tensor:
    """Stores a result in the tensor given for it."""
    sparse: Any = result
    if not isinstance(result, Tensor) or isinstance(out, SparseTensor) is not isinstance(result, SparseTensor):
        raise DTypeError(f"{name}: out= must be {'sparse' if isinstance(result, SparseTensor) else 'dense'} as the result is")
    if not isinstance(out, SparseTensor):
        return out.resize_(result.shape).copy_(result)
    if out._layout is not sparse._layout:
        raise ArgumentError(f"{name}: out= must have the layout of the result, got {out._layout} for {sparse._layout}")
    return _replaced(name, out, sparse)


def _replaced(name: str, x: SparseTensor, result: SparseTensor) -> SparseTensor:
    """A sparse tensor updated with the coordinates and values of a result."""
    if x.shape != result.shape:
        raise ArgumentError(f"{name}: a sparse tensor of shape {tuple(x.shape)} cannot hold a result of shape {tuple(result.shape)}")
    if not fb.can_cast(result.dtype, x.dtype):
        raise DTypeError(f"{name}: result type {result.dtype} can't be cast to the desired output type {x.dtype}")
    x._index, x._ordered, x._value = result._index, result._ordered, result._value.to(x.dtype)
    return x


_OWN_LAYOUT = frozenset(
    """
    t transpose swapaxes swapdims permute clone contiguous _convert neg zeros_like empty_like copy_ zero_ select getitem setitem_
    rand_like randn_like
    """.split()
)
_TO_COORDINATES = frozenset("sum unsqueeze cat concat concatenate stack index_select narrow_copy".split())


# ---- products ------------------------------------------------------------------------------------------------------------


def _is_sparse(x: Any) -> bool:
    return isinstance(x, SparseTensor)


def _parts(op: str, x: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    if x.sparse_dim() != 2 or x.dense_dim():
        raise ArgumentError(f"{op}: expected a sparse matrix, got shape {tuple(x.shape)} with {x.dense_dim()} dense dimension(s)")
    return x._index[0], x._index[1], x._value


def _product(op: str, a: SparseTensor, b: Tensor) -> Tensor:
    """Sparse times dense: every stored element adds its multiple of a row of b to a row of the result."""
    rows, columns, values = _parts(op, a)
    if b.ndim not in (1, 2) or a.shape[1] != b.shape[0]:
        raise ArgumentError(f"{op}: shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")
    if a.dtype != b.dtype:
        raise DTypeError(f"{op}: expected both of one dtype, got {a.dtype} and {b.dtype}")
    weights = values if b.ndim == 1 else values.unsqueeze(1)
    return values.new_zeros((a.shape[0], *b.shape[1:])).index_add(0, rows, b.index_select(0, columns) * weights)


def _sparse_product(op: str, a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Sparse times sparse: every stored element of a is combined with those of b in the row given by its column."""
    rows, columns, values = _parts(op, a)
    b = b.coalesce()
    b_rows, b_columns, b_values = _parts(op, b)
    if a.shape[1] != b.shape[0]:
        raise ArgumentError(f"{op}: shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")
    counts = fb.bincount(b_rows, minlength=b.shape[0])
    starts = counts.cumsum(0) - counts
    matches = counts[columns]
    left = fb.arange(columns.shape[0], device=columns.device).repeat_interleave(matches)
    before = (matches.cumsum(0) - matches).repeat_interleave(matches)
    right = starts[columns].repeat_interleave(matches) + fb.arange(left.shape[0], device=left.device) - before
    indices = fb.stack([rows[left], b_columns[right]])
    return make(indices, values[left] * b_values[right], (a.shape[0], b.shape[1]), False, fb.sparse_coo).coalesce()


def product(op: str, a: Any, b: Any) -> Tensor:
    """The matrix product of two tensors of which one or both are sparse."""
    if _is_sparse(a):
        return _sparse_product(op, a, b) if _is_sparse(b) else _product(op, a, b)
    if a.ndim == 1:
        return _product(op, _transposed(b), a)
    return _product(op, _transposed(b), a.t()).t()


def _transposed(x: SparseTensor, dim0: int = 0, dim1: int = 1) -> SparseTensor:
    order = list(range(x.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permute(x, order)


@rule("matmul", "mm", "mv")
def _matmul(input, other=None, mat2=None, vec=None):
    right = other if other is not None else mat2 if mat2 is not None else vec
    return product("matmul" if other is not None else "mm", input, right)


def sampled_product(x: SparseTensor, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> SparseTensor:
    """beta * x + alpha * (a @ b) at the coordinates of x."""
    op, matrix = "sampled_addmm", LAYOUTS.get(x._layout)
    if matrix is None or matrix.blocks or x.dense_dim():
        raise DTypeError(f"{op}: Expected self to be a sparse matrix of layout sparse_csr, got {x._layout}; use .to_sparse_csr()")
    if not a.ndim == b.ndim >= 2 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise ArgumentError(f"{op}: shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")
    batch, size = tuple(a.shape[:-2]), (a.shape[-2], b.shape[-1])
    if size != tuple(x.shape[-2:]) or x._index.shape[0] > 2 and batch != tuple(x.shape[:-2]):
        raise ArgumentError(f"{op}: self of shape {tuple(x.shape)} does not fit a product of shape {(*batch, *size)}")
    if not x.dtype == a.dtype == b.dtype:
        raise DTypeError(f"{op}: Expected all of one dtype, got {x.dtype}, {a.dtype} and {b.dtype}")
    if batch and x._index.shape[0] == 2:
        x = repeated(x, batch)
    *lead, rows, columns = x._index
    product = (a[(*lead, rows)] * b.transpose(-1, -2)[(*lead, columns)]).sum(-1)
    return x._with(product * alpha if beta == 0 else product * alpha + x._value * beta)


def reduced_product(a: Any, b: Tensor, reduce: str) -> Tensor:
    """Sparse times dense with the mean, maximum or minimum of the products instead of their sum."""
    if not _is_sparse(a) or a._layout is not fb.sparse_csr or _is_sparse(b):
        raise DTypeError(f"sparse.mm: reduce={reduce!r} takes compressed rows times a dense matrix; use mat1.to_sparse_csr()")
    rows, columns, values = _parts("sparse.mm", a)
    if b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        what = f"{tuple(a.shape)} of {a.dtype} and {tuple(b.shape)} of {b.dtype}"
        raise ArgumentError(f"sparse.mm: {what} cannot be multiplied: inner sizes and dtypes must agree")
    products = b.index_select(0, columns) * values.unsqueeze(1)
    return values.new_zeros((a.shape[0], b.shape[1])).index_reduce(0, rows, products, reduce, include_self=False)


@rule("_nn.linear")
def _linear(input, weight, bias=None):
    if _is_sparse(input):
        result = product("linear", input, weight.t())
    else:
        if weight.ndim != 2 or input.ndim == 0 or input.shape[-1] != weight.shape[1]:
            raise ArgumentError(
                f"linear: input of shape {tuple(input.shape)} does not fit the sparse weight of shape {tuple(weight.shape)}; expected "
                "(..., in) and (out, in)"
            )
        rows = input.reshape(-1, weight.shape[1])
        result = product("linear", weight, rows.t()).t().reshape(*input.shape[:-1], weight.shape[0])
    return result if bias is None else result + bias


@rule("addmm", "addmv")
def _addmm(input, beta, alpha, mat1=None, mat2=None, mat=None, vec=None):
    a, b = (mat1, mat2) if mat1 is not None else (mat, vec)
    result = product("addmm", a, b)
    result = result if alpha == 1 else result * alpha
    return result if beta == 0 else (input if beta == 1 else input * beta) + result


# ---- arithmetic ----------------------------------------------------------------------------------------------------------


def _negative(x: Any, alpha: Any) -> Any:
    return -x if alpha == 1 else x * -alpha


@rule("add")
def _add(input, other, alpha=1):
    if not _is_sparse(other):
        raise DTypeError("add: a dense tensor or number cannot be added to a sparse tensor; write dense + sparse, or use .to_dense()")
    other = other if alpha == 1 else other * alpha
    if not _is_sparse(input):
        if not isinstance(input, Tensor):
            raise DTypeError("add: a number cannot be added to a sparse tensor; use .to_dense() first")
        if input.shape != other.shape:
            raise ArgumentError(_different("add", input, other))
        return input + other.to_dense()
    if input.shape != other.shape:
        raise ArgumentError(f"Expected input tensors to have the same shape: {_different('add', input, other)}")
    if not other._nnz() or not input._nnz():
        kind = fb.result_type(input._value, other._value)
        return _convert(input if input._nnz() else other, kind).clone()
    if input.sparse_dim() != other.sparse_dim():
        dims = f"{input.sparse_dim()} and {other.sparse_dim()}"
        raise ArgumentError(f"add: expected tensors of the same number of sparse dimensions, got {dims}")
    indices = fb.cat([input._index, other._index], 1)
    total = make(indices, fb.cat([input._value, other._value]), tuple(input.shape), False, input._layout)
    return total.coalesce() if input._ordered and other._ordered else total


def _different(name: str, a: Any, b: Any) -> str:
    return (
        f"{name}: expected 'self' and 'other' to have same size, but self has size {list(a.shape)} while other has size "
        f"{list(b.shape)}: sparse tensors do not broadcast; expand() the dense one"
    )


@rule("sub")
def _sub(input, other, alpha=1):
    return _add(input, _negative(other, alpha) if _is_sparse(other) else other)


@rule("mul")
def _mul(input, other):
    if not _is_sparse(input):
        input, other = other, input
    if not isinstance(other, Tensor) or other.ndim == 0 and not _is_sparse(other):
        return input._with(input._value * other)
    if other.shape != input.shape:
        common = fb.broadcast_shapes(tuple(input.shape), tuple(other.shape))
        input = _expanded(input, common)
        other = _expanded(other, common) if _is_sparse(other) else other.expand(common)
    if _is_sparse(other) and input.sparse_dim() != other.sparse_dim():
        other = other.to_dense()
    if _is_sparse(other):
        return _intersection(input.coalesce(), other.coalesce())
    return input._with(input._value * other[tuple(input._index)])


def _expanded(x: SparseTensor, shape: tuple[int, ...]) -> SparseTensor:
    """The tensor expanded to a larger shape."""
    if tuple(x.shape) == tuple(shape):
        return x
    sparse_dim = None if not x.dense_dim() else len(shape) - x.dense_dim()
    return x.to_dense().expand(shape).to_sparse(sparse_dim)


def _intersection(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The product of two tensors of one shape: the elements stored in both."""
    sizes = tuple(a.shape)[: a.sparse_dim()]
    left, right = flatten(a._index, sizes), flatten(b._index, sizes)
    at = fb.searchsorted(right, left).clamp(max=max(right.shape[0] - 1, 0))
    both = (right[at] == left).nonzero().squeeze(1) if right.shape[0] else at[:0]
    return make(a._index[:, both], a._value[both] * b._value[at[both]], tuple(a.shape), True, a._layout)


def _check_divisor(what: str, input: Any, other: Any) -> None:
    if not _is_sparse(input) or _is_sparse(other) or isinstance(other, Tensor) and other.ndim:
        got = f"shape {list(other.shape)}" if isinstance(other, Tensor) else "a sparse divisor"
        raise DTypeError(
            f"Sparse {what} requires a scalar or zero-dim dense tensor divisor (got {got} for divisor); use .to_dense() first"
        )


@rule("floor_divide")
def _floor_divide(input, other):
    _check_divisor("floor division", input, other)
    x = input.coalesce() if input.is_sparse else input
    return x._with(fb.floor_divide(x._value, other))


@rule("div", "true_divide")
def _div(input, other, rounding_mode=None):
    _check_divisor("division", input, other)
    return input._with(fb.div(input._value, other, rounding_mode=rounding_mode))


@rule("pow")
def _pow(input, exponent):
    if not _is_sparse(input) or isinstance(exponent, Tensor) or exponent <= 0:
        raise DTypeError("pow: a sparse tensor takes a positive number as exponent only; use .to_dense() first")
    x = input.coalesce()
    return x._with(x._value**exponent)


def _elementwise(name: str) -> None:
    """A function with f(0) = 0, applied to the stored elements, as a new tensor and in place."""
    function = getattr(fb, name)

    @rule(name)
    def apply(input, **arguments):
        x = input if name == "neg" or not input.is_sparse else input.coalesce()
        return x._with(function(x._value, **arguments))

    @rule(f"{name}_")
    def change(input, **arguments):
        if input.is_sparse and not input.is_coalesced() and name != "neg":
            raise StateError(f"{name}_ requires coalesced input: the sum of values at one place is not known yet; use .coalesce()")
        return _replaced(f"{name}_", input, apply(input, **arguments))


_ZERO_TO_ZERO = frozenset(
    """
    abs angle asin asinh atan atanh ceil conj conj_physical deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p
    nan_to_num neg positive rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh trunc
    """.split()
)
for _name in sorted(_ZERO_TO_ZERO):
    _elementwise(_name)


@rule("_convert")
def _convert(input, dtype):
    return input._with(input._value.to(dtype))


@rule("_to_device")
def _to_device(input, device):
    index, value = input._index.to(device), input._value.to(device)
    return make(index, value, tuple(input.shape), input._ordered, input._layout, input._index_dtype)


@rule("clone")
def _clone(input, memory_format=None):
    return make(input._index.clone(), input._value.clone(), tuple(input.shape), input._ordered, input._layout, input._index_dtype)


@rule("contiguous")
def _contiguous(input, memory_format=None):
    return input


@rule("_result_type")
def _result_type(input, other):
    """Only the dtype of an operand matters, and whether it has dimensions."""
    plain = [x._value.new_empty((0,) * x.ndim) if _is_sparse(x) else x for x in (input, other)]
    return fb.result_type(*plain)


def _random_like(name: str) -> None:
    @rule(name)
    def draw(input, layout=None, **options):
        """Random values at the same coordinates."""
        if input.is_sparse:
            raise DTypeError(f"{name}: not available for sparse coordinates, which may repeat; use .to_dense(), or a compressed layout")
        return input._with(getattr(fb, name)(input._value, **options))


for _name in ("rand_like", "randn_like"):
    _random_like(_name)


@rule("zeros_like")
def _zeros_like(input, dtype=None, layout=None, device=None, requires_grad=False, **options):
    """Stores nothing; CSR and CSC, BSR and BSC may be interchanged, and COO may stay."""
    made = {"dtype": dtype or input.dtype, "device": device or input.device, "requires_grad": requires_grad}
    if layout is fb.strided:
        return fb.zeros(tuple(input.shape), **made)
    if layout is fb.sparse_coo and input._layout in LAYOUTS:
        rank = input._index.shape[0]
        values = fb.zeros((0, *input.shape[rank:]), **made)
        return make(input._index[:, :0].to(values.device), values, tuple(input.shape), True, layout)
    transposed = getattr(fb, LAYOUTS[input._layout].transposed) if input._layout in LAYOUTS else None
    if layout not in (None, input._layout, transposed):
        raise ArgumentError(
            f"zeros_like with different sparse layout is not supported (self is {torch_name(input._layout)} but you requested "
            f"{torch_name(layout)}); convert with .to_sparse(layout=...)"
        )
    values = fb.zeros((0, *input._value.shape[1:]), **made)
    return make(input._index[:, :0].to(values.device), values, tuple(input.shape), True, layout or input._layout, input._index_dtype)


@rule("empty_like")
def _empty_like(input, layout=None, **options):
    if layout not in (None, input._layout):
        raise ArgumentError(
            f"empty_like with different sparse layout is not supported (self is {torch_name(input._layout)} but you requested "
            f"{torch_name(layout)}); convert with .to_sparse(layout=...)"
        )
    return _zeros_like(input, **options)


def _in_place(name: str) -> None:
    """The in-place form of an op, for a sparse tensor or a dense one with a sparse operand."""
    function = RULES[name]

    @rule(f"{name}_")
    def change(input, *arguments, **options):
        result = function(input, *arguments, **options)
        return _replaced(f"{name}_", input, result) if _is_sparse(input) else input.copy_(result.to_dense())


for _name in ("add", "sub", "mul", "div", "true_divide", "floor_divide", "pow"):
    _in_place(_name)


@rule("zero_")
def _zero_(input):
    input._index, input._value, input._ordered = input._index[:, :0], input._value[:0], True
    return input


# ---- shapes --------------------------------------------------------------------------------------------------------------


def _permute(x: SparseTensor, order: Any) -> SparseTensor:
    rank = x.sparse_dim()
    order = [d % x.ndim for d in order]
    if x._layout in LAYOUTS and sorted(order) == list(range(x.ndim)):
        return permuted(x, order)
    if sorted(order) != list(range(x.ndim)) or sorted(order[:rank]) != list(range(rank)):
        raise ArgumentError(
            f"permute: sparse and dense dimensions cannot be mixed, got dims {order} for {rank} sparse dimension(s)"
        )
    size = tuple(x.shape[d] for d in order)
    values = x._value.permute(0, *(d - rank + 1 for d in order[rank:])) if order[rank:] else x._value
    return make(x._index[order[:rank]], values, size, x._nnz() < 2, fb.sparse_coo)


@rule("stack")
def _stack(tensors, dim=0):
    return _cat([_unsqueeze(t, dim) for t in tensors], dim)


@rule("permute")
def _permute_rule(input, dims):
    return _permute(input, dims)


@rule("transpose", "swapaxes", "swapdims")
def _transpose(input, dim0, dim1):
    return _transposed(input, dim0 % input.ndim, dim1 % input.ndim)


@rule("t")
def _t(input):
    return _transposed(input) if input.ndim == 2 else input


@rule("unsqueeze")
def _unsqueeze(input, dim):
    place, rank = dim % (input.ndim + 1), input.sparse_dim()
    size = list(input.shape)
    size.insert(place, 1)
    if place > rank:
        return make(input._index, input._value.unsqueeze(place - rank + 1), tuple(size), input._ordered, fb.sparse_coo)
    row = input._index.new_zeros((1, input._nnz()))
    indices = fb.cat([input._index[:place], row, input._index[place:]])
    return make(indices, input._value, tuple(size), input._ordered, fb.sparse_coo)


@rule("cat", "concat", "concatenate")
def _cat(tensors, dim=0):
    first = tensors[0]
    if not all(_is_sparse(t) and t.sparse_dim() == first.sparse_dim() and t.ndim == first.ndim for t in tensors):
        raise DTypeError("cat: expected sparse tensors of one number of dimensions; convert the others with .to_sparse()")
    dim, rank, size, offset, indices = dim % first.ndim, first.sparse_dim(), list(first.shape), 0, []
    if dim >= rank or any(t.shape[d] != size[d] for t in tensors for d in range(first.ndim) if d != dim):
        shapes = " and ".join(str(list(t.shape)) for t in tensors)
        raise ArgumentError(f"cat: All tensors must have the same shape: {shapes} (except in the sparse concatenating dimension {dim})")
    for t in tensors:
        index = t._index.clone()
        index[dim] += offset
        indices.append(index)
        offset += t.shape[dim]
    size[dim] = offset
    ordered = dim == 0 and all(t._ordered for t in tensors)
    return make(fb.cat(indices, 1), fb.cat([t._value for t in tensors]), tuple(size), ordered, fb.sparse_coo)


# ---- reductions ----------------------------------------------------------------------------------------------------------


@rule("sum")
def _sum(input, dim=None, keepdim=False, dtype=None):
    if dtype is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        dtype = fb.int64
    x = input if dtype is None else input._with(input._value.to(dtype))
    if dim is None or dim == ():
        total = x._value.sum()
        return total.reshape((1,) * x.ndim) if keepdim else total
    dims = {d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim)}
    rank = x.sparse_dim()
    dense = tuple(d - rank + 1 for d in dims if d >= rank)
    values = x._value.sum(dense, keepdim=keepdim) if dense else x._value
    kept = [d for d in range(rank) if d not in dims]
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims)
    if not kept:
        total = values.sum(0)
        return total.view(shape) if keepdim else total
    index = x._index.clone() if keepdim else x._index[kept]
    for d in dims if keepdim else ():
        if d < rank:
            index[d] = 0
    return make(index, values, shape, False, fb.sparse_coo).coalesce()


@rule("any")
def _any(input, dim=None, keepdim=False):
    if dim is None or dim == ():
        return input._value.any()
    x = input.coalesce()  # values with the same coordinates may cancel
    found = _sum(x._with((x._value != 0).long()), dim, keepdim)
    return found._with(found._value != 0) if _is_sparse(found) else found != 0


@rule("bmm")
def _bmm(input, mat2):
    """A batch of products as that of one block diagonal matrix."""
    if not _is_sparse(input) or _is_sparse(mat2) or input.dense_dim():
        raise DTypeError("bmm: a sparse tensor is multiplied by a dense one from the right; use .to_dense() for the other")
    if input.ndim != 3 or mat2.ndim != 3 or input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise ArgumentError(
            f"bmm: expected (b, n, m) and (b, m, p), got {tuple(input.shape)} and {tuple(mat2.shape)}; batches and inner sizes must agree"
        )
    count, rows, columns = input.shape
    at, row, column = input._index
    index = fb.stack([at * rows + row, at * columns + column])
    wide = make(index, input._value, (count * rows, count * columns), False, fb.sparse_coo)
    return product("bmm", wide, mat2.reshape(count * columns, mat2.shape[2])).reshape(count, rows, mat2.shape[2])


@rule("norm", "linalg_vector_norm", "linalg.vector_norm", "linalg.norm")
def _norm(input, p="fro", dim=None, keepdim=False, dtype=None, ord=None):
    if dim is not None or ord not in (None, 2) or p not in (None, "fro", 2):
        raise DTypeError("norm: a sparse tensor has the 2-norm of all its elements only; use .to_dense() first")
    return input.coalesce()._value.norm()


def softmax(op: str, x: SparseTensor, dim: int, dtype: Any, log: bool) -> SparseTensor:
    """Softmax over the stored elements along a sparse dimension; others count as -inf."""
    if not -x.ndim <= dim < x.ndim:
        raise OutOfRangeError(f"{op}: dim {dim} is out of range for {x.ndim} dimension(s)")
    x = x.coalesce() if dtype is None else x.coalesce()._with(x.coalesce()._value.to(dtype))
    dim, rank = dim % x.ndim, x.sparse_dim()
    if dim >= rank:
        inner = fb.log_softmax if log else fb.softmax
        return x._with(inner(x._value, dim - rank + 1))
    others = [d for d in range(rank) if d != dim]
    groups = flatten(x._index[others], [x.shape[d] for d in others])
    groups, inverse = groups.unique(return_inverse=True)
    shape = (groups.shape[0], *x._value.shape[1:])
    index = inverse.view(-1, *(1,) * x.dense_dim()).expand(x._value.shape)
    high = fb.full(shape, -fb.inf, dtype=x.dtype, device=x.device).scatter_reduce(0, index, x._value.detach(), "amax")
    shifted = x._value - high[inverse]
    total = x._value.new_zeros(shape).index_add(0, inverse, shifted.exp())
    return x._with(shifted - total.log()[inverse] if log else shifted.exp() / total[inverse])


@rule("equal")
def _equal(input, other):
    return fb.equal(input.to_dense() if _is_sparse(input) else input, other.to_dense() if _is_sparse(other) else other)


@rule("allclose")
def _allclose(input, other, **options):
    dense = [x.to_dense() if _is_sparse(x) else x for x in (input, other)]
    return fb.allclose(*dense, **options)


def _check_copy(x: SparseTensor, src: Any) -> None:
    """Compressed tensors are copied only into tensors of the same layout, size and blocks."""
    got = src._layout if _is_sparse(src) else fb.strided
    what = ""
    if got is not x._layout:
        what = f"copy of sparse compressed tensors having different layouts is not supported. self layout is {torch_name(x._layout)} and "
        what += f"src layout is {torch_name(got)}"
    elif x._nnz() != src._nnz():
        what = f"only sparse compressed tensors with the same number of specified elements are supported. got {x._nnz()} and {src._nnz()}"
    elif x.shape != src.shape:
        what = f"expected shapes of self and src to match along dimension, got {tuple(x.shape)} and {tuple(src.shape)}"
    elif block_size(x) != block_size(src):
        what = f"copy of sparse compressed tensors having different block sizes is not supported. got {block_size(x)} and {block_size(src)}"
    if what:
        raise ArgumentError(f"torch.copy_: {what}; make a new tensor with .to_sparse(layout=...)")


@rule("copy_")
def _copy_(input, src, non_blocking=False):
    if _is_sparse(input) and input._layout in LAYOUTS:
        _check_copy(input, src)
    if not _is_sparse(input):
        return input.copy_(src.to_dense())
    if not _is_sparse(src) or src.shape != input.shape:
        raise DTypeError("copy_: a sparse tensor takes the elements of a sparse tensor of its shape")
    input._index, input._ordered = src._index.clone(), src._ordered
    input._value = src._value.to(input.dtype, copy=True)
    return input


def diagonals(values: Tensor, offsets: Tensor, shape: Any) -> SparseTensor:
    """A sparse matrix with rows of `values` on its diagonals."""
    rows_of, columns_of, parts = [], [], []
    for row, offset in zip(fb.atleast_2d(values), offsets.reshape(-1).tolist(), strict=True):
        columns = fb.arange(max(offset, 0), max(max(offset, 0), min(shape[1], row.shape[0], shape[0] + offset)), device=values.device)
        rows_of.append(columns - offset)
        columns_of.append(columns)
        parts.append(row[columns])
    if not parts:
        return make(offsets.new_zeros((2, 0)), values.new_zeros(0), tuple(shape), True, fb.sparse_coo)
    index = fb.stack([fb.cat(rows_of), fb.cat(columns_of)])
    return make(index, fb.cat(parts), tuple(shape), False, fb.sparse_coo)
