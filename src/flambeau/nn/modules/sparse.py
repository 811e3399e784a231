"""Embeddings."""

from __future__ import annotations

from typing import Any, Self

import flambeau as fb
from flambeau import Tensor
from flambeau._tensor.layouts import Device
from flambeau.errors import ArgumentError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _check_sizes
from flambeau.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]
__dir__ = __all__.copy


def _table(op: str, weight: Tensor | None, rows: int, columns: int, freeze: bool, device, dtype) -> Parameter:
    """The parameter of an embedding: a given tensor, or a new one to be initialised."""
    if weight is None:
        return Parameter(fb.empty((rows, columns), device=device, dtype=dtype), requires_grad=not freeze)
    if tuple(weight.shape) != (rows, columns):
        raise ArgumentError(f"{op}: shape of weight {tuple(weight.shape)} does not match {(rows, columns)}")
    return Parameter(weight, requires_grad=not freeze)


def _row(op: str, padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"{op}: padding_idx must be within num_embeddings {rows}, got {padding_idx}")
    return padding_idx % rows


class Embedding(Module):
    """A lookup table of vectors, initialized from N(0, 1).

    Args:
        num_embeddings: number of rows.
        embedding_dim: size of a row.
        padding_idx: a row of zeros that receives no gradient.
        max_norm: rows in use with a larger norm are scaled to this norm.
        norm_type: order of the norm.
        scale_grad_by_freq: whether to divide the gradient of a row by its number of occurrences.
        sparse: whether the gradient of the table is a sparse tensor, of the rows in use only.
        device: device of the table.
        dtype: dtype of the table.

    Example:
        >>> fb.nn.Embedding(10, 3)(fb.tensor([[1, 2], [3, 4]])).shape
        flambeau.Size([2, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _row("Embedding", padding_idx, num_embeddings)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.weight = _table("Embedding", _weight, num_embeddings, embedding_dim, _freeze, device, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitializes the table."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with fb.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text + ", sparse=True" if self.sparse else text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An embedding with a given table.

        Args:
            embeddings: (rows, features).
            freeze: whether to exclude the table from training.
            padding_idx: a row that receives no gradient.
            max_norm: rows in use with a larger norm are scaled to this norm.
            norm_type: order of the norm.
            scale_grad_by_freq: whether to divide the gradient of a row by its number of occurrences.
            sparse: whether the gradient of the table is a sparse tensor, of the rows in use only.

        Example:
            >>> fb.nn.Embedding.from_pretrained(fb.tensor([[1.0, 2.0]]))(fb.tensor([0]))
            tensor([[1., 2.]])
        """
        if embeddings.ndim != 2:
            raise AssertionError(f"from_pretrained: expected a matrix, got shape {tuple(embeddings.shape)}")
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(Module):
    """Sums, means or maxima of bags of embeddings.

    Args:
        num_embeddings: number of rows.
        embedding_dim: size of a row.
        max_norm: rows in use with a larger norm are scaled to this norm.
        norm_type: order of the norm.
        scale_grad_by_freq: whether to divide the gradient of a row by its number of occurrences.
        mode: "sum", "mean" or "max".
        sparse: whether the gradient of the table is a sparse tensor, of the rows in use only.
        include_last_offset: whether the last offset is the length of the input.
        padding_idx: a row that is skipped.
        device: device of the table.
        dtype: dtype of the table.

    Example:
        >>> fb.nn.EmbeddingBag(10, 3)(fb.tensor([1, 2, 3]), fb.tensor([0, 2])).shape
        flambeau.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device = None,
        dtype: fb.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset
        self.padding_idx = _row("EmbeddingBag", padding_idx, num_embeddings)
        self.weight = _table("EmbeddingBag", _weight, num_embeddings, embedding_dim, False, device, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitializes the table."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with fb.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else text + f", padding_idx={self.padding_idx}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Any:
        """An embedding bag with a given table.

        Args:
            embeddings: (rows, features).
            freeze: whether to exclude the table from training.
            max_norm: rows in use with a larger norm are scaled to this norm.
            norm_type: order of the norm.
            scale_grad_by_freq: whether to divide the gradient of a row by its number of occurrences.
            mode: "sum", "mean" or "max".
            sparse: whether the gradient of the table is a sparse tensor, of the rows in use only.
            include_last_offset: whether the last offset is the length of the input.
            padding_idx: a row that is skipped.

        Example:
            >>> fb.nn.EmbeddingBag.from_pretrained(fb.tensor([[1.0], [3.0]]))(fb.tensor([[0, 1]]))
            tensor([[2.]])
        """
        if embeddings.ndim != 2:
            raise AssertionError(f"from_pretrained: expected a matrix, got shape {tuple(embeddings.shape)}")
        rows, columns = embeddings.shape
        bag = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight=embeddings,
            include_last_offset=include_last_offset, padding_idx=padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad = not freeze
        return bag
