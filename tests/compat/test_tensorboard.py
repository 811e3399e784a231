"""Event files, read back by a decoder of our own, and by TensorBoard's where it is installed."""

import struct
import zlib

import numpy as np
import pytest

import flambeau as fb
from flambeau.utils.tensorboard import SummaryWriter
from flambeau.utils.tensorboard._records import crc32c


def fields(data):
    """[(field, value)] of a message; nested messages stay bytes."""
    found, at = [], 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        field, wire = divmod(varint(), 8)
        if wire == 0:
            found.append((field, varint()))
            continue
        size = {1: 8, 5: 4}.get(wire) or varint()
        raw = data[at : at + size]
        assert len(raw) == size
        at += size
        found.append((field, struct.unpack("<d", raw)[0] if wire == 1 else struct.unpack("<f", raw)[0] if wire == 5 else raw))
    return found


def records(path):
    """The records of a file, their checksums checked with a formula of its own."""

    def check(data, masked):
        rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
        assert ((rotated << 15) | (rotated >> 17)) & 0xFFFFFFFF == crc32c(data)

    data = path.read_bytes()
    while data:
        (length,), (crc,) = struct.unpack("<Q", data[:8]), struct.unpack("<I", data[8:12])
        check(data[:8], crc)
        body = data[12 : 12 + length]
        check(body, struct.unpack("<I", data[12 + length : 16 + length])[0])
        yield body
        data = data[16 + length :]


def events(folder):
    """[(step, tag, {field: value of the Value message})] of the only event file in a folder."""
    (path,) = folder.glob("events.out.tfevents.*")
    first, *rest = (dict(fields(one)) for one in records(path))
    assert first[3] == b"brain.Event:2"
    found = []
    for event in rest:
        assert event[1] > 1.6e9
        for _, value in fields(event[5]):
            content = dict(fields(value))
            found.append((event.get(2), content.pop(1).decode(), content))
    return found


def png_pixels(data):
    """An array from a PNG file whose lines have no filter."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, parts = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        parts[kind], at = body, at + 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    channels = {0: 1, 2: 3, 6: 4}[colour]
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert depth == 8 and not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, channels)


def test_crc32c_of_known_texts():
    assert crc32c(b"") == 0
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss/train", fb.tensor(0.5), 0)
        writer.add_scalar("loss/train", 1e300, 1)
        writer.add_scalar("exact", 0.1, -1, new_style=True, double_precision=True)
        writer.add_scalar("tensor", 0.25, 2, new_style=True)
        with pytest.raises(ValueError, match="expected one number"):
            writer.add_scalar("many", fb.ones(2))
    first, second, exact, single = events(tmp_path)
    assert first == (0, "loss/train", {2: 0.5}) and second[2] == {2: float("inf")}
    assert exact[0] == 2**64 - 1 and dict(fields(exact[2][8]))[6] == struct.pack("<d", 0.1)
    assert dict(fields(single[2][8]))[5] == struct.pack("<f", 0.25)


def test_scalars_of_one_chart_have_folders_of_their_own(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("run/loss", {"train": 1.0, "test": 2.0}, 3)
    assert events(tmp_path / "run_loss_train") == [(3, "run/loss", {2: 1.0})]
    assert events(tmp_path / "run_loss_test") == [(3, "run/loss", {2: 2.0})]


def test_text(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "Wörter *und* mehr", 1)
    ((step, tag, value),) = events(tmp_path)
    assert (step, tag) == (1, "note/text_summary")
    assert dict(fields(value[8]))[8].decode() == "Wörter *und* mehr"
    assert dict(fields(dict(fields(value[9]))[1]))[1] == b"text"


@pytest.mark.parametrize("bins", ["tensorflow", "auto", 7])
def test_histogram(tmp_path, bins):
    data = np.concatenate([np.linspace(-3, 5, 200), [0.0, 0.0]])
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("w", fb.from_numpy(data), 4, bins=bins)
        writer.add_histogram("few", data, 4, max_bins=10)
    (_, _, value), (_, _, few) = events(tmp_path)
    histogram = dict(fields(value[5]))
    assert [histogram[i] for i in (1, 2, 3)] == [-3.0, 5.0, 202.0]
    assert histogram[4] == pytest.approx(data.sum()) and histogram[5] == pytest.approx((data**2).sum())
    limits, counts = (np.frombuffer(histogram[i], np.float64) for i in (6, 7))
    assert len(limits) == len(counts) and counts.sum() == 202 and (np.diff(limits) > 0).all()
    # Right edges: as many values lie at or below each limit as its bucket and those before it hold.
    assert np.abs(np.cumsum(counts) - [(data <= limit).sum() for limit in limits]).max() <= 2
    assert len(dict(fields(few[5]))[7]) <= 8 * 11


@pytest.mark.parametrize("values, message", [([], "no values"), ([float("nan")], "not finite")])
def test_histogram_refuses(tmp_path, values, message):
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match=message):
        writer.add_histogram("w", fb.tensor(values))


def test_images(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("hwc", picture, dataformats="HWC")
        writer.add_image("chw", fb.from_numpy(picture.transpose(2, 0, 1) / 255.0 + 1e-6))
        writer.add_image("hw", fb.tensor([[0.0, 2.0]]), dataformats="HW")
        writer.add_images("batch", fb.from_numpy(np.stack([picture] * 10)), dataformats="NHWC")
        with pytest.raises(ValueError, match="dataformats"):
            writer.add_image("wrong", fb.zeros(2, 2))
        with pytest.raises(ValueError, match="channels"):
            writer.add_image("wrong", fb.zeros(2, 3, 3))
    pixels = {tag: png_pixels(dict(fields(value[4]))[4]) for _, tag, value in events(tmp_path)}
    assert (pixels["hwc"] == picture).all() and (pixels["chw"] == picture).all()
    assert pixels["hw"].ravel().tolist() == [0, 255]
    assert pixels["batch"].shape == (8, 40, 3) and (pixels["batch"][4:, 5:10] == picture).all() and not pixels["batch"][4:, 10:].any()


def test_figure(tmp_path):
    plt = pytest.importorskip("matplotlib.figure")
    figure = plt.Figure(figsize=(2, 1), dpi=50)
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("plot", figure)
    ((_, _, value),) = events(tmp_path)
    assert png_pixels(dict(fields(value[4]))[4]).shape == (50, 100, 3)


def test_hparams(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "bn": True, "opt": "sgd", "no": None}, {"acc": fb.tensor(0.5)}, run_name="one", global_step=2)
        with pytest.raises(ValueError, match="add_hparams"):
            writer.add_hparams({"sizes": [1, 2]}, {})
    *infos, metric = events(tmp_path / "one")
    assert [tag for _, tag, _ in infos] == [f"_hparams_/{part}" for part in ("experiment", "session_start_info", "session_end_info")]
    assert metric == (2, "acc", {2: 0.5})


def test_what_is_missing_says_so(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        assert not hasattr(writer, "add_graph")
        with pytest.raises(AttributeError, match="add_graph: not supported.*Differences from PyTorch"):
            writer.add_graph(None)


def test_events_are_on_disk_after_flush_and_without_close(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=100)
    writer.add_scalar("a", 1.0)
    writer.flush()
    assert len(events(tmp_path)) == 1
    writer.add_scalar("a", 2.0)
    del writer
    assert len(events(tmp_path)) == 2


def test_writing_after_close_begins_a_new_file(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.close()
    writer.add_scalar("a", 1.0)
    writer.close()
    assert len(list(tmp_path.glob("events*"))) == 2


def test_tensorboard_reads_the_events(tmp_path):
    pytest.importorskip("tensorboard", reason="the tensorboard package is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 3)
        writer.add_text("note", "hello", 1)
        writer.add_histogram("w", fb.arange(10.0), 2)
        writer.add_image("picture", fb.rand(3, 4, 5))
    reader = EventAccumulator(str(tmp_path))
    reader.Reload()
    assert [(e.step, e.value) for e in reader.Scalars("loss")] == [(3, 0.5)]
    assert reader.Tensors("note/text_summary")[0].tensor_proto.string_val == [b"hello"]
    assert reader.Histograms("w")[0].histogram_value.num == 10
    assert (reader.Images("picture")[0].width, reader.Images("picture")[0].height) == (5, 4)
