"""Creation ops composed of others: polar coordinates and the windows of signal processing."""

import math

import flambeau as fb
from flambeau._registry.composite import composite

# PyTorch's older names of dtypes.
_SCALAR_TYPES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
    "complex32": "ComplexHalf", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    **{name: name.capitalize() for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")},
}  # fmt: skip
_OPTIONS = (
    "dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, bool? requires_grad=False"
)


@composite("polar(Tensor abs, Tensor angle) -> Tensor", out=True)
def polar(abs, angle):
    """Complex numbers from absolute values and angles.

    Args:
        abs: float32 or float64.
        angle: in radians, of the same dtype; shapes broadcast.

    Example:
        >>> fb.polar(fb.tensor([2.0]), fb.tensor([0.0]))
        tensor([2.+0.j])
    """
    names = [_SCALAR_TYPES[t.dtype.name] for t in (abs, angle)]
    if any(t.dtype not in (fb.float32, fb.float64) for t in (abs, angle)):
        raise fb.errors.DTypeError(
            f"polar: Expected both inputs to be Half, Float or Double tensors but got {names[0]} and {names[1]}; "
            "abs and angle must both be float32 or both float64"
        )
    if abs.dtype != angle.dtype:
        raise fb.errors.DTypeError(
            f"polar: Expected object of scalar type {names[0]} but got scalar type {names[1]} for second argument; "
            "convert one with .to(dtype)"
        )
    return fb.complex(abs * fb.cos(angle), abs * fb.sin(angle))


def _window(name, window_length, periodic, formula, dtype, layout, device, pin_memory, requires_grad):
    """A window of `formula(n, N)`: n = 0 … length - 1, N the distance between the two ends."""
    dtype = dtype or fb.get_default_dtype()
    if window_length < 0:
        raise fb.errors.ArgumentError(f"{name}: window_length must not be negative, got {window_length}")
    if not dtype.is_floating_point:
        raise fb.errors.ArgumentError(f"{name}: expected a floating point dtype, got {dtype}")
    options = {"layout": layout, "device": device, "pin_memory": pin_memory, "requires_grad": requires_grad}
    if window_length <= 1:
        return fb.ones(window_length, dtype=dtype, **options)
    n = fb.arange(window_length, dtype=fb.float64, **options)
    return formula(n, window_length if periodic else window_length - 1).to(dtype)


def _cosines(*coefficients):
    """coefficients[0] - coefficients[1] cos(2πn/N) + coefficients[2] cos(4πn/N) - …"""

    def formula(n, size):
        total = fb.zeros_like(n)
        for k, c in enumerate(coefficients):
            total = total + (-1) ** k * c * fb.cos(n * (2 * math.pi * k / size))
        return total

    return formula


@composite("hann_window(int window_length, bool periodic=True, *, " + _OPTIONS + ") -> Tensor")
def hann_window(window_length, periodic, *, dtype, layout, device, pin_memory, requires_grad):
    """The Hann window, sin² over half a period.

    Args:
        window_length: number of values.
        periodic: omit the last value, as for spectra; otherwise the window is symmetric.
        dtype: a floating point dtype; the default dtype when not given.
        layout: only strided.
        device: device of the tensor.
        pin_memory: page-locked memory, only with an accelerator.
        requires_grad: whether gradients are recorded.

    Example:
        >>> fb.hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    args = dtype, layout, device, pin_memory, requires_grad
    return _window("hann_window", window_length, periodic, _cosines(0.5, 0.5), *args)


@composite(
    "hamming_window(int window_length, bool periodic=True, float alpha=0.54, float beta=0.46, *, "
    + _OPTIONS
    + ") -> Tensor"
)
def hamming_window(window_length, periodic, alpha, beta, *, dtype, layout, device, pin_memory, requires_grad):
    """The Hamming window, alpha - beta cos(2πn/N).

    Args:
        window_length: number of values.
        periodic: omit the last value, as for spectra; otherwise the window is symmetric.
        alpha: the constant part.
        beta: the part of the cosine.
        dtype: a floating point dtype; the default dtype when not given.
        layout: only strided.
        device: device of the tensor.
        pin_memory: page-locked memory, only with an accelerator.
        requires_grad: whether gradients are recorded.

    Example:
        >>> fb.hamming_window(4)
        tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    args = dtype, layout, device, pin_memory, requires_grad
    return _window("hamming_window", window_length, periodic, _cosines(alpha, beta), *args)


@composite("blackman_window(int window_length, bool periodic=True, *, " + _OPTIONS + ") -> Tensor")
def blackman_window(window_length, periodic, *, dtype, layout, device, pin_memory, requires_grad):
    """The Blackman window, 0.42 - 0.5 cos(2πn/N) + 0.08 cos(4πn/N).

    Args:
        window_length: number of values.
        periodic: omit the last value, as for spectra; otherwise the window is symmetric.
        dtype: a floating point dtype; the default dtype when not given.
        layout: only strided.
        device: device of the tensor.
        pin_memory: page-locked memory, only with an accelerator.
        requires_grad: whether gradients are recorded.

    Example:
        >>> fb.blackman_window(4)[2]
        tensor(1.)
    """
    args = dtype, layout, device, pin_memory, requires_grad
    return _window("blackman_window", window_length, periodic, _cosines(0.42, 0.5, 0.08), *args)


@composite("bartlett_window(int window_length, bool periodic=True, *, " + _OPTIONS + ") -> Tensor")
def bartlett_window(window_length, periodic, *, dtype, layout, device, pin_memory, requires_grad):
    """The Bartlett window, a triangle.

    Args:
        window_length: number of values.
        periodic: omit the last value, as for spectra; otherwise the window is symmetric.
        dtype: a floating point dtype; the default dtype when not given.
        layout: only strided.
        device: device of the tensor.
        pin_memory: page-locked memory, only with an accelerator.
        requires_grad: whether gradients are recorded.

    Example:
        >>> fb.bartlett_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """

    def formula(n, size):
        return 1 - fb.abs(n * (2 / size) - 1)

    args = dtype, layout, device, pin_memory, requires_grad
    return _window("bartlett_window", window_length, periodic, formula, *args)


@composite("kaiser_window(int window_length, bool periodic=True, float beta=12.0, *, " + _OPTIONS + ") -> Tensor")
def kaiser_window(window_length, periodic, beta, *, dtype, layout, device, pin_memory, requires_grad):
    """The Kaiser window, based on the Bessel function I₀.

    Args:
        window_length: number of values.
        periodic: omit the last value, as for spectra; otherwise the window is symmetric.
        beta: shape; larger is narrower.
        dtype: a floating point dtype; the default dtype when not given.
        layout: only strided.
        device: device of the tensor.
        pin_memory: page-locked memory, only with an accelerator.
        requires_grad: whether gradients are recorded.

    Example:
        >>> fb.kaiser_window(4)[2]
        tensor(1.)
    """

    def formula(n, size):
        x = n * (2 / size) - 1
        return fb.i0(beta * fb.sqrt(fb.clamp(1 - x * x, min=0))) / fb.i0(fb.full_like(n, beta))

    args = dtype, layout, device, pin_memory, requires_grad
    return _window("kaiser_window", window_length, periodic, formula, *args)
