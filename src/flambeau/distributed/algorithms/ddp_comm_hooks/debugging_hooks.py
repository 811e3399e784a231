"""Hooks that show the cost of communication."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributed._reducer import GradBucket
from flambeau.futures import Future

__all__ = ["noop_hook"]
__dir__ = __all__.copy


def noop_hook(_: Any, bucket: GradBucket) -> Future[Tensor]:
    """Leaves each process its own gradients, so that what the rest of a step takes can be measured.

    Args:
        _: not used.
        bucket: the gradients.

    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
        >>> callable(noop_hook)
        True
    """
    done: Future[Tensor] = Future()
    done.set_result(bucket.buffer())
    return done
