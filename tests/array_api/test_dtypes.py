"""Data types: the promotion table, Python scalars, casts, limits, kinds, inspection."""

import itertools

import numpy as np
import pytest

import flambeau as fb
from flambeau import array_api as xp

from . import standard

KIND_OF = {name: np.dtype(name).kind for name in standard.DTYPES}


def expected_promotion(a: str, b: str) -> str | None:
    """The standard's table. Where it has an entry, it agrees with NumPy; where kinds mix, it has none."""
    kinds = KIND_OF[a] + KIND_OF[b]
    if a == b:
        return a
    if "uint64" in (a, b) and "i" in kinds:
        return None
    if set(kinds) <= set("iu") or set(kinds) <= set("fc"):
        return np.promote_types(a, b).name
    return None


@pytest.mark.parametrize(("a", "b"), list(itertools.product(standard.DTYPES, repeat=2)))
def test_promotion_table(a, b):
    x, y = getattr(xp, a), getattr(xp, b)
    want = expected_promotion(a, b)
    if want is None:
        with pytest.raises(TypeError):
            xp.result_type(x, y)
        with pytest.raises(TypeError):
            xp.equal(xp.ones(2, dtype=x), xp.ones(2, dtype=y))
        assert not xp.can_cast(x, y)
        return
    want = getattr(xp, want)
    assert xp.result_type(x, y) == want
    assert xp.can_cast(x, y) == (want == y)
    assert xp.concat([xp.ones(2, dtype=x), xp.ones(2, dtype=y)]).dtype == want
    assert xp.where(xp.asarray([True, False]), xp.ones(2, dtype=x), xp.ones((), dtype=y)).dtype == want
    if a != "bool":
        # zero-dimensional arrays count like all others
        result = xp.add(xp.ones(2, dtype=x), xp.ones((), dtype=y))
        assert result.dtype == want and result.tolist() == [2, 2]


@pytest.mark.parametrize("name", standard.DTYPES)
@pytest.mark.parametrize("value", [True, 1, 1.0, 1j])
def test_scalars_take_the_arrays_dtype(name, value):
    kind = KIND_OF[name]
    dtype = getattr(xp, name)
    allowed = {bool: "b", int: "iufc", float: "fc", complex: "fc"}[type(value)]
    x = xp.ones(2, dtype=dtype)
    if kind not in allowed:
        with pytest.raises(TypeError):
            xp.equal(x, value)
        with pytest.raises(TypeError):
            xp.result_type(dtype, value)
        return
    want = dtype
    if isinstance(value, complex) and kind == "f":
        want = {xp.float32: xp.complex64, xp.float64: xp.complex128}[dtype]
    assert xp.result_type(dtype, value) == xp.result_type(value, x) == want
    assert xp.where(xp.asarray([True, False]), x, value).dtype == want
    assert xp.equal(value, x).tolist() == [value == 1] * 2
    if kind != "b":
        assert xp.multiply(x, value).dtype == xp.multiply(value, x).dtype == want


def test_scalars_alone_and_out_of_range():
    with pytest.raises(TypeError):
        xp.add(1, 2)
    with pytest.raises(ValueError):
        xp.result_type(1, 2.0)
    with pytest.raises(ValueError, match="out of range"):
        xp.add(xp.ones(2, dtype=xp.uint8), 256)
    with pytest.raises(ValueError, match="out of range"):
        xp.add(xp.ones(2, dtype=xp.uint8), -1)
    assert xp.add(xp.zeros(1, dtype=xp.uint64), 2**64 - 1).tolist() == [2**64 - 1]
    with pytest.raises(TypeError):
        xp.add(xp.ones(2), "1")
    with pytest.raises(TypeError):
        xp.add(xp.ones(2), np.ones(2))


@pytest.mark.parametrize(("a", "b"), list(itertools.product(standard.DTYPES, repeat=2)))
def test_astype(a, b):
    x = xp.asarray([0, 1], dtype=getattr(xp, a))
    to = getattr(xp, b)
    if KIND_OF[a] == "c" and KIND_OF[b] not in "cb":
        with pytest.raises(TypeError, match="imaginary"):
            xp.astype(x, to)
        return
    y = xp.astype(x, to)
    assert y.dtype == to and y.tolist() == [0, 1] and y is not x
    if a == b:
        assert y.data_ptr() != x.data_ptr()
        assert xp.astype(x, to, copy=False) is x
    assert xp.astype(x, to, device=x.device).device == x.device


def test_astype_of_nonzero_to_bool():
    assert xp.astype(xp.asarray([0.0, 0.5, xp.nan]), xp.bool).tolist() == [False, True, True]
    assert xp.astype(xp.asarray([0j, 1j]), xp.bool).tolist() == [False, True]


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_finfo(name):
    real = {"complex64": "float32", "complex128": "float64"}.get(name, name)
    want = np.finfo(real)
    for arg in (getattr(xp, name), xp.ones(1, dtype=getattr(xp, name))):
        found = xp.finfo(arg)
        assert found.dtype == getattr(xp, real)
        assert (found.bits, found.eps, found.max, found.min) == (want.bits, want.eps, want.max, want.min)
        assert found.smallest_normal == want.smallest_normal
        assert all(type(v) is float for v in (found.eps, found.max, found.min, found.smallest_normal))


@pytest.mark.parametrize("name", [n for n in standard.DTYPES if KIND_OF[n] in "iu"])
def test_iinfo(name):
    want = np.iinfo(name)
    for arg in (getattr(xp, name), xp.ones(1, dtype=getattr(xp, name))):
        found = xp.iinfo(arg)
        assert (found.bits, found.max, found.min, found.dtype) == (want.bits, want.max, want.min, getattr(xp, name))


def test_limits_of_the_wrong_kind():
    for bad in (xp.int32, xp.bool):
        with pytest.raises(TypeError):
            xp.finfo(bad)
    for bad in (xp.float32, xp.bool, xp.complex64):
        with pytest.raises(TypeError):
            xp.iinfo(bad)
    with pytest.raises(TypeError):
        xp.finfo("float32")


KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


@pytest.mark.parametrize("name", standard.DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_isdtype(name, kind):
    dtype = getattr(xp, name)
    want = KIND_OF[name] in KINDS[kind]
    assert xp.isdtype(dtype, kind) is want
    assert xp.isdtype(dtype, (kind, dtype)) is True
    assert xp.isdtype(dtype, ()) is False
    assert xp.isdtype(dtype, dtype) is True


def test_isdtype_errors():
    with pytest.raises(ValueError, match="unknown kind"):
        xp.isdtype(xp.float32, "floating")
    with pytest.raises(TypeError):
        xp.isdtype("float32", "bool")
    with pytest.raises(TypeError):
        xp.isdtype(xp.float32, 3)


def test_half_precision_is_an_extension():
    assert xp.isdtype(fb.float16, "real floating") and xp.isdtype(fb.bfloat16, "numeric")
    assert xp.result_type(fb.float16, xp.float32) == xp.float32
    assert xp.result_type(fb.float16, fb.bfloat16) == xp.float32
    assert xp.result_type(fb.bfloat16, 1j) == xp.complex64
    assert xp.add(xp.ones(2, dtype=fb.bfloat16), 1.0).dtype == fb.bfloat16


def test_inspection():
    info = xp.__array_namespace_info__()
    assert set(info.dtypes()) == set(standard.DTYPES)
    for name, dtype in info.dtypes().items():
        assert dtype is getattr(xp, name)
    for kind, letters in KINDS.items():
        assert set(info.dtypes(kind=kind)) == {n for n in standard.DTYPES if KIND_OF[n] in letters}
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}
    assert info.dtypes(kind=()) == {}
    with pytest.raises(ValueError, match="unknown kind"):
        info.dtypes(kind="float")
    assert info.default_dtypes() == {
        "real floating": xp.float32,
        "complex floating": xp.complex64,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert isinstance(info.devices(), tuple) and info.default_device() in info.devices()
    for device in info.devices():
        assert xp.zeros(2, device=device).device == device
        assert info.default_dtypes(device=device) == info.default_dtypes()
        assert info.dtypes(device=device) == info.dtypes()
    capabilities = info.capabilities()
    assert capabilities["boolean indexing"] and capabilities["data-dependent shapes"]


def test_max_dimensions_is_true():
    most = xp.__array_namespace_info__().capabilities()["max dimensions"]
    assert xp.zeros((1,) * most).ndim == most
    with pytest.raises((ValueError, RuntimeError)):
        xp.zeros((1,) * (most + 1))


def test_default_dtype_is_followed():
    fb.set_default_dtype(xp.float64)
    try:
        assert xp.ones(1).dtype == xp.asarray(1.5).dtype == xp.linspace(0, 1, 3).dtype == xp.float64
        assert xp.full(1, 1j).dtype == xp.complex128
        assert xp.__array_namespace_info__().default_dtypes()["complex floating"] == xp.complex128
    finally:
        fb.set_default_dtype(xp.float32)
