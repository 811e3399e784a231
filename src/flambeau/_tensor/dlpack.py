"""The Python side of DLPack: negotiates version, device and copy between producer and consumer."""

from __future__ import annotations

import enum
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.errors import ArgumentError


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers for kinds of devices.

    Example:
        >>> fb.zeros(1).__dlpack_device__()[0] is fb.utils.dlpack.DLDeviceType.kDLCPU
        True
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


# Devices whose memory the CPU can read.
_HOST = frozenset({DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost, DLDeviceType.kDLROCMHost})


def give(t: Tensor, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """A capsule that satisfies a consumer's request."""
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
        raise TypeError(f"__dlpack__: stream must be None or an int, got {type(stream).__name__}")
    if stream not in (None, -1):
        raise ArgumentError(f"__dlpack__: stream must be None for a tensor on the CPU, got {stream}")
    if t.requires_grad:
        raise BufferError("__dlpack__: Can't export tensors that require gradient, use tensor.detach()")
    if dl_device is not None and tuple(map(int, dl_device)) != (DLDeviceType.kDLCPU, 0):
        raise BufferError(
            f"__dlpack__: Unsupported device_type: {int(dl_device[0])}; only the CPU, dl_device=(1, 0), is available, "
            f"got {tuple(map(int, dl_device))}"
        )
    versioned = max_version is not None and max_version[0] >= 1
    if copy:
        t = t.clone()
    if t._read_only and not versioned:
        raise BufferError(
            "__dlpack__: the tensor is read-only, which a consumer of DLPack before 1.0 would not respect; "
            "pass max_version=(1, 0) or newer, or copy=True"
        )
    return _C.dlpack_capsule(t, versioned, bool(copy))


def take(source: Any, device: Any, copy: Any) -> Tensor:
    """The tensor of a capsule, or of an object with __dlpack__."""
    if device is not None and _C.device(device).type != "cpu":
        raise RuntimeError(f"from_dlpack: device '{device}' has no backend in this build; use device='cpu'")
    if type(source).__name__ == "PyCapsule":
        t, copied = _C.take_capsule(source)
        return t.clone() if copy and not copied else t
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack: expected an object with __dlpack__ and __dlpack_device__, or a capsule, got {type(source).__name__}"
        )
    kind = int(source.__dlpack_device__()[0])
    wishes: dict[str, Any] = {"max_version": (1, 1)}
    if copy is not None:
        wishes["copy"] = copy
    if kind not in _HOST:
        if device is None:
            raise BufferError(
                f"from_dlpack: the data lives on a device of DLPack type {kind}, not on the CPU; "
                "pass device='cpu' or copy it in the producer first"
            )
        wishes["dl_device"] = (int(DLDeviceType.kDLCPU), 0)
    try:
        capsule = source.__dlpack__(**wishes)
    except TypeError:
        # A producer from before DLPack 1.0 has none of these arguments.
        if kind not in _HOST:
            raise
        capsule = source.__dlpack__()
    t, copied = _C.take_capsule(capsule)
    return t.clone() if copy and not copied else t
