"""Inspection functions: what this namespace can do."""

from __future__ import annotations

import flambeau as fb
from flambeau.array_api._dtypes import KINDS, default_complex, default_float
from flambeau.errors import ArgumentError

__all__ = ["__array_namespace_info__"]

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip


class Info:
    """Answers about capabilities, devices and dtypes."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Whether the optional parts of the standard are supported (all are), and the maximum number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> fb.device:
        """Where arrays are made unless ``device`` says otherwise."""
        return fb.get_default_device()

    def default_dtypes(self, *, device: fb.device | None = None) -> dict[str, fb.dtype]:
        """The dtypes that functions choose by themselves."""
        _known(device)
        return {
            "real floating": default_float(),
            "complex floating": default_complex(),
            "integral": fb.int64,
            "indexing": fb.int64,
        }

    def dtypes(
        self, *, device: fb.device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, fb.dtype]:
        """The standard's dtypes by name; ``kind``, as in ``isdtype``, picks some."""
        _known(device)
        if kind is None:
            chosen = KINDS["bool"] + KINDS["numeric"]
        else:
            kinds = kind if isinstance(kind, tuple) else (kind,)
            for k in kinds:
                if k not in KINDS:
                    raise ArgumentError(f"dtypes: unknown kind {k!r}; expected one of {', '.join(KINDS)}")
            chosen = tuple(dtype for k in kinds for dtype in KINDS[k])
        return {name: getattr(fb, name) for name in _NAMES if getattr(fb, name) in chosen}

    def devices(self) -> tuple[fb.device, ...]:
        """The devices of this machine."""
        return (fb.device("cpu"),)


def _known(device: fb.device | str | None) -> None:
    """Raises an error for an unknown device; all known ones support all dtypes."""
    if device is not None:
        fb.device(device)


def __array_namespace_info__() -> Info:
    """The inspection functions of this namespace."""
    return Info()
