"""Encodings for TensorBoard's plugins, like summary.py: curves, sounds, videos, layouts, tensors, meshes, boxes,
embeddings.
"""

from __future__ import annotations

import io
import json
import os
import wave
from typing import Any

import numpy as np

from flambeau.errors import ArgumentError
from flambeau.utils.tensorboard._records import integer, message, single
from flambeau.utils.tensorboard.summary import _as_hwc, _plugin, _value, png, to_numpy

__all__ = ["audio", "custom_scalars", "embedding", "mesh", "pr_curve", "pr_curve_raw", "tensor", "video"]
__dir__ = __all__.copy

_NUMBERS = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "int64": 9, "bool": 10, "float16": 19}


def _tensor(array: np.ndarray) -> bytes:
    """A TensorProto."""
    number = _NUMBERS.get(str(array.dtype))
    if number is None:
        raise ArgumentError(f"add_tensor: dtype {array.dtype} has no number in TensorBoard's format; convert the tensor")
    shape = b"".join(message(2, integer(1, size)) for size in array.shape)
    return integer(1, number) + message(2, shape) + message(4, np.ascontiguousarray(array).tobytes())


def tensor(tag: str, values: Any) -> bytes:
    """A tensor, unprocessed."""
    return _value(tag, message(8, _tensor(to_numpy(values))) + _plugin("tensor"))


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any = None) -> bytes:
    """Precision over recall, from true labels (0 or 1) and predicted probabilities."""
    truth, guess = to_numpy(labels).ravel(), to_numpy(predictions).ravel().astype(np.float64)
    if truth.shape != guess.shape:
        raise ArgumentError(f"add_pr_curve: {truth.size} labels and {guess.size} predictions; expected as many of each")
    share = np.ones_like(guess) if weights is None else np.broadcast_to(to_numpy(weights), guess.shape).astype(np.float64)
    buckets = np.clip(np.floor(guess * (thresholds - 1)), 0, thresholds - 1).astype(int)
    positive = truth.astype(np.float64) * share

    def from_above(amounts: np.ndarray) -> np.ndarray:
        return np.cumsum(np.bincount(buckets, amounts, thresholds)[::-1])[::-1]

    tp, fp = from_above(positive), from_above(share - positive)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision, recall = tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp + fn)
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall)


def pr_curve_raw(tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any) -> bytes:
    """A precomputed curve, one number per threshold."""
    rows = [to_numpy(row) for row in (tp, fp, tn, fn, precision, recall)]
    shapes = {row.shape for row in rows}
    if len(shapes) > 1 or rows[0].ndim != 1:
        raise ArgumentError(f"add_pr_curve_raw: expected six rows of one length, got shapes {', '.join(str(row.shape) for row in rows)}")
    content = message(8, _tensor(np.stack(rows).astype(np.float32)))
    return _value(tag, content + _plugin("pr_curves", integer(1, 0) + integer(2, rows[0].size)))


def audio(tag: str, sound: Any, sample_rate: int) -> bytes:
    """A sound of one channel, numbers from -1 to 1, as a WAV file."""
    samples = to_numpy(sound).astype(np.float64).squeeze()
    if samples.ndim != 1:
        raise ArgumentError(f"add_audio: expected one channel, shape (1, length), got {to_numpy(sound).shape}")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    content = single(1, sample_rate) + integer(2, 1) + integer(3, samples.size)
    return _value(tag, message(6, content + message(4, file.getvalue()) + message(5, "audio/wav")))


def video(tag: str, frames: Any, fps: float) -> bytes:
    """Videos (N, T, C, H, W), concatenated into one animated GIF."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("add_video: needs the package Pillow: pip install pillow") from None
    array = to_numpy(frames)
    if array.ndim != 5 or array.shape[2] not in (1, 3):
        raise ArgumentError(f"add_video: expected shape (N, T, C, H, W) with 1 or 3 channels, got {array.shape}")
    if array.dtype != np.uint8:
        array = np.clip(array.astype(np.float64) * 255.0, 0, 255).astype(np.uint8)
    n, t, c, h, w = array.shape
    strip = array.transpose(1, 3, 0, 4, 2).reshape(t, h, n * w, c)
    pictures = [Image.fromarray(frame[..., 0] if c == 1 else frame) for frame in strip]
    file = io.BytesIO()
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], duration=round(1000 / fps), loop=0)
    return _value(tag, message(4, integer(1, h) + integer(2, n * w) + integer(3, c) + message(4, file.getvalue())))


def custom_scalars(layout: dict[str, dict[str, list[Any]]]) -> bytes:
    """Charts by category and title: ["Multiline", tags] or ["Margin", [value, lower, upper]]."""
    categories = b""
    for category, charts in layout.items():
        body = message(1, category)
        for title, (kind, tags) in charts.items():
            if kind == "Margin" and len(tags) == 3:
                series = b"".join(message(i, tag) for i, tag in enumerate(tags, 1))
                chart = message(3, message(1, series))
            elif kind == "Multiline":
                chart = message(2, b"".join(message(1, tag) for tag in tags))
            else:
                raise ArgumentError(
                    f"add_custom_scalars: chart {title!r} is {kind!r} of {len(tags)} tags; expected 'Multiline', or 'Margin' of 3"
                )
            body += message(2, message(1, title) + chart)
        categories += message(2, body)
    content = integer(1, 7) + message(2, b"") + message(8, categories)
    return _value("custom_scalars__config__", message(8, content) + _plugin("custom_scalars", integer(1, 0)))


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config: dict[str, Any] | None) -> bytes:
    """A point cloud or a surface: a summary for each of vertices, faces and colors, linked by a name."""
    given = [(1, "VERTEX", vertices, np.float32), (2, "FACE", faces, np.int32), (3, "COLOR", colors, np.uint8)]
    arrays = [(kind, word, to_numpy(part).astype(dtype)) for kind, word, part, dtype in given if part is not None]
    components = sum(1 << kind for kind, _, _ in arrays)
    made = b""
    for kind, word, array in arrays:
        if array.ndim != 3 or array.shape[2] != 3:
            raise ArgumentError(f"add_mesh: {word.lower()} data has the shape {array.shape}; expected (batch, count, 3)")
        shape = b"".join(integer(6, size) for size in array.shape)
        content = message(2, tag) + integer(3, kind) + message(5, json.dumps(config or {})) + shape + integer(7, components)
        made += _value(f"{tag}_{word}", message(8, _tensor(array)) + _plugin("mesh", content, 3))
    return made


def boxed(pixels: Any, boxes: Any, labels: list[str] | None, dataformats: str) -> np.ndarray:
    """A picture with boxes (left, top, right, bottom) drawn in red, and their labels (which need the package Pillow)."""
    array = to_numpy(pixels)
    if array.dtype != np.uint8:
        array = np.clip(array.astype(np.float64) * 255.0, 0, 255).astype(np.uint8)
    array = _as_hwc(array, dataformats).copy()
    corners = to_numpy(boxes)
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ArgumentError(f"add_image_with_boxes: boxes of shape {corners.shape}; expected (count, 4)")
    if labels is not None and len(labels) != len(corners):
        raise ArgumentError(f"add_image_with_boxes: {len(labels)} labels for {len(corners)} boxes; expected as many")
    if array.shape[2] == 1:
        array = array.repeat(3, 2)
    height, width = array.shape[:2]
    red = np.array([255, 0, 0, 255][: array.shape[2]], dtype=np.uint8)
    for left, top, right, bottom in corners.round().astype(int):
        for y in (top, top + 1, bottom - 1, bottom):
            if 0 <= y < height:
                array[y, max(left, 0) : max(right + 1, 0)] = red
        for x in (left, left + 1, right - 1, right):
            if 0 <= x < width:
                array[max(top, 0) : max(bottom + 1, 0), x] = red
    return array if labels is None else _labelled(array, corners, labels)


def _labelled(array: np.ndarray, corners: np.ndarray, labels: list[str]) -> np.ndarray:
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise ImportError("add_image_with_boxes: labels need the package Pillow: pip install pillow") from None
    picture = Image.fromarray(array)
    draw = ImageDraw.Draw(picture)
    for (left, top, _, _), label in zip(corners, labels, strict=True):
        box = draw.textbbox((left, top), str(label))
        draw.rectangle(box, fill="red")
        draw.text((left, top), str(label), fill="black")
    return np.asarray(picture)


def embedding(folder: str, values: Any, metadata: Any, pictures: Any, step: Any, tag: str, header: Any) -> None:
    """Points with labels and pictures, as the files that TensorBoard's projector reads."""
    points = to_numpy(values)
    if points.ndim != 2:
        raise ArgumentError(f"add_embedding: expected a matrix with a point per row, got shape {points.shape}")
    for what, given in (("metadata", metadata), ("label_img", pictures)):
        if given is not None and len(given) != len(points):
            raise ArgumentError(f"add_embedding: {len(given)} {what} for {len(points)} points")
    place = f"{0 if step is None else step:05d}/{tag}"
    os.makedirs(os.path.join(folder, place), exist_ok=True)
    np.savetxt(os.path.join(folder, place, "tensors.tsv"), points, delimiter="\t", fmt="%.9g")
    lines = [f"tensor_name: {json.dumps(f'{tag}:{place[:5]}')}", f"tensor_path: {json.dumps(place + '/tensors.tsv')}"]
    if metadata is not None:
        rows = ["\t".join(map(str, row)) if header else str(row) for row in metadata]
        with open(os.path.join(folder, place, "metadata.tsv"), "w", encoding="utf-8") as file:
            file.write("\n".join((["\t".join(header)] if header else []) + rows) + "\n")
        lines.append(f"metadata_path: {json.dumps(place + '/metadata.tsv')}")
    if pictures is not None:
        array = to_numpy(pictures)
        with open(os.path.join(folder, place, "sprite.png"), "wb") as file:
            file.write(png(_sprite(array)))
        lines.append(
            f"sprite {{ image_path: {json.dumps(place + '/sprite.png')} single_image_dim: {array.shape[3]} "
            f"single_image_dim: {array.shape[2]} }}"
        )
    with open(os.path.join(folder, "projector_config.pbtxt"), "a", encoding="utf-8") as file:
        file.write("embeddings {\n  " + "\n  ".join(lines) + "\n}\n")


def _sprite(array: np.ndarray) -> np.ndarray:
    """Pictures (N, C, H, W) in a square grid, row by row."""
    n, c, h, w = array.shape
    if array.dtype != np.uint8:
        array = np.clip(array.astype(np.float64) * 255.0, 0, 255).astype(np.uint8)
    side = int(np.ceil(np.sqrt(n)))
    grid = np.zeros((side * side, h, w, c), np.uint8)
    grid[:n] = array.transpose(0, 2, 3, 1)
    return grid.reshape(side, side, h, w, c).swapaxes(1, 2).reshape(side * h, side * w, c)
