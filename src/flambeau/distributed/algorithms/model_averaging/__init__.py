"""Averaging parameters instead of gradients."""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.algorithms.model_averaging import averagers, utils

__all__ = ["averagers", "utils"]
__dir__ = _package_dir(__name__)
