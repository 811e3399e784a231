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
    # Right edges: the number of values at or below each limit is the sum of its bucket and those before it.
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
        assert not hasattr(writer, "add_onnx_graph")
        with pytest.raises(AttributeError, match="add_onnx_graph: not supported.*Differences from PyTorch"):
            writer.add_onnx_graph("m")


def test_boxes_on_a_picture(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_image_with_boxes("p", fb.zeros(3, 10, 12), fb.tensor([[2, 3, 8, 7], [-5, -5, 30, 30]]))
        with pytest.raises(ValueError, match="expected \\(count, 4\\)"):
            writer.add_image_with_boxes("p", fb.zeros(3, 10, 12), fb.zeros(4))
        with pytest.raises(ValueError, match="2 labels for 1 boxes"):
            writer.add_image_with_boxes("p", fb.zeros(3, 10, 12), fb.zeros(1, 4), labels=["a", "b"])
    ((_, _, value),) = events(tmp_path)
    red = png_pixels(dict(fields(value[4]))[4])[..., 0] == 255
    assert red[3, 2:9].all() and red[7, 2:9].all() and red[3:8, 2].all() and red[3:8, 8].all()
    assert not red[:3].any() and not red[8:].any() and not red[5, 4:7].any()


def test_labels_on_boxes(tmp_path):
    pytest.importorskip("PIL")
    with SummaryWriter(tmp_path) as writer:
        writer.add_image_with_boxes("p", fb.zeros(1, 30, 60), fb.tensor([[2.0, 3.0, 50.0, 20.0]]), labels="cat", rescale=2)
    ((_, _, value),) = events(tmp_path)
    assert png_pixels(dict(fields(value[4]))[4]).shape == (60, 120, 3)


def test_mesh(tmp_path):
    metadata = pytest.importorskip("tensorboard.plugins.mesh.metadata")
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    vertices, faces = fb.rand(1, 4, 3), fb.tensor([[[0, 1, 2]]])
    with SummaryWriter(tmp_path) as writer:
        writer.add_mesh("m", vertices, fb.full((1, 4, 3), 9), faces, {"camera": 1}, global_step=3)
        with pytest.raises(ValueError, match="expected \\(batch, count, 3\\)"):
            writer.add_mesh("m", fb.zeros(4, 3))
    (path,) = tmp_path.iterdir()
    values = [value for event in loader.EventFileLoader(str(path)).Load() for value in event.summary.value]
    assert [value.tag for value in values] == ["m_VERTEX", "m_FACE", "m_COLOR"]
    for value, shape in zip(values, ([1, 4, 3], [1, 1, 3], [1, 4, 3]), strict=True):
        content = metadata.parse_plugin_metadata(value.metadata.plugin_data.content)
        assert value.metadata.plugin_data.plugin_name == "mesh" and content.name == "m" and list(content.shape) == shape
        assert content.components == metadata.get_components_bitmask([1, 2, 3]) and content.json_config == '{"camera": 1}'


class TwoWays(fb.nn.Module):
    """A result used twice, an op that is not a module, a layer called twice."""

    def __init__(self):
        super().__init__()
        self.first, self.block = fb.nn.Linear(4, 4), fb.nn.Sequential(fb.nn.Linear(4, 4), fb.nn.Dropout())

    def forward(self, x):
        y = self.first(x).relu()
        return self.first(self.block(y)) + y


def test_graph(tmp_path, capsys):
    model = TwoWays()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, fb.rand(2, 4), verbose=True)
        with pytest.raises(ValueError, match="input_to_model"):
            writer.add_graph(model)
    assert model.training and not model.first._forward_hooks
    printed = capsys.readouterr().out.splitlines()
    (path,) = tmp_path.glob("events.out.tfevents.*")
    graph = dict(fields(list(records(path))[-1]))[4]
    nodes = {}
    for field, node in fields(graph):
        if field == 1:
            parts = fields(node)
            nodes[dict(parts)[1].decode()] = [value.decode() for key, value in parts if key == 3]
    assert nodes == {
        "TwoWays/input/0": [],
        "TwoWays/first/Linear": ["TwoWays/input/0"],
        "TwoWays/block/0/Linear": ["TwoWays/first/Linear"],
        "TwoWays/block/1/Dropout": ["TwoWays/block/0/Linear"],
        "TwoWays/first/Linear_1": ["TwoWays/block/1/Dropout"],
        "TwoWays/output": nodes["TwoWays/output"],
    }
    assert sorted(nodes["TwoWays/output"]) == ["TwoWays/first/Linear", "TwoWays/first/Linear_1"]
    assert printed[1] == "TwoWays/first/Linear: Linear(TwoWays/input/0)"


def tensor_of(content):
    """The array of a Value's tensor."""
    parts = fields(content[8])
    shape = [dict(fields(dim))[1] for _, dim in fields(dict(parts)[2])]
    return np.frombuffer(dict(parts)[4], {1: np.float32, 9: np.int64}[dict(parts)[1]]).reshape(shape)


def test_precision_and_recall(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("pr", fb.tensor([1, 1, 0, 0]), fb.tensor([0.9, 0.4, 0.6, 0.1]), 2, num_thresholds=11)
        writer.add_pr_curve_raw("raw", *(np.arange(3.0) for _ in range(6)))
        with pytest.raises(ValueError, match="six rows of one length"):
            writer.add_pr_curve_raw("bad", *(np.arange(3.0) for _ in range(5)), np.arange(2.0))
        with pytest.raises(ValueError, match="3 labels and 2 predictions"):
            writer.add_pr_curve("bad", [1, 0, 1], [0.5, 0.5])
    (step, tag, content), (_, _, raw) = events(tmp_path)
    table = tensor_of(content)
    assert (step, tag, table.shape) == (2, "pr", (6, 11))
    assert table[:4, 5].tolist() == [1, 1, 1, 1]  # above one half: one right, one wrong; below: one of each
    assert table[4:, 0].tolist() == [0.5, 1.0] and tensor_of(raw)[5].tolist() == [0, 1, 2]


def test_sounds_and_tensors(tmp_path):
    import io
    import wave

    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("beep", fb.tensor([[0.0, 1.0, -2.0]]), 1, sample_rate=8000)
        writer.add_tensor("t", fb.arange(6).reshape(2, 3), 4)
        with pytest.raises(ValueError, match="one channel"):
            writer.add_audio("two", fb.zeros(2, 3))
    (_, _, sound), (step, _, content) = events(tmp_path)
    with wave.open(io.BytesIO(dict(fields(sound[6]))[4])) as file:
        assert (file.getframerate(), np.frombuffer(file.readframes(3), "<i2").tolist()) == (8000, [0, 32767, -32767])
    assert step == 4 and tensor_of(content).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_films(tmp_path):
    image = pytest.importorskip("PIL.Image")
    import io

    with SummaryWriter(tmp_path) as writer:
        writer.add_video("film", fb.rand(2, 3, 3, 4, 5), 1, fps=2)
        with pytest.raises(ValueError, match="expected shape"):
            writer.add_video("film", fb.rand(3, 4, 5))
    ((_, _, content),) = events(tmp_path)
    parts = dict(fields(content[4]))
    film = image.open(io.BytesIO(parts[4]))
    assert (film.n_frames, film.size, film.info["duration"]) == (3, (10, 4), 500)


def test_layout_of_charts(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_custom_scalars({"c": {"lines": ["Multiline", ["a", "b"]], "band": ["Margin", ["v", "lo", "hi"]]}})
        writer.add_custom_scalars_multilinechart(["a"])
        with pytest.raises(ValueError, match="expected 'Multiline'"):
            writer.add_custom_scalars_marginchart(["a"])
    (_, tag, content), _ = events(tmp_path)
    assert tag == "custom_scalars__config__"
    layout = dict(fields(dict(fields(content[8]))[8]))[2]
    assert layout.index(b"lines") < layout.index(b"band") < layout.index(b"lo") < layout.index(b"hi")


def test_points_for_the_projector(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(fb.eye(3), ["a", "b", "c"], fb.rand(3, 1, 2, 4), global_step=7, tag="points")
        writer.add_embedding(fb.eye(2), [("a", 1), ("b", 2)], metadata_header=["name", "n"])
        with pytest.raises(ValueError, match="1 metadata for 2 points"):
            writer.add_embedding(fb.eye(2), ["a"])
    folder = tmp_path / "00007" / "points"
    assert np.loadtxt(folder / "tensors.tsv", delimiter="\t").tolist() == np.eye(3).tolist()
    assert (folder / "metadata.tsv").read_text() == "a\nb\nc\n"
    assert png_pixels((folder / "sprite.png").read_bytes()).shape == (4, 8, 1)
    assert (tmp_path / "00000" / "default" / "metadata.tsv").read_text() == "name\tn\na\t1\nb\t2\n"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2 and "single_image_dim: 4 single_image_dim: 2" in config


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
        writer.add_graph(TwoWays(), fb.rand(1, 4))
        writer.add_audio("beep", fb.rand(1, 10))
        writer.add_pr_curve("pr", [1, 0], [0.9, 0.2])
        writer.add_tensor("t", fb.ones(2))
    reader = EventAccumulator(str(tmp_path))
    reader.Reload()
    assert [(e.step, e.value) for e in reader.Scalars("loss")] == [(3, 0.5)]
    assert reader.Tensors("note/text_summary")[0].tensor_proto.string_val == [b"hello"]
    assert reader.Histograms("w")[0].histogram_value.num == 10
    assert (reader.Images("picture")[0].width, reader.Images("picture")[0].height) == (5, 4)
    assert reader.Audio("beep")[0].sample_rate == 44100
    assert [dim.size for dim in reader.Tensors("pr")[0].tensor_proto.tensor_shape.dim] == [6, 127]
    assert len(reader.Graph().node) == 6 and reader.Tensors("t")[0].tensor_proto.dtype == 1
