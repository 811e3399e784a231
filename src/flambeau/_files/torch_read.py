"""PyTorch's files: the current ZIP archive, the stream of pickles before version 1.6, the tar archive before 0.1.10."""

from __future__ import annotations

import io
import struct
import sys
import tarfile
from collections.abc import Callable
from typing import Any, cast

import flambeau as fb
from flambeau import _C
from flambeau._files import byte_order, checksum
from flambeau._files.known import STORAGES, LoadedStorage, find
from flambeau._files.locations import Mapper
from flambeau._files.opcodes import end_of, tokens
from flambeau._files.problems import MAX_PICKLE, FileError, ForbiddenError, check_tree, cut_short, short
from flambeau._files.source import Source
from flambeau._files.unpickle import Budget, Fillable, Known, Machine
from flambeau._files.zip_format import Archive

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


class Reader:
    """What the three formats share.

    Args:
        source: the file.
        mapper: where storages go.
        verify: whether checksums are looked at.
        encoding: of Python 2's byte strings.
        find: the table of names.
        objects: whether objects may refer to each other in circles.
    """

    def __init__(
        self, source: Source, mapper: Mapper, verify: bool, encoding: str, find: Callable[[str, str], Any] = find, objects: bool = False
    ) -> None:
        self.source, self.mapper, self.verify, self.encoding, self.find = source, mapper, verify, encoding, find
        self.objects = objects
        self._storages: list[LoadedStorage] = []

    def storage(self, raw: Any, dtype: Any, swapped: bool = False) -> LoadedStorage:
        """A storage of the file, over these bytes."""
        self._storages.append(LoadedStorage(raw, dtype, swapped))
        return self._storages[-1]

    def finished(self, made: Any) -> Any:
        """The complete object of the file; its storages are plain ones."""
        for storage in self._storages:
            storage.become_plain()
        return made

    def pickle(self, data: bytes, start: int = 0, whole: bool = True, persistent: Any = None, names: bool = False) -> Any:
        """The object of the pickle at this position, checked; with `names` it may contain names of classes too."""
        machine = Machine(self.find, persistent or _no_storages, Budget(len(data) - start), self.encoding)
        made = machine.run(tokens(data, start, whole))
        check_tree(made, (lambda value: None) if names else _only_data, objects=self.objects)
        return made


def _no_storages(_: Any) -> Any:
    raise FileError("a pickle that refers to tensors where none can be")


def _decoded(values: Any) -> Any:
    """A tuple or list with byte strings decoded: with encoding="bytes" the names of storages are bytes too."""
    if type(values) not in (tuple, list):
        return values
    return type(values)(v.decode("latin1") if type(v) is bytes else v for v in values)


def _storage_id(saved: Any, length: int) -> tuple[Any, str, str, int]:
    """(dtype or None, key, location, number of bytes) of a persistent id."""
    saved = _decoded(saved)
    if type(saved) is not tuple or len(saved) != length or saved[0] != "storage":
        raise FileError(f"a reference to something that is not a storage: {short(saved)}")
    _, kind, key, location, count = saved[:5]
    if not isinstance(kind, Known) or not kind.name.endswith("Storage") or type(key) is not str or type(location) is not str:
        raise FileError("a damaged reference to a storage")
    if type(count) is not int or not 0 <= count < 1 << 62:
        raise FileError(f"a storage of {short(count)} elements")
    return kind.kind, key, location, count * (kind.kind.itemsize if kind.kind else 1)


def _only_data(value: Any) -> None:
    if isinstance(value, (Known, Fillable)):
        name = getattr(value, "name", "a NumPy dtype")
        raise ForbiddenError(
            f"holds {name} itself instead of data; a class or function that you trust with any arguments is allowed by "
            "torch.serialization.add_safe_globals([...])"
        )


# ---- ZIP -----------------------------------------------------------------------------------------------------------------


def read_zip(reader: Reader) -> Any:
    """The current format: a record with a pickle, and one with the bytes of each storage."""
    archive = Archive(reader.source, reader.verify)
    pickles = [name for name in archive.names() if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        raise FileError(f"a ZIP archive with {len(pickles)} records data.pkl instead of one: not saved by torch.save()")
    folder = pickles[0][: -len("data.pkl")]
    if folder + "constants.pkl" in archive:
        raise FileError("a TorchScript program, which is code; save the module's state_dict() with torch.save()")
    # Files of PyTorch before 2.1 do not say; they have the machine's byte order, or the one the program sets.
    swapped = byte_order.of_unmarked not in (None, sys.byteorder)
    if folder + "byteorder" in archive:
        order = archive.read(folder + "byteorder", 16)
        if order not in (b"little", b"big"):
            raise FileError(f"the byte order {order!r}")
        swapped = order.decode() != sys.byteorder
    data = archive.read(pickles[0], MAX_PICKLE)
    regions = {
        name: (offset, size, f"record '{name}'", 8)
        for name, (offset, size, _) in archive.records.items()
        if name.startswith(folder + "data/")
    }
    read: dict[str, Any] = {}
    loaded: dict[str, LoadedStorage] = {}

    def persistent(saved: Any) -> LoadedStorage:
        dtype, key, location, size = _storage_id(saved, 5)
        name = f"{folder}data/{key}"
        _, stored, wanted = archive.where(name)
        if stored < size:
            raise cut_short(f"record '{name}'", size - stored)
        if key not in loaded:
            if not read:
                read.update(reader.source.tensors(regions))
            raw, crc = read[name]
            if reader.verify and wanted and crc is None:
                crc = checksum.crc([memoryview(raw)])
            if reader.verify and wanted and crc != wanted:
                raise FileError(
                    f"record '{name}' does not match its checksum: the file is damaged (or was saved without checksums: "
                    "load it with verify=False)"
                )
            loaded[key] = reader.storage(reader.mapper.place(raw, location), dtype, swapped)
        if loaded[key].dtype != dtype:
            # The same bytes with another dtype: a separate storage object on the same memory.
            return reader.storage(loaded[key].bytes_for(dtype or fb.uint8), dtype)
        return loaded[key]

    return reader.pickle(data, persistent=persistent)


# ---- pickles one after the other -------------------------------------------------------------------------------------------


def read_legacy(reader: Reader) -> Any:
    """Before PyTorch 1.6: magic number, version, machine, the object, the list of storages, their bytes."""
    source = reader.source
    head = source.read(0, min(source.size, MAX_PICKLE))
    whole = len(head) == source.size
    ends = [0]
    for _ in range(5):
        ends.append(end_of(head, ends[-1], whole))
    if reader.pickle(head, 0, whole) != MAGIC or reader.pickle(head, ends[1], whole) != PROTOCOL:
        raise FileError("not a file of torch.save()")
    keys = _decoded(reader.pickle(head, ends[4], whole))
    if type(keys) is not list or any(type(key) is not str for key in keys):
        raise FileError("the list of storages is damaged")
    regions = _legacy_regions(reader, head, ends[3], whole, keys, ends[5])
    loaded: dict[str, LoadedStorage] = {}

    def persistent(saved: Any) -> Any:
        dtype, key, location, size = _storage_id(saved, 6)
        if key not in regions:
            raise FileError(f"storage '{key}' is missing")
        offset, actual = regions[key]
        if actual != size:
            raise FileError(f"storage '{key}' has {actual} bytes, the pickle says {size}")
        if key not in loaded:
            raw, _ = source.tensor(offset, size, f"storage '{key}'")
            loaded[key] = reader.storage(reader.mapper.place(raw, location), dtype)
        return _part(reader, loaded[key], saved[5])

    made = reader.pickle(head, ends[3], whole, persistent)
    source.leave_at(max([ends[5], *(offset + size for offset, size in regions.values())]))
    return made


def _part(reader: Reader, storage: LoadedStorage, view: Any) -> LoadedStorage:
    """A view of a storage: (key, offset in elements, number of elements), or None for all of it."""
    if view is None:
        return storage
    _, offset, count = view
    width = storage.dtype.itemsize if storage.dtype else 1
    if type(offset) is not int or type(count) is not int or min(offset, count) < 0:
        raise FileError("a view of a storage with a negative offset or size")
    if (offset + count) * width > storage.nbytes():
        raise FileError(f"a view of a storage that ends at byte {(offset + count) * width} of {storage.nbytes()}")
    raw = storage._tensor
    address = raw.data_ptr() + offset * width
    return reader.storage(_C.from_address("load", address, fb.uint8, (count * width,), (1,), raw, False), storage.dtype)


def _legacy_regions(
    reader: Reader, head: bytes, start: int, whole: bool, keys: list[str], at: int
) -> dict[str, tuple[int, int]]:
    """The position of each storage's bytes. Their lengths are in elements, whose size only the pickle determines."""
    widths: dict[str, int] = {}

    def note(saved: Any) -> Any:
        if type(saved) is tuple and _decoded(saved[:1]) == ("storage",):
            dtype, key, _, _ = _storage_id(saved, 6)
            widths[key] = dtype.itemsize if dtype else 1
        return None

    # A dry run: tensors are not built, so nothing is allocated.
    dry = _DryMachine(lambda module, name: _dry(reader.find(module, name)), note, Budget(len(head) - start), reader.encoding)
    dry.run(tokens(head, start, whole))
    regions: dict[str, tuple[int, int]] = {}
    for key in keys:
        if key not in widths or key in regions:
            raise FileError(f"storage '{key}' is listed but not used, or listed twice")
        count = int.from_bytes(reader.source.read(at, 8, f"the length of storage '{key}'"), "little", signed=True)
        if count < 0:
            raise FileError(f"storage '{key}' has the length {count}")
        size = count * widths[key]
        reader.source.check(at + 8, size, f"storage '{key}'")
        regions[key] = (at + 8, size)
        at += 8 + size
    return regions


class _Nothing:
    """Stands in for an object in a dry run; has attributes so that BUILD can be followed."""


class _DryMachine(Machine):
    """Follows a pickle without creating objects: uses neither memory nor code of a class."""

    def _top(self, kind: Any, only: str = "") -> Any:
        if kind is object or not self._stack or not isinstance(self._stack[-1], _Nothing):
            return super()._top(kind, only)
        return (kind[0] if isinstance(kind, tuple) else kind)()


def _dry(found: Any) -> Any:
    if isinstance(found, Known) and (found.fill or found.value is not None or found.name.startswith(("torch._utils.", "torch._tensor."))):
        nothing = lambda *arguments: _Nothing()  # noqa: E731
        return Known(found.name, nothing, nothing, found.kind, lambda *arguments: None, None, found.module)
    return found


# ---- tar -------------------------------------------------------------------------------------------------------------------


def read_tar(reader: Reader) -> Any:
    """Before PyTorch 0.1.10: a tar archive of storages, tensors and a pickle that refers to them by number."""
    source = reader.source
    if source.size > 1 << 32:
        raise FileError("a tar archive of more than 4 GiB; no PyTorch wrote such files")
    with tarfile.open(fileobj=io.BytesIO(source.read(0, source.size)), mode="r:") as tar:
        found = {member.name.removeprefix("./"): member for member in tar if member.isreg()}
        if not {"storages", "tensors", "pickle"} <= set(found):
            raise FileError("a tar archive, but not one that PyTorch wrote")
        parts = {}
        for name in ("storages", "tensors", "pickle"):
            stream = tar.extractfile(found[name])
            parts[name] = stream.read() if stream is not None else b""
            if len(parts[name]) != found[name].size:
                raise cut_short(f"'{name}'", found[name].size - len(parts[name]))
    objects = _tar_storages(reader, parts["storages"])
    objects.update(_tar_tensors(reader, parts["tensors"], objects))

    def persistent(saved: Any) -> Any:
        if type(saved) is not str or int(saved) not in objects:
            raise FileError(f"object {saved} is missing")
        return objects[int(saved)]

    return reader.pickle(parts["pickle"], persistent=persistent)


def _number(data: bytes, at: int, form: str) -> tuple[Any, int]:
    size = struct.calcsize(form)
    if at + size > len(data):
        raise cut_short("the tar archive's numbers", at + size - len(data))
    return struct.unpack_from(form, data, at), at + size


def _tar_storages(reader: Reader, data: bytes) -> dict[int, Any]:
    made: dict[int, Any] = {}
    at = end_of(data, 0, True)
    for _ in range(reader.pickle(data, 0)):
        (key, location, kind), at = reader.pickle(data, at, names=True), end_of(data, at, True)
        dtype = STORAGES.get(kind.name.rpartition(".")[2]) if isinstance(kind, Known) else None
        if dtype is None:
            raise FileError("a storage of an unknown type")
        (count,), at = _number(data, at, "<q")
        size = count * dtype.itemsize
        if count < 0 or at + size > len(data):
            raise cut_short(f"storage '{key}'", at + size - len(data)) if count >= 0 else FileError("a negative length")
        raw = fb.empty(size, dtype=fb.uint8)
        if size:
            memoryview(cast(Any, raw))[:] = data[at : at + size]
        at += size
        made[int(key)] = reader.storage(reader.mapper.place(raw, location), dtype)
    for target, root, offset, count in reader.pickle(data, at):
        made[int(target)] = _part(reader, made[int(root)], (None, offset, count))
    return made


def _tar_tensors(reader: Reader, data: bytes, storages: dict[int, Any]) -> dict[int, Any]:
    made: dict[int, Any] = {}
    build = reader.find("torch._utils", "_rebuild_tensor").make
    at = end_of(data, 0, True)
    for _ in range(reader.pickle(data, 0)):
        (key, storage, _), at = reader.pickle(data, at, names=True), end_of(data, at, True)
        (dimensions,), at = _number(data, at, "<i")
        if not 0 <= dimensions <= 64:
            raise FileError(f"a tensor of {dimensions} dimensions")
        # Four bytes of padding follow the number of dimensions.
        numbers, at = _number(data, at + 4, f"<{2 * dimensions + 1}q")
        size, stride, offset = numbers[:dimensions], numbers[dimensions:-1], numbers[-1]
        if storage is None:
            raise FileError("a tensor without a storage")
        made[int(key)] = build(None, None, storages[int(storage)], offset, size, stride)
    return made
