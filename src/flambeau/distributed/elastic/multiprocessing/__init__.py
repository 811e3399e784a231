"""Processes started by a launcher, and their recorded errors."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.elastic.multiprocessing import errors

__all__ = ["errors"]
__dir__ = _package_dir(__name__)
