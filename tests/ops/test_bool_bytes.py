"""Bool tensors whose bytes are neither 0 nor 1: every op takes any byte but 0 as True.

Such bytes come from view(bool), NumPy, DLPack, files, shared memory and empty(), and can change after a check.
"""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fb

from .catalogue import SPECS
from .spec import BOOL, T, flat_results, is_tensor, to_numpy

BYTES = (2, 128, 255, 1, 64)


def odd_bytes(values: np.ndarray, layout: str = "contiguous") -> fb.Tensor:
    """A bool tensor with these truth values, its true elements held as bytes of all kinds."""
    tensor = T(values, "bool").tensor(layout)
    tensor.view(fb.uint8).mul_(fb.from_numpy(np.resize(np.array(BYTES, np.uint8), values.shape)))
    return tensor


def truth(value):
    """What a result says, whatever the bytes it says it with."""
    if not is_tensor(value):
        return value
    got = to_numpy(value)
    return got.view(np.uint8) != 0 if got.dtype == bool else got


def assert_same(got, want, what):
    for g, w in zip(flat_results(got), flat_results(want), strict=True):
        if is_tensor(w):
            assert g.dtype == w.dtype and g.shape == w.shape, what
            assert np.array_equal(truth(g), truth(w), equal_nan=w.dtype != fb.bool), f"{what}: {g}, expected {w}"
        else:
            assert g == w or (g != g and w != w), f"{what}: {g!r}, expected {w!r}"


def samples_with_bools(row):
    """Calls of the row that have a bool tensor among their arguments."""
    dtypes = [d for d in row.dtypes if d in BOOL] + [d for d in row.dtypes if d not in BOOL][:1]
    for dtype in dtypes:
        for maker in (row.samples, row.edge, row.broadcast, row.large):
            if maker is not None:
                yield from (s for s in maker(dtype) if any(t.dtype == "bool" for t in s.tensors()))


# The contents of a new, empty tensor are arbitrary.
@pytest.mark.parametrize("name", [n for n, row in SPECS.items() if "empty" not in n and next(samples_with_bools(row), None)])
def test_any_byte_but_zero_is_true(name):
    row = SPECS[name]
    for sample in samples_with_bools(row):
        for layout in ("contiguous", "transposed") if row.layouts else ("contiguous",):

            def odd(t: T, layout=layout):
                return odd_bytes(t.values, layout) if t.dtype == "bool" else t.tensor(layout)

            plain = sample.map(lambda t, layout=layout: t.tensor(layout))
            assert_same(row.run(sample.map(odd)), row.run(plain), f"{name}{sample} with {layout} inputs")


def test_most_ops_are_covered():
    """The list of ops that are tried cannot silently shrink."""
    assert sum(1 for row in SPECS.values() if next(samples_with_bools(row), None)) > 250


MASK = np.arange(300).reshape(20, 15) % 3 == 0


def entries():
    raw = np.where(MASK, 255, 0).astype(np.uint8)
    yield "view", lambda: fb.from_numpy(raw.copy()).view(fb.bool)
    yield "numpy", lambda: fb.from_numpy(raw.copy().view(bool))
    yield "as_tensor", lambda: fb.as_tensor(raw.copy().view(bool))
    yield "tensor", lambda: fb.tensor(raw.view(bool))
    yield "dlpack", lambda: fb.from_dlpack(raw.copy().view(bool))
    yield "frombuffer", lambda: fb.frombuffer(bytearray(raw.tobytes()), dtype=fb.bool).reshape(20, 15)
    yield "empty", lambda: fb.empty(20, 15, dtype=fb.bool).copy_(fb.from_numpy(raw.copy().view(bool)))
    yield "view_as written later", written_later


def written_later():
    array = np.zeros((20, 15), bool)
    tensor = fb.from_numpy(array)
    assert not tensor.any()
    array.view(np.uint8)[MASK] = 255  # after the tensor was made, where no check can see it
    return tensor


@pytest.mark.parametrize(("way", "make"), list(entries()), ids=[way for way, _ in entries()])
def test_every_way_in(way, make):
    mask, x = make(), fb.arange(300).reshape(20, 15)
    want = np.arange(300).reshape(20, 15)[MASK]
    assert x[mask].tolist() == want.tolist()
    assert fb.masked_select(x, mask).tolist() == want.tolist()
    assert fb.nonzero(mask).tolist() == np.argwhere(MASK).tolist()
    assert mask.sum().item() == MASK.sum()
    assert mask.tolist() == MASK.tolist()
    assert mask.int().sum(1).tolist() == MASK.sum(1).tolist()
    assert bool(mask[0, 0]) is True and mask[0, 0].item() is True
    assert x[mask[0, 0]].shape == (1, 20, 15)
    assert fb.equal(mask, fb.from_numpy(MASK.copy()))


def test_files(tmp_path):
    raw = fb.from_numpy(np.where(MASK, 255, 0).astype(np.uint8)).view(fb.bool)
    for name in ("mask.safetensors", "mask.pt"):
        fb.save({"mask": raw}, tmp_path / name)
        mask = fb.load(tmp_path / name)["mask"]
        assert fb.nonzero(mask).tolist() == np.argwhere(MASK).tolist()
        assert mask.sum().item() == MASK.sum()


def test_masks_of_attention_and_writes():
    mask = odd_bytes(np.tril(np.ones((4, 4), bool)))
    q = fb.randn(1, 2, 4, 8)
    attend = fb.nn.functional.scaled_dot_product_attention
    assert fb.allclose(attend(q, q, q, attn_mask=mask), attend(q, q, q, attn_mask=mask.int().bool()))
    x = fb.zeros(4, 4)
    x[mask] = 1.0
    assert x.sum().item() == 10
    assert fb.zeros(4, 4).masked_scatter(mask, fb.ones(10)).sum().item() == 10
    assert fb.zeros(4, 4).index_put((mask,), fb.tensor(1.0)).sum().item() == 10
