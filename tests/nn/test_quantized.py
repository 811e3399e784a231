"""Weights stored as small integers: products, layers, state dicts."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fb
from flambeau import nn
from flambeau.quantization import FORMATS, QuantizedTensor, quantize

KINDS = [(name, 0) for name in FORMATS if name not in ("int8", "int4")]
KINDS += [("int8", group) for group in (0, 32, 64, 128)] + [("int4", group) for group in (32, 64, 128)]


def weight_of(format, group, rows, columns, seed=0):
    """Finite numbers of a format; those of GGUF from bytes whose scales are harmless."""
    rng = np.random.default_rng(seed)
    if format in ("int8", "int4"):
        return quantize(fb.from_numpy(rng.standard_normal((rows, columns)).astype(np.float32)), format, group)
    numbers, size = FORMATS[format]
    raw = rng.integers(0, 256, (rows, columns // numbers, size), dtype=np.uint8)
    places = {"q2_k": (80, 82), "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,)}.get(format, (0, 2))
    for at in places[: 1 if format in ("q8_0", "q4_0", "q5_0") else 2]:
        scales = (rng.random((rows, columns // numbers)) - 0.3).astype(np.float16)
        raw[:, :, at : at + 2] = scales.view(np.uint8).reshape(rows, -1, 2)
    return QuantizedTensor(fb.from_numpy(raw.reshape(rows, -1)), format)


@pytest.mark.parametrize("dtype", [fb.float32, fb.bfloat16, fb.float16])
@pytest.mark.parametrize("format, group", KINDS)
def test_products_equal_those_of_dequantized_weights(format, group, dtype):
    fb.manual_seed(0)
    for rows, columns in ((37, 256), (5, 768)):
        weight = weight_of(format, group, rows, columns)
        wide = weight.dequantize().double()
        bias = fb.randn(rows) * 0.01
        for m in (1, 2, 3, 4, 7, 16, 17, 40):
            x = (fb.randn(m, columns) * 0.01).to(dtype)
            x[0, :9] *= 30  # one group with outliers
            got = weight.linear(x, bias)
            assert got.dtype == dtype
            exact = x.double() @ wide.T + bias
            size = x.double().abs() @ wide.abs().T + 0.01
            # x is rounded to 2^-16 of the largest of 128 numbers
            step = {fb.float32: 3e-4, fb.bfloat16: 5e-3, fb.float16: 1e-3}[dtype]
            assert ((got.double() - exact).abs() / size).max() < step


@pytest.mark.parametrize("columns", [1, 31, 33, 100, 128, 129, 300])
def test_int8_rows_of_any_length(columns):
    weight = weight_of("int8", 0, 9, columns)
    for m in (1, 5, 20):
        x = fb.randn(m, columns)
        for dynamic in (False, True):
            layer = nn.QuantizedLinear.from_weight(weight, dynamic=dynamic)
            size = x.abs() @ weight.dequantize().abs().T
            error = (layer(x) - x @ weight.dequantize().T).abs() / size
            assert error.max() < (2e-2 if dynamic else 1e-4)


@pytest.mark.parametrize("group, columns", [(32, 32), (32, 96), (32, 2208), (64, 64), (64, 2112), (64, 320), (128, 2176)])
def test_int4_rows_of_any_length(group, columns):
    """128 numbers are multiplied at a time, and scales prepared for 2048 of them."""
    weight = weight_of("int4", group, 9, columns)
    for m in (1, 2, 3, 4, 5):
        x = fb.randn(m, columns)
        size = x.abs() @ weight.dequantize().abs().T
        assert ((weight.linear(x) - x @ weight.dequantize().T).abs() / size).max() < 1e-4


def test_shapes_of_inputs_and_results():
    weight = weight_of("q4_0", 0, 6, 64)
    for shape in ((64,), (0, 64), (2, 3, 64), (2, 0, 64)):
        assert weight.linear(fb.randn(shape)).shape == (*shape[:-1], 6)
    turned = fb.randn(64, 5).T
    fb.testing.assert_close(weight.linear(turned), weight.linear(turned.contiguous()))
    assert QuantizedTensor(weight.data[:0], "q4_0").linear(fb.randn(3, 64)).shape == (3, 0)
    meta = QuantizedTensor(weight.data.to("meta"), "q4_0")
    assert meta.linear(fb.randn(2, 64, device="meta")).shape == (2, 6)


def test_nan_and_infinities_arrive():
    weight = weight_of("q8_0", 0, 8, 64)
    dynamic = nn.QuantizedLinear.from_weight(weight_of("int8", 0, 8, 64), dynamic=True)
    for bad in (fb.nan, fb.inf):
        x = fb.randn(2, 64)
        x[1, 3] = bad
        for result in (weight.linear(x), dynamic(x)):
            assert result[0].isfinite().all() and not result[1].isfinite().any()
    assert fb.equal(weight.linear(fb.zeros(1, 64)), fb.zeros(1, 8))
    tiny = fb.full((1, 64), 1e-40)
    assert weight.linear(tiny).isfinite().all()


def test_results_do_not_depend_on_the_number_of_threads():
    weight, x = weight_of("q4_k", 0, 1000, 1024), fb.randn(3, 1024)
    threads = fb.get_num_threads()
    try:
        found = []
        for n in (1, 2, 3):
            fb.set_num_threads(n)
            found.append((weight.linear(x[:1]), weight.linear(x), weight.linear(x.repeat(9, 1))))
    finally:
        fb.set_num_threads(threads)
    assert all(fb.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("level", ["avx2"])
def test_products_on_older_processors(level):
    """The kernels of every level give the same numbers, up to the order of sums."""
    program = """
import sys
sys.path.insert(0, "tests")
from nn.test_quantized import KINDS, weight_of
import flambeau as fb
for format, group in KINDS:
    columns = 2304 if format == "int4" else 512
    w = weight_of(format, group, 21, columns)
    wide = w.dequantize().double()
    for m in (1, 2, 3, 4, 9, 30):
        x = fb.randn(m, columns)
        error = (w.linear(x).double() - x.double() @ wide.T).abs() / (x.double().abs() @ wide.abs().T + 1)
        assert error.max() < 3e-5, (format, group, m, error.max())
    if (format, group) == ("int8", 0):
        layer = fb.nn.QuantizedLinear.from_weight(w, dynamic=True)
        q = (x / x.abs().amax(1, keepdim=True) * 127).round() * (x.abs().amax(1, keepdim=True) / 127)
        fb.testing.assert_close(layer(x), q @ w.dequantize().T, rtol=1e-4, atol=1e-3)
print("done")
"""
    env = {**os.environ, "FLAMBEAU_CPU_LEVEL": level}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    if "processor" in run.stderr and "ValueError" in run.stderr:
        pytest.skip(f"this processor lacks {level}")
    assert run.stdout.strip() == "done", run.stderr


def test_dynamic_rounds_each_row_by_its_largest_number():
    layer = nn.QuantizedLinear.from_float(nn.Linear(96, 13), dynamic=True)
    weight = layer.quantized_weight().dequantize()
    for m in (1, 4, 33):
        x = fb.randn(m, 96) * fb.logspace(-3, 3, m).unsqueeze(1)
        scale = x.abs().amax(1, keepdim=True) / 127
        rounded = (x / scale).round() * scale
        fb.testing.assert_close(layer(x), nn.functional.linear(rounded, weight, layer.bias), rtol=1e-3, atol=1e-4)


def test_gradients_reach_input_and_bias():
    for format, group in (("int8", 0), ("int4", 32), ("q6_k", 0)):
        weight = weight_of(format, group, 7, 256)
        for m in (2, 20):
            x, bias = fb.randn(m, 256, requires_grad=True), fb.randn(7, requires_grad=True)
            g = fb.randn(m, 7)
            got = fb.autograd.grad(weight.linear(x, bias), (x, bias), g)
            wanted = fb.autograd.grad(nn.functional.linear(x, weight.dequantize(), bias), (x, bias), g)
            fb.testing.assert_close(got, wanted)
    x = fb.randn(2, 3, 256, requires_grad=True, dtype=fb.bfloat16)
    weight.linear(x).sum().backward()
    assert x.grad.dtype == fb.bfloat16 and x.grad.shape == x.shape


def test_errors_of_products():
    weight = weight_of("int8", 0, 4, 64)
    for call, message in (
        (lambda: weight.linear(fb.ones(2, 63)), r"input of shape \(2, 63\) does not fit a weight of 4 rows of 64"),
        (lambda: weight.linear(fb.ones(2, 64).double()), "expected an input of float32, bfloat16 or float16, got float64"),
        (lambda: weight.linear(fb.ones(2, 64), fb.ones(3)), "bias of shape .* does not fit a weight of 4 rows"),
        (lambda: QuantizedTensor(weight.data, "int8", weight.scale[:3]).dequantize(), "expected scale of shape"),
        (lambda: QuantizedTensor(weight.data, "int8").dequantize(), "this format needs scale of shape"),
        (lambda: QuantizedTensor(weight.data, "q9"), "unknown format 'q9'; expected one of int8, int4, q8_0"),
        (lambda: QuantizedTensor(fb.zeros(2, 33, dtype=fb.uint8), "q8_0"), "rows of 33 bytes are not whole blocks of 34"),
        (lambda: QuantizedTensor(weight.data, "q4_0", group_size=32)[0:1].dequantize(), "."),
        (lambda: weight[0, 1], "an index must leave whole rows"),
        (lambda: weight.rows(fb.tensor([4])), "out of bounds"),
        (lambda: nn.QuantizedLinear(64, 4, format="int4", dynamic=True, group_size=32), "dynamic needs 'int8' without groups"),
        (lambda: nn.QuantizedLinear(100, 4, format="q4_k"), "q4_k has blocks of 256 numbers"),
    ):
        with pytest.raises((RuntimeError, IndexError), match=message):
            call()


def test_quantize_is_as_near_as_it_can_be():
    fb.manual_seed(0)
    w = fb.randn(16, 256)
    for format, group, most in (("int8", 0, 0.011), ("int8", 32, 0.009), ("int4", 32, 0.11), ("int4", 128, 0.13)):
        error = (quantize(w, format, group).dequantize() - w).square().mean().sqrt()
        assert error < most, (format, group, error)
    assert fb.equal(quantize(fb.zeros(2, 64), "int4", 32).dequantize(), fb.zeros(2, 64))
    same = quantize(fb.full((1, 64), 3.0), "int4", 64).dequantize()
    fb.testing.assert_close(same, fb.full((1, 64), 3.0), rtol=0.01, atol=0)
    assert quantize(w, "int4").nbytes == 16 * 128 + 2 * 16 * 2 * 2
    for bad, message in (
        (lambda: quantize(w, "int3"), "unknown format 'int3'"),
        (lambda: quantize(w, "int8", 48), "expected a group_size of 32, 64 or 128"),
        (lambda: quantize(w[:, :100], "int4"), "rows of 100 numbers are not whole groups of 128"),
        (lambda: quantize(w[0]), "expected a floating point matrix"),
        (lambda: quantize(w / 0), "NaN or infinite"),
    ):
        with pytest.raises(RuntimeError, match=message):
            bad()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 64, padding_idx=3)
        self.hidden = nn.Linear(64, 64)
        self.head = nn.Linear(64, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.hidden(self.embed(x)))


def test_quantize_replaces_layers_and_keeps_weights_tied():
    model = Tied().eval()
    ids = fb.tensor([[1, 2, 49]])
    before = model(ids)
    fb.quantize_(model, "int8")
    assert isinstance(model.head, nn.QuantizedLinear) and isinstance(model.embed, nn.QuantizedEmbedding)
    assert model.embed.weight is model.head.weight and model.embed.padding_idx == 3
    assert not model.head.training
    assert (model(ids) - before).abs().max() < 0.05 * before.abs().max()
    model.to(fb.bfloat16)
    assert model.head.scale.dtype == fb.float32 and model.hidden.bias.dtype == fb.bfloat16
    assert model(ids).dtype == fb.bfloat16
    chosen = Tied()
    fb.quantize_(chosen, "int4", group_size=64, filter_fn=lambda module, name: name == "hidden")
    assert type(chosen.head) is nn.Linear and type(chosen.embed) is nn.Embedding and chosen.hidden.group_size == 64
    with pytest.raises(RuntimeError, match="layer '0': .* rows of 60 numbers are not whole groups of 128.* filter_fn"):
        fb.quantize_(nn.Sequential(nn.Linear(60, 2)), "int4")
    with pytest.raises(RuntimeError, match="a single Linear"):
        fb.quantize_(nn.Linear(4, 4))
    with pytest.raises(RuntimeError, match="leave out group_size"):
        fb.quantize_(chosen, "int8_dynamic", group_size=32)
    dynamic = Tied()
    fb.quantize_(dynamic, "int8_dynamic")
    assert dynamic.hidden.dynamic and "dynamic=True" in repr(dynamic.hidden)


@pytest.mark.parametrize("format, group", [("int8", None), ("int8", 32), ("int4", 64)])
def test_state_dicts_and_safetensors(format, group, tmp_path):
    model, other = Tied(), Tied()
    fb.quantize_(model, format, group_size=group)
    fb.quantize_(other, format, group_size=group)
    fb.save(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(fb.load(tmp_path / "model.safetensors"))
    ids = fb.tensor([[1, 2, 49]])
    assert fb.equal(model(ids), other(ids))
    file = io.BytesIO()
    fb.save(model.state_dict(), file, format="pt")
    file.seek(0)
    assert all(fb.equal(a, b) for a, b in zip(fb.load(file).values(), model.state_dict().values(), strict=True))
    empty = nn.QuantizedLinear(64, 64, format=format, group_size=group)
    empty.load_state_dict(model.hidden.state_dict())
    x = fb.randn(2, 64)
    assert fb.equal(empty(x), model.hidden(x))


def test_a_state_dict_of_another_format_is_refused():
    layer, other = nn.QuantizedLinear(256, 4, format="q4_0"), nn.QuantizedLinear(256, 4, format="q4_k")
    assert layer.weight.shape == other.weight.shape
    with pytest.raises(RuntimeError, match="has the format q4_0, the QuantizedLinear has q4_k; make the module with format='q4_0'"):
        other.load_state_dict(layer.state_dict())


def test_embedding_looks_rows_up():
    for format, group in (("int8", 0), ("int4", 32), ("q6_k", 0)):
        weight = weight_of(format, group, 11, 256)
        layer = nn.QuantizedEmbedding.from_weight(weight)
        ids = fb.tensor([[0, 10], [3, 3]])
        assert fb.equal(layer(ids), weight.dequantize()[ids])
    assert layer.half()(ids).dtype == fb.float16
    with pytest.raises(RuntimeError, match="max_norm"):
        nn.QuantizedEmbedding.from_float(nn.Embedding(3, 4, max_norm=1.0))
    assert nn.QuantizedEmbedding(5, 64, format="q8_0")(fb.tensor([4])).tolist() == [[0.0] * 64]
