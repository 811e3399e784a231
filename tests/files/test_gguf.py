"""GGUF files: fields, tensors without copies, names, and files that are damaged. The gguf package writes them."""

from __future__ import annotations

import io
import random
import struct
import warnings

import numpy as np
import pytest

import flambeau as fb
from flambeau.quantization import FORMATS, QuantizedTensor
from flambeau.serialization import FileError

gguf = pytest.importorskip("gguf", reason="the gguf package writes the files")
TYPES = [name for name in FORMATS if name not in ("int8", "int4")]


def written(path, architecture="llama", tensors=(), **fields):
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    for name, array, kind in tensors:
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def kind_of(name):
    return gguf.GGMLQuantizationType[name.upper()]


def blocks(name, rows, columns, seed=0):
    """Any bytes: every one of them stands for some number."""
    numbers, size = FORMATS[name]
    return np.random.default_rng(seed).integers(0, 256, (rows, columns // numbers * size), dtype=np.uint8)


@pytest.mark.parametrize("name", TYPES)
def test_dequantization_has_the_bits_of_the_gguf_package(name, tmp_path):
    raw = blocks(name, 64, 512)
    path = written(tmp_path / "x.gguf", tensors=[("w", raw, kind_of(name))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random bytes are NaN and infinities too
        wanted = gguf.quants.dequantize(raw, kind_of(name))
    loaded = fb.load(path)["w"]
    assert loaded.format == name and tuple(loaded.shape) == (64, 512)
    got = loaded.dequantize().numpy()
    both_nan = np.isnan(got) & np.isnan(wanted)
    assert ((got.view(np.uint32) == wanted.view(np.uint32)) | both_nan).all()
    assert np.isfinite(wanted).mean() > 0.2
    assert fb.equal(loaded[3:5].dequantize().nan_to_num(), loaded.dequantize()[3:5].nan_to_num())


@pytest.mark.parametrize("name", ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1"])
def test_numbers_come_back_as_near_as_the_format_allows(name, tmp_path):
    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    path = written(tmp_path / "x.gguf", tensors=[("w", gguf.quants.quantize(x, kind_of(name)), kind_of(name))])
    step = {"q8_0": 0.02, "q4_0": 0.3, "q4_1": 0.25, "q5_0": 0.15, "q5_1": 0.12}[name]
    assert np.abs(fb.load(path)["w"].dequantize().numpy() - x).max() < step * 1.5


def test_plain_types_fields_and_tokenizer(tmp_path):
    rng = np.random.default_rng(0)
    wide, half = rng.standard_normal((3, 5)).astype(np.float32), rng.standard_normal(7).astype(np.float16)
    whole = np.arange(6, dtype=np.int32)
    brain = np.array([[0x3F80, 0xC000]], dtype=np.uint16)
    tensors = [("wide", wide, None), ("half", half, None), ("whole", whole, None)]
    tensors += [("brain", brain.view(np.uint8), gguf.GGMLQuantizationType.BF16)]
    fields = dict(block_count=2, token_list=["a", "é", b"\xff"], token_scores=[0.5, -1.0, 2.0], bos_token_id=1)
    file = fb.load(written(tmp_path / "x.gguf", tensors=tensors, **fields))
    assert isinstance(file, fb.gguf.GGUF) and list(file) == ["wide", "half", "whole", "brain"]
    assert np.array_equal(file["wide"].numpy(), wide) and np.array_equal(file["half"].numpy(), half)
    assert file["whole"].dtype == fb.int32 and file["whole"].tolist() == list(range(6))
    assert file["brain"].dtype == fb.bfloat16 and file["brain"].tolist() == [[1.0, -2.0]]
    assert file.metadata["llama.block_count"] == 2
    assert file.tokenizer == {"tokens": ["a", "é", b"\xff"], "scores": [0.5, -1.0, 2.0], "bos_token_id": 1}


def test_a_path_is_mapped_and_an_object_is_read(tmp_path):
    path = written(tmp_path / "x.gguf", tensors=[("w", blocks("q4_k", 512, 4096), kind_of("q4_k"))])

    def mapped():
        with open("/proc/self/maps") as maps:
            return sum(str(path) in line for line in maps)

    before = mapped()
    file = fb.load(path)
    assert mapped() == before + 1
    with open(path, "rb") as stream:
        read = fb.load(stream)
    assert mapped() == before + 1
    assert fb.equal(read["w"].data, file["w"].data)
    data = path.read_bytes()
    assert fb.equal(fb.load(io.BytesIO(data))["w"].data, file["w"].data)
    file["w"].data.zero_()  # stays in this process
    assert path.read_bytes() == data
    assert fb.load(path, mmap=False)["w"].data.any()
    assert fb.load(path, map_location="meta")["w"].data.is_meta
    del file
    assert mapped() == before


# ---- names ---------------------------------------------------------------------------------------------------------------

LAYER = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"]


def model_file(tmp_path, architecture, layer=LAYER, extra=()):
    """A file of one layer, with float32 tensors that are all different."""
    rng = np.random.default_rng(0)
    names = ["token_embd.weight", "output_norm.weight", *(f"blk.0.{name}.weight" for name in layer), *extra]
    tensors = [(name, rng.standard_normal((8, 8) if "norm" not in name else 8).astype(np.float32), None) for name in names]
    fields = dict(
        block_count=1, head_count=2, head_count_kv=1, embedding_length=8, feed_forward_length=8, context_length=64,
        rope_freq_base=500.0, layer_norm_rms_eps=1e-5,
    )  # fmt: skip
    return fb.load(written(tmp_path / "m.gguf", architecture, tensors, **fields)), dict((n, a) for n, a, _ in tensors)


def test_llama_names_and_the_order_of_rows(tmp_path):
    file, given = model_file(tmp_path, "llama", extra=["output.weight", "rope_freqs.weight"])
    state = file.state_dict()
    assert set(state) == {
        "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight", *(f"model.layers.0.self_attn.{p}_proj.weight" for p in "qkvo"),
        *(f"model.layers.0.mlp.{p}_proj.weight" for p in ("gate", "up", "down")),
    }  # fmt: skip

    def stored(weight, heads):  # the order in which files for llama.cpp have the rows
        return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)

    q, k = (state[f"model.layers.0.self_attn.{p}_proj.weight"].numpy() for p in "qk")
    assert np.array_equal(stored(q, 2), given["blk.0.attn_q.weight"])
    assert np.array_equal(stored(k, 1), given["blk.0.attn_k.weight"])
    assert np.array_equal(state["model.layers.0.self_attn.v_proj.weight"].numpy(), given["blk.0.attn_v.weight"])
    config = file.config()
    assert config["model_type"] == "llama" and config["num_key_value_heads"] == 1 and config["rope_theta"] == 500.0
    assert config["vocab_size"] == 8 and config["tie_word_embeddings"] is False
    assert config["rms_norm_eps"] == pytest.approx(1e-5)


@pytest.mark.parametrize(
    "architecture, layer, expected",
    [
        ("qwen2", LAYER, {"attn_q": "self_attn.q_proj", "ffn_norm": "post_attention_layernorm"}),
        ("qwen3", [*LAYER, "attn_q_norm", "attn_k_norm"], {"attn_q_norm": "self_attn.q_norm"}),
        ("gemma", LAYER, {"ffn_gate": "mlp.gate_proj"}),
        (
            "gemma2",
            [*LAYER, "post_attention_norm", "post_ffw_norm"],
            {"ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm"},
        ),
        ("gemma3", [*LAYER, "post_ffw_norm"], {"post_ffw_norm": "post_feedforward_layernorm"}),
        ("phi2", ["attn_norm", "attn_q", "attn_output", "ffn_up"], {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1"}),
        ("phi3", ["attn_qkv", "ffn_up"], {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    ],
)
def test_names_of_other_families(architecture, layer, expected, tmp_path):
    file, given = model_file(tmp_path, architecture, layer)
    state = file.state_dict()
    assert len(state) == len(given)
    for ours, theirs in expected.items():
        wanted = given[f"blk.0.{ours}.weight"]
        if architecture.startswith("gemma") and "norm" in ours:
            wanted = wanted - 1
        assert np.array_equal(state[f"model.layers.0.{theirs}.weight"].numpy(), wanted)
    assert file.config()["tie_word_embeddings"] is True


def test_unknown_names_are_errors(tmp_path):
    file, _ = model_file(tmp_path, "llama", ["attn_mystery"])
    with pytest.raises(FileError, match="blk.0.attn_mystery.weight.* has no place in a model of the type llama"):
        file.state_dict()
    with pytest.raises(FileError, match="architecture 'rwkv' are not known; expected one of llama"):
        fb.gguf.GGUF({"a.weight": fb.ones(1)}, {"general.architecture": "rwkv"}).state_dict()


def test_rows_of_quantized_weights_are_reordered_as_bytes(tmp_path):
    raw = blocks("q8_0", 64, 64)
    path = written(tmp_path / "x.gguf", tensors=[("blk.0.attn_q.weight", raw, kind_of("q8_0"))], head_count=4)
    file = fb.load(path)
    weight = file.state_dict()["model.layers.0.self_attn.q_proj.weight"]
    assert isinstance(weight, QuantizedTensor)
    order = fb.arange(64).reshape(4, 8, 2).transpose(1, 2).reshape(-1)
    assert fb.equal(weight.data, file["blk.0.attn_q.weight"].data[order])


class Layer(fb.nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = fb.nn.Module()
        self.self_attn.v_proj = fb.nn.Linear(64, 64, bias=False)
        self.input_layernorm = fb.nn.LayerNorm(64, bias=False)


class Model(fb.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = fb.nn.Module()
        self.model.embed_tokens = fb.nn.Embedding(32, 64)
        self.model.layers = fb.nn.ModuleList([Layer()])
        self.lm_head = fb.nn.Linear(64, 32, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, x):
        layer = self.model.layers[0]
        return self.lm_head(layer.self_attn.v_proj(layer.input_layernorm(self.model.embed_tokens(x))))


def test_weights_go_into_a_model(tmp_path):
    x = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    tensors = [
        ("token_embd.weight", gguf.quants.quantize(x, kind_of("q8_0")), kind_of("q8_0")),
        ("blk.0.attn_v.weight", gguf.quants.quantize(np.concatenate([x, x]), kind_of("q5_0")), kind_of("q5_0")),
        ("blk.0.attn_norm.weight", x[0], None),
    ]
    file = fb.load(written(tmp_path / "x.gguf", "qwen2", tensors))
    model, plain = Model(), Model()
    file.load_into(model)
    assert isinstance(model.lm_head, fb.nn.QuantizedLinear) and isinstance(model.model.embed_tokens, fb.nn.QuantizedEmbedding)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr() == file["token_embd.weight"].data.data_ptr()
    state = file.state_dict()
    full = {name: w.dequantize() if isinstance(w, QuantizedTensor) else w for name, w in state.items()}
    plain.load_state_dict({**full, "lm_head.weight": full["model.embed_tokens.weight"]})
    ids = fb.tensor([[1, 5, 31]])
    # 64 products of up to 8 × 2, whose activations are rounded to 2^-16 of the largest of them
    fb.testing.assert_close(model(ids), plain(ids), rtol=1e-3, atol=1e-2)
    with pytest.raises(RuntimeError, match="no tensor for the parameter 'model.embed_tokens.weight'"):
        fb.gguf.GGUF({}, file.metadata).load_into(Model())
    extra = fb.gguf.GGUF({**file, "output_norm.weight": fb.ones(64)}, file.metadata)
    with pytest.raises(RuntimeError, match="no parameter 'model.norm.weight', which the file has"):
        extra.load_into(Model())


# ---- damaged files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    tensors = [("token_embd.weight", blocks("q4_0", 4, 64), kind_of("q4_0")), ("b", np.ones(4, np.float32), None)]
    path = tmp_path_factory.mktemp("gguf") / "x.gguf"
    return written(path, tensors=tensors, head_count=4, token_list=["a", "b"], token_scores=[0.0, 1.0]).read_bytes()


def load(data):
    return fb.load(io.BytesIO(bytes(data)))


def test_every_cut_is_an_error(small):
    load(small)
    last = 4 * 16 // 4  # padding behind the last tensor may be missing
    for length in range(4, len(small) - last - 32):
        with pytest.raises(FileError):
            load(small[:length])


@pytest.mark.parametrize(
    "at, value, message",
    [
        (4, struct.pack("<I", 1), "version 1 of GGUF; versions 2 and 3 are read"),
        (4, struct.pack(">I", 3), "a big-endian GGUF file"),
        (8, struct.pack("<Q", 1 << 60), "the table of .* cut short"),
        (16, struct.pack("<Q", 1 << 60), "fields .* cut short"),
        (24, struct.pack("<Q", 1 << 63), "the length of a key .* cut short"),
    ],
)
def test_damaged_headers_say_what_is_wrong(small, at, value, message):
    with pytest.raises(FileError, match=message):
        load(small[:at] + value + small[at + len(value) :])


def header(*fields, tensors=b"", count=0):
    return b"GGUF" + struct.pack("<IQQ", 3, count, len(fields)) + b"".join(fields) + tensors


def text(value):
    return struct.pack("<Q", len(value)) + value


def field(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def tensor(name, shape, kind, offset):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


@pytest.mark.parametrize(
    "data, message",
    [
        (header(field(b"a", 0, b"\1"), field(b"a", 0, b"\1")), "key 'a' occurs twice"),
        (header(field(b"a", 99, b"")), "field 'a' has the unknown type 99"),
        (header(field(b"a", 9, struct.pack("<IQ", 9, 1) * 9)), "nested deeper than 4"),
        (header(field(b"\xff", 0, b"\1")), "a key is not UTF-8"),
        (header(field(b"general.alignment", 4, struct.pack("<I", 3))), "general.alignment is 3; expected a power of two"),
        (header(tensors=tensor(b"t", (4,), 0, 7) + bytes(64), count=1), "multiple of the alignment 32"),
        (header(tensors=tensor(b"t", (1,) * 5, 0, 0) + bytes(64), count=1), "has 5 dims; at most 4"),
        (header(tensors=tensor(b"t", (33,), 2, 0) + bytes(64), count=1), r"of shape \(33,\) does not consist of whole blocks of 32"),
        (header(tensors=tensor(b"t", (256,), 16, 0) + bytes(64), count=1), "type IQ2_XXS, which is not read; known are F32"),
        (header(tensors=tensor(b"t", (1 << 39,) * 3, 0, 0) + bytes(64), count=1), "tensor 't': cut short"),
        (header(tensors=tensor(b"t", (0, 1 << 60), 2, 0) + bytes(64), count=1), "has the shape"),
        (header(tensors=tensor(b"t", (4,), 0, 0) * 2 + bytes(64), count=2), "begins at 0, within tensor 't'"),
        (header(tensors=tensor(b"t", (0,), 0, 0) * 2 + bytes(64), count=2), "tensor 't' occurs twice"),
    ],
)  # fmt: skip
def test_bad_fields_and_tensors_say_what_is_wrong(data, message):
    with pytest.raises(FileError, match=message):
        load(data)


def test_random_damage_never_gives_anything_but_a_file_error(small):
    """A crash, a hang or a MemoryError would fail here; what still loads must be usable."""
    rng = random.Random(0)
    numbers = [0, 1, 1 << 63, (1 << 64) - 1, 1 << 32, 1 << 40, 1 << 61, len(small)]
    refused = 0
    for _ in range(3000):
        data = bytearray(small)
        for _ in range(rng.choice([1, 1, 2, 4])):
            at = rng.randrange(len(small) - 200)
            if rng.random() < 0.4:
                data[at] = rng.randrange(256)
            elif rng.random() < 0.6:
                data[at : at + 8] = struct.pack("<Q", rng.choice(numbers))
            else:
                del data[at : at + rng.randrange(1, 9)]
        try:
            file = load(data)
            for value in file.values():
                (value.dequantize() if isinstance(value, QuantizedTensor) else value).sum()
            file.state_dict()
            file.config()
        except FileError:
            refused += 1
    assert 1000 < refused < 3000
