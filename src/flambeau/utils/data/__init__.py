"""Datasets, samplers and the DataLoader.

Example:
    >>> data = fb.utils.data.TensorDataset(fb.arange(6), fb.zeros(6))
    >>> [len(x) for x, y in fb.utils.data.DataLoader(data, batch_size=4)]
    [4, 2]
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.utils.data._utils.seeding import sample_generator
from flambeau.utils.data._utils.worker import WorkerInfo
from flambeau.utils.data.dataloader import DataLoader, default_collate, default_convert, get_worker_info
from flambeau.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from flambeau.utils.data.distributed import DistributedSampler
from flambeau.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from flambeau.utils.data.shared import SharedDict, SharedList

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "SharedDict", "SharedList", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerInfo", "default_collate", "default_convert",
    "get_worker_info", "random_split", "sample_generator",
]  # fmt: skip
__dir__ = _package_dir(__name__)
