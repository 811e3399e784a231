"""Distance modules."""

from __future__ import annotations

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]
__dir__ = __all__.copy


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dimension.

    Args:
        p: order of the norm.
        eps: keeps the gradient finite at zero distance.
        keepdim: whether to keep the dimension with size 1.

    Example:
        >>> fb.nn.PairwiseDistance()(fb.zeros(1, 2), fb.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """x1 · x2 / (max(|x1|, eps) · max(|x2|, eps)) along a dimension.

    Args:
        dim: the dimension.
        eps: lower bound of the divisor, which avoids division by zero.

    Example:
        >>> fb.nn.CosineSimilarity()(fb.tensor([[1.0, 0.0]]), fb.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
