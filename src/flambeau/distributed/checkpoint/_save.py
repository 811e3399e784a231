"""Saving: processes agree on who writes what, all write at once, and one makes the checkpoint valid.

Note [Saving a checkpoint]
All processes exchange the names and boxes of their tensors and compute the same plan: a box that several have is
written by the one with the fewest bytes so far. Each writes one safetensors file under a new name; the first process
then atomically replaces metadata.json, which names the files. A previous checkpoint stays valid until that moment, and
its files are deleted after it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import os
import secrets
import threading
import time
from typing import Any

from flambeau import Tensor
from flambeau import distributed as dist
from flambeau._files.target import staged
from flambeau.distributed.checkpoint._metadata import (
    NAME,
    CheckpointException,
    Metadata,
    Piece,
    box,
    dtype_name,
    flattened,
)
from flambeau.distributed.checkpoint._storage import folder_of, gathered, is_alone, listed
from flambeau.errors import ArgumentError
from flambeau.serialization import save as save_file

__all__ = ["async_save", "save", "save_state_dict"]

_PATIENCE = 1800.0  # seconds that an asynchronous save waits for the other processes' files


class _Plan:
    """What this process writes, and the metadata of the whole."""

    def __init__(self, folder: str, metadata: Metadata, file: str, content: dict[str, Any], rank: int, files: list[str]) -> None:
        self.folder, self.metadata, self.file, self.content, self.rank = folder, metadata, file, content, rank
        self.files = files  # for all processes

    def write_file(self) -> None:
        save_file(self.content, os.path.join(self.folder, self.file), format="safetensors")

    def publish(self) -> None:
        """Makes the checkpoint valid; called by the first process when all files exist."""
        with staged() as files, files.file(os.path.join(self.folder, NAME)) as writer:
            writer.write(self.metadata.text().encode())
        for name in os.listdir(self.folder):
            if name.startswith("part-") and name not in self.files and self.metadata.mark not in name:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))


def _planned(state_dict: Any, folder: str, group: Any, alone: bool) -> _Plan:
    os.makedirs(folder, exist_ok=True)
    leaves = flattened(state_dict)
    rank = 0 if alone else dist.get_rank(group)
    boxes: dict[str, Any] = {}
    locals_: dict[str, Tensor] = {}
    for name, leaf in leaves.items():
        if not isinstance(leaf, Tensor):
            boxes[name] = None
            continue
        local, offsets, shape, mine = box(leaf)
        locals_[name] = local
        size = local.numel() * local.element_size()
        boxes[name] = (shape, dtype_name(leaf.dtype), offsets, tuple(local.shape), size, mine)
    everybody = gathered((boxes, secrets.token_hex(4)), group, alone)
    mark = everybody[0][1]
    files = [f"part-{r:05d}-of-{len(everybody):05d}-{mark}.safetensors" for r in range(len(everybody))]
    metadata, load = Metadata(mark=mark), [0] * len(everybody)
    holders: dict[Any, list[int]] = {}
    for r, (theirs, _) in enumerate(everybody):
        for name, found in theirs.items():
            if found is None:
                metadata.objects.setdefault(name, files[r])
            elif found[5]:
                known = metadata.tensors.setdefault(name, (found[0], found[1], []))
                if known[:2] != found[:2]:
                    raise ArgumentError(f"save: {name} has shape {found[0]} and dtype {found[1]} in rank {r}, but {known[:2]} before it")
                holders.setdefault((name, found[2], found[3], found[4]), []).append(r)
    content: dict[str, Any] = {"tensors": {}, "objects": {}}
    for (name, offsets, sizes, size), ranks in sorted(holders.items(), key=lambda item: (-item[0][3], item[0][:3])):
        owner = min(ranks, key=lambda r: (load[r], r))
        load[owner] += size
        pieces = metadata.tensors[name][2]
        key = f"{name}#{'_'.join(map(str, offsets))}" if offsets else name
        pieces.append(Piece(offsets, sizes, files[owner], key))
        if owner == rank:
            content["tensors"][key] = locals_[name]
    content["objects"] = {name: leaves[name] for name, file in metadata.objects.items() if file == files[rank] and name in leaves}
    return _Plan(folder, metadata, files[rank], content, rank, files)


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_writer: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False, use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    """Saves the state of all processes in a folder. All processes of the group call it.

    Tensors are saved once, DTensors by their pieces, so that any number of processes can load them under any placements.
    Objects with state_dict(), such as optimizers, schedulers and loaders, are saved by that. Other values are taken from
    the first process that has them under their name; what differs among processes, say random states, needs names that do.
    The folder is valid when save() returns; interrupted, it is as it was before.

    Args:
        state_dict: nested dictionaries.
        checkpoint_id: the folder, which all processes can reach.
        storage_writer: FileSystemWriter(folder), in place of checkpoint_id.
        planner: DefaultSavePlanner() or None.
        process_group: the default group if not given.
        no_dist: whether this process saves alone.
        use_collectives: accepted; processes always agree on who writes what.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = fb.distributed.checkpoint.save({"x": fb.ones(2, 3)}, checkpoint_id=folder)
        >>> metadata.tensors["x"][0]
        (2, 3)
    """
    alone = is_alone(no_dist)
    plan = _planned(state_dict, folder_of("save", checkpoint_id, storage_writer), process_group, alone)
    failure = None
    try:
        plan.write_file()
    except Exception as error:
        failure = error
    failures = gathered(None if failure is None else f"{type(failure).__name__}: {failure}", process_group, alone)
    if text := listed(failures):
        raise CheckpointException(f"save: the checkpoint in {plan.folder} was not written: {text}") from failure
    if plan.rank == 0:
        plan.publish()
    if not alone:
        dist.barrier(process_group)
    return plan.metadata


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_writer: Any = None,
    planner: Any = None, process_group: Any = None, async_checkpointer_type: Any = None, async_stager: Any = None,
    no_dist: bool = False, use_collectives: bool = True,
) -> concurrent.futures.Future[Metadata]:  # fmt: skip
    """Saves as save() does, while training goes on: tensors are copied now and written by a thread.

    Args:
        state_dict: nested dictionaries.
        checkpoint_id: the folder, which all processes can reach.
        storage_writer: FileSystemWriter(folder), in place of checkpoint_id.
        planner: DefaultSavePlanner() or None.
        process_group: the default group if not given.
        async_checkpointer_type: accepted; a thread writes.
        async_stager: accepted; copies are made in memory.
        no_dist: whether this process saves alone.
        use_collectives: accepted.

    Returns:
        A future, done when the whole checkpoint is valid. Its result() raises what went wrong in any process.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     future = fb.distributed.checkpoint.async_save({"x": fb.ones(2)}, checkpoint_id=folder)
        ...     metadata = future.result()
    """
    plan = _planned(state_dict, folder_of("async_save", checkpoint_id, storage_writer), process_group, is_alone(no_dist))
    plan.content["tensors"] = {key: t.clone() for key, t in plan.content["tensors"].items()}
    plan.content["objects"] = copy.deepcopy(plan.content["objects"])
    future: concurrent.futures.Future[Metadata] = concurrent.futures.Future()

    def work() -> None:
        try:
            future.set_result(_write_and_wait(plan))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="flambeau-checkpoint").start()
    return future


def _write_and_wait(plan: _Plan) -> Metadata:
    """Writes the file; the first process waits for all files, the others for its metadata in the folder."""
    failed = os.path.join(plan.folder, f"part-failed-{plan.metadata.mark}")
    try:
        plan.write_file()
    except Exception as error:
        with open(failed, "w", encoding="utf-8") as file:
            file.write(f"rank {plan.rank}: {type(error).__name__}: {error}")
        raise
    end = time.monotonic() + _PATIENCE

    def wait_for(ready: Any, what: str) -> None:
        while not ready():
            if os.path.exists(failed):
                with open(failed, encoding="utf-8") as file:
                    raise CheckpointException(f"async_save: the checkpoint in {plan.folder} was not written: {file.read()}")
            if time.monotonic() > end:
                raise CheckpointException(f"async_save: {what} did not appear in {plan.folder} within {_PATIENCE:.0f} s")
            time.sleep(0.02)  # ranks may share nothing but the folder, which sends no notifications

    if plan.rank == 0:
        wait_for(lambda: all(os.path.exists(os.path.join(plan.folder, name)) for name in plan.files), "the files of other ranks")
        plan.publish()
    else:
        wait_for(lambda: _mark_in(plan.folder) == plan.metadata.mark, f"the new {NAME}")
    return plan.metadata


def _mark_in(folder: str) -> str | None:
    try:
        return Metadata.read(folder).mark
    except CheckpointException:
        return None


def save_state_dict(state_dict: dict[str, Any], storage_writer: Any, process_group: Any = None, **options: Any) -> Metadata:
    """The older name of save().

    Args:
        state_dict: nested dictionaries.
        storage_writer: FileSystemWriter(folder).
        process_group: the default group if not given.
        options: as for save().

    Example:
        >>> import tempfile
        >>> from flambeau.distributed.checkpoint import FileSystemWriter, save_state_dict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = save_state_dict({"x": fb.ones(2)}, FileSystemWriter(folder))
    """
    options = {key: value for key, value in options.items() if key in ("planner", "no_dist")}
    return save(state_dict, storage_writer=storage_writer, process_group=process_group, **options)
