"""Causal masks that are not materialised in memory."""

from __future__ import annotations

import enum

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]
__dir__ = __all__.copy


class CausalVariant(enum.IntEnum):
    """Which corner of the scores the causal triangle starts from; it matters when there are not as many queries as keys.

    Example:
        >>> fb.nn.attention.bias.CausalVariant.LOWER_RIGHT.name
        'LOWER_RIGHT'
    """

    UPPER_LEFT = enum.auto()
    LOWER_RIGHT = enum.auto()


class CausalBias:
    """A causal mask, to be given to scaled_dot_product_attention() as attn_mask.

    Args:
        variant: UPPER_LEFT lets query i see the keys up to i, LOWER_RIGHT the last query see all keys.
        seq_len_q: how many queries.
        seq_len_kv: how many keys.

    Example:
        >>> bias = fb.nn.attention.bias.CausalBias(fb.nn.attention.bias.CausalVariant.LOWER_RIGHT, 2, 3)
        >>> bias.materialize()
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise ArgumentError(f"CausalBias: variant must be a CausalVariant, got {variant!r}")
        if seq_len_q < 0 or seq_len_kv < 0:
            raise ArgumentError(f"CausalBias: lengths must not be negative, got {seq_len_q} and {seq_len_kv}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv

    @property
    def shape(self) -> fb.Size:
        """(queries, keys)."""
        return fb.Size((self.seq_len_q, self.seq_len_kv))

    def materialize(self) -> Tensor:
        """The mask as a tensor: True where a key takes part."""
        shift = 0 if self.variant == CausalVariant.UPPER_LEFT else self.seq_len_kv - self.seq_len_q
        return fb.ones(self.shape, dtype=fb.bool).tril(shift)

    def resolve(self, query: Tensor, key: Tensor) -> tuple[Tensor | None, bool]:
        """The equivalent (attn_mask, is_causal) for these tensors."""
        expected = (query.shape[-2], key.shape[-2])
        if tuple(self.shape) != expected:
            raise ArgumentError(
                f"scaled_dot_product_attention: attn_mask is a CausalBias for {self.seq_len_q} queries and {self.seq_len_kv} keys, "
                f"got {expected[0]} and {expected[1]}"
            )
        if self.variant == CausalVariant.UPPER_LEFT or self.seq_len_q == self.seq_len_kv:
            return None, True
        return self.materialize(), False

    def __repr__(self) -> str:
        return f"CausalBias(variant={self.variant.name}, seq_len_q={self.seq_len_q}, seq_len_kv={self.seq_len_kv})"


def _of_sizes(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise ArgumentError(f"causal_{variant.name.lower()}: expected two sizes, queries and keys, got {len(size)}")
    return CausalBias(variant, *size)


def causal_upper_left(*size: int) -> CausalBias:
    """A mask in which query i sees the keys up to i.

    Args:
        size: how many queries and how many keys.

    Example:
        >>> fb.nn.attention.bias.causal_upper_left(2, 3).materialize()
        tensor([[ True, False, False],
                [ True,  True, False]])
    """
    return _of_sizes(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """A mask in which the last query sees all keys, and each one before it one key less.

    Args:
        size: how many queries and how many keys.

    Example:
        >>> x = fb.eye(3).unsqueeze(0)
        >>> mask = fb.nn.attention.bias.causal_lower_right(1, 3)
        >>> fb.nn.functional.scaled_dot_product_attention(fb.zeros(1, 1, 3), x, x, mask)
        tensor([[[0.3333, 0.3333, 0.3333]]])
    """
    return _of_sizes(CausalVariant.LOWER_RIGHT, size)
