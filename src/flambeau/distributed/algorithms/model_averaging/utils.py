"""Averages of parameters over processes.

Example:
    >>> from flambeau.distributed.algorithms.model_averaging.utils import average_parameters
    >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> average_parameters(fb.nn.Linear(2, 1).parameters(), None)
    >>> fb.distributed.destroy_process_group()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau import distributed as dist
from flambeau.distributed._coalesced import flat_chunks

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]
__dir__ = __all__.copy


def average_parameters(params: Iterable[Tensor], process_group: Any = None) -> None:
    """Replaces parameters by their averages over the processes, in few messages.

    Args:
        params: the parameters.
        process_group: the default group if None.

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.utils import average_parameters
        >>> callable(average_parameters)
        True
    """
    if dist.get_rank(process_group) < 0:
        return
    size = dist.get_world_size(process_group)
    with fb.no_grad():
        for flat, members in flat_chunks(params):
            flat.div_(size)
            dist.all_reduce(flat, group=process_group)
            for t, part in zip(members, flat.split([t.numel() for t in members]), strict=True):
                t.copy_(part.view(t.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """The parameters that have gradients.

    Args:
        params: parameters, or dictionaries with a list of them under "params".

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.utils import get_params_to_average
        >>> get_params_to_average([fb.ones(2, requires_grad=True)])
        []
    """
    found: list[Tensor] = []
    for one in params:
        if isinstance(one, Tensor):
            found += [one] if one.grad is not None else []
        elif isinstance(one, dict):
            found += [p for p in one["params"] if p.grad is not None]
        else:
            raise TypeError(f"get_params_to_average: expected parameters or parameter groups, got {type(one).__name__}")
    return found


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any = None) -> None:
    """Replaces the parameters that have gradients by their averages over the processes.

    Args:
        params: parameters, or dictionaries with a list of them under "params".
        process_group: the default group if None.

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging import utils
        >>> callable(utils.average_parameters_or_parameter_groups)
        True
    """
    average_parameters(get_params_to_average(params), process_group)
