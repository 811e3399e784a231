"""`torch.version` and `torch.torch_version` while flambeau stands in for PyTorch."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]


def _numbers(version: Any) -> tuple[int, ...]:
    """(2, 1, 0) from "2.1.0+cpu", (2, 1) or a version object; trailing zeros do not count."""
    if not isinstance(version, (tuple, list)):
        release = re.match(r"\s*v?(\d+(?:\.\d+)*)", str(version))
        if release is None:
            raise ValueError(f"TorchVersion: expected a version such as '2.1.0', got {version!r}")
        version = release.group(1).split(".")
    numbers = [int(part) for part in version]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


class TorchVersion(str):
    """A version string that compares by its numbers, with strings, tuples and version objects.

    Example:
        >>> from flambeau.compat.version import TorchVersion
        >>> TorchVersion("2.13.0") > "2.2", TorchVersion("2.13.0") >= (2, 13)
        (True, True)
    """

    def __lt__(self, other: Any) -> bool:
        return _numbers(self) < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _numbers(self) > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _numbers(self) >= _numbers(other)

    # Equality stays that of strings: a version is also a key in dictionaries.
    __eq__ = str.__eq__
    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+flambeau")
cuda = None
hip = None
xpu = None
debug = False
git_version = "unknown"
