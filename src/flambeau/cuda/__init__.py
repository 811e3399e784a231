"""PyTorch's names for CUDA devices. Without one, questions are answered and requests for a device are refused.

Device-agnostic code runs as it is. Streams, events and memory of a device are those of ``fb.accelerator``; without a
device what only waits, counts or frees does nothing, and events measure with the host's clock. In programs written for
PyTorch (``python -m flambeau``), the accelerator that ``FLAMBEAU_DEVICE`` names bears the name "cuda", whatever it is.

Example:
    >>> fb.device("cuda" if fb.cuda.is_available() else "cpu")
    device(type='cpu')
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, NamedTuple, NoReturn

import flambeau
from flambeau import _C, accelerator, random
from flambeau._registry.names import package_dir as _package_dir
from flambeau.cuda import amp, nvtx
from flambeau.cuda._memory import (
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from flambeau.cuda._streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    present,
    set_stream,
    stream,
)
from flambeau.cuda._streams import device_of as _device
from flambeau.errors import OutOfMemoryError, StateError

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "Event", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "OutOfMemoryError", "ShortTensor", "Stream", "StreamContext", "amp", "current_device",
    "current_stream", "default_generators", "default_stream", "device", "device_count", "device_of", "devices",
    "empty_cache", "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties",
    "get_rng_state", "get_rng_state_all", "init", "initial_seed", "ipc_collect", "is_available", "is_bf16_supported",
    "is_initialized", "is_tf32_supported", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached",
    "memory_reserved", "memory_stats", "memory_summary", "nvtx", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "set_stream", "stream", "synchronize",
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
    return present()


def device_count() -> int:
    """The number of CUDA devices that work.

    Example:
        >>> fb.cuda.device_count() <= len(fb.cuda.devices())
        True
    """
    return _C.accelerator_count(_C.device("cuda")) if present() else 0


def devices() -> list[dict[str, Any]]:
    """All CUDA devices of this machine with their names and limits; those that are not used say why in ``rejected``.

    Example:
        >>> all(device["rejected"] == "" for device in fb.cuda.devices() if device["index"] >= 0)
        True
    """
    return _C.cuda_devices()


_initialized = False  # read by older PyTorch scripts


def is_initialized() -> bool:
    """Whether there is a device; there is nothing to initialize.

    Example:
        >>> fb.cuda.is_initialized() == fb.cuda.is_available()
        True
    """
    return present()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a device: kernels know bfloat16 on each of them. The CPU's do, too.

    Example:
        >>> fb.cuda.is_bf16_supported() == fb.cuda.is_available()
        True
    """
    return present()


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
    if present():
        accelerator.synchronize(_device(device))


# ---- seeds: random numbers are the CPU's, from its generator ---------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seeds the default generator, which devices share; without a device there is nothing to seed.

    Example:
        >>> fb.cuda.manual_seed(0)
    """
    if present():
        random.manual_seed(int(seed))
    else:
        int(seed)


def manual_seed_all(seed: int) -> None:
    """The same as manual_seed(), for every device.

    Example:
        >>> fb.cuda.manual_seed_all(0)
    """
    manual_seed(seed)


def seed_all() -> None:
    """Seeds the default generator from the system's entropy, if there is a device.

    Example:
        >>> fb.cuda.seed_all()
    """
    if present():
        random.seed()


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all CUDA devices, which are that of the default generator; an empty list without one.

    Example:
        >>> len(fb.cuda.get_rng_state_all()) == fb.cuda.device_count()
        True
    """
    return [random.get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Goes back to what get_rng_state_all() gave.

    Example:
        >>> fb.cuda.set_rng_state_all(fb.cuda.get_rng_state_all())
    """
    states = list(new_states)
    if states and not present():
        _no_device("set_rng_state_all")
    for state in states[:1]:
        random.set_rng_state(state)


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """Goes back to what get_rng_state() gave.

    Example:
        >>> if fb.cuda.is_available():
        ...     fb.cuda.set_rng_state(fb.cuda.get_rng_state())
    """
    if not present():
        _no_device("set_rng_state", device)
    random.set_rng_state(new_state)


# ---- functions that need a device
# ----------------------------------------------------------------------------------------


class _Properties(NamedTuple):
    name: str
    total_memory: int
    major: int
    minor: int
    multi_processor_count: int


def _properties(where: Any) -> _Properties:
    """The capability is 0.0 for a device named "cuda" that is not NVIDIA's."""
    index = where.index or 0
    name, total = _C.accelerator_name(where), _C.accelerator_memory(where)["total"]
    row = next((d for d in _C.cuda_devices() if d["index"] == index and d["name"] == name), None)
    if row is not None:
        return _Properties(name, total, row["major"], row["minor"], row["multi_processor_count"])
    units = next((d["units"] for d in _C.opencl_devices() if d["index"] == index and d["name"] == name), os.cpu_count() or 1)
    return _Properties(name, total, 0, 0, units)


def _asks(name: str, summary: str, answer: Any):
    """A function that queries a device; raises an error without one."""

    def ask(device: Any = None) -> Any:
        if not present():
            _no_device(name, device)
        return answer(accelerator._device(_device(device)))

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"""{summary}. Without a device it is an error, as in PyTorch.

    Example:
        >>> try:
        ...     answer = fb.cuda.{name}()
        ... except RuntimeError as error:
        ...     assert str(error).startswith("cuda.{name}: there is no CUDA device")
    """
    return ask


current_device = _asks("current_device", "The index of the present CUDA device", lambda d: d.index)
get_device_capability = _asks(
    "get_device_capability", "Major and minor number of a device's capability", lambda d: _properties(d)[2:4]
)
get_device_name = _asks("get_device_name", "The name of a CUDA device", lambda d: _C.accelerator_name(d))
get_device_properties = _asks("get_device_properties", "Memory, name and other properties of a CUDA device", _properties)
get_rng_state = _asks("get_rng_state", "The state of the random generator of a CUDA device", lambda d: random.get_rng_state())
init = _asks("init", "Starts the CUDA driver", lambda d: None)
initial_seed = _asks("initial_seed", "The seed of the present CUDA device", lambda d: random.initial_seed())
seed = _asks("seed", "Seeds the present CUDA device from the system's entropy", lambda d: random.seed())


def set_device(device: Any) -> None:
    """Makes a CUDA device the current one; -1 or None changes nothing.

    Example:
        >>> fb.cuda.set_device(-1)
    """
    index = device if isinstance(device, int) else getattr(device, "index", device)
    if index is None or index == -1:
        return
    if isinstance(index, str):
        index = _C.device(index).index or 0
    if not present():
        _no_device("set_device", device)
    accelerator.set_device_index(_device(index))


class device(contextlib.AbstractContextManager[Any]):
    """Makes a CUDA device the current one within the block; -1 or None changes nothing.

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
    """Tensor types of a dtype on a CUDA device: for isinstance(), and as constructors, like the CPU's classes."""

    element: str

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, _C.Tensor) and obj.is_cuda and obj.dtype == getattr(_C, cls.element)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not present():
            _no_device(cls.__name__)
        return getattr(flambeau, cls.__name__)(*args, **kwargs).to(_device())

    def tensor_dtype(cls) -> Any:
        """Called by Tensor.type()."""
        if not present():
            _no_device(cls.__name__)
        return getattr(_C, cls.element)


def _types() -> dict[str, type[Any]]:
    names = dict(zip(
        "BFloat16 Bool Byte Char Double Float Half Int Long Short".split(),
        "bfloat16 bool uint8 int8 float64 float32 float16 int32 int64 int16".split(), strict=True,
    ))  # fmt: skip
    doc = """{0} tensors on a CUDA device, for isinstance().

    Example:
        >>> isinstance(fb.zeros(1), fb.cuda.{0}Tensor)
        False
    """
    return {
        f"{n}Tensor": _CudaType(f"{n}Tensor", (), {"__doc__": doc.format(n), "__module__": __name__, "element": element})
        for n, element in names.items()
    }


globals().update(_types())
