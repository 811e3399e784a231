"""Encodings of summaries: each function returns the bytes of a Summary message with one value."""

from __future__ import annotations

import struct
import time
import zlib
from typing import Any

import numpy as np

from flambeau.errors import ArgumentError
from flambeau.utils.tensorboard._records import double, doubles, integer, message, single

__all__ = ["hparams", "histogram", "histogram_raw", "image", "scalar", "text"]
__dir__ = __all__.copy

_FLOAT, _DOUBLE, _STRING = 1, 2, 7  # TensorFlow's numbers of dtypes


def to_numpy(values: Any) -> np.ndarray:
    """An array from a tensor, array, list or number."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _value(tag: str, content: bytes) -> bytes:
    """A Summary with one Value."""
    # As TensorBoard's own writers do: a leading slash would make an empty group.
    return message(1, message(1, str(tag).lstrip("/")) + content)


def _plugin(name: str, content: bytes = b"", data_class: int = 0) -> bytes:
    """The field metadata of a Value."""
    return message(9, message(1, message(1, name) + message(2, content)) + (integer(4, data_class) if data_class else b""))


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> bytes:
    """A number."""
    array = to_numpy(value)
    if array.size != 1:
        raise ArgumentError(f"add_scalar: expected one number for {tag!r}, got shape {tuple(array.shape)}")
    number = float(array.reshape(())[()])
    if not new_style:
        return _value(tag, single(2, number))
    if double_precision:
        tensor = integer(1, _DOUBLE) + message(2, b"") + doubles(6, [number])
    else:
        tensor = integer(1, _FLOAT) + message(2, b"") + message(5, single(1, number)[1:])
    return _value(tag, message(8, tensor) + _plugin("scalars", data_class=1))


def text(tag: str, string: str) -> bytes:
    """A text, shown as Markdown."""
    tensor = integer(1, _STRING) + message(2, message(2, integer(1, 1))) + message(8, string)
    return _value(f"{tag}/text_summary", message(8, tensor) + _plugin("text", integer(1, 0)))


# ---- histograms ----------------------------------------------------------------------------------------------------------


def _edges() -> np.ndarray:
    """Edges that grow by a tenth, of both signs: suitable for values of any scale."""
    positive = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-positive[::-1], [0.0], positive])


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> bytes:
    """The distribution of values, counted between the edges `bins` (a name known to NumPy, a number, or edges)."""
    array = to_numpy(values).astype(np.float64).ravel()
    if array.size == 0:
        raise ArgumentError(f"add_histogram: {tag!r} has no values")
    if not np.isfinite(array).all():
        raise ArgumentError(f"add_histogram: {tag!r} has values that are not finite")
    counts, limits = np.histogram(array, bins=_edges() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        limits = np.append(limits[:-1:step], limits[-1])
    used = np.flatnonzero(counts)
    if used.size == 0:
        raise ArgumentError(f"add_histogram: no value of {tag!r} is between the edges")
    # An empty bucket on the left marks the beginning of the first one.
    first, last = used[0], used[-1] + 1
    counts, limits = np.concatenate([[0], counts[first:last]]), limits[first : last + 1]
    return histogram_raw(tag, array.min(), array.max(), array.size, array.sum(), (array * array).sum(), limits, counts)


def histogram_raw(
    tag: str, min: float, max: float, num: float, sum: float, sum_squares: float, bucket_limits: Any, bucket_counts: Any
) -> bytes:
    """A precomputed distribution: right edges of the buckets and their counts."""
    limits, counts = list(bucket_limits), list(bucket_counts)
    if len(limits) != len(counts):
        raise ArgumentError(f"add_histogram_raw: {len(limits)} limits and {len(counts)} counts; expected as many of each")
    head = b"".join(double(i, float(v)) for i, v in enumerate((min, max, num, sum, sum_squares), start=1))
    return _value(tag, message(5, head + doubles(6, limits) + doubles(7, counts)))


# ---- images --------------------------------------------------------------------------------------------------------------


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of an array (height, width, channels) of bytes, with 1, 3 or 4 channels."""
    height, width, channels = pixels.shape
    # Each line begins with the number of its filter; 0 is none.
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6))
        + chunk(b"IEND", b"")
    )


def _as_hwc(array: np.ndarray, dataformats: str) -> np.ndarray:
    """(height, width, channels) from any order of the letters; batches become a grid of at most 8 columns."""
    letters = dataformats.upper()
    if sorted(letters) not in (sorted("HW"), sorted("HWC"), sorted("NHW"), sorted("NHWC")) or array.ndim != len(letters):
        raise ArgumentError(f"add_image: dataformats {dataformats!r} does not fit shape {tuple(array.shape)}")
    for letter in "NC":
        if letter not in letters:
            array, letters = array[..., None], letters + letter
    array = array.transpose([letters.index(letter) for letter in "NHWC"])
    count, height, width, channels = array.shape
    if channels not in (1, 3, 4):
        raise ArgumentError(f"add_image: expected 1, 3 or 4 channels, got {channels} in shape {tuple(array.shape)}")
    columns = min(count, 8)
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width, channels), array.dtype)
    grid[:count] = array
    return grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2).reshape(rows * height, columns * width, channels)


def image(tag: str, pixels: Any, dataformats: str = "CHW", rescale: float = 1.0) -> bytes:
    """A picture: bytes unchanged, other numbers from 0 to 1."""
    array = to_numpy(pixels)
    if array.dtype != np.uint8:
        array = np.clip(array.astype(np.float64) * 255.0, 0, 255).astype(np.uint8)
    array = _as_hwc(array, dataformats)
    if rescale != 1:
        rows, columns = (np.minimum(np.arange(int(n * rescale)) / rescale, n - 1).astype(int) for n in array.shape[:2])
        array = array[rows][:, columns]
    height, width, channels = array.shape
    content = integer(1, height) + integer(2, width) + integer(3, channels) + message(4, png(array))
    return _value(tag, message(4, content))


# ---- hyperparameters -----------------------------------------------------------------------------------------------------


def _parameter(value: Any) -> tuple[bytes, int]:
    """A google.protobuf.Value and the number of its type."""
    if isinstance(value, bool):
        return integer(4, value), 2
    if isinstance(value, str):
        return message(3, value), 1
    array = to_numpy(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise ArgumentError(f"add_hparams: a value must be a bool, string, number or 1-element tensor, got {value!r}")
    return double(2, float(array.reshape(())[()])), 3


def hparams(
    values: dict[str, Any], metrics: dict[str, Any], domains: dict[str, list[Any]] | None = None
) -> tuple[bytes, bytes, bytes]:
    """Three summaries: the hyperparameters and metrics, the values of this run, and its end."""
    infos, start = b"", b""
    for name, value in values.items():
        if value is None:
            continue
        encoded, kind = _parameter(value)
        start += message(1, message(1, name) + message(2, encoded))
        allowed = b"".join(message(1, _parameter(one)[0]) for one in (domains or {}).get(name, ()))
        infos += message(4, message(1, name) + integer(4, kind) + (message(5, allowed) if allowed else b""))
    experiment = infos + b"".join(message(5, message(1, message(2, name))) for name in metrics)

    def summary(tag: str, field: int, content: bytes) -> bytes:
        return _value(f"_hparams_/{tag}", _plugin("hparams", integer(1, 0) + message(field, content)))

    return (
        summary("experiment", 2, experiment),
        summary("session_start_info", 3, start + double(5, time.time())),
        summary("session_end_info", 4, integer(1, 1) + double(2, time.time())),
    )
