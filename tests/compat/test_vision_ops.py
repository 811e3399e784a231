"""What torchvision compiles for PyTorch, written here: boxes, regions, deformable convolution."""

import numpy as np
import pytest

import flambeau as fb
from flambeau.compat import library, vision_ops


@pytest.fixture
def ramp():
    """Features whose two channels are their own coordinates (y, x), so that bilinear samples are exact."""
    y, x = fb.meshgrid(fb.arange(8, dtype=fb.float64), fb.arange(10, dtype=fb.float64), indexing="ij")
    return fb.stack([y, x])[None].clone().requires_grad_()


def test_nms_keeps_the_best_of_overlapping_boxes():
    boxes = fb.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [0, 0, 5, 10], [20, 20, 30, 30], [20, 20, 30, 30]])
    assert vision_ops.nms(boxes, fb.tensor([0.3, 0.9, 0.5, 0.2, 0.2]), 0.5).tolist() == [1, 2, 3]
    assert vision_ops.nms(boxes, fb.tensor([0.3, 0.9, 0.5, 0.2, 0.1]), 0.1).tolist() == [1, 3]
    assert vision_ops.nms(fb.zeros(0, 4), fb.zeros(0), 0.5).tolist() == []
    with pytest.raises(ValueError, match=r"nms: expected boxes \(n, 4\)"):
        vision_ops.nms(fb.zeros(2, 3), fb.zeros(2), 0.5)


@pytest.mark.parametrize("ratio", [2, 0])
def test_roi_align_reads_bilinearly(ramp, ratio):
    rois = fb.tensor([[0.0, 2.0, 4.0, 14.0, 10.0], [0.0, 0.0, 0.0, 4.0, 4.0]], dtype=fb.float64)
    out = vision_ops.roi_align(ramp, rois, 0.5, 3, 2, ratio, True)
    # Region (1..7, 2..5) of the features less half a pixel: bins of 1 x 3.
    assert out[0, 0].tolist() == [[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]] and out[0, 1, 0].tolist() == [2.0, 5.0]
    out.sum().backward()
    assert ramp.grad.sum().item() == pytest.approx(2 * 2 * 3 * 2)
    small = ramp[:, :1, :6, :8].detach().requires_grad_()
    assert fb.autograd.gradcheck(lambda x: vision_ops.roi_align(x, rois, 0.5, 2, 2, ratio, False), small)


def test_roi_align_of_no_regions(ramp):
    out = vision_ops.roi_align(ramp, fb.zeros(0, 5, dtype=fb.float64), 1.0, 2, 2, 2, False)
    assert tuple(out.shape) == (0, 2, 2, 2)


def test_roi_pool_takes_maxima(ramp):
    rois = fb.tensor([[0.0, 1.0, 1.0, 4.0, 4.0], [0.0, 50.0, 50.0, 60.0, 60.0]], dtype=fb.float64)
    out, where = vision_ops.roi_pool(ramp, rois, 1.0, 2, 2)
    assert out[0, 1].tolist() == [[2.0, 4.0], [2.0, 4.0]] and where[0, 1].tolist() == [[12, 14], [32, 34]]
    assert out[1].abs().sum().item() == 0 and (where[1] == -1).all()
    out.sum().backward()
    assert ramp.grad.sum().item() == 8


def test_deform_conv2d_without_offsets_is_a_convolution():
    rng = np.random.default_rng(0)
    x, w, b = (fb.from_numpy(rng.standard_normal(s)) for s in ((2, 4, 6, 7), (6, 2, 3, 3), (6,)))
    offset, mask = fb.zeros(2, 2 * 2 * 9, 3, 4, dtype=fb.float64), fb.ones(2, 2 * 9, 3, 4, dtype=fb.float64)
    out = vision_ops.deform_conv2d(x, w, offset, mask, b, 2, 2, 1, 1, 1, 1, 2, 2, True)
    assert fb.allclose(out, fb.nn.functional.conv2d(x, w, b, stride=2, padding=1, groups=2))
    # Moving every tap one row down reads the image shifted by one row.
    offset[:, 0::2] = 1
    out = vision_ops.deform_conv2d(x, w, offset, mask, b, 2, 2, 1, 1, 1, 1, 2, 2, False)
    expected = fb.nn.functional.conv2d(fb.nn.functional.pad(x, (1, 1, 0, 2)), w, b, stride=2, groups=2)[:, :, :3]
    assert fb.allclose(out, expected)


def test_loading_the_library_registers_them():
    library.ops.load_library("/somewhere/torchvision/_C.so")
    ops = library.ops.torchvision
    assert ops._cuda_version() == -1
    assert ops.nms.default(fb.tensor([[0.0, 0, 1, 1]]), fb.ones(1), 0.5).tolist() == [0]
    library.register_autograd("torchvision::roi_align", lambda ctx, grad: None)  # the op differentiates itself
    x = fb.ones(1, 1, 4, 4, requires_grad=True)
    ops.roi_align(x, fb.tensor([[0.0, 0, 0, 4, 4]]), 1.0, 1, 1, 2, True).sum().backward()
    assert x.grad.sum().item() == pytest.approx(1)
    with pytest.raises(RuntimeError, match="torchvision::ps_roi_pool: no kernel"):
        ops.ps_roi_pool(x)
