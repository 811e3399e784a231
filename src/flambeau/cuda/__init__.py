"""PyTorch's names for CUDA devices. Without one, questions are answered and requests for a device are refused.

Device-agnostic code runs as it is. Streams, events and memory of a device are those of ``fb.accelerator``; without a
device what only waits, counts or frees does nothing, and events measure with the host's clock.

Example:
    >>> fb.device("cuda" if fb.cuda.is_available() else "cpu")
    device(type='cpu')
"""

from __future__ import annotations

import contextlib
from typing import Any, NoReturn

from flambeau import _C, accelerator
from flambeau._registry.names import package_dir as _package_dir
from flambeau.cuda import amp, nvtx
from flambeau.cuda._memory import (
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from flambeau.cuda._streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream
from flambeau.errors import OutOfMemoryError, StateError

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "Event", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "OutOfMemoryError", "ShortTensor", "Stream", "StreamContext", "amp", "current_device", "current_stream",
    "default_generators", "default_stream", "device", "device_count", "device_of", "devices", "empty_cache", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "init",
    "initial_seed", "ipc_collect", "is_available", "is_bf16_supported", "is_initialized", "is_tf32_supported", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "memory_allocated", "memory_cached",
    "memory_reserved", "memory_stats", "memory_summary", "nvtx", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip
__dir__ = _package_dir(__name__)

default_generators: tuple[Any, ...] = ()


def _no_device(what: str, device: Any = None) -> NoReturn:
    shown = "" if device is None else f" for device {device!r}"
    raise StateError(
        f"cuda.{what}: there is no CUDA device{shown}; ask cuda.is_available() first, or use device='cpu'"
    )


def is_available() -> bool:
    """Whether there is a CUDA device that works.

    Example:
        >>> fb.cuda.is_available() == (fb.cuda.device_count() > 0)
        True
    """
    return device_count() > 0


def device_count() -> int:
    """The number of CUDA devices that work.

    Example:
        >>> fb.cuda.device_count() <= len(fb.cuda.devices())
        True
    """
    return _C.accelerator_count(_C.device("cuda"))


def devices() -> list[dict[str, Any]]:
    """All CUDA devices of this machine with their names and limits; those that are not used say why in ``rejected``.

    Example:
        >>> all(device["rejected"] == "" for device in fb.cuda.devices() if device["index"] >= 0)
        True
    """
    return _C.cuda_devices()


_initialized = False  # the name that PyTorch's older scripts read


def is_initialized() -> bool:
    """False: there is nothing to initialize.

    Example:
        >>> fb.cuda.is_initialized()
        False
    """
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no CUDA device to support it. The CPU does.

    Example:
        >>> fb.cuda.is_bf16_supported()
        False
    """
    return False


def is_tf32_supported() -> bool:
    """False: there is no CUDA device to support it.

    Example:
        >>> fb.cuda.is_tf32_supported()
        False
    """
    return False


def get_arch_list() -> list[str]:
    """The CUDA architectures this build is for: none.

    Example:
        >>> fb.cuda.get_arch_list()
        []
    """
    return []


def synchronize(device: Any = None) -> None:
    """Waits until a CUDA device is done; without one it returns at once.

    Example:
        >>> fb.cuda.synchronize()
    """
    if is_available():
        accelerator.synchronize("cuda" if device is None else _C.device("cuda", device) if isinstance(device, int) else device)


# ---- seeds ---------------------------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seeds the present CUDA device; without one there is nothing to seed.

    Example:
        >>> fb.cuda.manual_seed(0)
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds every CUDA device, of which there are none.

    Example:
        >>> fb.cuda.manual_seed_all(0)
    """
    int(seed)


def seed_all() -> None:
    """Seeds every CUDA device from the system's entropy; there are none.

    Example:
        >>> fb.cuda.seed_all()
    """


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all CUDA devices: an empty list.

    Example:
        >>> fb.cuda.get_rng_state_all()
        []
    """
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Sets the generators of all CUDA devices; takes an empty list only.

    Example:
        >>> fb.cuda.set_rng_state_all(fb.cuda.get_rng_state_all())
    """
    if len(list(new_states)):
        _no_device("set_rng_state_all")


# ---- what needs a device -------------------------------------------------------------------------------------------------


def _refuses(name: str, summary: str):
    """A function that asks for a device; there being none, it says so."""

    def refuse(device: Any = None) -> NoReturn:
        _no_device(name, device)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"""{summary}. There is no device, so this is an error that says so, as in PyTorch.

    Example:
        >>> try:
        ...     fb.cuda.{name}()
        ... except RuntimeError as error:
        ...     print(str(error).partition(";")[0])
        cuda.{name}: there is no CUDA device
    """
    return refuse


current_device = _refuses("current_device", "The index of the present CUDA device")
get_device_capability = _refuses("get_device_capability", "Major and minor number of a device's capability")
get_device_name = _refuses("get_device_name", "The name of a CUDA device")
get_device_properties = _refuses("get_device_properties", "Memory, name and other properties of a CUDA device")
get_rng_state = _refuses("get_rng_state", "The state of the random generator of a CUDA device")
init = _refuses("init", "Starts the CUDA driver")
initial_seed = _refuses("initial_seed", "The seed of the present CUDA device")
seed = _refuses("seed", "Seeds the present CUDA device from the system's entropy")


def set_device(device: Any) -> None:
    """Makes a CUDA device the present one: an error, unless the device is given as -1 or None, which asks for none.

    Example:
        >>> fb.cuda.set_device(-1)
    """
    index = device if isinstance(device, int) else getattr(device, "index", device)
    if index is not None and index != -1:
        _no_device("set_device", device)


class device(contextlib.AbstractContextManager[Any]):
    """Makes a CUDA device the present one within the block; -1 or None leaves things as they are.

    Example:
        >>> with fb.cuda.device(None):
        ...     x = fb.zeros(2)
    """

    def __init__(self, device: Any) -> None:
        set_device(device)

    def __exit__(self, *exception: object) -> None:
        return None


class device_of(device):
    """The device of a tensor is the present one within the block; for a tensor on the CPU nothing changes.

    Example:
        >>> with fb.cuda.device_of(fb.zeros(2)):
        ...     x = fb.zeros(2)
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if getattr(obj, "is_cuda", False) else -1)


class _CudaType(type):
    """isinstance() is always false, calling is an error: no tensor lives on a CUDA device."""

    def __instancecheck__(cls, obj: object) -> bool:
        return False

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _no_device(cls.__name__)

    def tensor_dtype(cls) -> NoReturn:
        """Asked by Tensor.type(): converting to a CUDA type is an error."""
        _no_device(cls.__name__)


def _types() -> dict[str, type[Any]]:
    names = "BFloat16 Bool Byte Char Double Float Half Int Long Short".split()
    doc = """{0} tensors on a CUDA device, for isinstance(): there are none.

    Example:
        >>> isinstance(fb.zeros(1), fb.cuda.{0}Tensor)
        False
    """
    return {f"{n}Tensor": _CudaType(f"{n}Tensor", (), {"__doc__": doc.format(n), "__module__": __name__}) for n in names}


globals().update(_types())
