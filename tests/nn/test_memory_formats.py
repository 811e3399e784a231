"""Results of channels-last tensors are channels-last where PyTorch's are, with the values of row-major ones."""

import pytest

import flambeau as fb
from flambeau.nn import functional as F

FORMATS = {4: fb.channels_last, 5: fb.channels_last_3d}


def channels_last(*shape, dtype=fb.float32):
    return fb.randn(*shape, dtype=fb.float64).to(dtype).contiguous(memory_format=FORMATS[len(shape)])


KEEP = {
    "interpolate nearest": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate nearest-exact": lambda x: F.interpolate(x, size=(3, 4), mode="nearest-exact"),
    "interpolate bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "interpolate corners": lambda x: F.interpolate(x, size=(7, 4), mode="bilinear", align_corners=True),
    "interpolate bicubic": lambda x: F.interpolate(x, size=(7, 4), mode="bicubic"),
    "interpolate area": lambda x: F.interpolate(x, size=(7, 4), mode="area"),
    "interpolate antialias": lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
    "pixel_shuffle": lambda x: F.pixel_shuffle(fb.cat([x, x], 1), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "convolution": lambda x: F.conv2d(x, fb.ones(8, 4, 3, 3, dtype=x.dtype), padding=1),
    "convolution of patches": lambda x: F.conv2d(x, fb.ones(8, 4, 2, 2, dtype=x.dtype), stride=2),
    "convolution in groups": lambda x: F.conv2d(x, fb.ones(8, 2, 3, 3, dtype=x.dtype), groups=2),
    "depthwise convolution": lambda x: F.conv2d(x, fb.ones(4, 1, 3, 3, dtype=x.dtype), groups=4, padding=1),
    "convolution by pixels": lambda x: F.conv2d(x, fb.ones(8, 4, 1, 1, dtype=x.dtype)),
    "transposed convolution": lambda x: F.conv_transpose2d(x, fb.ones(4, 8, 3, 3, dtype=x.dtype), stride=2),
    "reflected margins": lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect"),
    "replicated margins": lambda x: F.pad(x, (1, 2, 0, 1), mode="replicate"),
    "expanded first": lambda x: fb.ones(1, 4, 1, 1, dtype=x.dtype).expand(x.shape) * x,
    "row first": lambda x: fb.ones(6, dtype=x.dtype) + x,
    "margins": lambda x: F.pad(x, (1, 2, 0, 1)),
    "roll": lambda x: x.roll((1, 2), (1, 3)),
    "cat": lambda x: fb.cat([x, x], 1),
    "part of the channels": lambda x: x[:, :2] + 1,
    "clone of a part": lambda x: x[:, :, ::2].clone(),
    "zeros_like of a part": lambda x: fb.zeros_like(x[:, :2]),
}


@pytest.mark.parametrize("name", KEEP)
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16])
def test_images_keep_their_format(name, dtype):
    x = channels_last(2, 4, 6, 6, dtype=dtype).requires_grad_()
    rows = x.detach().contiguous().requires_grad_()
    y, expected = KEEP[name](x), KEEP[name](rows)
    assert y.is_contiguous(memory_format=fb.channels_last) and not y.is_contiguous()
    assert expected.is_contiguous()
    fb.testing.assert_close(y, expected, check_stride=False)
    if y.requires_grad:
        weight = fb.randn(y.shape, dtype=fb.float64).to(dtype)
        (y * weight).sum().backward()
        (expected * weight).sum().backward()
        fb.testing.assert_close(x.grad, rows.grad, check_stride=False)


def test_weights_that_are_channels_last_decide_too():
    x, w = fb.randn(2, 4, 6, 6), fb.randn(8, 4, 3, 3)
    for dtype in (fb.float32, fb.float64):
        y = F.conv2d(x.to(dtype), w.to(dtype).contiguous(memory_format=fb.channels_last))
        assert y.is_contiguous(memory_format=fb.channels_last)
        fb.testing.assert_close(y, F.conv2d(x.to(dtype), w.to(dtype)), check_stride=False)
    model = fb.nn.Conv2d(4, 8, 3).to(memory_format=fb.channels_last)
    assert model(x).is_contiguous(memory_format=fb.channels_last)


def test_volumes_keep_their_format():
    x = channels_last(2, 4, 4, 4, 4)
    for y in (
        fb.cat([x, x], 1), F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=2, mode="trilinear"),
        F.conv3d(x, fb.ones(3, 4, 2, 2, 2)), F.conv3d(x.double(), fb.ones(3, 4, 2, 2, 2).double()), x.relu(), x + 1,
        F.pad(x, (1,) * 6), F.pad(x, (1,) * 6, mode="replicate"), F.pad(x, (1,) * 6, mode="reflect"),
    ):  # fmt: skip
        assert y.is_contiguous(memory_format=fb.channels_last_3d) and not y.is_contiguous()
    rows = x.contiguous()
    fb.testing.assert_close(fb.cat([x, x], 1), fb.cat([rows, rows], 1), check_stride=False)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padded_volumes_without_a_batch_keep_their_format(mode):
    x = channels_last(3, 4, 5, 6).requires_grad_()
    y = F.pad(x, (1, 2, 3, 1, 2, 0), mode=mode)
    assert y.is_contiguous(memory_format=fb.channels_last) and not y.is_contiguous()
    rows = x.detach().contiguous().requires_grad_()
    expected = F.pad(rows, (1, 2, 3, 1, 2, 0), mode=mode)
    fb.testing.assert_close(y, expected, check_stride=False)
    weights = fb.randn(expected.shape)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    fb.testing.assert_close(x.grad, rows.grad, check_stride=False)
    with pytest.raises(ValueError, match=r"\(4, 0\) is too large for dimension 1 of size 4"):
        F.pad(x, (0, 0, 0, 0, 4, 0), mode="reflect")


@pytest.mark.parametrize("dtype", [fb.float32, fb.bfloat16])
def test_rms_norm_keeps_the_format(dtype):
    for shape in ((2, 3, 4, 5), (2, 3, 4, 5, 6)):
        x = channels_last(*shape, dtype=dtype).requires_grad_()
        rows = x.detach().contiguous().requires_grad_()
        weight = fb.randn(shape[-1], dtype=dtype)
        y, expected = F.rms_norm(x, shape[-1:], weight), F.rms_norm(rows, shape[-1:], weight)
        assert y.is_contiguous(memory_format=FORMATS[len(shape)]) and not y.is_contiguous() and y.dtype is dtype
        fb.testing.assert_close(y, expected, check_stride=False)
        (gx,), (grows,) = fb.autograd.grad(y, x, fb.ones_like(y)), fb.autograd.grad(expected, rows, fb.ones_like(expected))
        fb.testing.assert_close(gx, grows, check_stride=False, atol=1e-2 if dtype is fb.bfloat16 else 1e-5, rtol=1e-2)


@pytest.mark.parametrize("dim, strides", [
    (0, (288, 144, 1, 24, 4)), (1, (288, 4, 1, 48, 8)), (2, (288, 1, 144, 24, 4)), (3, (288, 1, 48, 24, 4)), (4, (288, 72, 12, 2, 1)),
])  # fmt: skip
def test_stacked_images_stay_what_they_are(dim, strides):
    x, y = channels_last(2, 4, 6, 6), channels_last(2, 4, 6, 6)
    stacked = fb.stack([x, y], dim)
    assert stacked.stride() == strides
    assert fb.equal(stacked, fb.stack([x.contiguous(), y.contiguous()], dim))
    assert fb.stack([x, y.contiguous()], dim).is_contiguous()
    parts = [fb.randn(6, 6, 4).permute(2, 0, 1)] * 2
    assert fb.stack(parts).is_contiguous()


def test_random_numbers_like_others_heed_the_format():
    x = channels_last(2, 4, 6, 6)
    for make in (fb.rand_like, fb.randn_like, lambda x, **options: fb.randint_like(x, 3, **options)):
        assert make(x).stride() == x.stride()
        assert make(x, memory_format=fb.contiguous_format).is_contiguous()
        assert make(x.contiguous(), memory_format=fb.channels_last).is_contiguous(memory_format=fb.channels_last)
