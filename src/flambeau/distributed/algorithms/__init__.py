"""Algorithms on top of collectives: uneven inputs, communication hooks."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
__dir__ = _package_dir(__name__)
