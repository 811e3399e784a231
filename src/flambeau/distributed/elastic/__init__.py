"""The launcher's API for scripts: records of errors. The launcher is flambeau.distributed.run."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.elastic import multiprocessing

__all__ = ["multiprocessing"]
__dir__ = _package_dir(__name__)
