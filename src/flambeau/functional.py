"""The functions PyTorch also keeps in `torch.functional`; they are the ones at the top of the library.

Example:
    >>> fb.functional.einsum is fb.einsum
    True
"""

from flambeau import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    cdist,
    chain_matmul,
    einsum,
    istft,
    lu,
    meshgrid,
    norm,
    split,
    stft,
    tensordot,
    unique,
    unique_consecutive,
    unravel_index,
)

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "cdist",
    "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "split", "stft", "tensordot", "unique", "unique_consecutive",
    "unravel_index",
]  # fmt: skip
__dir__ = __all__.copy
