"""Reductions and normalizations over the elements that a boolean mask selects.

An element counts where the mask is True; masked-out elements do not change a result. A mask has at most as many
dimensions as its input and is broadcast to it. A slice without a selected element gives the identity of the reduction
(0 for `sum`, -inf for `amax`), or NaN where there is none (`mean`, `median`, `var`, `std`).

Example:
    >>> x = fb.tensor([[1., 2., 3.], [4., 5., 6.]])
    >>> fb.masked.sum(x, 1, mask=fb.tensor([True, False, True]))
    tensor([ 4., 10.])
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.masked._masks import (
    _canonical_dim,
    _combine_input_and_mask,
    _input_mask,
    _output_mask,
    _reduction_identity,
    _where,
)
from flambeau.masked._normalizations import cumprod, cumsum, log_softmax, logaddexp, normalize, softmax, softmin
from flambeau.masked._reductions import amax, amin, argmax, argmin, logsumexp, mean, median, norm, prod, std, sum, var

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median", "norm",
    "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
__dir__ = _package_dir(__name__)

# Non-public names that tools written for PyTorch import.
_PRIVATE = (_canonical_dim, _combine_input_and_mask, _input_mask, _output_mask, _reduction_identity, _where)
