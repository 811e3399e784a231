"""Saving and loading. Loading a file never runs code except what the program has declared safe.

The format of our own is safetensors, with the structure of containers as JSON in its metadata. PyTorch's .pt and .pth
files are read and written too, without PyTorch; GGUF files are read.

Example:
    >>> import os, tempfile
    >>> from flambeau.serialization import load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> save({"weight": fb.ones(2), "epoch": 3}, path)
    >>> load(path)
    {'weight': tensor([1., 1.]), 'epoch': 3}
"""

from __future__ import annotations

import enum
import mmap as _mmap
import os
import pickle
import warnings
from collections.abc import Iterable
from typing import Any

from flambeau._files import byte_order, classes, locations, safetensors_format, shards, source, target, tree, zip_format
from flambeau._files.problems import FileError, ForbiddenError, translated
from flambeau._settings.strict import is_lenient, strict_or_warn
from flambeau.errors import ArgumentError, StateError

__all__ = [
    "FileError", "ForbiddenError", "LoadEndianness", "SourceChangeWarning", "add_safe_globals", "clear_safe_globals",
    "default_restore_location", "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options",
    "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "location_tag", "register_package",
    "remove_safe_globals", "safe_globals", "save", "set_crc32_options", "set_default_load_endianness",
    "set_default_mmap_options",
]  # fmt: skip
__dir__ = __all__.copy

_TORCH_ENDINGS = (".pt", ".pth", ".pt.tar", ".pth.tar")
_ZIP, _LEGACY = b"PK\x03\x04", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True,
    *, format: str | None = None, max_shard_size: int | str | None = None,
) -> None:  # fmt: skip
    """Saves tensors and containers of them to a file.

    Containers may be dicts, lists, tuples, sets and similar types, holding tensors, numbers, text, bytes, dtypes, devices,
    sizes, generators, NumPy arrays, argparse's Namespace and objects of classes named by add_safe_globals(). Files in
    PyTorch's format (.pt) also hold any other object that the pickle module could write, whole modules among them; see
    load() for how they come back. Tensors that share memory share it again when loaded; of a larger storage only the
    bytes in use are written.

    A path is replaced in one step, when everything is on the disk: there is never half a file under its name.

    Args:
        obj: what to save.
        f: a path, or an object with write().
        pickle_module: None or the standard pickle, for PyTorch's sake; nothing is pickled by it.
        pickle_protocol: 0 to 5, without effect: the pickle in .pt files has protocol 2, which every reader knows.
        _use_new_zipfile_serialization: False writes .pt files in the format before PyTorch 1.6.
        format: "safetensors" or "pt"; by default "pt" for names that end in .pt or .pth, "safetensors" for all
            others. In programs written for PyTorch (flambeau.compat) the default is "pt" for all names.
        max_shard_size: splits what is larger into several files and an index: bytes, or a text such as "5GB"; only for
            paths and safetensors. load() takes the same path again.

    Example:
        >>> import io
        >>> from flambeau.serialization import load, save
        >>> f = io.BytesIO()
        >>> save([fb.arange(3), "text"], f)
        >>> n = f.seek(0)
        >>> load(f)
        [tensor([0, 1, 2]), 'text']
    """
    _check_pickle_module("save", pickle_module)
    if pickle_protocol not in range(-1, pickle.HIGHEST_PROTOCOL + 1):
        raise ArgumentError(f"save: pickle_protocol must be 0 to {pickle.HIGHEST_PROTOCOL}, got {pickle_protocol!r}")
    # Models go into .pt files only: safetensors stores tensors and plain containers.
    kind = format or ("pt" if classes.is_module(obj) else _format_of(f))
    if kind not in ("safetensors", "pt"):
        raise ArgumentError(f"save: format must be 'safetensors' or 'pt', got {format!r}")
    is_path = isinstance(f, (str, bytes, os.PathLike))
    if max_shard_size is not None and (kind != "safetensors" or not is_path):
        raise ArgumentError("save: max_shard_size needs a path and the format 'safetensors'")
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            f"save: expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}"
        )
    if kind == "pt":
        from flambeau._files import torch_write

        write = torch_write.write_zip if _use_new_zipfile_serialization else torch_write.write_legacy
        with target.opened(f) as writer:
            write(writer, obj)
        return
    encoder = tree.Encoder()
    structure = encoder.encode(obj)
    if max_shard_size is not None:
        shards.save(os.fsdecode(f), encoder.tensors, structure, shards.bytes_in(max_shard_size))
        return
    entries, extra = safetensors_format.plan(encoder.tensors)
    with target.opened(f) as writer:
        safetensors_format.write(writer, entries, structure, extra)


def _forced(weights_only: bool | None) -> bool | None:
    """The effect of PyTorch's environment variables on weights_only."""
    force, drop = (
        os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")
        for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    )
    if force and drop:
        raise StateError("load: Only one of TORCH_FORCE_WEIGHTS_ONLY_LOAD or TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD should be set, got both")
    if force:
        return True
    if drop and weights_only is None:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the `weights_only` argument was not explicitly passed "
            "to `torch.load`, forcing weights_only=False.",
            stacklevel=3,
        )
        return False
    return weights_only


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
    mmap: bool | None = None, verify: bool | None = None, **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """Loads what save() wrote, any safetensors file (or index of shards), a .pt or .pth file of PyTorch, or a GGUF file.

    Loading never runs code because a file says so. PyTorch's pickles are read opcode by opcode, and a class or
    function that is not on the list of plain data is an error that names it. add_safe_globals() extends the list;
    weights_only=False adds the classes that the program has imported, as far as their objects can be made without
    running any code.

    Args:
        f: a path, or an object with read().
        map_location: where tensors go: a device, a dict from saved to wanted devices, or a function of (storage,
            location)
            that returns a storage or None.
        pickle_module: None or the standard pickle, for PyTorch's sake; nothing is unpickled by it.
        weights_only: False also makes whole models and other objects whose classes the program has imported. They are
            data too: their attributes are put in place, and no code runs. What needs code, a function or a class with a
            __setstate__ of its own, is an error until add_safe_globals() names it. In programs written for PyTorch its
            variables TORCH_FORCE_WEIGHTS_ONLY_LOAD and, for None, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD decide.
        mmap: True maps the file instead of reading it: tensors come into memory when used, and writing to one changes
            neither the file nor other processes. The file must not be cut while in use; save() never cuts, it replaces.
            GGUF files are mapped unless it is False; see gguf.GGUF for what comes of them.
        verify: whether checksums are compared; by default yes, except for mapped files, which would be read whole.
        pickle_load_args: encoding="utf-8", "latin1", "ascii" or "bytes" for the strings of Python 2.

    Example:
        >>> import io
        >>> from flambeau.serialization import load, save
        >>> f = io.BytesIO()
        >>> save({"a": fb.ones(2)}, f, format="pt")
        >>> n = f.seek(0)
        >>> load(f, map_location="cpu", weights_only=True)
        {'a': tensor([1., 1.])}
    """
    _check_pickle_module("load", pickle_module)
    if weights_only not in (None, True, False):
        raise TypeError(f"load: weights_only must be True, False or None, got {weights_only!r}")
    if is_lenient():
        weights_only = _forced(weights_only)
    encoding = pickle_load_args.pop("encoding", "utf-8")
    if encoding not in ("utf-8", "utf8", "latin1", "latin-1", "ascii", "bytes", "ASCII"):
        raise ArgumentError(f"load: encoding must be 'utf-8', 'latin1', 'ascii' or 'bytes', got {encoding!r}")
    if pickle_load_args:
        raise TypeError(f"load: unknown argument {next(iter(pickle_load_args))!r}")
    mapper = locations.Mapper(map_location)
    check = not mmap if verify is None else verify
    path = os.fsdecode(f) if isinstance(f, (str, bytes, os.PathLike)) else ""
    if path and not os.path.exists(path) and os.path.exists(path + shards.SUFFIX):
        path = f = path + shards.SUFFIX
    with source.Source(f, bool(mmap), check) as bytes_in, translated(bytes_in.name):
        if bytes_in.size >= 4 and bytes_in.read(0, 4) == b"GGUF":
            if path and mmap is None and not bytes_in.mapped:
                bytes_in.map()
            return _read_gguf(bytes_in, mapper)
        return _read(bytes_in, path, mapper, check, encoding, weights_only is False)


def _read_gguf(file: source.Source, mapper: locations.Mapper) -> Any:
    from flambeau import gguf
    from flambeau._files import gguf_format

    metadata, tensors = gguf_format.read(file, mapper)
    return gguf.GGUF(tensors, metadata)


def _read(file: source.Source, path: str, mapper: locations.Mapper, verify: bool, encoding: str, imported: bool) -> Any:
    head = file.read(0, min(file.size, 512))
    if not head:
        raise FileError("the file is empty")
    if path.endswith(shards.SUFFIX):
        return shards.load(path, file, mapper, verify, file.mapped)
    if safetensors_format.looks_like(head):
        opened = safetensors_format.File(file, mapper, verify)
        return safetensors_format.assemble(opened.read(), opened.ours)
    from flambeau._files import known

    find = known.find_with_imported if imported else None
    reader = _torch_reader(file, head, mapper, verify, encoding, find, imported or bool(classes.registered))
    if reader is None:
        raise FileError("not a safetensors or GGUF file, nor one of PyTorch's formats")
    return reader()


def _torch_reader(
    file: source.Source, head: bytes, mapper: Any, verify: bool, encoding: str, find: Any = None, objects: bool = False
) -> Any:
    from flambeau._files import known, torch_read

    reader = torch_read.Reader(file, mapper, verify, encoding, find or known.find, objects)
    if head.startswith(_ZIP):
        return lambda: reader.finished(torch_read.read_zip(reader))
    if head[: len(_LEGACY)] == _LEGACY[: len(head)]:
        return lambda: reader.finished(torch_read.read_legacy(reader))
    if head[257:262] == b"ustar" or (len(head) == 512 and head[:9] in (b"storages\0", b"tensors\0\0", b"pickle\0\0\0")):
        return lambda: reader.finished(torch_read.read_tar(reader))
    return None


def _format_of(f: Any) -> str:
    if is_lenient():  # torch.save() has one format
        return "pt"
    name = os.fsdecode(f) if isinstance(f, (str, bytes, os.PathLike)) else getattr(f, "name", "")
    return "pt" if isinstance(name, str) and name.lower().endswith(_TORCH_ENDINGS) else "safetensors"


def _check_pickle_module(op: str, module: Any) -> None:
    if module is not None and module is not pickle:
        strict_or_warn(f"{op}: pickle_module must be None or the standard pickle; no other module is used")


# ---- classes a file may name -----------------------------------------------------------------------------------------------


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Lets files hold these classes and functions, and objects of the classes.

    Naming one means that any file may use it with any arguments. Objects of plain classes, enumerations and named
    tuples are made without running any of their code. Where that is not possible the code of what was named runs: a
    function or class that the file calls, __new__ and __setstate__ of a class that defines them. Modules that start
    programs or change the interpreter (os, sys, subprocess ...) and functions such as eval cannot be named.

    Args:
        safe_globals: classes and functions, or pairs of one and the full name that files use for it.

    Example:
        >>> import collections, io
        >>> from flambeau.serialization import load, save
        >>> Point = collections.namedtuple("Point", "x y")
        >>> fb.serialization.add_safe_globals([Point])
        >>> f = io.BytesIO()
        >>> save(Point(1, fb.ones(2)), f)
        >>> n = f.seek(0)
        >>> load(f)
        Point(x=1, y=tensor([1., 1.]))
        >>> fb.serialization.clear_safe_globals()
    """
    from flambeau._files import known

    new: dict[str, Any] = {}
    for item in safe_globals:
        name = f"{getattr(item, '__module__', '')}.{getattr(item, '__qualname__', '')}"
        if not known.is_built_in(name):
            new.update([classes.checked(item)])
    classes.registered.update(new)


def get_safe_globals() -> list[Any]:
    """The classes that add_safe_globals() named.

    Example:
        >>> fb.serialization.get_safe_globals()
        []
    """
    return list(dict.fromkeys(classes.registered.values()))


def clear_safe_globals() -> None:
    """Forgets the classes that add_safe_globals() named.

    Example:
        >>> fb.serialization.clear_safe_globals()
    """
    classes.registered.clear()


def remove_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Forgets some of the classes that add_safe_globals() named.

    Example:
        >>> class Settings:
        ...     pass
        >>> fb.serialization.add_safe_globals([Settings])
        >>> fb.serialization.remove_safe_globals([Settings])
        >>> fb.serialization.get_safe_globals()
        []
    """
    gone = [item[0] if isinstance(item, tuple) else item for item in safe_globals]
    for name in [name for name, cls in classes.registered.items() if cls in gone]:
        del classes.registered[name]


class safe_globals:
    """add_safe_globals() for the length of a block.

    Args:
        safe_globals: classes and functions, or pairs of one and the full name that files use for it.

    Example:
        >>> class Settings:
        ...     pass
        >>> with fb.serialization.safe_globals([Settings]):
        ...     len(fb.serialization.get_safe_globals())
        1
        >>> len(fb.serialization.get_safe_globals())
        0
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._wanted = list(safe_globals)
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        self._before = dict(classes.registered)
        add_safe_globals(self._wanted)

    def __exit__(self, *_: object) -> None:
        classes.registered.clear()
        classes.registered.update(self._before)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The classes and functions that a .pt file names and load() would refuse.

    Args:
        f: a path, or an object with read().

    Example:
        >>> import io
        >>> from flambeau.serialization import load, save
        >>> f = io.BytesIO()
        >>> save({"a": fb.ones(2)}, f, format="pt")
        >>> n = f.seek(0)
        >>> fb.serialization.get_unsafe_globals_in_checkpoint(f)
        []
    """
    from flambeau._files import known, opcodes, torch_read, zip_format

    found: dict[str, None] = {}
    with source.Source(f) as file, translated(file.name):
        head = file.read(0, min(file.size, torch_read.MAX_PICKLE))
        if head.startswith(_ZIP):
            archive = zip_format.Archive(file)
            names = [name for name in archive.names() if name.endswith("/data.pkl")]
            pickles = [(archive.read(name, torch_read.MAX_PICKLE), 0) for name in names]
        elif head.startswith(_LEGACY):
            start = 0
            for _ in range(3):
                start = opcodes.end_of(head, start, len(head) == file.size)
            pickles = [(head, start)]
        else:
            raise FileError("not a .pt file of PyTorch")
        for data, start in pickles:
            for module, name in opcodes.names(data, start):
                try:
                    known.find(module, name)
                except FileError:
                    found[f"{module}.{name}"] = None
    return list(found)


# ---- locations
# -------------------------------------------------------------------------------------------------------------


def location_tag(storage: Any) -> str:
    """The name a file gives to the place of a storage.

    Example:
        >>> fb.serialization.location_tag(fb.zeros(2).untyped_storage())
        'cpu'
    """
    return locations.location_tag(storage)


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage on the device it was saved from; what load() does without map_location.

    Args:
        storage: an UntypedStorage on the CPU.
        location: the device's name in the file.

    Example:
        >>> fb.serialization.default_restore_location(fb.zeros(2).untyped_storage(), "cpu").nbytes()
        8
    """
    return locations.default_restore_location(storage, location)


def register_package(priority: int, tagger: Any, deserializer: Any) -> None:
    """Adds a way of naming the places of storages in .pt files, and of bringing them back.

    Args:
        priority: the order of calls: lowest first; the CPU has 10.
        tagger: (storage) -> the name of its place, or None for storages that are not its own.
        deserializer: (storage on the CPU, name) -> the storage in its place, or None for names that are not its own.

    Example:
        >>> fb.serialization.register_package(20, lambda s: None, lambda s, name: s if name == "toy" else None)
    """
    locations.register(priority, tagger, deserializer)


class SourceChangeWarning(Warning):
    """For a class whose source has changed since a model of it was saved. Never issued: no file is trusted to say so.

    Example:
        >>> issubclass(fb.serialization.SourceChangeWarning, Warning)
        True
    """


class LoadEndianness(enum.Enum):
    """The byte order of .pt files that do not name theirs (PyTorch before 2.1 did not).

    Example:
        >>> fb.serialization.LoadEndianness.LITTLE.name
        'LITTLE'
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness | None:
    """What set_default_load_endianness() was last told; None, the machine's own order, if never.

    Example:
        >>> fb.serialization.get_default_load_endianness()
    """
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Says in which byte order .pt files are that do not tell.

    Args:
        endianness: LITTLE, BIG, or NATIVE or None for the order of this machine.

    Example:
        >>> fb.serialization.set_default_load_endianness(fb.serialization.LoadEndianness.LITTLE)
        >>> fb.serialization.set_default_load_endianness(None)
    """
    global _endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: expected a LoadEndianness or None, got {type(endianness).__name__}")
    _endianness = endianness
    orders = {LoadEndianness.LITTLE: "little", LoadEndianness.BIG: "big"}
    byte_order.of_unmarked = orders.get(endianness) if endianness is not None else None


_endianness: LoadEndianness | None = None


def get_crc32_options() -> bool:
    """Whether save() stores checksums in .pt files.

    Example:
        >>> fb.serialization.get_crc32_options()
        True
    """
    return zip_format.with_sums


def set_crc32_options(compute_crc32: bool) -> None:
    """Says whether save() stores checksums in .pt files; load() compares those that are there.

    Args:
        compute_crc32: False saves without them, and damage goes unnoticed.

    Example:
        >>> fb.serialization.set_crc32_options(True)
    """
    zip_format.with_sums = bool(compute_crc32)


def get_default_mmap_options() -> int:
    """How load(mmap=True) maps files: mmap.MAP_PRIVATE, or MAP_SHARED.

    Example:
        >>> import mmap
        >>> fb.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
        True
    """
    return _mmap.MAP_SHARED if source.shared_maps else _mmap.MAP_PRIVATE


class set_default_mmap_options:
    """Says how load(mmap=True) maps files, from now on or for a with block.

    Args:
        flags: mmap.MAP_PRIVATE, the default: writing to a tensor leaves the file alone; or mmap.MAP_SHARED: it writes
            to the file.

    Example:
        >>> import mmap
        >>> with fb.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ...     fb.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (_mmap.MAP_PRIVATE, _mmap.MAP_SHARED):
            raise ArgumentError(
                f"set_default_mmap_options: Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                f"mmap.MAP_SHARED, but got {flags!r}"
            )
        self._before = source.shared_maps
        source.shared_maps = flags == _mmap.MAP_SHARED

    def __enter__(self) -> None:
        """The option is set already."""

    def __exit__(self, *_: object) -> None:
        source.shared_maps = self._before
