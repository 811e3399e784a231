"""out= of every op that has it: other layouts, shapes and dtypes, inputs as out, gradients. PyTorch's rules."""

from __future__ import annotations

import warnings

import pytest

import flambeau as fb

from . import spec as lib
from .catalogue import SPECS
from .spec import is_tensor
from .test_specs import agree, form_dtypes, fresh, has_out, rows

RESIZED = "An output with one or more elements was resized"
SINGLE = rows(lambda row: has_out(row) and not isinstance(row.result, tuple) and row.result is not None)


def layouts(shape, dtype):
    """Targets of this shape whose elements are not one after the other, with the memory around them."""
    if not shape:
        base = fb.zeros(3, dtype=dtype)
        yield base, base[1]
        return
    base = fb.zeros(tuple(n + 2 for n in shape), dtype=dtype)
    yield base, base[tuple(slice(1, n + 1) for n in shape)]
    base = fb.zeros(tuple(reversed(shape)), dtype=dtype)
    yield base, base.permute(tuple(reversed(range(len(shape)))))
    base = fb.zeros((*shape[:-1], 3 * shape[-1]), dtype=dtype)
    yield base, base[..., 1::3]


@SINGLE
def test_layouts_of_out(row, only_dtypes):
    """Every element lands where it belongs, nothing beside it, and the memory stays where it is."""
    for dtype in form_dtypes(row, only_dtypes):
        for sample in list(row.samples(dtype))[:3]:
            want = row.run(fresh(sample))
            if not is_tensor(want):
                continue
            for base, out in layouts(tuple(want.shape), want.dtype):
                base.zero_()
                place = (out.data_ptr(), out.stride())
                row.run(fresh(sample), out=out)
                what = f"{row.name}{sample} into strides {out.stride()}"
                assert agree(row, out, want), f"{what}: {out}, expected {want}"
                assert (out.data_ptr(), out.stride()) == place, f"{what}: out= was moved"
                count = fb.count_nonzero(base)
                assert count <= fb.count_nonzero(out), f"{what}: wrote beside out="


@SINGLE
def test_out_of_another_shape_is_resized_with_a_warning(row, only_dtypes):
    for dtype in form_dtypes(row, only_dtypes)[:1]:
        sample = next(iter(row.samples(dtype)))
        want = row.run(fresh(sample))
        if not is_tensor(want):
            continue
        out = fb.zeros(tuple(n + 1 for n in want.shape) or (2,), dtype=want.dtype)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            row.run(fresh(sample), out=out)
        assert agree(row, out, want), row.name
        if not CREATES & {row.name, row.canonical}:
            assert any(RESIZED in str(w.message) for w in seen), f"{row.name}: resized without a warning"
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=f".*{RESIZED}")
            assert agree(row, row.run(fresh(sample), out=fb.empty(0, dtype=want.dtype)), want)


# The shape and dtype of their result depend only on the arguments: as in PyTorch they resize out= without a warning.
CREATES = {"arange", "range", "linspace", "logspace", "eye", "full", "zeros", "ones", "empty", "rand", "randn", "randint", "randperm"}


@SINGLE
def test_out_that_requires_grad_is_refused(row, only_dtypes):
    for dtype in form_dtypes(row, only_dtypes)[:1]:
        sample = next(iter(row.samples(dtype)))
        want = row.run(fresh(sample))
        if not is_tensor(want) or not (want.is_floating_point() or want.is_complex()):
            continue
        out = fb.zeros(tuple(want.shape), dtype=want.dtype, requires_grad=True)
        if any(word in row.name for word in ("histc", "airy", "bessel", "polynomial")):  # no gradient: nothing is lost
            assert row.run(fresh(sample), out=out) is out
            continue
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            row.run(fresh(sample), out=out)
        with fb.no_grad():
            row.run(fresh(sample), out=out)


EXACT = [
    "addmm", "baddbmm", "bmm", "bitwise_not", "bucketize", "ceil", "complex", "cross", "diag", "dot", "float_power", "floor",
    "frac", "gather", "heaviside", "histc", "index_add", "index_copy", "index_select", "isin", "isneginf", "log_softmax",
    "masked_select", "matmul", "mm", "mv", "nan_to_num", "neg", "quantile", "round", "scatter", "searchsorted", "sign",
    "signbit", "softmax", "take", "tril", "triu", "trunc", "vdot", "where",
]  # fmt: skip
CONVERTS = ["add", "mul", "sin", "exp", "atan2", "maximum", "eq", "logical_and", "pow", "clamp", "sqrt", "lerp"]
WIDER = {"float32": fb.float64, "int64": fb.float32, "bool": fb.int64, "complex64": fb.complex128, "float64": fb.complex128}


def first_call(name):
    row = SPECS[name]
    for dtype in ("float32", "int64", "bool"):
        if dtype in row.dtypes:
            sample = next(iter(row.samples(dtype)))
            return row, sample, row.run(fresh(sample))
    raise AssertionError(name)


@pytest.mark.parametrize("name", EXACT)
def test_ops_that_want_the_dtype_of_the_result(name):
    row, sample, want = first_call(name)
    out = fb.zeros(tuple(want.shape), dtype=WIDER[lib.name_of(want.dtype)])
    with pytest.raises(RuntimeError, match=r"dtype|type"):
        row.run(fresh(sample), out=out)
    assert not out.any(), f"{name}: refused, yet wrote"


@pytest.mark.parametrize("name", CONVERTS)
def test_ops_that_convert_their_result(name):
    row, sample, want = first_call(name)
    out = fb.zeros(tuple(want.shape), dtype=WIDER[lib.name_of(want.dtype)])
    row.run(fresh(sample), out=out)
    assert fb.allclose(out.to(fb.complex128), want.to(fb.complex128), equal_nan=True)


@pytest.mark.parametrize("make", [lambda **k: fb.arange(6, **k), lambda **k: fb.linspace(0, 5, 6, **k),
                                  lambda **k: fb.logspace(0, 5, 6, **k)], ids=["arange", "linspace", "logspace"])  # fmt: skip
def test_sequences_keep_the_shape_of_an_out_with_as_many_elements(make):
    want = make(dtype=fb.float32)
    for out in (fb.zeros(2, 3), fb.zeros(3, 2).T, fb.zeros(4, 6)[::2, ::2], fb.zeros(12)[::2], fb.zeros(6, 2)[:, 0]):
        shape, strides = out.shape, out.stride()
        assert make(out=out) is out
        assert out.shape == shape and out.stride() == strides
        assert out.flatten().tolist() == want.tolist()
    frozen = fb.zeros(2, 3).numpy()
    frozen.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        make(out=fb.from_numpy(frozen))


def test_results_that_would_be_written_over_their_input():
    x = fb.randn(5, 4)
    y = x.clone()
    with pytest.raises(RuntimeError, match="unsupported operation"):
        fb.cat([x, x], out=x)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        fb.kthvalue(x, 2, out=(x, fb.zeros(0, dtype=fb.int64)))
    with pytest.raises(RuntimeError, match="unsupported operation"):
        fb.add(x[:, :1], x, out=x[:, :1])
    column = fb.randn(5, 1)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        fb.add(column, fb.randn(5), out=column)
    assert fb.equal(x, y) and column.shape == (5, 1)


def test_ops_without_gradients_write_to_an_out_that_requires_them():
    out = fb.zeros(3, requires_grad=True)
    assert fb.histc(fb.tensor([1.0, 2.0, 2.0]), 3, out=out) is out and out.detach().tolist() == [1, 0, 2]
    fb.special.airy_ai(fb.zeros(3), out=out)
    assert out.requires_grad and out.is_leaf
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fb.sin(fb.zeros(3), out=out)


def test_copies_into_several_outs():
    x = fb.arange(6).view(3, 2)
    outs = [fb.zeros(2, dtype=fb.int64) for _ in range(3)]
    fb.unbind_copy(x, out=outs)
    assert [out.tolist() for out in outs] == x.tolist()
    outs = [fb.zeros(0, dtype=fb.int64), fb.zeros(2, 2, dtype=fb.int64)]
    fb.split_with_sizes_copy(x, [1, 2], out=outs)
    assert [out.tolist() for out in outs] == [x[:1].tolist(), x[1:].tolist()]
    with pytest.raises(RuntimeError, match="unbind_copy: expected out= to have 3 tensors, one per result, got 2"):
        fb.unbind_copy(x, out=outs)
    with pytest.raises(TypeError, match="unbind_copy: out must be a list of tensors, got Tensor"):
        fb.unbind_copy(x, out=outs[0])


def test_random_numbers_of_another_dtype_than_out_are_refused():
    with pytest.raises(RuntimeError, match="dtype bfloat16 does not match dtype of out parameter"):
        fb.randn(2, dtype=fb.bfloat16, out=fb.zeros(2))
    assert fb.rand(2, dtype=fb.float64, out=fb.zeros(2, dtype=fb.float64)).dtype is fb.float64
