"""Objects that checkpoints save by their state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]
__dir__ = __all__.copy


@runtime_checkable
class Stateful(Protocol):
    """What has state_dict() and load_state_dict(): modules, optimizers, schedulers, loaders, and classes of your own.

    Example:
        >>> from flambeau.distributed.checkpoint.stateful import Stateful
        >>> isinstance(fb.nn.Linear(1, 1), Stateful), isinstance(3, Stateful)
        (True, False)
    """

    def state_dict(self) -> dict[str, Any]:
        """What to save."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Restores what state_dict() returned."""
        ...
