"""Transformers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules._attention import MultiheadAttention
from flambeau.nn.modules._docs import inherit_args
from flambeau.nn.modules.activation import GELU, ReLU
from flambeau.nn.modules.container import ModuleList
from flambeau.nn.modules.dropout import Dropout
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]
__dir__ = __all__.copy


def _activation(activation: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation in ("relu", "gelu"):
        return getattr(F, activation)
    raise RuntimeError(f"Transformer: activation should be relu/gelu or a function, not {activation!r}")


def _kind_of(activation: Callable[[Tensor], Tensor]) -> int:
    """PyTorch's number for an activation, which models read: 1 for relu, 2 for gelu, 0 for any other."""
    if activation is F.relu or isinstance(activation, ReLU):
        return 1
    return 2 if activation is F.gelu or isinstance(activation, GELU) else 0


def _clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _causal_mask(size: int, dtype=None) -> Tensor:
    return fb.full((size, size), float("-inf"), dtype=dtype).triu(1)


def _is_causal(mask: Tensor | None, is_causal: bool | None) -> bool:
    """The caller's choice, or whether the mask is the causal one."""
    if is_causal is not None:
        return is_causal
    if mask is None or mask.ndim != 2 or mask.shape[0] != mask.shape[1] or mask.dtype == fb.bool:
        return False
    return bool((mask == _causal_mask(mask.shape[0], mask.dtype)).all())


class _TransformerLayer(Module):
    """Attentions and a feed-forward network, each with a layer norm, dropout and a residual connection.

    Args:
        d_model: number of features.
        nhead: number of attention heads.
        dim_feedforward: size of the hidden layer.
        dropout: the probability.
        activation: of the hidden layer: "relu", "gelu" or a function.
        layer_norm_eps: eps of the layer norms.
        batch_first: whether tensors are (N, L, E) instead of (L, N, E).
        norm_first: whether layer norm is applied before each block instead of after it.
        bias: whether linear layers and norms have a bias.
        device: device of the parameters.
        dtype: dtype of the parameters.
    """

    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    _attentions: tuple[str, ...]  # names of the attentions

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name in self._attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **where))
        self.linear1 = Linear(d_model, dim_feedforward, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **where)
        self.norm_first = norm_first
        blocks = range(1, len(self._attentions) + 2)
        for i in blocks:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, **where))
        for i in blocks:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)
        self.activation_relu_or_gelu = _kind_of(self.activation)

    def _sa_block(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool = False) -> Tensor:
        attended, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        dropout = getattr(self, f"dropout{len(self._attentions) + 1}")
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


@inherit_args
class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network, each with dropout, a residual connection and a layer norm.

    Example:
        >>> fb.nn.TransformerEncoderLayer(8, 2, 16)(fb.zeros(5, 3, 8)).shape
        flambeau.Size([5, 3, 8])
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), *masks)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, *masks))
        return self.norm2(x + self._ff_block(x))


@inherit_args
class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the encoder's memory, and a feed-forward network.

    Example:
        >>> fb.nn.TransformerDecoderLayer(8, 2, 16)(fb.zeros(5, 3, 8), fb.zeros(4, 3, 8)).shape
        flambeau.Size([5, 3, 8])
    """

    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        cross = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = tgt + self._sa_block(self.norm1(tgt), *own)
            x = x + self._mha_block(self.norm2(x), memory, *cross)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(tgt + self._sa_block(tgt, *own))
        x = self.norm2(x + self._mha_block(x, memory, *cross))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.multihead_attn(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout2(attended)


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Args:
        encoder_layer: the layer, of which num_layers copies are made.
        num_layers: number of layers.
        norm: a final normalization.
        enable_nested_tensor: accepted without effect; padding is masked either way.
        mask_check: accepted without effect; masks are always checked.

    Example:
        >>> layer = fb.nn.TransformerEncoderLayer(8, 2, 16)
        >>> fb.nn.TransformerEncoder(layer, 2)(fb.zeros(5, 3, 8)).shape
        flambeau.Size([5, 3, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = False  # padding is masked, never removed

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        causal = _is_causal(mask, is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Args:
        decoder_layer: the layer, of which num_layers copies are made.
        num_layers: number of layers.
        norm: a final normalization.

    Example:
        >>> layer = fb.nn.TransformerDecoderLayer(8, 2, 16)
        >>> fb.nn.TransformerDecoder(layer, 2)(fb.zeros(5, 3, 8), fb.zeros(4, 3, 8)).shape
        flambeau.Size([5, 3, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        causal = _is_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """A transformer: an encoder and a decoder.

    Args:
        d_model: number of features.
        nhead: number of attention heads.
        num_encoder_layers: number of encoder layers.
        num_decoder_layers: number of decoder layers.
        dim_feedforward: size of the hidden layers.
        dropout: the probability.
        activation: of the hidden layers: "relu", "gelu" or a function.
        custom_encoder: a custom encoder.
        custom_decoder: a custom decoder.
        layer_norm_eps: eps of the layer norms.
        batch_first: whether tensors are (N, L, E) instead of (L, N, E).
        norm_first: whether layer norm is applied before each block instead of after it.
        bias: whether linear layers and norms have a bias.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> m = fb.nn.Transformer(8, 2, 1, 1, 16)
        >>> m(fb.zeros(4, 3, 8), fb.zeros(5, 3, 8)).shape
        flambeau.Size([5, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            norm = LayerNorm(d_model, layer_norm_eps, **where)
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer, **where), num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            norm = LayerNorm(d_model, layer_norm_eps, **where)
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer, **where), num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch_dim = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch_dim] != tgt.shape[batch_dim]:
            raise ArgumentError(
                f"Transformer: the batch number of src and tgt must be equal, got {tuple(src.shape)} and {tuple(tgt.shape)}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ArgumentError(
                f"Transformer: the feature number of src and tgt must be equal to d_model {self.d_model}, got "
                f"{src.shape[-1]} and {tgt.shape[-1]}"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: fb.dtype | None = None) -> Tensor:
        """A causal mask, which hides later steps: -inf above the diagonal, 0 elsewhere.

        Args:
            sz: number of steps.
            device: device of the result.
            dtype: of the mask.

        Example:
            >>> fb.nn.Transformer.generate_square_subsequent_mask(2)
            tensor([[0., -inf],
                    [0., 0.]])
        """
        return fb.full((sz, sz), float("-inf"), device=device, dtype=dtype).triu(1)
