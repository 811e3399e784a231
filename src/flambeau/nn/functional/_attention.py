"""Attention."""

from __future__ import annotations

import math
from collections.abc import Callable

import flambeau as fb
from flambeau import Tensor
from flambeau._registry import private
from flambeau.errors import ArgumentError
from flambeau.nn.attention.bias import CausalBias
from flambeau.nn.functional._common import narrow_back, wide
from flambeau.nn.functional._dropout import dropout
from flambeau.nn.functional._linear import linear

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


_FLOATS = (fb.float16, fb.bfloat16, fb.float32, fb.float64)


class _AttentionError(ArgumentError, AssertionError):
    """An invalid argument where PyTorch asserts: programs catch either class."""


# Replaces attention when the sequence is sharded: set by context_parallel of distributed.tensor.
cut_sequence: Callable[..., Tensor] | None = None


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | CausalBias | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value.

    A query that may see no key gets zeros.

    Args:
        query: (…, heads, L, E).
        key: (…, heads, S, E).
        value: (…, heads, S, Ev).
        attn_mask: broadcasts to (…, heads, L, S): True where a key takes part, or a number to add; or a causal
            mask from nn.attention.bias.
        dropout_p: dropout of the weights; pass 0 in evaluation.
        is_causal: whether query i sees the keys up to i only.
        scale: 1 / sqrt(E) by default.
        enable_gqa: whether key and value may have fewer heads, each shared by several of query's.

    Example:
        >>> q = fb.zeros(1, 1, 2)
        >>> fb.nn.functional.scaled_dot_product_attention(q, fb.zeros(1, 2, 2), fb.tensor([[[1.0], [3.0]]]))
        tensor([[[2.]]])
    """
    op = "scaled_dot_product_attention"
    if attn_mask is None and dropout_p == 0 and cut_sequence is None and _plain(query, key, value, enable_gqa):
        scale = 1 / math.sqrt(query.shape[3]) if scale is None else scale
        return private.attention(query, key, value, None, is_causal, scale).output
    if isinstance(attn_mask, CausalBias):
        if is_causal:
            raise ArgumentError(f"{op}: give either attn_mask or is_causal=True, not both")
        attn_mask, is_causal = attn_mask.resolve(query, key)
    _check_attention(op, query, key, value, attn_mask, is_causal, enable_gqa)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None and query.shape[-1] else 1.0 if scale is None else scale
    if cut_sequence is not None:
        return cut_sequence(query, key, value, attn_mask, dropout_p, is_causal, scale)
    shared = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    if dropout_p <= 0 and _tiles(query, key, value, attn_mask, shared):
        return _tiled(query, key, value, attn_mask, is_causal, scale)
    if shared > 1:
        key, value = key.repeat_interleave(shared, -3), value.repeat_interleave(shared, -3)
    scores = (wide(query) * scale) @ wide(key).transpose(-2, -1)
    if is_causal:
        attn_mask = fb.ones((query.shape[-2], key.shape[-2]), dtype=fb.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == fb.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(-1)
    if attn_mask is not None:
        # a row without any visible key is a softmax of only -inf
        weights = weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)
    weights = dropout(weights, dropout_p) if dropout_p > 0 else weights
    return narrow_back(weights @ wide(value), query)


def _plain(query: Tensor, key: Tensor, value: Tensor, gqa: bool) -> bool:
    """Whether these are what models mostly have, four dims that fit each other: nothing else has to be asked then."""
    if not (type(query) is type(key) is type(value) is Tensor):
        return False
    dtype, shape, keys = query.dtype, query.shape, key.shape
    return (
        dtype in _FLOATS and key.dtype == dtype and value.dtype == dtype
        and len(shape) == len(keys) == 4 and value.shape[:3] == keys[:3]
        and shape[0] == keys[0] and shape[3] == keys[3] and 0 not in shape and 0 not in keys
        and (shape[1] == keys[1] or (gqa and shape[1] % keys[1] == 0))
    )  # fmt: skip


def _tiles(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, shared: int) -> bool:
    """Whether the tiled kernel, which never stores all scores, supports these arguments."""
    if any(x.dtype not in _FLOATS or hasattr(x, "__flambeau_dispatch__") for x in (query, key, value)):
        return False
    if mask is not None and mask.dtype != fb.bool and mask.dtype not in _FLOATS:
        return False
    if hasattr(mask, "__flambeau_dispatch__") or not 2 <= query.ndim <= 4 or 0 in query.shape or 0 in key.shape:
        return False
    if mask is not None and (mask.ndim > query.ndim or not _broadcasts(mask, (*query.shape[:-1], key.shape[-2]))):
        return False
    batch = tuple(query.shape[:-2]) if shared == 1 else (*query.shape[:-3], query.shape[-3] // shared)
    return tuple(key.shape[:-2]) == batch and tuple(value.shape[:-2]) == batch


def _broadcasts(mask: Tensor, shape: tuple[int, ...]) -> bool:
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    return all(have in (1, want) for have, want in sizes)


def _tiled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    extra = 4 - query.ndim
    q, k, v = (x[(None,) * extra] if extra else x for x in (query, key, value))
    if mask is not None and mask.ndim < 4:
        mask = mask[(None,) * (4 - mask.ndim)]
    result = private.attention(q, k, v, mask, causal, scale).output
    return result.view(*query.shape[:-1], value.shape[-1])


def _check_attention(
    op: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, gqa: bool
) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ArgumentError(f"{op}: expected query, key and value to have at least 2 dimensions, got {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise ArgumentError(
            f"{op}: expected query, key and value to have the same dtype, got {query.dtype}, {key.dtype} and {value.dtype}"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ArgumentError(f"{op}: expected query (…, L, E), key (…, S, E) and value (…, S, Ev), got {shapes}")
    if mask is not None and is_causal:
        raise ArgumentError(f"{op}: give either attn_mask or is_causal=True, not both")
    if mask is not None and mask.dtype != fb.bool and not mask.is_floating_point():
        raise ArgumentError(f"{op}: attn_mask must be bool or floating, got {mask.dtype}")
    if gqa and (
        query.ndim < 3 or key.shape[-3] == 0 or query.shape[-3] % key.shape[-3] or key.shape[-3] != value.shape[-3]
    ):
        raise ArgumentError(f"{op}: enable_gqa needs query's heads to be a multiple of key's and value's, got {shapes}")


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What MultiheadAttention computes, with its parameters as arguments.

    Args:
        query: (L, N, E) or (L, E).
        key: (S, N, kdim) or (S, kdim).
        value: (S, N, vdim) or (S, vdim).
        embed_dim_to_check: E.
        num_heads: into how many heads E is split.
        in_proj_weight: (3E, E), the three projections in one.
        in_proj_bias: (3E,).
        bias_k: (1, 1, E), one more key.
        bias_v: (1, 1, E), one more value.
        add_zero_attn: whether one more key and value of zeros is added.
        dropout_p: dropout of the weights, in training.
        out_proj_weight: (E, E).
        out_proj_bias: (E,).
        training: whether dropout is on.
        key_padding_mask: (N, S) or (S,): True where a key is left out, or a number to add.
        need_weights: whether the weights are returned.
        attn_mask: (L, S) or (N · num_heads, L, S): True where a key is left out, or a number to add.
        use_separate_proj_weight: whether the next three are used in place of in_proj_weight.
        q_proj_weight: (E, E).
        k_proj_weight: (E, kdim).
        v_proj_weight: (E, vdim).
        static_k: (N · num_heads, S, E / num_heads), in place of projected keys.
        static_v: (N · num_heads, S, E / num_heads), in place of projected values.
        average_attn_weights: whether the returned weights are averaged over the heads.
        is_causal: a hint that attn_mask is the causal mask; needs attn_mask.

    Returns:
        The output (L, N, E), and the weights (N, L, S), (N, num_heads, L, S), or None.

    Example:
        >>> m = fb.nn.MultiheadAttention(4, 2)
        >>> x = fb.zeros(3, 1, 4)
        >>> out, weights = fb.nn.functional.multi_head_attention_forward(
        ...     x, x, x, 4, 2, m.in_proj_weight, m.in_proj_bias, None, None, False, 0.0, m.out_proj.weight,
        m.out_proj.bias)
        >>> out.shape, weights.shape
        (flambeau.Size([3, 1, 4]), flambeau.Size([1, 3, 3]))
    """
    op = "multi_head_attention_forward"
    batched = query.ndim == 3
    _check_ranks(op, query, key, value, key_padding_mask, attn_mask)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, embed = query.shape
    source = key.shape[0]
    head = embed // num_heads
    if embed != embed_dim_to_check:
        raise ArgumentError(f"{op}: was expecting embedding dimension of {embed_dim_to_check}, but got {embed}")
    if head * num_heads != embed:
        raise ArgumentError(f"{op}: embed_dim {embed} not divisible by num_heads {num_heads}")
    if key.shape[:2] != value.shape[:2]:
        raise ArgumentError(
            f"{op}: key's length and batch {tuple(key.shape[:2])} differ from value's, {tuple(value.shape[:2])}"
        )
    if is_causal and attn_mask is None:
        raise ArgumentError(f"{op}: is_causal=True is a hint about attn_mask, which must be given, too")

    weights = _projections(op, in_proj_weight, use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight)
    # As passed by the module with batch_first=True: the batch comes first in memory, and computing in that order copies
    # nothing.
    batch_first = batch > 1 and all(not x.is_contiguous() and x.transpose(0, 1).is_contiguous() for x in (query, key, value))
    if query is key is value and in_proj_weight is not None and not use_separate_proj_weight:
        x = query.transpose(0, 1) if batch_first else query
        q, k, v = linear(x, in_proj_weight, in_proj_bias).chunk(3, -1)
    else:
        given = [x.transpose(0, 1) if batch_first else x for x in (query, key, value)]
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = (linear(x, w, b) for x, w, b in zip(given, weights, biases, strict=True))
    mask = _added_mask(op, attn_mask, (length, source), batch, num_heads, query.dtype)
    padding = _padding_mask(op, key_padding_mask, batch, source, query.dtype)

    # To (N, heads, L, head), as views.
    order = (0, 2, 1, 3) if batch_first else (1, 2, 0, 3)
    q = q.unflatten(-1, (num_heads, head)).permute(order)
    k = k.unflatten(-1, (num_heads, head)).permute(order) if static_k is None else _static(op, static_k, q)
    v = v.unflatten(-1, (num_heads, head)).permute(order) if static_v is None else _static(op, static_v, q)
    extra = 0
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise _AttentionError(f"{op}: bias cannot be added to static key; give bias_k and bias_v, or static_k and static_v")
        more = [b.view(1, num_heads, 1, head).expand(batch, -1, -1, -1) for b in (bias_k, bias_v)]
        k, v = fb.cat([k, more[0]], 2), fb.cat([v, more[1]], 2)
        extra += 1
    if add_zero_attn:
        k, v = (fb.cat([x, x.new_zeros((batch, num_heads, 1, head))], 2) for x in (k, v))
        extra += 1
    source = k.shape[2]
    if padding is not None:
        padding = fb.constant_pad_nd(padding, [0, extra]).view(batch, 1, 1, source)
    if mask is not None:
        mask = fb.constant_pad_nd(mask, [0, extra])
    bias = mask if padding is None else padding if mask is None else mask + padding
    p = dropout_p if training else 0.0
    if need_weights:
        scores = (q * math.sqrt(1 / head)) @ k.transpose(-2, -1)
        shares = dropout((scores if bias is None else scores + bias).softmax(-1), p)
        mixed = shares @ v
    else:
        shares = None
        mixed = scaled_dot_product_attention(q, k, v, bias, p)
    output = linear(mixed.permute((0, 2, 1, 3) if batch_first else (2, 0, 1, 3)).flatten(2), out_proj_weight, out_proj_bias)
    output = output.transpose(0, 1) if batch_first else output
    if shares is not None and average_attn_weights:
        shares = shares.mean(1)
    if not batched:
        return output.squeeze(1), None if shares is None else shares.squeeze(0)
    return output, shares


def _projections(op: str, packed: Tensor | None, separate: bool, *parts: Tensor | None) -> tuple[Tensor, ...]:
    if not separate:
        if packed is None:
            raise ArgumentError(f"{op}: in_proj_weight must be given when use_separate_proj_weight is False")
        return packed.chunk(3)
    if any(part is None for part in parts):
        raise ArgumentError(f"{op}: use_separate_proj_weight needs q_proj_weight, k_proj_weight and v_proj_weight")
    return parts  # type: ignore[return-value]  # none of them is None


def _static(op: str, given: Tensor, q: Tensor) -> Tensor:
    batch, heads, _, head = q.shape
    if given.ndim != 3 or given.shape[0] != batch * heads or given.shape[2] != head:
        raise ArgumentError(
            f"{op}: static_k and static_v must be {(batch * heads, 'S', head)}, got {tuple(given.shape)}"
        )
    return given.unflatten(0, (batch, heads))


def _as_summand(op: str, name: str, mask: Tensor, dtype) -> Tensor:
    """A mask to be added to the scores: -inf where a bool one is True."""
    if mask.dtype == fb.bool:
        return fb.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise ArgumentError(f"{op}: {name} must be bool or floating, got {mask.dtype}")
    return mask


def _check_ranks(op: str, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None) -> None:
    n = query.ndim
    if n not in (2, 3):
        raise _AttentionError(f"{op}: query should be unbatched 2D or batched 3D tensor but received {n}-D query tensor, of {query.shape}")
    case = f"{op}: For {'batched' if n == 3 else 'unbatched'} ({n}-D) `query`, expected"
    if not key.ndim == value.ndim == n:
        raise _AttentionError(f"{case} `key` and `value` to be {n}-D but found {key.ndim}-D and {value.ndim}-D tensors respectively")
    if padding is not None and padding.ndim != n - 1:
        raise _AttentionError(f"{case} `key_padding_mask` to be `None` or {n - 1}-D but found {padding.ndim}-D tensor instead")
    if mask is not None and mask.ndim not in (2, 3):
        raise _AttentionError(f"{case} `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead")


def _added_mask(op: str, mask: Tensor | None, shape: tuple[int, int], batch: int, heads: int, dtype) -> Tensor | None:
    if mask is None:
        return None
    mask = _as_summand(op, "attn_mask", mask, dtype)
    if tuple(mask.shape) == shape:
        return mask.view(1, 1, *shape)
    if tuple(mask.shape) == (batch * heads, *shape):
        return mask.view(batch, heads, *shape)
    if mask.ndim == 3:
        raise _AttentionError(f"{op}: Expected `attn_mask` shape to be {(batch * heads, *shape)}, or {shape}, but got {mask.shape}")
    raise ArgumentError(f"{op}: The shape of the 2D attn_mask is {mask.shape}, but should be {shape}, or 3D {(batch * heads, *shape)}")


def _padding_mask(op: str, mask: Tensor | None, batch: int, source: int, dtype) -> Tensor | None:
    if mask is None:
        return None
    if tuple(mask.shape) != (batch, source):
        raise ArgumentError(f"{op}: key_padding_mask must have shape {(batch, source)}, got {tuple(mask.shape)}")
    return _as_summand(op, "key_padding_mask", mask, dtype)
