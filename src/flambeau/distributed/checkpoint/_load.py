"""Loading: each process copies what its tensors need from the files that contain it."""

from __future__ import annotations

import os
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed.checkpoint._metadata import CheckpointException, Metadata, Piece, box, is_stateful
from flambeau.distributed.checkpoint._storage import folder_of, gathered, is_alone, listed
from flambeau.errors import ArgumentError
from flambeau.serialization import load as load_file

__all__ = ["load", "load_state_dict"]


class _Files:
    """The files of a checkpoint, opened on demand. Tensors are mapped: only copied parts are read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._open: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._open:
            path = os.path.join(self.folder, name)
            if not os.path.exists(path):
                raise CheckpointException(f"load: the checkpoint in {self.folder} lacks its file {name}")
            self._open[name] = load_file(path, mmap=True)
        return self._open[name]


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_reader: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Loads a checkpoint into a state: its tensors are written to, its other values replaced.

    The number of processes and the placements of DTensors may differ from those that saved. Objects with
    load_state_dict() are given theirs.

    Args:
        state_dict: nested dictionaries, as given to save().
        checkpoint_id: the folder.
        storage_reader: FileSystemReader(folder), in place of checkpoint_id.
        planner: DefaultLoadPlanner(allow_partial_load=True) leaves what the checkpoint does not have; else that is an error.
        process_group: the default group if not given.
        no_dist: whether this process loads alone.

    Example:
        >>> import tempfile
        >>> state = {"x": fb.zeros(2), "step": 0}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = fb.distributed.checkpoint.save({"x": fb.ones(2), "step": 5}, checkpoint_id=folder)
        ...     fb.distributed.checkpoint.load(state, checkpoint_id=folder)
        >>> state
        {'x': tensor([1., 1.]), 'step': 5}
    """
    folder = folder_of("load", checkpoint_id, storage_reader)
    partial = bool(getattr(planner, "allow_partial_load", False))
    failure: Exception | None = None
    try:
        metadata = Metadata.read(folder)
        missing: list[str] = []
        _fill(state_dict, "", metadata, _Files(folder), missing)
        if missing and not partial:
            raise CheckpointException(
                f"load: Missing key in checkpoint state_dict: the checkpoint in {folder} has no {', '.join(missing[:10])}"
                f"{' …' if len(missing) > 10 else ''}; pass planner=DefaultLoadPlanner(allow_partial_load=True) to leave them as they are"
            )
    except Exception as error:
        failure = error
    # All processes raise if one of them does, so that none waits for it later.
    failures = gathered(None if failure is None else str(failure), process_group, is_alone(no_dist))
    if failure is not None:
        raise failure
    if text := listed(failures):
        raise CheckpointException(text)


def _fill(state: Any, prefix: str, metadata: Metadata, files: _Files, missing: list[str]) -> Any:
    """Fills a part of the state; returns its replacement."""
    if is_stateful(state):
        inner = state.state_dict()
        before = len(missing)
        inner = _fill(inner, prefix, metadata, files, missing)
        if len(missing) == before or inner:
            state.load_state_dict(inner)
        return state
    if isinstance(state, Tensor):
        if prefix in metadata.tensors:
            _copy(prefix, state, metadata, files)
        else:
            missing.append(prefix)
        return state
    if isinstance(state, dict) and (state or prefix not in metadata.objects):
        for key in list(state):
            state[key] = _fill(state[key], f"{prefix}.{key}" if prefix else str(key), metadata, files, missing)
        return state
    if isinstance(state, list) and prefix not in metadata.objects and state:
        for i, item in enumerate(state):
            state[i] = _fill(item, f"{prefix}.{i}", metadata, files, missing)
        return state
    if prefix in metadata.objects:
        return files[metadata.objects[prefix]]["objects"][prefix]
    if prefix in metadata.tensors:
        shape, dtype, _ = metadata.tensors[prefix]
        made = fb.empty(shape, dtype=getattr(fb, dtype))
        _copy(prefix, made, metadata, files)
        return made
    if state is not None and not isinstance(state, dict):
        missing.append(prefix)
    return state


def _copy(name: str, target: Tensor, metadata: Metadata, files: _Files) -> None:
    """Copies the parts of all the checkpoint's pieces that overlap this process's piece."""
    shape, _, pieces = metadata.tensors[name]
    local, offsets, whole, _ = box(target)
    if whole != shape:
        raise ArgumentError(f"load: {name} has shape {whole}, in the checkpoint {shape}")
    covered = 0
    with fb.no_grad():
        for piece in pieces:
            overlap = _overlap(piece, offsets, tuple(local.shape))
            if overlap is None:
                continue
            source = files[piece.file]["tensors"][piece.key]
            if tuple(source.shape) != piece.sizes:
                raise CheckpointException(f"load: {name} in {piece.file} has shape {tuple(source.shape)}, the metadata says {piece.sizes}")
            into, out_of = local, source
            for dim, (start, length) in enumerate(overlap):
                into = into.narrow(dim, start - offsets[dim], length)
                out_of = out_of.narrow(dim, start - piece.offsets[dim], length)
            into.copy_(out_of)
            covered += into.numel()
    if covered < local.numel():
        raise CheckpointException(f"load: the pieces of {name} in the checkpoint do not cover it")


def _overlap(piece: Piece, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> list[tuple[int, int]] | None:
    result = []
    for a, m, b, n in zip(piece.offsets, piece.sizes, offsets, sizes, strict=True):
        start, end = max(a, b), min(a + m, b + n)
        if end <= start:
            return None
        result.append((start, end - start))
    return result


def load_state_dict(state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None, **options: Any) -> None:
    """The older name of load().

    Args:
        state_dict: nested dictionaries.
        storage_reader: FileSystemReader(folder).
        process_group: the default group if not given.
        options: as for load().

    Example:
        >>> import tempfile
        >>> from flambeau.distributed.checkpoint import FileSystemReader, load_state_dict, save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = save({"x": fb.ones(2)}, checkpoint_id=folder)
        ...     load_state_dict({"x": fb.zeros(2)}, FileSystemReader(folder))
    """
    options = {key: value for key, value in options.items() if key in ("planner", "no_dist")}
    load(state_dict, storage_reader=storage_reader, process_group=process_group, **options)
