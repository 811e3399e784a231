"""All rows, by name."""

from __future__ import annotations

from . import (
    specs_binary,
    specs_conv,
    specs_copies,
    specs_creation,
    specs_fft,
    specs_indexing,
    specs_linalg,
    specs_matmul,
    specs_nn,
    specs_reduce,
    specs_shape,
    specs_sort,
    specs_special,
    specs_unary,
)
from .spec import OpSpec

FAMILIES = (
    specs_unary,
    specs_special,
    specs_binary,
    specs_reduce,
    specs_sort,
    specs_indexing,
    specs_shape,
    specs_copies,
    specs_creation,
    specs_matmul,
    specs_linalg,
    specs_conv,
    specs_nn,
    specs_fft,
)


def _collect() -> dict[str, OpSpec]:
    found: dict[str, OpSpec] = {}
    for family in FAMILIES:
        for row in family.ROWS:
            assert row.name not in found, f"two rows describe {row.name}"
            found[row.name] = row
    return found


SPECS = _collect()
