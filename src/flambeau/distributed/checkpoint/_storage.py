"""Storage of checkpoints: folders that all processes can access."""

from __future__ import annotations

import os
from typing import Any

from flambeau import distributed as dist
from flambeau.distributed.checkpoint._metadata import Metadata
from flambeau.errors import ArgumentError

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter"]


class FileSystemWriter:
    """A folder to save to; the same as checkpoint_id=path.

    Args:
        path: the folder; made if it is not there.
        overwrite: whether it may hold a checkpoint already, which is replaced when the new one is complete.

    Example:
        >>> fb.distributed.checkpoint.FileSystemWriter("run/step-10").path
        'run/step-10'
    """

    def __init__(self, path: str | os.PathLike[str], *args: Any, overwrite: bool = True, **kwargs: Any) -> None:
        self.path, self.overwrite = os.fspath(path), overwrite


class FileSystemReader:
    """A folder to load from; the same as checkpoint_id=path.

    Args:
        path: the folder.

    Example:
        >>> fb.distributed.checkpoint.FileSystemReader("run/step-10").path
        'run/step-10'
    """

    def __init__(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        self.path = os.fspath(path)

    def read_metadata(self) -> Metadata:
        """The metadata of the checkpoint."""
        return Metadata.read(self.path)


class DefaultSavePlanner:
    """Each process saves its pieces; of pieces that several have, the one with the least to write.

    Example:
        >>> fb.distributed.checkpoint.DefaultSavePlanner() is not None
        True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class DefaultLoadPlanner:
    """Each process loads what its state_dict has.

    Args:
        allow_partial_load: whether values that the checkpoint does not have keep their value; otherwise they are an error.

    Example:
        >>> fb.distributed.checkpoint.DefaultLoadPlanner(allow_partial_load=True).allow_partial_load
        True
    """

    def __init__(self, *args: Any, allow_partial_load: bool = False, **kwargs: Any) -> None:
        self.allow_partial_load = allow_partial_load


def folder_of(op: str, checkpoint_id: Any, storage: Any) -> str:
    """The folder given by either argument."""
    if storage is not None and not hasattr(storage, "path"):
        raise TypeError(f"{op}: expected FileSystemWriter or FileSystemReader, got {type(storage).__name__}")
    path = checkpoint_id if checkpoint_id is not None else getattr(storage, "path", None)
    if path is None:
        raise ArgumentError(f"{op}: no folder was given; pass checkpoint_id")
    return os.fspath(path)


def is_alone(no_dist: bool) -> bool:
    """Whether this process saves or loads without others."""
    return no_dist or not dist.is_initialized()


def gathered(value: Any, group: Any, alone: bool) -> list[Any]:
    """The values of all processes, by rank."""
    if alone:
        return [value]
    values: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group=group)
    return values


def listed(failures: list[Any]) -> str:
    """The failures of all processes as text; empty without any."""
    return "; ".join(f"rank {r}: {text}" for r, text in enumerate(failures) if text)
