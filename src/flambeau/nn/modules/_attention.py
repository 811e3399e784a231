"""MultiheadAttention."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.linear import NonDynamicallyQuantizableLinear
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Multi-head attention: Concat(head₁ … headₕ) · Wᴼ, each head attending with its own projections.

    Args:
        embed_dim: size of the queries and of the output.
        num_heads: number of heads, a divisor of embed_dim.
        dropout: dropout probability of the attention weights during training.
        bias: whether the projections have a bias.
        add_bias_kv: whether to append a learned key and value to the sequences.
        add_zero_attn: whether to append a key and value of zeros.
        kdim: size of the keys, embed_dim by default.
        vdim: size of the values, embed_dim by default.
        batch_first: whether tensors are (N, L, E) instead of (L, N, E).
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> m = fb.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = fb.zeros(3, 5, 8)
        >>> out, weights = m(x, x, x)
        >>> out.shape, weights.shape
        (flambeau.Size([3, 5, 8]), flambeau.Size([3, 5, 5]))
    """

    in_proj_bias: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"MultiheadAttention: embed_dim and num_heads must be greater than 0, got {embed_dim} and {num_heads}"
            )
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"MultiheadAttention: embed_dim {embed_dim} must be divisible by num_heads {num_heads}"
            )

        def parameter(*shape: int) -> Parameter:
            return Parameter(fb.empty(shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = parameter(embed_dim, embed_dim)
            self.k_proj_weight = parameter(embed_dim, self.kdim)
            self.v_proj_weight = parameter(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__({"_qkv_same_embed_dim": True, **state})

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        swapped = self.batch_first and query.ndim == 3
        if swapped:
            if query is key is value:  # stays one tensor, for one projection
                query = key = value = query.transpose(0, 1)
            else:
                query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return output.transpose(0, 1) if swapped else output, weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one of shape (N, num_heads, L, S), and its kind: 0 attention, 1 padding, 2 both, None neither."""
        if attn_mask is None and key_padding_mask is None:
            return None, None
        if attn_mask is None:
            return key_padding_mask, 1
        batch, length = query.shape[0], query.shape[1]
        if attn_mask.ndim == 3:
            merged = attn_mask.view(batch, -1, length, attn_mask.shape[-1])
        elif attn_mask.ndim == 2:
            merged = attn_mask.view(1, 1, length, attn_mask.shape[-1]).expand(batch, self.num_heads, -1, -1)
        else:
            raise ArgumentError(f"merge_masks: attn_mask must be 2-d or 3-d, got shape {tuple(attn_mask.shape)}")
        if key_padding_mask is None:
            return merged, 0
        padding = key_padding_mask.view(batch, 1, 1, -1).expand(-1, self.num_heads, -1, -1)
        if merged.dtype != padding.dtype:
            warnings.warn(f"merge_masks: masks of {merged.dtype} and {padding.dtype} are added", stacklevel=2)
        return merged + padding, 2
