"""flambeau.fft and the short-time transforms."""

from __future__ import annotations

import numpy as np
from scipy import fft as reference

from .samples import make
from .spec import COMPLEX, FULL_FLOATS, LAPACK, REAL_OF, OpSpec, S, T, bad, to_numpy

LOOSE = {"float32": (1e-4, 1e-4), "complex64": (1e-4, 1e-4), "float64": (1e-10, 1e-10), "complex128": (1e-10, 1e-10)}
X = T(np.ones((2, 3)), "float32")


def one(name, ref, dtypes, result):
    """Transforms along one dimension."""

    def samples(dtype):
        x = make(dtype, (4, 6))
        yield S(x)
        yield S(x, 5)
        yield S(x, n=8, dim=0)
        yield S(x, norm="ortho")
        yield S(x, norm="forward", dim=0)
        yield S(make(dtype, (7,)))

    def wrapped(x, n=None, dim=-1, norm=None):
        return ref(x, n, axis=dim, norm=norm)

    return OpSpec(f"fft.{name}", wrapped, samples, dtypes, result, method=False, out=True, tolerance=LOOSE, errors=(
        bad("a length of zero", RuntimeError, X, 0), bad("a dim out of range", IndexError, X, 2, 3),
        bad("an unknown norm", RuntimeError, X, norm="best")))


def many(name, ref, dtypes, result, two):
    """Transforms along several dimensions."""

    def samples(dtype):
        x = make(dtype, (3, 4, 6))
        yield S(x)
        yield S(x, dim=(0, 1))
        yield S(x, s=(4, 5), dim=(1, 2))
        yield S(x, norm="ortho")

    def wrapped(x, s=None, dim=(-2, -1) if two else None, norm=None):
        return ref(x, s, axes=dim, norm=norm)

    return OpSpec(f"fft.{name}", wrapped, samples, dtypes, result, method=False, out=True, tolerance=LOOSE, errors=(
        bad("a dim given twice", RuntimeError, X, dim=(0, 0)), bad("a dim out of range", IndexError, X, dim=(0, 5))))



def _shift_samples(dtype):
    yield S(make(dtype, (4, 5)))
    yield S(make(dtype, (4, 5)), dim=1)
    yield S(make(dtype, (4, 5)), dim=(0, 1))


def _freq_samples(dtype):
    for n in (1, 4, 5):
        yield S(n)
        yield S(n, 0.5)


def frames(x, n_fft, hop, window, center, onesided, normalized=False, pad_mode="reflect"):
    """A short-time Fourier transform in a few lines: pad, cut, weigh, transform."""
    if center:
        pad = [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        x = np.pad(x, pad, mode=pad_mode)
    cut = np.lib.stride_tricks.sliding_window_view(x, n_fft, axis=-1)[..., ::hop, :] * window
    spectrum = np.fft.rfft(cut) if onesided else np.fft.fft(cut)
    spectrum = spectrum / np.sqrt(n_fft) if normalized else spectrum
    return np.swapaxes(spectrum, -1, -2)


def _stft(x, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
          onesided=None, return_complex=None):
    window = np.ones(n_fft) if window is None else window
    return frames(x, n_fft, hop_length or n_fft // 4, window, center, onesided is not False and not np.iscomplexobj(x),
                  normalized, pad_mode)


def _stft_samples(dtype):
    x = make(dtype, (2, 40))
    yield S(x, 8, window=T(np.hanning(8), dtype), return_complex=True)
    yield S(x, 8, hop_length=3, window=T(np.hanning(8), dtype), center=False, return_complex=True)
    yield S(x, 8, 4, window=T(np.hanning(8), dtype), normalized=True, onesided=False, return_complex=True)


def _istft_samples(dtype):
    window = T(np.hanning(9)[:8], REAL_OF[dtype])
    signal = make(REAL_OF[dtype], (40,)).values.astype(np.float64)
    spectrum = frames(signal, 8, 2, window.values.astype(np.float64), True, True)
    yield S(T(spectrum, dtype), 8, hop_length=2, window=window, length=40)


def _istft_check(got, spectrum, n_fft, hop_length, window, length):
    """Going there and back gives the signal whose transform it was."""
    signal = to_numpy(got).astype(np.float64)
    again = frames(signal, n_fft, hop_length, window, True, True)
    assert signal.shape == (length,), f"shape {signal.shape}"
    assert np.allclose(again, spectrum, atol=1e-3), "the transform of the result is not the input"


# fmt: off
ROWS = [
    one("fft", reference.fft, LAPACK, "complex"), one("ifft", reference.ifft, LAPACK, "complex"),
    one("rfft", reference.rfft, FULL_FLOATS, "complex"), one("irfft", reference.irfft, LAPACK, "real"),
    one("hfft", reference.hfft, LAPACK, "real"), one("ihfft", reference.ihfft, FULL_FLOATS, "complex"),
    many("fft2", reference.fft2, LAPACK, "complex", True), many("ifft2", reference.ifft2, LAPACK, "complex", True),
    many("rfft2", reference.rfft2, FULL_FLOATS, "complex", True), many("irfft2", reference.irfft2, LAPACK, "real",
         True),
    many("fftn", reference.fftn, LAPACK, "complex", False), many("ifftn", reference.ifftn, LAPACK, "complex", False),
    many("rfftn", reference.rfftn, FULL_FLOATS, "complex", False), many("irfftn", reference.irfftn, LAPACK, "real",
         False),
    many("hfft2", reference.hfft2, LAPACK, "real", True), many("ihfft2", reference.ihfft2, FULL_FLOATS, "complex",
         True),
    many("hfftn", reference.hfftn, LAPACK, "real", False), many("ihfftn", reference.ihfftn, FULL_FLOATS, "complex",
         False),
    OpSpec("fft.fftshift", lambda x, dim=None: np.fft.fftshift(x, dim), _shift_samples, method=False),
    OpSpec("fft.ifftshift", lambda x, dim=None: np.fft.ifftshift(x, dim), _shift_samples, method=False),
    OpSpec("fft.fftfreq", lambda n, d=1.0: np.fft.fftfreq(n, d), _freq_samples, ("float32",), method=False),
    OpSpec("fft.rfftfreq", lambda n, d=1.0: np.fft.rfftfreq(n, d), _freq_samples, ("float32",), method=False),
    OpSpec("stft", _stft, _stft_samples, FULL_FLOATS, "complex", tolerance=LOOSE, errors=(
           bad("a window of another length", RuntimeError, T(np.ones(40), "float32"), 8,
           window=T(np.ones(20), "float32"),
               return_complex=True), bad("n_fft of zero", RuntimeError, T(np.ones(40), "float32"), 0,
               return_complex=True))),
    OpSpec("istft", None, _istft_samples, COMPLEX, "real", check=_istft_check, expand=False),
]
# fmt: on
