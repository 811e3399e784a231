"""Tensors on different devices: which combinations are allowed, and the errors for the others."""

import itertools

import pytest
from tests.ops.catalogue import SPECS

import flambeau as fb

MIXED = "Expected all tensors to be on the same device, but found at least two devices"
# Copies, ops that look at the shape of one of their tensors only, and index tensors, which follow what they index.
MAY_MIX = set(
    "copy_ expand_as view_as reshape_as resize_as_ type_as index_put index_put_ setitem getitem to tensor".split()
)


@pytest.mark.parametrize("row", list(SPECS.values()), ids=list(SPECS))
def test_ops_refuse_mixed_devices(row):
    """Whichever tensor of a call is elsewhere."""
    dtype = "float32" if "float32" in row.dtypes else row.dtypes[0]
    for sample in itertools.islice(row.samples(dtype), 2):
        sizes = [t.values.ndim for t in sample.tensors()]
        for away, dims in enumerate(sizes):
            others = sizes[:away] + sizes[away + 1 :]
            if not dims or not any(others) or row.name in MAY_MIX:
                continue
            number = itertools.count()
            ready = sample.map(lambda t, away=away, n=number: t.tensor().to("meta") if next(n) == away else t.tensor())
            with pytest.raises(RuntimeError, match=MIXED):
                row.run(ready)
                raise AssertionError(f"{row.name}{sample}: no error for tensor {away} on another device")


def test_the_error_names_op_arguments_and_devices():
    with pytest.raises(RuntimeError) as error:
        fb.cat([fb.ones(2), fb.ones(2), fb.empty(2, device="meta")])
    text = str(error.value)
    assert (
        text.startswith(f"cat: {MIXED}, cpu and meta!")
        and "'tensors[0]' is on cpu" in text
        and "'tensors[2]' on meta" in text
    )
    with pytest.raises(RuntimeError, match="^linear: .*'weight' on meta"):
        fb.nn.functional.linear(fb.ones(2, 3), fb.empty(4, 3, device="meta"))
    with pytest.raises(RuntimeError, match="'out' on cpu"):
        fb.add(fb.empty(2, device="meta"), 1, out=fb.empty(2))


def test_numbers_and_scalars_go_with_the_rest():
    x = fb.empty(2, 3, device="meta")
    for y in (
        x + 1,
        2.0 - x,
        x * fb.tensor(2.0),
        fb.tensor(2.0) / x,
        fb.where(x > 0, x, fb.tensor(0.0)),
        fb.tensor(1.0) + x.t(),
    ):
        assert y.is_meta and y.numel() == 6
    assert (fb.tensor(2.0) * fb.empty((), device="meta")).is_meta
    with pytest.raises(RuntimeError, match=MIXED):
        fb.tensor(2.0).add_(fb.empty((), device="meta"))  # it is written to
    with pytest.raises(RuntimeError, match=MIXED):
        fb.ones(2) + fb.empty((), device="meta")


def test_cpu_and_meta_have_one_device_each():
    assert fb.ones(2, device="cpu:0").device == fb.device("cpu") and fb.empty(2, device="meta:3").device == fb.device(
        "meta"
    )
    x = fb.ones(2, device="cpu:0")
    assert x.to("cpu") is x and fb.ones(2).to("cpu:0") + x is not None
    with fb.device("cpu:0"):
        assert fb.zeros(2).device == fb.device("cpu")


def test_indices_follow_what_they_index():
    x = fb.empty(3, 2, device="meta")
    assert x[fb.tensor([0, 0, 1, 2])].shape == (4, 2) and x[fb.tensor(1)].shape == (2,)
    x[fb.tensor([0])] = 1.0
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        fb.ones(3)[fb.empty(2, dtype=fb.int64, device="meta")]
    with pytest.raises(NotImplementedError, match="no data"):
        fb.ones(3)[:] = fb.empty(3, device="meta")


def test_gradients_are_on_the_device_of_their_tensors():
    x = fb.empty(2, device="meta", requires_grad=True)
    with pytest.raises(RuntimeError, match="expected device meta but got cpu"):
        (x * 2).backward(fb.ones(2))

    class Elsewhere(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return fb.empty(2, device="meta")

    with pytest.raises(RuntimeError, match="expected device cpu but got meta"):
        Elsewhere.apply(fb.ones(2, requires_grad=True)).sum().backward()
    y = fb.ones(2, requires_grad=True)
    moved = y.to("meta")
    assert moved.requires_grad and not moved.is_leaf
    with pytest.raises(RuntimeError, match="no data"):
        moved.sum().backward()


def test_default_device_of_creation():
    with fb.device("meta"):
        made = [
            fb.rand(2), fb.randint(3, (2,)), fb.randperm(3), fb.normal(0.0, 1.0, (2,)), fb.linspace(0, 1, 3), fb.tril_indices(2, 2),
            fb.scalar_tensor(1), fb.hann_window(4), fb.fft.fftfreq(4), fb.asarray([1]), fb.as_tensor([1.0]),
            fb.rand_like(fb.ones(2, device="meta")),
        ]  # fmt: skip
        assert (
            fb.ones(2, device="cpu").exp().is_cpu and fb.nn.functional.one_hot(fb.tensor([1], device="cpu"), 3).is_cpu
        )
    assert all(t.is_meta for t in made)
