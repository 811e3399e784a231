"""Linear maps, embeddings, distances."""

from __future__ import annotations

import warnings

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError
from flambeau.nn.functional._common import into, narrow_back, recording, wide

__all__ = [
    "bilinear", "cosine_similarity", "embedding", "embedding_bag", "grouped_mm", "linear", "one_hot", "pairwise_distance",
]  # fmt: skip

_core = fb._C.namespaces["_nn"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """input · weightᵀ + bias.

    Args:
        input: (…, in_features).
        weight: (out_features, in_features), or (in_features,).
        bias: (out_features,), or 0-d.
        out: where to put the result.

    Example:
        >>> fb.nn.functional.linear(fb.ones(2), fb.ones(3, 2), fb.zeros(3))
        tensor([2., 2., 2.])
    """
    if out is not None:
        return into(out, linear(input, weight, bias))
    try:
        if weight.ndim == 2 and input.is_floating_point() and input.ndim > 1:
            return _core["linear"](input, weight, bias)
        product = input.matmul(weight.t())
        return product if bias is None else product + bias
    except (RuntimeError, AttributeError) as error:  # checked only on failure: this is the most frequent call
        for name, given in {"input": input, "weight": weight}.items():
            if not isinstance(given, Tensor):
                raise TypeError(f"linear: {name} must be a Tensor, got {type(given).__name__}; use fb.as_tensor()") from error
        if input.dtype != weight.dtype and not isinstance(error, AttributeError):
            raise ArgumentError(
                f"linear: expected input and weight to have the same dtype, got {input.dtype} and {weight.dtype}; "
                f"convert the input with .to({weight.dtype})"
                + (f", or the module with .to({input.dtype})" if input.is_floating_point() else "")
            ) from error
        if input.ndim and weight.ndim and input.shape[-1] == weight.shape[-1]:
            raise
        sizes = ""
        if input.ndim and weight.ndim == 2:
            rows = input.numel() // max(input.shape[-1], 1)
            sizes = f"mat1 and mat2 shapes cannot be multiplied ({rows}x{input.shape[-1]} and {weight.shape[1]}x{weight.shape[0]}): "
        raise ArgumentError(
            f"linear: {sizes}input of shape {tuple(input.shape)} does not fit weight of shape {tuple(weight.shape)}; "
            f"expected (…, {weight.shape[-1] if weight.ndim else 'in_features'})"
        ) from error


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1ᵀ · weight[k] · input2 + bias[k] for every output feature k.

    Args:
        input1: (…, in1_features).
        input2: (…, in2_features), with the same leading sizes.
        weight: (out_features, in1_features, in2_features).
        bias: (out_features,).

    Example:
        >>> fb.nn.functional.bilinear(fb.ones(1, 2), fb.ones(1, 3), fb.ones(1, 2, 3))
        tensor([[6.]])
    """
    if input1.shape[:-1] != input2.shape[:-1]:
        raise ArgumentError(
            f"bilinear: inputs of shapes {tuple(input1.shape)} and {tuple(input2.shape)} must agree in all but the last size"
        )
    if weight.ndim != 3 or input1.shape[-1] != weight.shape[1] or input2.shape[-1] != weight.shape[2]:
        raise ArgumentError(
            f"bilinear: weight of shape {tuple(weight.shape)} does not fit inputs of shapes {tuple(input1.shape)} and "
            f"{tuple(input2.shape)}; expected (out_features, {input1.shape[-1]}, {input2.shape[-1]})"
        )
    result = fb.einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: fb.dtype | None = None,
) -> Tensor:
    """Products of matrices in groups, as a mixture of experts needs them.

    A 3-d operand holds one matrix for each group; a 2-d one holds the groups side by side, and offs says where each
    ends.

    Args:
        mat_a: (groups, M, K), or (M, K) with groups of rows, or of columns if mat_b is 2-d too.
        mat_b: (groups, K, N), or (K, N) with groups of columns, or of rows if mat_a is 2-d too.
        offs: where each group ends in the shared dimension; not for two 3-d operands.
        bias: must be None.
        out_dtype: of the result; that of the operands by default.

    Returns:
        (groups, M, N), or (M, N) where rows or columns are grouped; zeros beyond the last group.

    Example:
        >>> rows, experts = fb.ones(3, 2), fb.stack([fb.ones(2, 1), 2 * fb.ones(2, 1)])
        >>> fb.nn.functional.grouped_mm(rows, experts, offs=fb.tensor([1, 3])).flatten()
        tensor([2., 4., 4.])
    """
    op = "grouped_mm"
    if bias is not None:
        raise ArgumentError(f"{op}: bias is not supported; add it to the result")
    if mat_a.ndim not in (2, 3) or mat_b.ndim not in (2, 3) or mat_a.shape[-1] != mat_b.shape[-2]:
        raise ArgumentError(
            f"{op}: expected (…, M, K) and (…, K, N) of 2 or 3 dimensions, got {tuple(mat_a.shape)} and {tuple(mat_b.shape)}"
        )
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        raise ArgumentError(f"{op}: offs are needed if, and only if, an operand is 2-d")
    if offs is None:
        result = mat_a.bmm(mat_b)
    else:
        result = _grouped_by_offsets(op, mat_a, mat_b, offs)
    return result if out_dtype is None else result.to(out_dtype)


def _grouped_by_offsets(op: str, a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    ends = offs.tolist()
    shared = a.shape[-1] if a.ndim == b.ndim else a.shape[0] if a.ndim == 2 else b.shape[1]
    groups = a.shape[0] if a.ndim == 3 else b.shape[0] if b.ndim == 3 else len(ends)
    if len(ends) != groups or ends != sorted(ends) or (ends and (ends[0] < 0 or ends[-1] > shared)):
        raise ArgumentError(f"{op}: expected {groups} ascending offsets up to {shared}, got {ends}")
    parts = list(zip([0, *ends], ends, strict=False))
    if a.ndim == b.ndim:
        return fb.stack([a[:, i:j] @ b[i:j] for i, j in parts])
    if a.ndim == 2:
        rows = [a[i:j] @ b[g] for g, (i, j) in enumerate(parts)]
        return fb.cat([*rows, a.new_zeros((shared - ends[-1], b.shape[2]))])
    columns = [a[g] @ b[:, i:j] for g, (i, j) in enumerate(parts)]
    return fb.cat([*columns, a.new_zeros((a.shape[1], shared - ends[-1]))], 1)


# ---- embeddings --------------------------------------------------------------------------------------------------------


def _rows(op: str, weight: Tensor, input: Tensor) -> Tensor:
    """The rows of the weight at the indices, as a matrix."""
    if input.dtype not in (fb.int64, fb.int32):
        raise DTypeError(
            f"{op}: Expected tensor for argument #1 'indices' to have scalar type Long (int64) or Int (int32), "
            f"got {input.dtype}; convert them with .long()"
        )
    try:
        return fb._C.call_as(op, weight.index_select, 0, input.reshape(-1))
    except IndexError as error:
        if op == "embedding_bag":
            raise OutOfRangeError(
                f"{op}: Expected idx >= 0 && idx < num_embeddings, {weight.shape[0]}, but indices run from {int(input.min())} "
                f"to {int(input.max())}"
            ) from error
        raise OutOfRangeError(
            f"{op}: index out of range in self: indices run from {int(input.min())} to {int(input.max())}, "
            f"but the weight has {weight.shape[0]} rows, 0 to {weight.shape[0] - 1}"
        ) from error


def _row(op: str, padding_idx: int, rows: int) -> int:
    if not -rows <= padding_idx < rows:
        raise ArgumentError(f"{op}: padding_idx must be within the number of embeddings, {rows}, got {padding_idx}")
    return padding_idx % rows if rows else padding_idx


def _limit_norms(op: str, weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the used rows that are longer than max_norm, in place and outside of the graph."""
    with fb.no_grad():
        rows = input.reshape(-1).unique()
        used = wide(_rows(op, weight.detach(), rows))
        norms = fb.linalg.vector_norm(used, norm_type, dim=1, keepdim=True)
        scaled = fb.where(norms > max_norm, used * (max_norm / (norms + 1e-7)), used)
        weight.detach().index_copy_(0, rows, scaled.to(weight.dtype))


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of the weight, looked up by index.

    Args:
        input: indices, any shape.
        weight: (rows, features).
        padding_idx: a row that receives no gradient.
        max_norm: rows in use that are longer are scaled to this norm, in place.
        norm_type: which norm, the 2-norm by default.
        scale_grad_by_freq: whether the gradient of a row is divided by how often it occurs in input.
        sparse: whether the gradient of the weight is a sparse tensor, of the rows in use only.

    Example:
        >>> fb.nn.functional.embedding(fb.tensor([1, 0]), fb.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[3., 4.],
                [1., 2.]])
    """
    if weight.ndim != 2:
        raise ArgumentError(f"embedding: 'weight' must be 2-D, got shape {tuple(weight.shape)}")
    if padding_idx is not None:
        padding_idx = _row("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        _limit_norms("embedding", weight, input, max_norm, norm_type)
    return _look_up("embedding", input, weight, padding_idx, scale_grad_by_freq, sparse)


def _look_up(
    op: str, input: Tensor, weight: Tensor, padding_idx: int | None, by_frequency: bool, sparse: bool
) -> Tensor:
    if sparse and recording(weight):
        return _SparseLookUp.apply(weight, input, op, padding_idx, by_frequency)
    result = _rows(op, weight, input).view((*input.shape, weight.shape[1]))
    if recording(weight) and (padding_idx is not None or by_frequency):
        result.register_hook(lambda grad: _for_rows(grad, input, padding_idx, by_frequency))
    return result


class _SparseLookUp(fb.autograd.Function):
    """Rows of a table; the gradient holds only the rows that were looked up."""

    @staticmethod
    def forward(weight, input, op, padding_idx, by_frequency):
        return _rows(op, weight, input).view((*input.shape, weight.shape[1]))

    @staticmethod
    def setup_context(ctx, inputs, output):
        weight, input, ctx.op, ctx.padding_idx, ctx.by_frequency = inputs
        ctx.save_for_backward(input)
        ctx.shape = tuple(weight.shape)

    @staticmethod
    def backward(ctx, grad):
        if ctx.by_frequency:
            raise ArgumentError(
                f"{ctx.op}_backward: scale_grad_by_freq not supported with sparse gradients; leave out one of the two"
            )
        rows = ctx.saved_tensors[0].reshape(-1).long()
        values = grad.reshape(rows.numel(), ctx.shape[1])  # -1 is ambiguous with 0 columns
        if ctx.padding_idx is not None:
            kept = (rows != ctx.padding_idx).nonzero().squeeze(1)
            rows, values = rows.index_select(0, kept), values.index_select(0, kept)
        return fb.sparse_coo_tensor(rows.unsqueeze(0), values, ctx.shape), None, None, None, None


def _for_rows(grad: Tensor, input: Tensor, padding_idx: int | None, by_frequency: bool) -> Tensor:
    """The gradient of looked-up rows for the table: 0 for the padding index; divided by frequency on request."""
    if padding_idx is not None:
        grad = grad.masked_fill((input == padding_idx).unsqueeze(-1), 0)
    if by_frequency:
        _, inverse, counts = input.unique(return_inverse=True, return_counts=True)
        grad = grad / counts[inverse].to(grad.dtype).unsqueeze(-1)
    return grad


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of the weight.

    Args:
        input: indices; (bags, size), or one row of indices with offsets.
        weight: (rows, features).
        offsets: where each bag begins in a 1-d input.
        max_norm: rows in use that are longer are scaled to this norm, in place.
        norm_type: order of the norm.
        scale_grad_by_freq: whether to divide the gradient of a row by its number of occurrences.
        mode: "sum", "mean" or "max".
        sparse: whether the gradient of the weight is a sparse tensor, of the rows in use only.
        per_sample_weights: factors for the rows, like input; for "sum" only.
        include_last_offset: whether offsets end with the length of input.
        padding_idx: a row that is skipped.

    Example:
        >>> table = fb.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> fb.nn.functional.embedding_bag(fb.tensor([0, 1, 1]), table, fb.tensor([0, 2]), mode="sum")
        tensor([[4., 6.],
                [3., 4.]])
    """
    op = "embedding_bag"
    if isinstance(weight, Tensor) and weight.dtype is fb.int64 and input.is_floating_point():
        warnings.warn(
            "embedding_bag: Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"{op}: mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ArgumentError(f"{op}: max mode does not support scale_grad_by_freq or sparse")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"{op}: per_sample_weights is only supported for mode='sum', got mode={mode!r}")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ArgumentError(
            f"{op}: expected per_sample_weights to have the same shape as the input, {tuple(input.shape)}, got "
            f"{tuple(per_sample_weights.shape)}"
        )
    if weight.ndim != 2:
        raise ArgumentError(f"{op}: weight must be a matrix, got shape {tuple(weight.shape)}")
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise DTypeError(
            f"{op}: expected per_sample_weights to have the same type as weight, {weight.dtype}, got "
            f"{per_sample_weights.dtype}; convert them with .to(weight.dtype)"
        )
    bags, bag_of = _bags(input, offsets, include_last_offset)
    flat = input.reshape(-1)
    if padding_idx is not None:
        padding_idx = _row(op, padding_idx, weight.shape[0])
    if max_norm is not None:
        _limit_norms(op, weight, flat, max_norm, norm_type)
    rows = _look_up(op, flat, weight, padding_idx, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = wide(rows) * wide(per_sample_weights.reshape(-1, 1))
    if padding_idx is not None:
        kept = (flat != padding_idx).nonzero().squeeze(1)
        rows, bag_of = rows.index_select(0, kept), bag_of.index_select(0, kept)
    empty = weight.new_zeros((bags, weight.shape[1]))
    if mode == "max":
        where = bag_of.unsqueeze(1).expand(-1, weight.shape[1])
        return empty.scatter_reduce(0, where, rows, "amax", include_self=False)
    total = wide(empty).index_add(0, bag_of, wide(rows))
    if mode == "mean":
        total = total / fb.bincount(bag_of, minlength=bags).clamp(min=1).to(total.dtype).unsqueeze(1)
    return narrow_back(total, weight)


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[int, Tensor]:
    """The number of bags, and the bag of each index."""
    op = "embedding_bag"
    if input.ndim == 2:
        if offsets is not None:
            raise ArgumentError(f"{op}: offsets must be None for a 2-d input, whose rows are the bags")
        return input.shape[0], fb.arange(input.shape[0], device=input.device).repeat_interleave(input.shape[1])
    if input.ndim != 1:
        raise ArgumentError(f"{op}: input must be 1-d or 2-d, got shape {tuple(input.shape)}")
    if offsets is None or offsets.ndim != 1:
        raise ArgumentError(
            f"{op}: a 1-d input needs 1-d offsets, got {None if offsets is None else tuple(offsets.shape)}"
        )
    starts = offsets.long()
    if include_last_offset:
        if starts.numel() == 0:
            raise ArgumentError(f"{op}: include_last_offset needs at least one offset")
        starts = starts[:-1]  # the last bag ends with the input, whatever the last offset is
    ends = fb.cat([starts[1:], starts.new_full((1,), input.shape[0])]) if starts.numel() else starts
    if offsets.numel() and int(offsets[0]) != 0:
        raise ArgumentError(f"{op}: the first offset must be 0, got {int(offsets[0])}")
    lengths = ends - starts
    if lengths.numel() and (int(lengths.min()) < 0 or int(ends[-1]) > input.shape[0]):
        raise ArgumentError(
            f"{op}: offsets must ascend and stay within the {input.shape[0]} indices, got {offsets.tolist()}"
        )
    if int(lengths.sum()) != input.shape[0]:
        raise ArgumentError(f"{op}: the offsets cover {int(lengths.sum())} of {input.shape[0]} indices")
    return starts.numel(), fb.arange(starts.numel(), device=starts.device).repeat_interleave(lengths)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Ones at the given classes, zeros elsewhere, in a new last dimension.

    Args:
        tensor: classes, int64.
        num_classes: the size of the new dimension; one more than the largest class by default.

    Example:
        >>> fb.nn.functional.one_hot(fb.tensor([0, 2]))
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    if tensor.dtype != fb.int64:
        raise DTypeError(f"one_hot: is only applicable to int64 tensors of classes, got {tensor.dtype}")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise ArgumentError("one_hot: cannot infer the number of classes from an empty tensor; pass num_classes")
        return fb.zeros((*tensor.shape, num_classes), dtype=fb.int64, device=tensor.device)
    if int(tensor.min()) < 0:
        raise ArgumentError(f"one_hot: class values must be non-negative, got {int(tensor.min())}")
    largest = int(tensor.max())
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes < 1:
        raise ArgumentError(f"one_hot: num_classes should be positive, got {num_classes}")
    elif largest >= num_classes:
        raise ArgumentError(f"one_hot: class values must be smaller than num_classes {num_classes}, got {largest}")
    return fb.zeros((*tensor.shape, num_classes), dtype=fb.int64, device=tensor.device).scatter_(-1, tensor.unsqueeze(-1), 1)


# ---- distances ---------------------------------------------------------------------------------------------------------


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 · x2 / (max(|x1|, eps) · max(|x2|, eps)) along a dimension.

    Example:
        >>> fb.nn.functional.cosine_similarity(fb.tensor([[1.0, 0.0]]), fb.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """
    kind = fb.promote_types(x1.dtype, x2.dtype)
    if not kind.is_floating_point:
        raise DTypeError(f"cosine_similarity: expected floating tensors, got {x1.dtype} and {x2.dtype}")
    if eps < 0:
        raise ArgumentError(f"cosine_similarity: eps must be non-negative, got: {eps}")
    a, b = fb.broadcast_tensors(wide(x1.to(kind)), wide(x2.to(kind)))
    norms = [fb.linalg.vector_norm(x, 2, dim, keepdim=True).clamp(min=eps) for x in (a, b)]
    return ((a / norms[0]) * (b / norms[1])).sum(dim).to(kind)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension.

    Example:
        >>> fb.nn.functional.pairwise_distance(fb.zeros(1, 2), fb.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """
    return fb.linalg.vector_norm(x1 - x2 + eps, p, dim=-1, keepdim=keepdim)
