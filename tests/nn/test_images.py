"""Padding, unfolding, interpolation and sampling against NumPy, with gradients."""

from functools import partial

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn

rng = np.random.default_rng(3)


def t(x, grad=False):
    return fb.from_numpy(np.array(x)).requires_grad_(grad)


def close(result, expected, tolerance=1e-9):
    np.testing.assert_allclose(result.detach().double().numpy(), expected, rtol=tolerance, atol=tolerance)


NUMPY_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", NUMPY_MODES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pad(mode, dims):
    x = rng.normal(size=(2, 3, 4, 5, 6)[: dims + 2])
    margins = [(1, 2), (3, 0), (2, 2)][:dims]
    pad = [m for pair in margins for m in pair]
    close(F.pad(t(x), pad, mode), np.pad(x, [(0, 0), (0, 0), *margins[::-1]], mode=NUMPY_MODES[mode]))
    assert fb.autograd.gradcheck(lambda v: F.pad(v, pad, mode), (t(x, True),))


def test_pad_crops_and_refuses():
    x = np.arange(5.0).reshape(1, 1, 5)
    assert F.pad(t(x), (-1, 2), value=9.0).flatten().tolist() == [1, 2, 3, 4, 9, 9]
    assert F.pad(t(x), (-1, 1), "circular").flatten().tolist() == [1, 2, 3, 4, 1]
    assert nn.ConstantPad1d((1, 0), 7.0)(t(x)).flatten().tolist() == [7, 0, 1, 2, 3, 4]
    assert nn.ReflectionPad1d(2)(t(x)).flatten().tolist() == [2, 1, 0, 1, 2, 3, 4, 3, 2]
    for call in (
        lambda: F.pad(t(x), (5, 0), "reflect"),
        lambda: F.pad(t(x), (6, 0), "circular"),
        lambda: F.pad(t(x), (1, 1), "mirror"),
        lambda: F.pad(t(x), (1, 1), "reflect", 3.0),
        lambda: F.pad(t(x), (1,)),
        lambda: F.pad(fb.zeros(2, 0, 3), (1, 1), "replicate"),
        lambda: nn.ReflectionPad2d(1)(fb.zeros(2, 3)),
        lambda: nn.ZeroPad2d((1, 2)),
    ):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize(
    "kernel, dilation, padding, stride", [((2, 3), 1, 0, 1), (2, (1, 2), 1, 2), ((3, 1), 2, (2, 0), (1, 3))]
)
def test_unfold_and_fold(kernel, dilation, padding, stride):
    x = rng.normal(size=(2, 3, 6, 7))
    columns = F.unfold(t(x), kernel, dilation, padding, stride)
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (
        (v, v) if isinstance(v, int) else v for v in (kernel, dilation, padding, stride)
    )
    p = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    rows = range(0, p.shape[2] - dh * (kh - 1), sh)
    cols = range(0, p.shape[3] - dw * (kw - 1), sw)
    blocks = [
        p[:, :, r : r + dh * kh : dh, c : c + dw * kw : dw][:, :, :kh, :kw].reshape(2, -1) for r in rows for c in cols
    ]
    close(columns, np.stack(blocks, 2))
    # folding is the adjoint: <unfold(x), y> = <x, fold(y)>
    y = rng.normal(size=tuple(columns.shape))
    folded = F.fold(t(y), (6, 7), kernel, dilation, padding, stride)
    assert (columns.numpy() * y).sum() == pytest.approx((x * folded.numpy()).sum())
    assert fb.autograd.gradcheck(lambda v: F.unfold(v, kernel, dilation, padding, stride), (t(x[:1, :1], True),))
    assert F.unfold(t(x[0]), kernel, dilation, padding, stride).shape == columns.shape[1:]
    with pytest.raises(ValueError):
        F.fold(t(y), (6, 20), kernel, dilation, padding, stride)


def test_unfold_errors():
    for call in (
        lambda: F.unfold(fb.zeros(1, 1, 2, 2), 3),
        lambda: F.unfold(fb.zeros(2, 2), 1),
        lambda: F.unfold(fb.zeros(1, 1, 4, 4), 2, stride=0),
        lambda: F.fold(fb.zeros(1, 3, 4), (3, 3), 2),
    ):
        with pytest.raises(ValueError):
            call()


# ---- interpolation -----------------------------------------------------------------------------------------------------


def positions(n, m, align):
    i = np.arange(m)
    return i * (n - 1) / max(m - 1, 1) if align else (i + 0.5) * n / m - 0.5


def linear(x, m, axis, align):
    n = x.shape[axis]
    at = np.clip(positions(n, m, align), 0, n - 1)
    low = np.floor(at).astype(int)
    shape = [1] * x.ndim
    shape[axis] = m
    part = (at - low).reshape(shape)
    return np.take(x, low, axis) * (1 - part) + np.take(x, np.minimum(low + 1, n - 1), axis) * part


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(
    "mode, size", [("linear", (7,)), ("linear", (2,)), ("bilinear", (3, 9)), ("trilinear", (5, 2, 4))]
)
def test_linear_interpolation(mode, size, align):
    x = rng.normal(size=(2, 3, 4, 5, 3)[: len(size) + 2])
    expected = x
    for d, m in enumerate(size):
        expected = linear(expected, m, d + 2, align)
    close(F.interpolate(t(x), size, mode=mode, align_corners=align), expected)
    assert fb.autograd.gradcheck(
        lambda v: F.interpolate(v, size, mode=mode, align_corners=align), (t(x[:1, :1], True),)
    )


def test_nearest_and_area():
    x = np.arange(5.0).reshape(1, 1, 5)
    assert F.interpolate(t(x), 3).flatten().tolist() == [0, 1, 3]
    assert F.interpolate(t(x), 3, mode="nearest-exact").flatten().tolist() == [0, 2, 4]
    assert F.interpolate(t(x), 2, mode="area").flatten().tolist() == [1, 3]
    assert F.interpolate(t(x), scale_factor=2.4).shape == (1, 1, 12)
    images = fb.arange(16, dtype=fb.uint8).view(1, 1, 4, 4)
    assert F.interpolate(images, 2).flatten().tolist() == [0, 2, 8, 10]
    assert F.interpolate(images, 2, mode="bilinear").dtype == fb.uint8


@pytest.mark.parametrize(
    ("mode", "antialias", "expected"),
    [
        ("bilinear", False, [13, 97, 87, 140, 30, 84, 75, 97, 54, 172, 101, 93]),
        ("bilinear", True, [26, 93, 94, 125, 42, 102, 90, 106, 63, 142, 111, 110]),
        ("bicubic", False, [7, 110, 83, 152, 28, 66, 68, 90, 52, 203, 93, 90]),
        ("bicubic", True, [21, 95, 95, 129, 38, 104, 86, 106, 60, 153, 111, 112]),
    ],
)
def test_pixels_of_bytes_are_rounded_after_each_dimension(mode, antialias, expected):
    image = (fb.arange(36) ** 2 * 7 % 251).to(fb.uint8).view(1, 1, 6, 6)
    assert F.interpolate(image, (3, 4), mode=mode, antialias=antialias).flatten().tolist() == expected


def cubic(d, a):
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def test_bicubic_and_antialias():
    x = rng.normal(size=(1, 1, 6, 5))
    matrices = []
    for n, m in ((6, 9), (5, 3)):
        weights = np.zeros((m, n))
        for i, at in enumerate(positions(n, m, False)):
            for k in range(-1, 3):
                j = int(np.floor(at)) + k
                weights[i, min(max(j, 0), n - 1)] += cubic(at - j, -0.75)
        matrices.append(weights)
    close(F.interpolate(t(x), (9, 3), mode="bicubic"), np.einsum("ih,jw,nchw->ncij", *matrices, x))
    row = rng.normal(size=(1, 1, 1, 8))
    scale = 8 / 3
    weights = np.array([[max(0, 1 - abs(j + 0.5 - (i + 0.5) * scale) / scale) for j in range(8)] for i in range(3)])
    weights /= weights.sum(1, keepdims=True)
    close(F.interpolate(t(row), (1, 3), mode="bilinear", antialias=True), row @ weights.T)
    constant = F.interpolate(fb.ones(1, 1, 9, 9), (4, 5), mode="bicubic", antialias=True)
    close(constant, np.ones((1, 1, 4, 5)), 1e-6)


def test_interpolation_errors():
    x = fb.zeros(1, 1, 4, 4)
    for kwargs in (
        {}, {"size": 2, "scale_factor": 2}, {"size": (2, 2, 2)}, {"size": 0}, {"size": 2, "mode": "linear"}, {"size": 2, "mode": "lanczos"},
        {"size": 2, "align_corners": True}, {"size": 2, "antialias": True}, {"scale_factor": 0.1},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="interpolate"):
            F.interpolate(x, **kwargs)
    assert nn.Upsample(scale_factor=(2, 3))(x).shape == (1, 1, 8, 12)


# ---- grids -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("align", [False, True])
def test_identity_grid_gives_the_image_back(align):
    for shape in ((2, 3, 4, 5), (2, 1, 3, 4, 2)):
        dims = len(shape) - 2
        x = rng.normal(size=shape)
        theta = np.broadcast_to(np.eye(dims, dims + 1), (2, dims, dims + 1))
        grid = F.affine_grid(t(theta), shape, align_corners=align)
        for mode in ("bilinear", "nearest", "bicubic")[: 3 if dims == 2 else 2]:
            for padding in ("zeros", "border", "reflection"):
                close(F.grid_sample(t(x), grid, mode, padding, align), x, 1e-7)


def test_grid_sample_outside():
    x = t(np.array([1.0, 2.0, 3.0]).reshape(1, 1, 1, 3))
    grid = t(np.array([[-1.0, 0], [1.0, 0], [3.0, 0]]).reshape(1, 1, 3, 2))
    assert F.grid_sample(x, grid, align_corners=False).flatten().tolist() == [0.5, 1.5, 0]
    assert F.grid_sample(x, grid, padding_mode="border", align_corners=False).flatten().tolist() == [1, 3, 3]
    assert F.grid_sample(x, grid, padding_mode="reflection", align_corners=True).flatten().tolist() == [1, 3, 1]


def test_grid_sample_nearest_gives_the_grid_a_gradient_of_zero():
    grid = fb.zeros(1, 2, 2, 2, requires_grad=True)
    F.grid_sample(fb.rand(1, 3, 4, 4), grid, mode="nearest", align_corners=False).sum().backward()
    assert grid.grad.shape == grid.shape and not grid.grad.any()


def test_grid_sample_gradients_and_errors():
    x = t(rng.normal(size=(1, 2, 3, 4)), True)
    grid = t(rng.uniform(-1.3, 1.3, (1, 2, 3, 2)), True)
    for mode in ("bilinear", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            assert fb.autograd.gradcheck(
                partial(F.grid_sample, mode=mode, padding_mode=padding, align_corners=False), (x, grid)
            )
    for call in (
        lambda: F.grid_sample(x, grid, "cubic", align_corners=False),
        lambda: F.grid_sample(x, grid, padding_mode="wrap", align_corners=False),
        lambda: F.grid_sample(x, grid.float(), align_corners=False),
        lambda: F.grid_sample(x, grid[..., :1], align_corners=False),
        lambda: F.affine_grid(fb.zeros(1, 3, 3), (1, 1, 2, 2), align_corners=False),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.warns(UserWarning, match="align_corners"):
        F.grid_sample(x, grid)


def test_shuffles():
    x = fb.arange(16).view(1, 4, 2, 2)
    assert F.pixel_shuffle(x, 2)[0, 0, 0].tolist() == [0, 4, 1, 5]
    assert fb.equal(nn.PixelUnshuffle(2)(nn.PixelShuffle(2)(x)), x)
    assert nn.Unflatten(1, (2, 2))(x).shape == (1, 2, 2, 2, 2) and nn.Flatten()(x).shape == (1, 16)
    with pytest.raises(TypeError):
        nn.Unflatten("channels", (2, 2))


# ---- convolution modules -----------------------------------------------------------------------------------------------


def test_convolution_modules():
    m = nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, bias=False)
    assert (
        repr(m)
        == "Conv2d(4, 6, kernel_size=(3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, bias=False)"
    )
    assert m.weight.shape == (6, 2, 3, 2) and m(fb.zeros(1, 4, 7, 8)).shape == (1, 6, 4, 6)
    x = fb.randn(2, 3, 6, 7)
    for mode in ("reflect", "replicate", "circular"):
        m = nn.Conv2d(3, 4, 3, padding=(1, 2), padding_mode=mode)
        close(m(x), F.conv2d(F.pad(x, (2, 2, 1, 1), mode), m.weight, m.bias).detach().numpy(), 1e-5)
    assert nn.Conv1d(3, 4, 4, padding="same", dilation=3)(fb.zeros(2, 3, 9)).shape == (2, 4, 9)
    up = nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1)
    assert up(x).shape == (2, 4, 11, 13) and up(x, output_size=(12, 14)).shape == (2, 4, 12, 14)
    with pytest.raises(ValueError, match="from 11 to 12"):
        up(x, output_size=(14, 14))
    for bad in (
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"),
        lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"),
        lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"),
    ):
        with pytest.raises(ValueError):
            bad()


def test_lazy_convolutions():
    m = nn.LazyConv2d(6, 3, padding=1, groups=3)
    with pytest.raises(ValueError, match="divisible"):
        m(fb.zeros(1, 4, 5, 5))
    m = nn.LazyConv2d(6, 3, padding=1, groups=3)
    assert m(fb.zeros(1, 3, 5, 5)).shape == (1, 6, 5, 5) and type(m) is nn.Conv2d and m.weight.shape == (6, 1, 3, 3)
    up = nn.LazyConvTranspose1d(6, 2, stride=2)
    assert up(fb.zeros(1, 3, 5), output_size=(10,)).shape == (1, 6, 10)


def test_lanczos():
    x = fb.arange(16.0).view(1, 1, 4, 4)
    got = F.interpolate(x, (2, 2), mode="lanczos", antialias=True)
    # As Pillow's Image.LANCZOS and PyTorch 2.13 have it.
    close(got, np.array([[[[2.690632, 4.614423], [10.385577, 12.309368]]]]), 1e-4)
    close(F.interpolate(fb.ones(1, 1, 5, 7), (9, 3), mode="lanczos", antialias=True), np.ones((1, 1, 9, 3)), 1e-6)
    small = F.interpolate(x.to(fb.uint8), (3, 3), mode="lanczos", antialias=True)
    assert small.dtype == fb.uint8 and small.flatten().tolist() == [1, 3, 4, 6, 8, 9, 11, 13, 14]
    with pytest.raises(ValueError, match="Lanczos mode requires antialias=True"):
        F.interpolate(x, (2, 2), mode="lanczos")
    with pytest.raises(ValueError, match="Lanczos mode does not support align_corners=True"):
        F.interpolate(x, (2, 2), mode="lanczos", antialias=True, align_corners=True)
    with pytest.raises(ValueError, match="Anti-alias option is restricted to bilinear, bicubic, and lanczos modes"):
        F.interpolate(x, (2, 2), mode="nearest", antialias=True)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "lanczos"])
def test_interpolate_refuses_integers_but_uint8(mode):
    options = {"mode": mode, "antialias": mode == "lanczos"}
    with pytest.raises(NotImplementedError, match=rf"interpolate: \"upsample_{mode}\" not implemented for 'Long'"):
        F.interpolate(fb.ones(1, 3, 8, 8, dtype=fb.int64), (4, 4), **options)
    assert F.interpolate(fb.ones(1, 3, 8, 8, dtype=fb.uint8), (4, 4), **options).dtype == fb.uint8


def test_interpolate_says_which_rank_a_mode_needs():
    with pytest.raises(ValueError, match="Got 3D input, but lanczos mode needs 4D input"):
        F.interpolate(fb.ones(1, 3, 8), 4, mode="lanczos", antialias=True)


@pytest.mark.parametrize("dtype", [fb.uint8, fb.float32])
@pytest.mark.parametrize("batch", [1, 3])
def test_slices_of_channels_last_images_keep_the_format(dtype, batch):
    x = fb.randint(0, 256, (batch, 3, 20, 24)).to(dtype).contiguous(memory_format=fb.channels_last)
    for part in (x[:, :, 2:-2, 3:-3], x[:, :, ::2, ::2], x):
        for options in ({}, {"antialias": True}):
            small = F.interpolate(part, size=(5, 7), mode="bilinear", **options)
            assert small.is_contiguous(memory_format=fb.channels_last)
            assert small.equal(F.interpolate(part.contiguous(), size=(5, 7), mode="bilinear", **options))
    rows = x.contiguous()[:, :, ::2, ::2]
    assert F.interpolate(rows, size=(5, 7), mode="bilinear").is_contiguous()
    assert F.interpolate(x[:, :1, ::2].contiguous()[:, :, ::2], size=(5, 7), mode="bilinear").is_contiguous()
