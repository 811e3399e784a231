"""Checkpoints in several files: model-00001-of-00002.safetensors … and their index, model.safetensors.index.json."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from typing import Any

import flambeau as fb
from flambeau._files.locations import Mapper
from flambeau._files.problems import MAX_HEADER, FileError
from flambeau._files.safetensors_format import Entry, File, assemble, described, parse, plan, read_ours, write
from flambeau._files.source import Source
from flambeau._files.target import staged
from flambeau.errors import ArgumentError

SUFFIX = ".index.json"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def bytes_in(size: Any) -> int:
    """5_000_000 or "5GB" as a number of bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    if isinstance(size, bool) or not found or found[2].upper() not in _UNITS:
        raise ArgumentError(f"save: max_shard_size must be a number of bytes or a text such as '5GB', got {size!r}")
    count = int(float(found[1]) * _UNITS[found[2].upper()])
    if count < 1:
        raise ArgumentError(f"save: max_shard_size must be at least one byte, got {size!r}")
    return count


def split(entries: list[Entry], limit: int) -> list[list[Entry]]:
    """Splits entries in order, as many per file as the limit allows; a larger entry gets its own file."""
    files: list[list[Entry]] = [[]]
    room = limit
    for entry in entries:
        if entry.nbytes > room and files[-1]:
            files.append([])
            room = limit
        files[-1].append(entry)
        room -= entry.nbytes
    return files


def save(path: str, tensors: dict[str, fb.Tensor], tree: Any, limit: int) -> None:
    """Writes shards and their index, all or nothing; one plain file if everything fits into it."""
    entries, extra = plan(tensors)
    parts = split(entries, limit)
    with staged() as files:
        if len(parts) == 1:
            with files.file(path) as writer:
                write(writer, entries, tree, extra)
            return
        mark = secrets.token_hex(8)
        names = _names(path, len(parts), mark)
        where = {}
        for name, part in zip(names, parts, strict=True):
            with files.file(os.path.join(os.path.dirname(path), name)) as writer:
                write(writer, part, None, {"shard_of": mark})
            where.update({entry.name: name for entry in part})
        total = sum(entry.nbytes for entry in entries)
        metadata = {"total_size": total, **described(tree, {**extra, "shard_of": mark})}
        before = _listed(path + SUFFIX)
        with files.file(path + SUFFIX) as writer:
            writer.write(json.dumps({"metadata": metadata, "weight_map": where}, indent=1).encode())
    # A file saved under this very name before would be found first, and nothing refers to the old shards any more.
    for old in [os.path.basename(path), *(before - set(names))]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(os.path.dirname(path), old))


def _names(path: str, count: int, mark: str) -> list[str]:
    """Names of new shards. The previous ones stay until the new index exists: there is a checkpoint at all times."""
    stem, ending = os.path.splitext(path)
    for sign in ("", f".{mark[:8]}"):
        names = [f"{stem}-{number:05d}-of-{count:05d}{sign}{ending}" for number in range(1, count + 1)]
        if not any(map(os.path.lexists, names)):
            break
    return [os.path.basename(name) for name in names]


def _listed(index: str) -> set[str]:
    """The shards of an index that save() wrote under this name; none if it cannot be read."""
    stem = os.path.basename(index)[: -len(SUFFIX)]
    stem, ending = os.path.splitext(stem)
    ours = re.compile(rf"{re.escape(stem)}-\d{{5}}-of-\d{{5}}(\.[0-9a-f]{{8}})?{re.escape(ending)}")
    try:
        with open(index, "rb") as file:
            found = json.load(file)["weight_map"].values()
        return {name for name in found if isinstance(name, str) and ours.fullmatch(name)}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return set()


def _shard_path(index: str, name: str) -> str:
    """The path of a shard. A link could lead to any file of the user and is rejected, except in a cache that also keeps
    the
    index behind a link, next to which its shards are (the layout of huggingface_hub).
    """
    path = os.path.join(os.path.dirname(index), name)
    if os.path.islink(index) and os.path.islink(path):
        real = os.path.realpath(path)
        if os.path.dirname(real) == os.path.dirname(os.path.realpath(index)):
            return real
    return path


def load(path: str, source: Source, mapper: Mapper, verify: bool, mapped: bool) -> Any:
    """Loads the files listed in an index."""
    if source.size > MAX_HEADER:
        raise FileError(f"an index of {source.size} bytes; at most {MAX_HEADER} are read")
    index = parse(source.read(0, source.size))
    where, metadata = index["weight_map"], index.get("metadata") or {}
    ours = read_ours(metadata)
    entries: dict[str, fb.Tensor] = {}
    for name in dict.fromkeys(where.values()):
        if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
            raise FileError(f"the index names {name!r}, which is not a file of its own folder")
        try:
            shard = Source(_shard_path(path, name), mapped, verify, links=False)
        except FileNotFoundError:
            raise FileError(f"the shard '{name}' is missing") from None
        with shard:
            try:
                file = File(shard, mapper, verify)
                if ours.get("shard_of") != file.ours.get("shard_of"):
                    raise FileError("it belongs to another save than the index")
                entries.update(file.read())
            except FileError as error:
                raise type(error)(f"shard '{name}': {error}") from None
    missing = [name for name in where if name not in entries]
    if missing:
        raise FileError(f"tensor '{missing[0]}' is not in the shard that the index names")
    return assemble(entries, ours) if ours else {name: entries[name] for name in where}
