"""The metadata of a checkpoint: pieces of tensors with their offsets, and other values by name."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed.checkpoint.stateful import Stateful
from flambeau.errors import ArgumentError
from flambeau.serialization import FileError

__all__ = ["CheckpointException", "Metadata"]

NAME = "metadata.json"


class CheckpointException(FileError):
    """A checkpoint that could not be saved or loaded.

    Example:
        >>> issubclass(fb.distributed.checkpoint.CheckpointException, RuntimeError)
        True
    """


@dataclasses.dataclass(frozen=True)
class Piece:
    """A box of a tensor: its offsets and sizes, and the file and name it is saved under."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str = ""
    key: str = ""


@dataclasses.dataclass
class Metadata:
    """What a checkpoint holds.

    `tensors` gives for each name shape, dtype and pieces; `objects` gives for each other value the file that has it.

    Example:
        >>> fb.distributed.checkpoint.Metadata().tensors
        {}
    """

    tensors: dict[str, tuple[tuple[int, ...], str, list[Piece]]] = dataclasses.field(default_factory=dict)
    objects: dict[str, str] = dataclasses.field(default_factory=dict)
    mark: str = ""

    def text(self) -> str:
        """The metadata as JSON."""
        tensors = {
            name: {"shape": shape, "dtype": dtype, "pieces": [dataclasses.asdict(p) for p in pieces]}
            for name, (shape, dtype, pieces) in self.tensors.items()
        }
        return json.dumps({"flambeau_checkpoint": 1, "mark": self.mark, "tensors": tensors, "objects": self.objects})

    @staticmethod
    def read(folder: str) -> Metadata:
        """The metadata of a folder, checked."""
        path = os.path.join(folder, NAME)
        if not os.path.exists(path):
            raise CheckpointException(f"load: {folder} has no {NAME}: it is not a checkpoint, or one whose saving was interrupted")
        try:
            with open(path, encoding="utf-8") as file:
                known = json.load(file)
            if known["flambeau_checkpoint"] != 1:
                raise CheckpointException(f"load: {path} has version {known['flambeau_checkpoint']}; this program reads 1")
            result = Metadata(objects={str(k): _file_name(v) for k, v in known["objects"].items()}, mark=str(known["mark"]))
            for name, entry in known["tensors"].items():
                shape = tuple(map(_size, entry["shape"]))
                pieces = []
                for p in entry["pieces"]:
                    piece = Piece(tuple(map(_size, p["offsets"])), tuple(map(_size, p["sizes"])), _file_name(p["file"]), str(p["key"]))
                    ends = [o + s for o, s in zip(piece.offsets, piece.sizes, strict=True)]
                    if len(ends) != len(shape) or any(end > size for end, size in zip(ends, shape, strict=True)):
                        raise ValueError(f"a piece of {name} is outside of it")
                    pieces.append(piece)
                result.tensors[name] = (shape, str(entry["dtype"]), pieces)
            return result
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, CheckpointException):
                raise
            raise CheckpointException(f"load: {path} is damaged: {error}") from None


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{value!r} is no size")
    return value


def _file_name(value: Any) -> str:
    """A file name inside the checkpoint's folder."""
    if not isinstance(value, str) or os.path.basename(value) != value or value in ("", ".", ".."):
        raise ValueError(f"{value!r} is no name of a file")
    return value


def is_stateful(value: Any) -> bool:
    return isinstance(value, Stateful) and not isinstance(value, (Tensor, dict, type))


def flattened(state: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves by dotted names: tensors, and all else but dicts, lists of tensors, and objects with a state_dict()."""
    if is_stateful(state):
        state = state.state_dict()
    if isinstance(state, dict) and state:
        parts: Any = [(key, value) for key, value in state.items()]
    elif isinstance(state, list) and any(isinstance(item, (Tensor, dict, list)) or is_stateful(item) for item in state):
        parts = list(enumerate(state))
    else:
        return {prefix: state}
    result: dict[str, Any] = {}
    for key, value in parts:
        name = f"{prefix}.{key}" if prefix else str(key)
        for full, leaf in flattened(value, name).items():
            if full in result:
                raise ArgumentError(f"save: two values of the state have the name {full}; rename one")
            result[full] = leaf
    return result


def box(value: Tensor) -> tuple[Tensor, tuple[int, ...], tuple[int, ...], bool]:
    """This process's piece of a tensor, its offset, the whole shape, and whether this process has to save it."""
    from flambeau.distributed.tensor._dtensor import DTensor
    from flambeau.distributed.tensor._redistribute import local_part

    if not isinstance(value, DTensor):
        return value.detach(), (0,) * value.ndim, tuple(value.shape), True
    if any(p.is_partial() for p in value.placements):
        raise ArgumentError("save: a DTensor with Partial placements has no pieces; redistribute() it first")
    sizes, offsets = local_part(tuple(value.shape), value.device_mesh, value.placements)
    empty = math.prod(sizes) == 0 and math.prod(value.shape) != 0
    return value._local.detach(), offsets, tuple(value.shape), not empty


def dtype_name(dtype: fb.dtype) -> str:
    return str(dtype).rpartition(".")[2]
