"""map_location: the device on which a saved storage is restored."""

from __future__ import annotations

from typing import Any

import flambeau as fb
from flambeau import _C
from flambeau._files.problems import FileError, Passing

# (priority, tagger, deserializer) of register_package(), lowest first; the built-in locations have 10.
packages: list[tuple[int, Any, Any]] = []
BUILT_IN = 10


def register(priority: int, tagger: Any, deserializer: Any) -> None:
    """Adds a way to name and restore locations."""
    packages.append((priority, tagger, deserializer))
    packages.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """The name of a storage's location in a file."""
    for priority, tagger, _ in packages:
        if priority < BUILT_IN and (tag := tagger(storage)) is not None:
            return str(tag)
    where = storage.device
    return where.type if where.index is None else f"{where.type}:{where.index}"


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage on the device it was saved from."""
    for priority, _, deserializer in packages:
        known = location.split(":")[0] == "cpu"
        if (priority < BUILT_IN or not known) and (placed := deserializer(storage, location)) is not None:
            if not isinstance(placed, fb.UntypedStorage):
                raise Passing(TypeError(f"load: a deserializer must return a storage or None, got {type(placed).__name__}"))
            return placed
    return _on(storage, location, f"a tensor saved on '{location}'")


def _on(storage: Any, location: str, what: str) -> Any:
    try:
        where = fb.device(location)
        if where.type == "cpu":
            return storage
        return fb.UntypedStorage(_C.storage_bytes(storage._tensor).to(where))
    except RuntimeError as error:
        known = "Attempting to deserialize object on a CUDA device: " if location.startswith("cuda") else ""
        raise FileError(f"{known}{what}; load with map_location='cpu', because {error}") from None


class Mapper:
    """Places loaded storages where map_location says."""

    def __init__(self, map_location: Any) -> None:
        wanted = map_location
        if isinstance(wanted, (fb.device, str)):
            fb.device(wanted)  # raises the error for an unknown name
        elif isinstance(wanted, int) and not isinstance(wanted, bool):
            wanted = fb.device(wanted)
        elif wanted is not None and not isinstance(wanted, dict) and not callable(wanted):
            raise TypeError(
                f"load: map_location must be a device, a string, a dict or a function, got {type(wanted).__name__}"
            )
        self._wanted = wanted

    def place(self, raw: fb.Tensor, location: str) -> fb.Tensor:
        """The bytes on the right device; raw is a uint8 tensor on the CPU."""
        wanted = self._wanted
        if wanted is None and location == "cpu" and not packages:
            return raw
        storage = fb.UntypedStorage(raw)
        if callable(wanted):
            placed = self._ask(wanted, storage, location)
        elif isinstance(wanted, dict):
            placed = _on(storage, wanted.get(location, location), f"a tensor saved on '{location}'")
        elif wanted is not None:
            placed = _on(storage, str(wanted), f"map_location='{wanted}'")
        else:
            placed = default_restore_location(storage, location)
        return _C.storage_bytes(placed._tensor)

    def _ask(self, function: Any, storage: Any, location: str) -> Any:
        try:
            answer = function(storage, location)
        except Exception as error:
            raise Passing(error) from None
        if answer is None:
            return default_restore_location(storage, location)
        if not isinstance(answer, fb.UntypedStorage):
            raise Passing(TypeError(f"load: map_location must return a storage or None, got {type(answer).__name__}"))
        return answer
