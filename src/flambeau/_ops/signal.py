"""Short-time Fourier transforms, numeric gradients, index arithmetic."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import flambeau as fb
from flambeau import _C
from flambeau._registry.composite import composite
from flambeau.errors import ArgumentError, DTypeError, OutOfRangeError


@composite("unravel_index(Tensor indices, any shape) -> Tensor[]")
def unravel_index(indices, shape):
    """Positions in a flattened tensor as one index tensor per dimension.

    Args:
        indices: integer tensor.
        shape: the shape of the tensor that was flattened.

    Example:
        >>> fb.unravel_index(fb.tensor([4, 1]), (2, 3))
        (tensor([1, 0]), tensor([1, 1]))
    """
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == fb.bool:
        raise TypeError(f"unravel_index: expected 'indices' to be integer, got a tensor of dtype {indices.dtype}")
    if not isinstance(shape, (builtins.int, Sequence)):
        raise TypeError(f"unravel_index: expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = [shape] if isinstance(shape, builtins.int) else list(shape)
    for size in sizes:
        if not hasattr(size, "__index__"):
            raise TypeError(f"unravel_index: expected 'shape' sequence to only contain ints, but got {type(size)}")
    if builtins.any(d < 0 for d in sizes):
        raise ArgumentError(f"unravel_index: 'shape' cannot have negative values, but got {tuple(sizes)}")
    rest, result = indices.to(fb.int64), []
    for size in reversed(sizes):
        result.append(rest.remainder(builtins.max(size, 1)))
        rest = rest.floor_divide(builtins.max(size, 1))
    return tuple(reversed(result))


@composite(
    "stft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, "
    "str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None, "
    "bool? align_to_window=None) -> Tensor",
    method=True,
)
def stft(
    input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window
):
    """Short-time Fourier transform: the spectrum of each window of a signal.

    Args:
        input: real or complex signal, one-dimensional or a batch of them.
        n_fft: length of each transform.
        hop_length: distance between windows; n_fft // 4 by default.
        win_length: length of the window; n_fft by default.
        window: the window's weights; all ones by default.
        center: pads the signal so that window t is centered at t * hop_length.
        pad_mode: how center pads: 'reflect', 'constant', 'replicate' or 'circular'.
        normalized: divides by the square root of n_fft.
        onesided: only the non-negative frequencies; default for real signals.
        return_complex: must be True for real signals, whose spectrum is complex.
        align_to_window: not supported, must be None or False.

    Returns:
        Complex tensor of shape (..., frequencies, windows).

    Example:
        >>> fb.stft(fb.ones(8), 4, window=fb.ones(4), center=False, return_complex=True).shape
        flambeau.Size([3, 5])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if return_complex is None and not input.is_complex() and (window is None or not window.is_complex()):
        raise RuntimeError("stft: requires the return_complex parameter be given for real inputs; pass return_complex=True")
    if align_to_window:
        raise ArgumentError("stft: align_to_window=True is not supported")
    if not (input.is_floating_point() or input.is_complex()):
        raise TypeError(f"stft: expected a tensor of floating point or complex values, got {input.dtype}")
    if input.ndim not in (1, 2):
        raise ArgumentError(f"stft: expected a 1-d or 2-d tensor, got shape {tuple(input.shape)}")
    if hop <= 0:
        raise ArgumentError(f"stft: hop_length must be positive, got {hop}")
    if not 0 < length <= n_fft:
        raise ArgumentError(f"stft: win_length must be from 1 to n_fft={n_fft}, got {length}")
    if window is not None and (window.ndim != 1 or window.shape[0] != length):
        raise ArgumentError(f"stft: expected a 1-d window of size win_length={length}, got shape {tuple(window.shape)}")
    batched = input.ndim == 2
    signal = input if batched else input.unsqueeze(0)
    if center:
        signal = _pad_ends(signal, n_fft // 2, pad_mode)
    if not 0 < n_fft <= signal.shape[-1]:
        raise ArgumentError(f"stft: n_fft must be from 1 to the signal's {signal.shape[-1]} samples, got {n_fft}")
    weights = _centred_window(window, length, n_fft, signal)
    frames = signal.unfold(-1, n_fft, hop) * weights
    if onesided is None:
        onesided = not frames.is_complex()
    if onesided and frames.is_complex():
        raise ArgumentError("stft: cannot have onesided output if the window or input is complex")
    norm = "ortho" if normalized else "backward"
    spectrum = (fb.fft.rfft if onesided else fb.fft.fft)(frames, norm=norm).transpose(1, 2)
    spectrum = spectrum if batched else spectrum.squeeze(0)
    return spectrum if return_complex is None or return_complex else fb.view_as_real(spectrum.contiguous())


def _pad_ends(signal, amount: int, mode: str):
    n = signal.shape[-1]
    if mode == "constant":
        zero = signal.new_zeros((*signal.shape[:-1], amount))
        return fb.cat([zero, signal, zero], -1)
    if mode == "reflect":
        if amount >= n:
            raise ArgumentError(f"stft: reflect padding of {amount} needs a signal longer than that, got {n} samples")
        index = fb.arange(-amount, n + amount, device=signal.device).abs()
        index = fb.where(index >= n, 2 * (n - 1) - index, index)
    elif mode == "replicate":
        index = fb.arange(-amount, n + amount, device=signal.device).clamp(0, n - 1)
    elif mode == "circular":
        index = fb.arange(-amount, n + amount, device=signal.device).remainder(n)
    else:
        raise ArgumentError(f"stft: pad_mode must be 'reflect', 'constant', 'replicate' or 'circular', got {mode!r}")
    return signal.index_select(-1, index)


def _centred_window(window, length: int, n_fft: int, like):
    """The window centred in n_fft samples, zero-padded."""
    real = like.dtype.to_real()
    weights = fb.ones(length, dtype=real, device=like.device) if window is None else window
    if length == n_fft:
        return weights
    left = (n_fft - length) // 2
    full = weights.new_zeros(n_fft)
    full[left : left + length] = weights
    return full


@composite(
    "istft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, "
    "bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
    method=True,
)
def istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex):
    """The inverse of stft by least squares: overlapping windows are added and divided by the window's energy.

    Args:
        input: complex spectrum of shape (..., frequencies, windows).
        n_fft: length of each transform.
        hop_length: distance between windows; n_fft // 4 by default.
        win_length: length of the window; n_fft by default.
        window: the window's weights; all ones by default.
        center: whether stft was centered.
        normalized: whether stft was normalized.
        onesided: whether only non-negative frequencies are there; default if the size says so.
        length: length of the signal to return.
        return_complex: whether the signal is complex; needs both-sided input.

    Example:
        >>> x = fb.arange(16.0)
        >>> w = fb.ones(8)
        >>> fb.allclose(fb.istft(fb.stft(x, 8, window=w, return_complex=True), 8, window=w), x, atol=1e-4)
        True
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise DTypeError("istft: requires a complex-valued input tensor matching the output from stft with return_complex=True")
    if input.ndim not in (2, 3) or input.numel() == 0:
        raise ArgumentError(f"istft: expected a non-empty 2-d or 3-d tensor, got shape {tuple(input.shape)}")
    if onesided is None:
        onesided = input.shape[-2] != n_fft
    bins = n_fft // 2 + 1 if onesided else n_fft
    if input.shape[-2] != bins:
        raise ArgumentError(f"istft: expected {bins} frequencies for n_fft={n_fft} and onesided={onesided}, got {input.shape[-2]}")
    if not 0 < hop <= size or not 0 < size <= n_fft:
        raise ArgumentError(f"istft: expected 0 < hop_length={hop} <= win_length={size} <= n_fft={n_fft}")
    if return_complex and onesided:
        raise ArgumentError("istft: cannot have onesided input with return_complex=True")
    if window is not None and (window.ndim != 1 or window.shape[0] != size):
        raise ArgumentError(f"istft: expected a 1-d window of size win_length={size}, got shape {tuple(window.shape)}")
    batched = input.ndim == 3
    spectrum = (input if batched else input.unsqueeze(0)).transpose(1, 2)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = fb.fft.ifft(spectrum, norm=norm)
    else:
        frames = fb.fft.irfft(spectrum if onesided else spectrum[..., : n_fft // 2 + 1], n=n_fft, norm=norm)
    weights = _centred_window(window, size, n_fft, input)
    count = frames.shape[1]
    total = n_fft + hop * (count - 1)
    position = (fb.arange(count, device=input.device).unsqueeze(1) * hop + fb.arange(n_fft, device=input.device)).reshape(-1)
    summed = frames.new_zeros((frames.shape[0], total)).index_add(1, position, (frames * weights).reshape(frames.shape[0], -1))
    power = (weights * weights).expand(count, n_fft).reshape(-1)
    energy = power.new_zeros(total).index_add(0, position, power)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else (total - n_fft // 2 if center else total)
    kept = energy[start : builtins.min(end, total)]
    if kept.numel() and not kept.is_meta and kept.abs().min().item() < 1e-11:
        raise RuntimeError("istft: window overlap add min: the windows leave gaps; use a smaller hop_length or a window without zeros")
    signal = summed[:, start : builtins.min(end, total)] / kept
    if length is not None and signal.shape[-1] < length:
        signal = fb.cat([signal, signal.new_zeros((signal.shape[0], length - signal.shape[-1]))], -1)
    return signal if batched else signal.squeeze(0)


@composite("gradient(Tensor input, *, any spacing=1, any dim=None, int edge_order=1) -> Tensor[]")
def gradient(input, *, spacing, dim, edge_order):
    """Numeric derivative along dimensions, by central differences inside and one-sided ones at the edges.

    Args:
        input: the samples.
        spacing: distance between samples: a number, one per dimension, or coordinate tensors.
        dim: dimension or dimensions; all by default.
        edge_order: 1 or 2, the order of the differences at the edges.

    Example:
        >>> fb.gradient(fb.tensor([1.0, 4.0, 9.0]))
        (tensor([3., 4., 5.]),)
    """
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, builtins.int) else list(dim)
    dims = [d + input.ndim if d < 0 else d for d in dims]
    for i, d in enumerate(dims):
        if not 0 <= d < input.ndim:
            raise OutOfRangeError(
                f"gradient: Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {dim})"
            )
        if d in dims[:i]:
            raise ArgumentError(f"gradient: dim {d} appears multiple times in the list of dims {dim}")
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient: {_C.shown_package()}.gradient only supports edge_order=1 and edge_order=2. Got {edge_order}")
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise ArgumentError(
            f"gradient: {_C.shown_package()}.gradient expected spacing to be unspecified, a scalar or a list of {len(dims)} entries, "
            f"one for each dimension, got {len(steps)}"
        )
    devices = {s.device: None for s in steps if isinstance(s, fb.Tensor)}
    if len(devices) > 1:
        raise ArgumentError(
            f"gradient: {_C.shown_package()}.gradient expected each tensor to be on the same device, "
            f"but got devices {' and '.join(map(str, devices))}"
        )
    return tuple(_gradient_along(input, d, s, edge_order) for d, s in zip(dims, steps, strict=True))


def _gradient_along(x, d: int, step, order: int):
    n = x.shape[d]
    if n <= order:
        raise ArgumentError(
            f"gradient: {_C.shown_package()}.gradient expected each dimension size to be at least {order + 1}, got {n} in dimension {d}"
        )
    x = x.movedim(d, 0)
    if isinstance(step, fb.Tensor) and step.ndim == 1:
        if step.shape[0] != n:
            raise ArgumentError(f"gradient: expected {n} coordinates for dimension {d}, got {step.shape[0]}")
        h = (step[1:] - step[:-1]).view(-1, *[1] * (x.ndim - 1))
        if x.is_floating_point() or x.is_complex():
            h = h.to(fb.promote_types(h.dtype, x.dtype))  # quotients of integers have the default dtype
        inside = _slope(x[:-2], x[1:-1], x[2:], h[:-1], h[1:], 1)
        if order == 1:
            first, last = (x[1:2] - x[:1]) / h[:1], (x[-1:] - x[-2:-1]) / h[-1:]
        else:
            first = _slope(x[:1], x[1:2], x[2:3], h[:1], h[1:2], 0)
            last = _slope(x[-3:-2], x[-2:-1], x[-1:], h[-2:-1], h[-1:], 2)
    else:
        inside = (x[2:] - x[:-2]) / (2 * step)
        if order == 1:
            first, last = (x[1:2] - x[:1]) / step, (x[-1:] - x[-2:-1]) / step
        else:
            first = x[:1] * (-1.5 / step) + x[1:2] * (2.0 / step) + x[2:3] * (-0.5 / step)
            last = x[-3:-2] * (0.5 / step) + x[-2:-1] * (-2.0 / step) + x[-1:] * (1.5 / step)
    # Joined along d itself, so that the result is contiguous.
    return fb.cat([part.movedim(0, d) for part in (first, inside, last)], d)


def _slope(a, b, c, h, k, place: int):
    """The derivative at one of three neighbouring points of their parabola; h and k are the distances between them."""
    if place == 0:
        return -(2 * h + k) / (h * (h + k)) * a + (h + k) / (h * k) * b - h / (k * (h + k)) * c
    if place == 1:
        return -k / (h * (h + k)) * a + (k - h) / (h * k) * b + h / (k * (h + k)) * c
    return k / (h * (h + k)) * a - (k + h) / (h * k) * b + (2 * k + h) / (k * (h + k)) * c
