"""Running an optimizer on other tensors temporarily."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau import Tensor, errors
from flambeau.optim.optimizer import Optimizer

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Within the block, the optimizer works on other parameters with another state; its own are restored afterwards.

    Tensors given here are changed in place by steps in the block; new entries that a step adds to the state are lost.

    Args:
        optimizer: an optimizer that has made a step.
        swapin_parameters: tensors for the optimizer's parameters, in the order of its groups.
        swapin_optim_state: a state as `optimizer.state_dict()` returns it.

    Example:
        >>> p, q = fb.zeros(2, requires_grad=True), fb.zeros(2, requires_grad=True)
        >>> optimizer = fb.optim.SGD([p], lr=0.5, momentum=0.9)
        >>> p.grad = q.grad = fb.ones(2)
        >>> optimizer.step()
        >>> with fb.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, optimizer.state_dict()):
        ...     optimizer.step()
        >>> p.detach(), q.detach()
        (tensor([-0.5000, -0.5000]), tensor([-0.9500, -0.9500]))
    """
    groups = _checked_groups(optimizer, swapin_optim_state)
    new_params = list(swapin_parameters.values())
    expected = sum(len(group["params"]) for group in groups)
    if len(new_params) < expected:
        raise errors.StateError(f"{_NAME}: the optimizer has {expected} parameters, got {len(new_params)}")
    old_state, old_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    try:
        optimizer.state = defaultdict(dict)
        for group, new in zip(optimizer.param_groups, groups, strict=True):
            mine, new_params = new_params[: len(new["params"])], new_params[len(new["params"]) :]
            group.update(new | {"params": mine})
            for p, index in zip(mine, new["params"], strict=True):
                optimizer.state[p] = dict(swapin_optim_state["state"].get(index, {}))
        yield
    finally:
        optimizer.state = old_state
        for group, old in zip(optimizer.param_groups, old_groups, strict=True):
            group.clear()
            group.update(old)


def _checked_groups(optimizer: Optimizer, saved: dict[str, Any]) -> list[dict[str, Any]]:
    """The groups of a state, checked against the optimizer."""

    def refuse(why: str) -> None:
        raise errors.StateError(f"{_NAME}: {why}; expected what optimizer.state_dict() returns")

    if not optimizer.state:
        raise errors.StateError(f"{_NAME}: the optimizer has no state yet; make a step first")
    if not isinstance(saved, dict) or not isinstance(saved.get("state"), dict):
        refuse("swapin_optim_state['state'] is not a dictionary")
    groups = saved.get("param_groups")
    if not isinstance(groups, list) or len(groups) != len(optimizer.param_groups):
        refuse(f"swapin_optim_state['param_groups'] is not a list of {len(optimizer.param_groups)} groups")
    assert isinstance(groups, list)
    indices: set[int] = set()
    for i, (live, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        if not isinstance(group, dict) or live.keys() != group.keys():
            refuse(f"group {i} has other options than the optimizer's")
        ids = group["params"]
        if not isinstance(ids, list) or not all(isinstance(index, int) for index in ids):
            refuse(f"the parameters of group {i} are not a list of indices")
        if len(ids) != len(live["params"]):
            refuse(f"group {i} has {len(ids)} parameters instead of {len(live['params'])}")
        indices.update(ids)
    for key, value in saved["state"].items():
        if key not in indices or not isinstance(value, dict):
            refuse(f"the state has an entry {key!r} that belongs to no parameter or is not a dictionary")
    return groups
