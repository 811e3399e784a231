"""OpenCL devices: which there are, what they can do, and why some are not used.

Implementations of OpenCL are searched when a device is first used: the library that ``FLAMBEAU_OPENCL`` names,
else the system's ``libOpenCL`` and, in this Python environment, the runtime for CPUs that ``pip install flambeau[opencl]``
brings. A device is used when it builds and runs a probe: a kernel with groups, barriers and 64-bit numbers.

Example:
    >>> for device in fb.opencl.devices():
    ...     assert device.index is not None or device.rejected
"""

from __future__ import annotations

import dataclasses

from flambeau import _C

__all__ = ["Device", "device_count", "devices", "is_available", "why_none"]
__dir__ = __all__.copy


@dataclasses.dataclass(frozen=True)
class Device:
    """What an OpenCL device says of itself.

    Attributes:
        index: its number, as in ``device="opencl:0"``; None when it is not used.
        rejected: why it is not used, else "".
        name, vendor, type: the device; type is "gpu", "accelerator" or "cpu".
        platform, version, driver, library: the implementation, its versions and the file it was loaded from.
        units: compute units, of which each runs a group at a time.
        memory, max_allocation, local_memory: bytes in all, in one piece, and of one group.
        group: items that a group may have.
        float64, float16, atomic64: whether it supports these.

    Example:
        >>> names = [device.name for device in fb.opencl.devices()]
    """

    index: int | None
    rejected: str
    name: str
    vendor: str
    type: str
    platform: str
    version: str
    driver: str
    library: str
    units: int
    memory: int
    max_allocation: int
    local_memory: int
    group: int
    float64: bool
    float16: bool
    atomic64: bool


def devices() -> list[Device]:
    """All OpenCL devices of this machine, used or not.

    Example:
        >>> all(device.memory > 0 for device in fb.opencl.devices())
        True
    """
    found = []
    for row in _C.opencl_devices():
        index = row.pop("index")
        found.append(Device(index=index if index >= 0 else None, **row))
    return found


def is_available() -> bool:
    """Whether there is an OpenCL device that works.

    Example:
        >>> fb.opencl.is_available() == (fb.opencl.device_count() > 0)
        True
    """
    return device_count() > 0


def device_count() -> int:
    """How many OpenCL devices work.

    Example:
        >>> fb.opencl.device_count() <= len(fb.opencl.devices())
        True
    """
    return _C.accelerator_count(_C.device("opencl"))


def why_none() -> str:
    """What the system's loader said of the libraries that could not be loaded, one per line.

    Example:
        >>> isinstance(fb.opencl.why_none(), str)
        True
    """
    _C.opencl_devices()
    return _C.opencl_why()
