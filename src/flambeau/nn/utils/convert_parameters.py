"""Parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["parameters_to_vector", "vector_to_parameters"]
__dir__ = __all__.copy


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, one after the other, in a vector.

    Example:
        >>> fb.nn.utils.parameters_to_vector([fb.tensor([[1.0, 2.0]]), fb.tensor([3.0])])
        tensor([1., 2., 3.])
    """
    return fb.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Gives parameters the values of a vector, as parameters_to_vector() made it.

    Example:
        >>> p = fb.nn.Parameter(fb.zeros(2), requires_grad=False)
        >>> fb.nn.utils.vector_to_parameters(fb.tensor([1.0, 2.0]), [p])
        >>> p.tolist()
        [1.0, 2.0]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a tensor, got {type(vec).__name__}")
    parameters = list(parameters)
    total = sum(p.numel() for p in parameters)
    if vec.numel() < total:
        raise ArgumentError(f"vector_to_parameters: the parameters have {total} elements, the vector {vec.numel()}")
    at = 0
    for parameter in parameters:
        n = parameter.numel()
        parameter.data = vec[at : at + n].view_as(parameter).data
        at += n
