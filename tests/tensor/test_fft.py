"""flambeau.fft against NumPy's transforms and a direct sum, with PyTorch's arguments, promotion and errors."""

import inspect
import itertools

import numpy as np
import pytest

import flambeau as fb

LINES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
GRIDS = ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"]
PLANES = ["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"]
NORMS = [None, "backward", "ortho", "forward"]
TAKES_REAL = ("rfft", "ihfft")
GIVES_REAL = ("irfft", "hfft")


def data(shape, complex_values, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    x = x + 1j * rng.standard_normal(shape) if complex_values else x
    return x.astype(np.result_type(dtype, np.complex64) if complex_values else dtype)


def wants_complex(name):
    return not name.startswith(TAKES_REAL)


def close(found, want, rtol=1e-10):
    assert tuple(found.shape) == want.shape
    np.testing.assert_allclose(found.numpy(), want, rtol=rtol, atol=rtol * max(1.0, np.abs(want).max(initial=0.0)))


def direct(x, dims, sign, norm):
    """The definition: one matrix of roots of unity per dimension."""
    for dim in dims:
        n = x.shape[dim]
        roots = np.exp(sign * 2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
        scale = {"ortho": n**-0.5, "forward": 1 / n if sign < 0 else 1.0}.get(norm, 1.0 if sign < 0 else 1 / n)
        x = np.moveaxis(np.moveaxis(x, dim, -1) @ (roots * scale), -1, dim)
    return x


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [1, 2, 5, 16, 97])
def test_definition(n, norm):
    x = data((3, n), True)
    close(fb.fft.fft(fb.from_numpy(x), norm=norm), direct(x, [1], -1, norm))
    close(fb.fft.ifft(fb.from_numpy(x), norm=norm), direct(x, [1], 1, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("n", [None, 1, 4, 5, 9])
@pytest.mark.parametrize("name", LINES)
def test_lines(name, n, dim, norm):
    x = data((6, 5), wants_complex(name))
    close(getattr(fb.fft, name)(fb.from_numpy(x), n, dim, norm), getattr(np.fft, name)(x, n, dim, norm))


def grid_reference(name, x, s, dims, norm):
    """hfftn and ihfftn have no NumPy counterpart: a line transform along the last dim, full ones along the others."""
    if name == "hfftn":
        rest = np.fft.fftn(x, s[:-1], dims[:-1], norm) if len(dims) > 1 else x
        return np.fft.hfft(rest, s[-1], dims[-1], norm)
    if name == "ihfftn":
        last = np.fft.ihfft(x, s[-1], dims[-1], norm)
        return np.fft.ifftn(last, s[:-1], dims[:-1], norm) if len(dims) > 1 else last
    return getattr(np.fft, name)(x, s, dims, norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("s", "dim"), [((3, 4, 5), (0, 1, 2)), ((2, 6), (0, 2)), ((6, 2), (2, 0)), ((4,), (1,))])
@pytest.mark.parametrize("name", GRIDS)
def test_grids(name, s, dim, norm):
    x = data((3, 4, 5), wants_complex(name))
    close(getattr(fb.fft, name)(fb.from_numpy(x), s, dim, norm), grid_reference(name, x, s, dim, norm))


@pytest.mark.parametrize("name", GRIDS)
def test_defaults_of_s_and_dim(name):
    x = data((3, 4, 5), wants_complex(name))
    t, function = fb.from_numpy(x), getattr(fb.fft, name)
    last = 8 if name.startswith(GIVES_REAL) else 5
    close(function(t), grid_reference(name, x, (3, 4, last), (0, 1, 2), None))
    close(function(t, s=(6, 7)), grid_reference(name, x, (6, 7), (1, 2), None))
    close(function(t, s=(-1, 7)), grid_reference(name, x, (4, 7), (1, 2), None))
    close(function(t, s=(3, -1), dim=(0, 2)), grid_reference(name, x, (3, last), (0, 2), None))
    close(function(t, s=7), grid_reference(name, x, (7,), (2,), None))
    close(function(t, dim=1), grid_reference(name, x, (6 if name.startswith(GIVES_REAL) else 4,), (1,), None))


@pytest.mark.parametrize("name", PLANES)
def test_planes_are_grids_over_the_last_two(name):
    x = fb.from_numpy(data((3, 4, 5), wants_complex(name)))
    grid = getattr(fb.fft, name.replace("2", "n"))
    for args in ({}, {"s": (6, 6)}, {"norm": "ortho"}):
        assert fb.equal(getattr(fb.fft, name)(x, **args), grid(x, **{"dim": (-2, -1), **args}))
    assert fb.equal(getattr(fb.fft, name)(x, dim=(0, 1)), grid(x, dim=(0, 1)))


@pytest.mark.parametrize("name", LINES + GRIDS + PLANES)
def test_there_and_back(name):
    inverse = {"r": "ir", "h": "ih", "f": "if"}
    other = name[1:] if name.startswith("i") else inverse[name[0]] + name[1:]
    if name.startswith(GIVES_REAL):
        other = name[1:] if name.startswith("i") else "i" + name
    x = fb.from_numpy(data((4, 6), wants_complex(name) and not name.startswith(GIVES_REAL)))
    if name.startswith(GIVES_REAL):
        spectrum = getattr(fb.fft, other)(x)
        close(getattr(fb.fft, name)(spectrum), x.numpy())
    else:
        close(getattr(fb.fft, other)(getattr(fb.fft, name)(x)), x.numpy())


@pytest.mark.parametrize("name", LINES + GRIDS + PLANES)
def test_dtypes(name):
    function = getattr(fb.fft, name)
    real_out = name.startswith(GIVES_REAL)
    pairs = {fb.float32: fb.complex64, fb.float64: fb.complex128}
    for real, cplx in pairs.items():
        assert function(fb.ones((4, 4), dtype=real)).dtype == (real if real_out else cplx)
        if wants_complex(name):
            assert function(fb.ones((4, 4), dtype=cplx)).dtype == (real if real_out else cplx)
    for whole in (fb.bool, fb.uint8, fb.uint64, fb.int8, fb.int64):
        found = function(fb.ones((4, 4), dtype=whole))
        assert found.dtype == (fb.float32 if real_out else fb.complex64)
        assert fb.equal(found, function(fb.ones((4, 4))))
    fb.set_default_dtype(fb.float64)
    assert function(fb.ones((4, 4), dtype=fb.int32)).dtype == (fb.float64 if real_out else fb.complex128)
    for half in (fb.float16, fb.bfloat16):
        with pytest.raises(fb.errors.DTypeError, match=name):
            function(fb.ones((4, 4), dtype=half))
    if not wants_complex(name):
        with pytest.raises(fb.errors.DTypeError, match="real"):
            function(fb.ones((4, 4), dtype=fb.complex64))


@pytest.mark.parametrize("name", LINES + GRIDS + PLANES)
def test_strided_input_and_fresh_output(name):
    x = data((6, 8), wants_complex(name))
    t, function = fb.from_numpy(x), getattr(fb.fft, name)
    for view in ((slice(None, None, 2), slice(None)), (slice(None, None, -1), slice(1, None, 3))):
        assert fb.equal(function(t[view]), function(fb.from_numpy(x[view].copy())))
    assert fb.equal(function(t.T), function(fb.from_numpy(x.T.copy())))
    before = x.copy()
    found = function(t)
    found.zero_()
    assert (x == before).all()


@pytest.mark.parametrize("name", LINES + GRIDS + PLANES)
def test_out(name):
    function = getattr(fb.fft, name)
    x = fb.from_numpy(data((4, 4), wants_complex(name), "float32"))
    want = function(x)
    out = fb.empty(want.shape, dtype=want.dtype)
    assert function(x, out=out) is out and fb.equal(out, want)
    empty = fb.empty((0,), dtype=want.dtype)
    assert function(x, out=empty) is empty and fb.equal(empty, want)
    wide = fb.empty(want.shape, dtype=fb.float64 if name.startswith(GIVES_REAL) else fb.complex128)
    assert fb.equal(function(x, out=wide), want.to(wide.dtype))
    with pytest.raises(fb.errors.DTypeError, match="out"):
        function(x, out=fb.empty(want.shape, dtype=fb.complex64 if name.startswith(GIVES_REAL) else fb.float32))
    with pytest.warns(UserWarning, match="was resized"):
        assert fb.equal(function(x, out=fb.empty((7,), dtype=want.dtype)), want)
    with pytest.raises(TypeError, match="out"):
        function(x, out=np.empty(1))


@pytest.mark.parametrize("name", LINES)
def test_empty_batches(name):
    for shape, dim in (((0, 5), -1), ((5, 0), 0), ((2, 0, 4), 2)):
        x = data(shape, wants_complex(name))
        close(getattr(fb.fft, name)(fb.from_numpy(x), dim=dim), getattr(np.fft, name)(x, axis=dim))


def test_no_dims_is_a_complex_copy():
    for found in (fb.fft.fftn(fb.tensor(2.0)), fb.fft.ifftn(fb.tensor(2.0), dim=()), fb.fft.fftn(fb.tensor(2.0), s=())):
        assert found.dtype == fb.complex64 and found.item() == 2
    for name in ("rfftn", "irfftn", "hfftn", "ihfftn"):
        with pytest.raises(fb.errors.ArgumentError, match="at least one dim"):
            getattr(fb.fft, name)(fb.ones(3), dim=())


@pytest.mark.parametrize("name", LINES)
def test_line_errors(name):
    function, x = getattr(fb.fft, name), fb.ones((4, 4))
    for n in (0, -1, -(2**40)):
        with pytest.raises(fb.errors.ArgumentError, match=f"{name}: Invalid number of data points"):
            function(x, n=n)
    for dim in (2, -3):
        with pytest.raises(fb.errors.OutOfRangeError, match=f"{name}: Dimension out of range .*got {dim}"):
            function(x, dim=dim)
    with pytest.raises(fb.errors.OutOfRangeError, match=name):
        function(fb.tensor(1.0))
    with pytest.raises(fb.errors.ArgumentError, match=name):
        function(fb.ones((4, 0)))
    for bad in ({"n": 2.0}, {"n": True}, {"n": "2"}, {"dim": None}, {"dim": 0.5}, {"dim": (0, 1)}, {"norm": 1}):
        with pytest.raises(TypeError, match=name):
            function(x, **bad)
    with pytest.raises(TypeError, match="input must be a Tensor"):
        function([1.0, 2.0])


@pytest.mark.parametrize("name", LINES + GRIDS + PLANES)
def test_unknown_norm(name):
    for norm in ("", "Backward", "none"):
        with pytest.raises(fb.errors.ArgumentError, match="unknown norm"):
            getattr(fb.fft, name)(fb.ones((4, 4)), norm=norm)


@pytest.mark.parametrize("name", GRIDS + PLANES)
def test_grid_errors(name):
    function, x = getattr(fb.fft, name), fb.ones((4, 4))
    for bad in (
        {"dim": (0, 0)}, {"dim": (0, -2)}, {"s": (2, 2), "dim": (0,)}, {"s": (2, 2, 2), "dim": (0, 1)}, {"s": (0, 2)},
        {"s": (-2, 2)},
    ):  # fmt: skip
        with pytest.raises(fb.errors.ArgumentError, match=name):
            function(x, **bad)
    for bad in ({"dim": (0, 2)}, {"dim": (-3, 1)}):
        with pytest.raises(fb.errors.OutOfRangeError, match=name):
            function(x, **bad)
    for bad in ({"s": (2.0, 2)}, {"dim": (0.0, 1)}, {"s": "22"}, {"norm": 2}):
        with pytest.raises(TypeError, match=name):
            function(x, **bad)
    with pytest.raises(TypeError, match="input must be a Tensor"):
        function(np.ones((4, 4)))
    if name in PLANES:
        with pytest.raises(TypeError, match="dim"):
            function(x, dim=None)
        with pytest.raises(fb.errors.OutOfRangeError):
            function(fb.ones(4))
    else:
        with pytest.raises(fb.errors.ArgumentError, match=f"{name}: Got shape with 3 values"):
            function(x, s=(2, 2, 2))


def test_impossible_length():
    for n in (2**45, 2**62, 2**63, 2**80):
        with pytest.raises(fb.errors.OutOfMemoryError, match="fft"):
            fb.fft.fft(fb.ones(2), n=n)
        with pytest.raises(fb.errors.OutOfMemoryError, match="irfftn"):
            fb.fft.irfftn(fb.ones(2, 2), s=(n, 2))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("d", [1.0, 0.25, 3])
def test_frequencies(n, d):
    if n:
        close(fb.fft.fftfreq(n, d, dtype=fb.float64), np.fft.fftfreq(n, d))
        close(fb.fft.rfftfreq(n, d, dtype=fb.float64), np.fft.rfftfreq(n, d))
    assert fb.fft.fftfreq(n).shape == (n,) and fb.fft.rfftfreq(n).shape == (n // 2 + 1,)
    assert fb.fft.fftfreq(n, device="cpu").dtype == fb.float32


def test_frequencies_dtype_out_and_errors():
    assert fb.fft.fftfreq(3, dtype=fb.float16).dtype == fb.float16
    assert fb.fft.fftfreq(3, dtype=fb.complex64).dtype == fb.complex64
    out = fb.empty(3)
    assert fb.fft.rfftfreq(5, out=out) is out and out.tolist() == fb.fft.rfftfreq(5).tolist()
    for function in (fb.fft.fftfreq, fb.fft.rfftfreq):
        with pytest.raises(fb.errors.ArgumentError, match="negative"):
            function(-1)
        with pytest.raises(fb.errors.DTypeError):
            function(3, dtype=fb.int64)
        for bad in ((3.0,), ("3",), (3, 1j), (3, "1")):
            with pytest.raises(TypeError):
                function(*bad)
        with pytest.raises(TypeError):
            function(3, dtype="float32")


@pytest.mark.parametrize("shape", [(5,), (6,), (2, 3), (3, 4, 5), (0, 3), ()])
def test_shifts(shape):
    x = np.arange(int(np.prod(shape))).reshape(shape)
    dims = [None, ()] + [d for r in range(1, len(shape) + 1) for d in itertools.combinations(range(len(shape)), r)]
    for dim in dims + list(range(len(shape))):
        for name in ("fftshift", "ifftshift"):
            found = getattr(fb.fft, name)(fb.from_numpy(x), dim)
            # NumPy's own shifts fail on zero-dimensional arrays
            want = getattr(np.fft, name)(x, dim) if shape else x
            assert found.tolist() == want.tolist()
        assert fb.equal(fb.fft.ifftshift(fb.fft.fftshift(fb.from_numpy(x), dim), dim), fb.from_numpy(x))


def test_shift_errors():
    for function in (fb.fft.fftshift, fb.fft.ifftshift):
        with pytest.raises(fb.errors.OutOfRangeError):
            function(fb.ones(3), dim=1)
        with pytest.raises(TypeError):
            function(fb.ones(3), dim=0.0)
        with pytest.raises(TypeError):
            function([1.0])


def test_names_and_documentation():
    assert set(fb.fft.__all__) == {*LINES, *GRIDS, *PLANES, "fftfreq", "rfftfreq", "fftshift", "ifftshift"}
    for name in fb.fft.__all__:
        assert "Example:" in getattr(fb.fft, name).__doc__
    for names, args in (
        (LINES, ["input", "n", "dim", "norm", "out"]),
        (GRIDS + PLANES, ["input", "s", "dim", "norm", "out"]),
        (["fftshift", "ifftshift"], ["input", "dim"]),
    ):
        for name in names:
            assert list(inspect.signature(getattr(fb.fft, name)).parameters) == args
