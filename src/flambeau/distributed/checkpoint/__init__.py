"""Checkpoints of several processes: each writes its part, and any number of processes can load the whole.

Example:
    >>> import tempfile
    >>> from flambeau.distributed import checkpoint
    >>> folder = tempfile.TemporaryDirectory()
    >>> model = fb.nn.Linear(2, 2)
    >>> metadata = checkpoint.save({"model": model.state_dict(), "epoch": 3}, checkpoint_id=folder.name)
    >>> state = {"model": fb.nn.Linear(2, 2).state_dict(), "epoch": 0}
    >>> checkpoint.load(state, checkpoint_id=folder.name)
    >>> state["epoch"], state["model"]["weight"].equal(model.weight)
    (3, True)
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.distributed.checkpoint import _load, _metadata, _save, _storage
from flambeau.distributed.checkpoint._load import *
from flambeau.distributed.checkpoint._metadata import *
from flambeau.distributed.checkpoint._save import *
from flambeau.distributed.checkpoint._storage import *

__all__ = sorted([*_load.__all__, *_metadata.__all__, *_save.__all__, *_storage.__all__])
__dir__ = _package_dir(__name__)
