"""Information and settings: numeric limits, threads, seeds, configuration."""

from __future__ import annotations

import builtins
import struct
import warnings
from typing import Any

from flambeau import _C, Tensor
from flambeau._registry import private
from flambeau._tensor.printing import get_printoptions, printoptions, set_printoptions
from flambeau.errors import ArgumentError

__all__ = [
    "are_deterministic_algorithms_enabled", "broadcast_shapes", "compiled_with_cxx11_abi", "default_generator", "detach_",
    "finfo", "get_deterministic_debug_mode", "get_device", "get_device_module", "get_num_interop_threads", "get_printoptions",
    "get_rng_state",
    "iinfo", "initial_seed", "is_complex", "is_deterministic_algorithms_warn_only_enabled", "is_floating_point", "is_warn_always_enabled",
    "is_inference", "is_nonzero", "is_signed", "is_storage", "is_tensor", "manual_seed", "numel", "printoptions", "result_type",
    "seed", "set_default_tensor_type",
    "set_deterministic_debug_mode", "set_flush_denormal", "set_num_interop_threads", "set_printoptions",
    "set_rng_state", "set_warn_always", "show_config", "typename", "use_deterministic_algorithms",
]  # fmt: skip


# ---- numeric limits ------------------------------------------------------------------------------------------------------

_FLOATS = {  # bits, mantissa bits, minimum exponent, maximum exponent
    _C.float16: (16, 10, -14, 15), _C.bfloat16: (16, 7, -126, 127),
    _C.float32: (32, 23, -126, 127), _C.float64: (64, 52, -1022, 1023),
}  # fmt: skip
_FLOAT8 = {  # eps, max, smallest normal, smallest subnormal; eps of float8_e5m2fnuz is PyTorch's
    _C.float8_e4m3fn: (2.0**-3, 448.0, 2.0**-6, 2.0**-9), _C.float8_e4m3fnuz: (2.0**-3, 240.0, 2.0**-7, 2.0**-10),
    _C.float8_e5m2: (2.0**-2, 57344.0, 2.0**-14, 2.0**-16), _C.float8_e5m2fnuz: (2.0**-3, 57344.0, 2.0**-15, 2.0**-17),
    _C.float8_e8m0fnu: (1.0, 2.0**127, 2.0**-127, 2.0**-127),
}  # fmt: skip


class finfo:
    """Limits of a floating point dtype (of the parts, for a complex one).

    Args:
        dtype: the dtype; the default dtype if not given.

    Example:
        >>> fb.finfo(fb.float32).eps
        1.1920928955078125e-07
    """

    def __init__(self, dtype=None) -> None:
        kind = _C.get_default_dtype() if dtype is None else dtype
        if isinstance(kind, _C.dtype) and kind in _FLOAT8:
            self.eps, self.max, self.tiny, self.smallest_subnormal = _FLOAT8[kind]
            self.min = -self.max if kind.is_signed else self.tiny
            self.bits, self.smallest_normal, self.resolution, self.dtype = 8, self.tiny, 1.0, kind.name
            return
        if not isinstance(kind, _C.dtype) or not (kind.is_floating_point or kind.is_complex):
            raise TypeError(f"finfo: expected a floating point or complex dtype, got {kind}; use iinfo for integers")
        real = kind.to_real() if kind.is_complex else kind
        self.bits, mantissa, low, high = _FLOATS[real]
        self.eps = 2.0**-mantissa
        self.max = (2.0 - 2.0**-mantissa) * 2.0**high
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**low
        self.smallest_subnormal = 2.0 ** (low - mantissa)
        self.resolution = 10.0 ** -builtins.int(mantissa * 0.30103)
        self.dtype = real.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other) -> builtins.bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> builtins.int:
        return hash(("finfo", self.dtype))


class iinfo:
    """Limits of an integer dtype.

    Args:
        dtype: the dtype.

    Example:
        >>> fb.iinfo(fb.int8).max
        127
    """

    def __init__(self, dtype) -> None:
        if not isinstance(dtype, _C.dtype) or dtype.is_floating_point or dtype.is_complex or dtype == _C.bool:
            raise TypeError(f"iinfo: expected an integer dtype, got {dtype}; use finfo for floating point")
        self.bits = dtype.itemsize * 8
        self.min = -(2 ** (self.bits - 1)) if dtype.is_signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if dtype.is_signed else 2**self.bits - 1
        self.dtype = dtype.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other) -> builtins.bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> builtins.int:
        return hash(("iinfo", self.dtype))


# ---- queries
# -------------------------------------------------------------------------------------------------------------


def is_tensor(obj) -> builtins.bool:
    """Whether an object is a tensor.

    Example:
        >>> fb.is_tensor(fb.zeros(1))
        True
    """
    return isinstance(obj, Tensor)


def is_storage(obj) -> builtins.bool:
    """Whether an object is a storage.

    Example:
        >>> fb.is_storage(fb.zeros(1)), fb.is_storage(fb.zeros(1).untyped_storage())
        (False, True)
    """
    from flambeau.storage import TypedStorage, UntypedStorage

    return isinstance(obj, (TypedStorage, UntypedStorage))


def is_floating_point(input) -> builtins.bool:
    """Whether a tensor's dtype is a real floating point type.

    Example:
        >>> fb.is_floating_point(fb.zeros(1))
        True
    """
    return input.is_floating_point()


def is_complex(input) -> builtins.bool:
    """Whether a tensor's dtype is complex.

    Example:
        >>> fb.is_complex(fb.zeros(1))
        False
    """
    return input.is_complex()


def is_signed(input) -> builtins.bool:
    """Whether a tensor's dtype can hold negative numbers.

    Example:
        >>> fb.is_signed(fb.zeros(1, dtype=fb.uint8))
        False
    """
    return input.is_signed()


def is_inference(input) -> builtins.bool:
    """Whether a tensor was made in inference mode.

    Example:
        >>> fb.is_inference(fb.zeros(1))
        False
    """
    return input.is_inference()


def get_device(input) -> builtins.int:
    """The number of the accelerator a tensor is on; -1 for the CPU.

    Example:
        >>> fb.get_device(fb.zeros(1))
        -1
    """
    return input.get_device()


def detach_(input):
    """Tensor.detach_() as a function: the tensor becomes a leaf that does not require gradients.

    Example:
        >>> fb.detach_(fb.ones(2).requires_grad_() * 2)
        tensor([2., 2.])
    """
    return input.detach_()


def _ambiguous(x: Any) -> str:
    count = "no values" if x.numel() == 0 else "more than one value"
    return f"Boolean value of Tensor with {count} is ambiguous: expected one element, got shape {tuple(x.shape)}"


def is_nonzero(input) -> builtins.bool:
    """Whether the only element of a tensor is not zero.

    Example:
        >>> fb.is_nonzero(fb.tensor(2))
        True
    """
    if input.numel() != 1:
        raise ArgumentError(f"is_nonzero: {_ambiguous(input)}")
    return builtins.bool(input)


def numel(input) -> builtins.int:
    """Number of elements.

    Example:
        >>> fb.numel(fb.zeros(2, 3))
        6
    """
    return input.numel()


def result_type(tensor1, tensor2):
    """The dtype of an op on two tensors or numbers.

    Example:
        >>> fb.result_type(fb.tensor([1, 2]), 1.0)
        flambeau.float32
    """
    return private.result_type(tensor1, tensor2)


def broadcast_shapes(*shapes):
    """The shape that shapes broadcast to.

    Example:
        >>> fb.broadcast_shapes((2, 1), (3,))
        flambeau.Size([2, 3])
    """
    from flambeau._tensor.layouts import Size

    sizes: list[builtins.int] = []
    for shape in shapes:
        dims = list(Size([shape] if isinstance(shape, builtins.int) else shape))
        if builtins.any(d < 0 for d in dims):
            raise ArgumentError(
                f"broadcast_shapes: Attempting to broadcast a dimension with negative length! Sizes must not be negative, got {tuple(dims)}"
            )
        sizes = [1] * (len(dims) - len(sizes)) + sizes
        for i in range(1, len(dims) + 1):
            if dims[-i] == sizes[-i] or dims[-i] == 1:
                continue
            if sizes[-i] != 1:
                raise ArgumentError(
                    f"broadcast_shapes: shapes {shapes} cannot be broadcast: expected shape should be broadcastable to {tuple(sizes)}"
                )
            sizes[-i] = dims[-i]
    return Size(sizes)


def typename(obj) -> str:
    """The type of an object as a string; of a tensor, its dtype's tensor type.

    Example:
        >>> fb.typename(fb.zeros(1))
        'flambeau.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = "" if kind.__module__ in ("builtins", None) else kind.__module__ + "."
    return module + kind.__qualname__


# ---- seeds ---------------------------------------------------------------------------------------------------------------

default_generator = _C.default_generator()


def manual_seed(seed):
    """Restarts the default random numbers from a seed.

    Example:
        >>> g = fb.manual_seed(0)
        >>> a = fb.rand(2)
        >>> g = fb.manual_seed(0)
        >>> fb.equal(a, fb.rand(2))
        True
    """
    return default_generator.manual_seed(seed)


def seed() -> builtins.int:
    """Seeds the default random numbers from the system's entropy; returns the seed.

    Example:
        >>> fb.seed() >= 0
        True
    """
    return default_generator.seed()


def initial_seed() -> builtins.int:
    """The seed of the default random numbers.

    Example:
        >>> g = fb.manual_seed(3)
        >>> fb.initial_seed()
        3
    """
    return default_generator.initial_seed()


def get_rng_state():
    """The state of the default random numbers, a uint8 tensor.

    Example:
        >>> fb.get_rng_state().shape
        flambeau.Size([16])
    """
    return default_generator.get_state()


def set_rng_state(new_state) -> None:
    """Goes back to a state from get_rng_state().

    Example:
        >>> fb.set_rng_state(fb.get_rng_state())
    """
    default_generator.set_state(new_state)


# ---- settings ------------------------------------------------------------------------------------------------------------

_deterministic = 0  # as in set_deterministic_debug_mode(): 0 default, 1 warn, 2 error
_warn_only = False


def use_deterministic_algorithms(mode, *, warn_only=False) -> None:
    """Every op is deterministic already; uninitialized memory is filled, see fb.utils.deterministic.

    Args:
        mode: whether only deterministic algorithms are wanted.
        warn_only: whether others would only be warned of.

    Example:
        >>> fb.use_deterministic_algorithms(True)
        >>> fb.use_deterministic_algorithms(False)
    """
    global _warn_only
    for name, value, place in (("mode", mode, " (position 1)"), ("warn_only", warn_only, "")):
        if not isinstance(value, builtins.bool):
            raise TypeError(
                f"use_deterministic_algorithms: _set_deterministic_algorithms(): argument '{name}'{place} must be bool, "
                f"not {type(value).__name__}"
            )
    set_deterministic_debug_mode((1 if warn_only else 2) if mode else 0)
    _warn_only = builtins.bool(warn_only)


_always = ("always", None, UserWarning, None, 0)


def set_warn_always(b) -> None:
    """Whether warnings appear every time; Python shows one for each place in the program otherwise.

    Args:
        b: True for every time.

    Example:
        >>> fb.set_warn_always(True)
        >>> fb.is_warn_always_enabled()
        True
        >>> fb.set_warn_always(False)
    """
    import warnings

    filters: Any = warnings.filters
    while _always in filters:
        filters.remove(_always)
    if b:
        warnings.filterwarnings("always", category=UserWarning)
    vars(warnings)["_filters_mutated"]()  # filters are cached by call site; forget what was shown


def is_warn_always_enabled() -> builtins.bool:
    """What set_warn_always() was last told, as long as no other filter of warnings has replaced it.

    Example:
        >>> fb.is_warn_always_enabled()
        False
    """
    import warnings

    return _always in warnings.filters


def get_device_module(device=None) -> Any:
    """The module for devices of a kind: fb.cpu, fb.cuda or fb.xpu.

    Args:
        device: a device or the name of one; the CPU by default.

    Example:
        >>> fb.get_device_module("cpu") is fb.cpu
        True
    """
    import flambeau as fb

    kind = fb.device(device or "cpu").type
    if kind not in ("cpu", "cuda", "xpu"):
        raise RuntimeError(f"get_device_module: Device '{device}' does not have a corresponding module; there are 'cpu', 'cuda' and 'xpu'")
    return getattr(fb, kind)


def are_deterministic_algorithms_enabled() -> builtins.bool:
    """What use_deterministic_algorithms() was last told.

    Example:
        >>> fb.are_deterministic_algorithms_enabled()
        False
    """
    return _deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> builtins.bool:
    """Whether use_deterministic_algorithms() was last told to warn only.

    Example:
        >>> fb.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return _warn_only


def set_deterministic_debug_mode(debug_mode) -> None:
    """Keeps the mode for get_deterministic_debug_mode(); every op is deterministic, so none of them ever speaks.

    Args:
        debug_mode: 'default' or 0, 'warn' or 1, 'error' or 2.

    Example:
        >>> fb.set_deterministic_debug_mode("default")
    """
    global _deterministic, _warn_only
    modes = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if debug_mode not in modes:
        raise ArgumentError(f"set_deterministic_debug_mode: expected 'default', 'warn', 'error' or 0 to 2, got {debug_mode!r}")
    _deterministic = modes[debug_mode]
    _warn_only = _deterministic == 1
    from flambeau.utils import deterministic

    deterministic._update()


def get_deterministic_debug_mode() -> builtins.int:
    """The mode as a number: 0 default, 1 warn, 2 error.

    Example:
        >>> fb.get_deterministic_debug_mode()
        0
    """
    return _deterministic


def set_default_tensor_type(t) -> None:
    """Sets the default dtype by the name of a tensor type, such as 'DoubleTensor'.

    Example:
        >>> fb.set_default_tensor_type("FloatTensor")
    """
    names = {"FloatTensor": _C.float32, "DoubleTensor": _C.float64, "HalfTensor": _C.float16, "BFloat16Tensor": _C.bfloat16}
    short = (t if isinstance(t, str) else getattr(t, "__name__", str(t))).rpartition(".")[2]
    if short not in names:
        raise TypeError(f"set_default_tensor_type: expected one of {', '.join(names)}, got {t}")
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() instead",
        stacklevel=2,
    )
    _C.set_default_dtype(names[short])


def set_flush_denormal(mode) -> builtins.bool:
    """Answers False: denormal numbers are always kept.

    Example:
        >>> fb.set_flush_denormal(False)
        False
    """
    if mode:
        raise RuntimeError("set_flush_denormal: flushing denormal numbers is not supported; they are always kept")
    return False


def get_num_interop_threads() -> builtins.int:
    """One: ops do not run side by side.

    Example:
        >>> fb.get_num_interop_threads()
        1
    """
    return 1


def set_num_interop_threads(n) -> None:
    """Takes only 1: ops do not run side by side.

    Example:
        >>> fb.set_num_interop_threads(1)
    """
    if n != 1:
        raise ArgumentError(f"set_num_interop_threads: only 1 is possible, got {n}")


def compiled_with_cxx11_abi() -> builtins.bool:
    """True: the core uses the C++11 ABI.

    Example:
        >>> fb.compiled_with_cxx11_abi()
        True
    """
    return True


def show_config() -> str:
    """How this build was made and what it chose on this machine: threads and why, CPU features, library versions.

    Example:
        >>> "threads" in fb.show_config()
        True
    """
    import platform
    from importlib.metadata import PackageNotFoundError, version

    config: dict[str, Any] = _C.config()

    def package(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    lines = {
        "flambeau": package("flambeau"),
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}, {struct.calcsize('P') * 8} bit",
        "threads": f"{_C.get_num_threads()} ({_C.threads_reason()})",
        "compiler": f"{config['compiler']}, for {config['compiled_for']}",
        "cpu features": f"{config['cpu_features']}; kernels use {_C.cpu_level()}",
        "sanitizers": config["sanitizers"],
        "openblas": package("scipy-openblas32"),
        "numpy": package("numpy"),
    }
    width = builtins.max(len(k) for k in lines)
    return "\n".join(f"{k:<{width}}  {v}" for k, v in lines.items())
