"""Processes that a launcher has started, and the errors they leave."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.elastic.multiprocessing import errors

__all__ = ["errors"]
__dir__ = _package_dir(__name__)
