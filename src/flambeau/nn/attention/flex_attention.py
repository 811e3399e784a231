"""Attention with scores changed and masked by functions of the position.

A function of positions is called once, with index tensors that broadcast to (batch, heads, queries, keys); so it must
be written elementwise, as PyTorch's are: comparisons, arithmetic, `where`, tables indexed by the positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention", "noop_mask",
    "or_masks",
]  # fmt: skip
__dir__ = __all__.copy

_MaskMod = Callable[[Any, Any, Any, Any], Any]


class AuxRequest(NamedTuple):
    """What flex_attention is to return beside its output.

    Example:
        >>> fb.nn.attention.flex_attention.AuxRequest(lse=True)
        AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What flex_attention returns beside its output: log-sum-exp and maximum of the scores of each query.

    Example:
        >>> fb.nn.attention.flex_attention.AuxOutput().lse is None
        True
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Tensor:
    """Masks nothing.

    Example:
        >>> fb.nn.attention.flex_attention.noop_mask(*[fb.tensor(0)] * 4)
        tensor(True)
    """
    return fb.ones((), dtype=fb.bool)


def and_masks(*mask_mods: _MaskMod) -> _MaskMod:
    """A mask that admits what all of the masks admit.

    Example:
        >>> mods = fb.nn.attention.flex_attention
        >>> mods.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 2)(0, 0, fb.arange(4), 1)
        tensor([False,  True,  True, False])
    """

    def both(b: Any, h: Any, q: Any, k: Any) -> Any:
        result = noop_mask(b, h, q, k)
        for mod in mask_mods:
            result = result & mod(b, h, q, k)
        return result

    return both


def or_masks(*mask_mods: _MaskMod) -> _MaskMod:
    """A mask that admits what any of the masks admits.

    Example:
        >>> mods = fb.nn.attention.flex_attention
        >>> mods.or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k == 0)(0, 0, fb.arange(3), 1)
        tensor([False,  True, False])
    """

    def either(b: Any, h: Any, q: Any, k: Any) -> Any:
        result = ~noop_mask(b, h, q, k)
        for mod in mask_mods:
            result = result | mod(b, h, q, k)
        return result

    return either


def _positions(sizes: tuple[int, int, int, int]) -> list[Tensor]:
    """Index tensors of batch, head, query and key, each along its own dimension."""
    places = []
    for axis, size in enumerate(sizes):
        shape = [1, 1, 1, 1]
        shape[axis] = size
        places.append(fb.arange(size).view(shape))
    return places


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The mask of a function as a whole tensor of shape (B, H, Q_LEN, KV_LEN); True admits.

    Args:
        mod_fn: a function of (batch, head, query, key).
        B: batch size; 1 if None.
        H: heads; 1 if None.
        Q_LEN: queries.
        KV_LEN: keys.
        device: of the mask.

    Example:
        >>> fb.nn.attention.flex_attention.create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)
        tensor([[[[ True, False],
                  [ True,  True]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return fb.as_tensor(mod_fn(*_positions(sizes)), device=device).expand(sizes)


class BlockMask:
    """A mask by a function, with a table of the blocks that have anything to attend to.

    Attributes:
        kv_num_blocks, kv_indices: for each row of blocks, how many have something admitted and something masked, and
            where they are.
        full_kv_num_blocks, full_kv_indices: the same of blocks that are admitted wholly.

    Example:
        >>> mask = fb.nn.attention.flex_attention.create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.shape, mask.to_dense()
        ((1, 1, 256, 256), tensor([[[[1, 0],
                  [1, 1]]]], dtype=flambeau.int32))
    """

    def __init__(self, mask: Tensor, mask_mod: _MaskMod, block_size: tuple[int, int]) -> None:
        self.mask_mod, self.BLOCK_SIZE, self._mask = mask_mod, block_size, mask
        self.seq_lengths = (mask.shape[-2], mask.shape[-1])
        q, k = block_size
        rows, columns = -(-mask.shape[-2] // q), -(-mask.shape[-1] // k)
        # Positions past the end count as masked, so a block at the edge is never full.
        padded = fb.nn.functional.pad(mask.int(), [0, columns * k - mask.shape[-1], 0, rows * q - mask.shape[-2]])
        counts = padded.view(*mask.shape[:2], rows, q, columns, k).sum((3, 5))
        self._blocks = (counts > 0).int()
        full = counts == q * k
        self.kv_num_blocks, self.kv_indices = _listed((counts > 0) & ~full)
        self.full_kv_num_blocks, self.full_kv_indices = _listed(full)

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, heads, queries, keys)."""
        return tuple(self._mask.shape)

    def numel(self) -> int:
        """Number of entries of the whole mask."""
        return self._mask.numel()

    def to_dense(self) -> Tensor:
        """1 for each block with something to attend to, else 0."""
        return self._blocks

    def sparsity(self) -> float:
        """Percentage of the blocks with nothing to attend to."""
        return 100.0 * (1 - self._blocks.float().mean().item())

    def to(self, device: Any) -> BlockMask:
        """The same mask on a device."""
        return BlockMask(self._mask.to(device), self.mask_mod, self.BLOCK_SIZE)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _listed(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The number of chosen entries in each row, and their positions, followed by the others."""
    return chosen.sum(-1).int(), fb.argsort(chosen.int(), dim=-1, descending=True, stable=True).int()


def create_block_mask(
    mask_mod: _MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = 128,
    _compile: bool = False,
) -> BlockMask:
    """The BlockMask of a function.

    Args:
        mask_mod: a function of (batch, head, query, key) that returns True where a query may attend to a key.
        B: batch size; None for one mask for all.
        H: heads; None for one mask for all.
        Q_LEN: queries.
        KV_LEN: keys.
        device: of the mask.
        BLOCK_SIZE: size of the blocks, or (queries, keys).
        _compile: makes no difference.

    Example:
        >>> fb.nn.attention.flex_attention.create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        BlockMask(shape=(1, 1, 256, 256), sparsity=25.00%)
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    if len(size) != 2 or min(size) < 1:
        raise ArgumentError(f"create_block_mask: BLOCK_SIZE must be a positive number or two, got {BLOCK_SIZE}")
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, (size[0], size[1]))


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query keyᵀ · scale)) value, with masked scores left out. A query with all masked gets zeros.

    Args:
        query: (batch, heads, queries, features).
        key: (batch, heads, keys, features).
        value: (batch, heads, keys, features of the result).
        score_mod: a function of (score, batch, head, query, key) that returns a modified score.
        block_mask: from create_block_mask.
        scale: factor of the scores; 1 / √features if not given.
        enable_gqa: whether key and value may have fewer heads, each shared by several of the query.
        return_lse: whether to return (output, log-sum-exp) instead.
        kernel_options: for compiled kernels, which there are none of; makes no difference to the result.
        return_aux: what else to return: (output, AuxOutput).

    Example:
        >>> x = fb.ones(1, 1, 2, 4)
        >>> fb.nn.attention.flex_attention.flex_attention(x, x, x, score_mod=lambda s, b, h, q, k: s + q - k).shape
        flambeau.Size([1, 1, 2, 4])
    """
    op = "flex_attention"
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.dim() != 4:
            raise ArgumentError(
                f"{op}: {name} must have 4 dimensions (batch, heads, length, features), got {tuple(t.shape)}"
            )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2] or key.shape[1] != value.shape[1]:
        raise ArgumentError(
            f"{op}: shapes do not fit: query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        )
    heads, shared = query.shape[1], key.shape[1]
    if heads != shared:
        if not enable_gqa or heads % shared:
            raise ArgumentError(
                f"{op}: query has {heads} heads and key {shared}; they must be equal, or with enable_gqa=True a multiple"
            )
        key, value = (t.repeat_interleave(heads // shared, dim=1) for t in (key, value))
    scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    sizes = (scores.shape[0], scores.shape[1], scores.shape[2], scores.shape[3])
    if score_mod is not None:
        scores = score_mod(scores, *_positions(sizes)).to(scores.dtype).expand(sizes)
    if block_mask is not None:
        if block_mask.seq_lengths != sizes[2:]:
            raise ArgumentError(
                f"{op}: block_mask is for lengths {block_mask.seq_lengths}, queries and keys have {sizes[2:]}"
            )
        scores = scores.masked_fill(~block_mask._mask, -fb.inf)
    most = scores.amax(-1, keepdim=True)
    # Where everything is masked the maximum is -inf; 0 makes all weights exactly 0.
    weights = (scores - most.detach().masked_fill(most == -fb.inf, 0)).exp()
    total = weights.sum(-1, keepdim=True)
    output = (weights / total.masked_fill(total == 0, 1)) @ value
    if not return_lse and return_aux is None:
        return output
    lse = scores.logsumexp(-1)
    if return_lse:
        return output, lse
    assert return_aux is not None
    return output, AuxOutput(lse if return_aux.lse else None, most.squeeze(-1) if return_aux.max_scores else None)
