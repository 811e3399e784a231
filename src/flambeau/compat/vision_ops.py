"""The ops that torchvision compiles for PyTorch, written with flambeau's: boxes, regions of interest, deformable convolution.

`torch.ops.load_library` registers them when torchvision asks for its library, so that its detection models run. They
are composed of differentiable ops; torchvision's own gradient formulas, which call further compiled ops, are not
needed.

Example:
    >>> from flambeau.compat import vision_ops
    >>> boxes = fb.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]])
    >>> vision_ops.nms(boxes, fb.tensor([0.5, 0.9, 0.1]), 0.5)
    tensor([1, 2])
"""

from __future__ import annotations

import numpy as np

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["deform_conv2d", "nms", "register", "roi_align", "roi_pool"]


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of boxes to keep, best score first: those that no better kept box overlaps by more than the threshold.

    Args:
        dets: boxes (x1, y1, x2, y2), one per row.
        scores: one per box.
        iou_threshold: intersection over union above which the lower score goes.
    """
    if dets.ndim != 2 or dets.shape[1] != 4 or tuple(scores.shape) != (dets.shape[0],):
        raise ArgumentError(f"nms: expected boxes (n, 4) and scores (n), got shapes {tuple(dets.shape)} and {tuple(scores.shape)}")
    order = fb.sort(scores.detach(), stable=True, descending=True)[1]
    x1, y1, x2, y2 = dets.detach()[order].numpy().T
    area = (x2 - x1) * (y2 - y1)
    alive = np.ones(len(area), dtype=bool)
    keep = []
    for i in range(len(area)):
        if not alive[i]:
            continue
        keep.append(i)
        width = np.minimum(x2[i], x2[i + 1 :]) - np.maximum(x1[i], x1[i + 1 :])
        height = np.minimum(y2[i], y2[i + 1 :]) - np.maximum(y1[i], y1[i + 1 :])
        overlap = np.maximum(width, 0) * np.maximum(height, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            alive[i + 1 :] &= ~(overlap / (area[i] + area[i + 1 :] - overlap) > iou_threshold)
    return order[fb.tensor(keep, dtype=fb.int64)]


def _line_samples(start: Tensor, length: Tensor, bins: int, per_bin: int, size: int) -> tuple[Tensor, ...]:
    """Along one axis: low and high neighbour of each sample point, weight of the high one, and 1 where it is inside."""
    steps = (fb.arange(bins * per_bin, dtype=start.dtype) + 0.5) / per_bin
    at = start[:, None] + steps * (length / bins)[:, None]
    inside = ((at >= -1) & (at <= size)).to(at.dtype)
    at = at.clamp(0, size - 1)
    low = at.floor()
    return low.long(), (low + 1).clamp(max=size - 1).long(), at - low, inside


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    """Averages of bilinear samples in a grid of bins over each region.

    Args:
        input: features (N, C, H, W).
        rois: regions (index in the batch, x1, y1, x2, y2), one per row.
        spatial_scale: from the regions' coordinates to the features'.
        pooled_height: rows of bins.
        pooled_width: columns of bins.
        sampling_ratio: points per bin and axis; not positive: as many as the bin is long.
        aligned: coordinates are of pixels' corners, not centers.

    Returns:
        features (regions, C, pooled_height, pooled_width).
    """
    if rois.ndim != 2 or rois.shape[1] != 5 or input.ndim != 4:
        raise ArgumentError(f"roi_align: expected features (N, C, H, W) and regions (K, 5), got {tuple(input.shape)}, {tuple(rois.shape)}")
    batch, channels, height, width = input.shape
    index, corners = rois.detach()[:, 0].long(), rois.detach()[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    x, y, x_end, y_end = corners.unbind(1)
    wide, high = x_end - x, y_end - y
    if not aligned:
        wide, high = wide.clamp(min=1), high.clamp(min=1)
    if sampling_ratio > 0:
        grids = fb.full((len(rois), 2), sampling_ratio, dtype=fb.int64)
    else:
        grids = fb.stack([(high / pooled_height).ceil(), (wide / pooled_width).ceil()], 1).long().clamp(min=1)
    pixels = input.permute(0, 2, 3, 1).reshape(batch * height * width, channels)
    parts, places = [], []
    # regions with equal grids are processed together
    for rows, columns in sorted({tuple(grid) for grid in grids.tolist()}):
        chosen = ((grids[:, 0] == rows) & (grids[:, 1] == columns)).nonzero().flatten()
        top, bottom, down, in_y = _line_samples(y[chosen], high[chosen], pooled_height, rows, height)
        left, right, across, in_x = _line_samples(x[chosen], wide[chosen], pooled_width, columns, width)
        first = (index[chosen] * height)[:, None]
        total = fb.zeros((), dtype=pixels.dtype)
        for line, weight_y in ((top, (1 - down) * in_y), (bottom, down * in_y)):
            for column, weight_x in ((left, (1 - across) * in_x), (right, across * in_x)):
                where = (first + line)[:, :, None] * width + column[:, None, :]
                weight = weight_y[:, :, None] * weight_x[:, None, :]
                total = total + pixels[where] * weight[..., None]
        shape = (len(chosen), pooled_height, rows, pooled_width, columns, channels)
        parts.append(total.reshape(shape).mean((2, 4)).permute(0, 3, 1, 2))
        places.append(chosen)
    if not parts:
        return input.new_zeros(0, channels, pooled_height, pooled_width) + input.sum() * 0
    return fb.cat(parts)[fb.cat(places).argsort()]


def roi_pool(input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int) -> tuple[Tensor, Tensor]:
    """Maxima in a grid of bins over each region, and where in its plane each stands (-1 for empty bins).

    Args:
        input: features (N, C, H, W).
        rois: regions (index in the batch, x1, y1, x2, y2), one per row.
        spatial_scale: from the regions' coordinates to the features'.
        pooled_height: rows of bins.
        pooled_width: columns of bins.
    """
    channels, height, width = input.shape[1:]
    planes = input.detach().numpy()
    where = np.full((len(rois), channels, pooled_height, pooled_width), -1, dtype=np.int64)
    # Corners are rounded half away from zero, as C's round() does.
    scaled = rois.detach().double().numpy()[:, 1:] * spatial_scale
    corners = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64)
    index = rois.detach()[:, 0].long()
    for k, (x1, y1, x2, y2) in enumerate(corners):
        high, wide = max(y2 - y1 + 1, 1) / pooled_height, max(x2 - x1 + 1, 1) / pooled_width
        for i in range(pooled_height):
            top, bottom = (int(np.clip(v + y1, 0, height)) for v in (np.floor(i * high), np.ceil((i + 1) * high)))
            for j in range(pooled_width):
                left, right = (int(np.clip(v + x1, 0, width)) for v in (np.floor(j * wide), np.ceil((j + 1) * wide)))
                if bottom > top and right > left:
                    best = planes[int(index[k]), :, top:bottom, left:right].reshape(channels, -1).argmax(1)
                    where[k, :, i, j] = (top + best // (right - left)) * width + left + best % (right - left)
    at = fb.from_numpy(where)
    flat = input.flatten(2)[index].gather(2, at.clamp(min=0).flatten(2)).reshape(at.shape)
    return fb.where(at >= 0, flat, fb.zeros((), dtype=input.dtype)), at.int()


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int, pad_h: int,
    pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """A convolution whose taps are moved by offsets, read bilinearly, and weighted by a mask.

    Args:
        input: features (N, C, H, W).
        weight: (O, C / groups, rows, columns).
        offset: (N, 2 * offset_groups * rows * columns, H out, W out), (y, x) for each tap.
        mask: (N, offset_groups * rows * columns, H out, W out); read if use_mask.
        bias: (O).
        stride_h: step between outputs; stride_w likewise.
        stride_w: see stride_h.
        pad_h: zeros above and below; pad_w likewise.
        pad_w: see pad_h.
        dilation_h: step between taps; dilation_w likewise.
        dilation_w: see dilation_h.
        groups: of channels that are convolved apart.
        offset_groups: of channels that are moved apart.
        use_mask: whether there is a mask.
    """
    batch, channels, height, width = input.shape
    outputs, _, rows, columns = weight.shape
    taps, (out_h, out_w) = rows * columns, offset.shape[2:]
    move = offset.reshape(batch * offset_groups, taps, 2, out_h, out_w)
    row, column = (grid.reshape(taps, 1, 1) for grid in fb.meshgrid(fb.arange(rows), fb.arange(columns), indexing="ij"))
    y = (fb.arange(out_h) * stride_h - pad_h)[None, :, None] + row * dilation_h + move[:, :, 0]
    x = (fb.arange(out_w) * stride_w - pad_w)[None, None, :] + column * dilation_w + move[:, :, 1]
    grid = fb.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1).reshape(batch * offset_groups, taps * out_h, out_w, 2)
    planes = input.reshape(batch * offset_groups, channels // offset_groups, height, width)
    # Reading outside gives zeros, interpolated next to the border, as for any padded convolution.
    read = fb.nn.functional.grid_sample(planes, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    read = read.reshape(batch, offset_groups, channels // offset_groups, taps, out_h * out_w)
    if use_mask:
        read = read * mask.reshape(batch, offset_groups, 1, taps, out_h * out_w)
    columns_ = read.reshape(batch, groups, channels // groups * taps, out_h * out_w)
    result = weight.reshape(groups, outputs // groups, -1) @ columns_
    return result.reshape(batch, outputs, out_h, out_w) + bias[:, None, None]


def register() -> None:
    """Makes them ops of the namespace torchvision, with those that only compiled code could run as names without a kernel.

    Example:
        >>> from flambeau.compat import library, vision_ops
        >>> vision_ops.register()
        >>> library.ops.torchvision.nms
        <op torchvision::nms>
    """
    from flambeau.compat import library

    for kernel in (nms, roi_align, roi_pool, deform_conv2d):
        library.define(f"torchvision::{kernel.__name__}")
        library.register_kernel(f"torchvision::{kernel.__name__}", "cpu", kernel)
        library._find(f"torchvision::{kernel.__name__}").differentiable = True
    others = ("ps_roi_align", "ps_roi_pool", "qnms", "qroi_align", "box_iou_rotated")
    backwards = (f"_{name}_backward" for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"))
    for name in (*others, *backwards):
        library.define(f"torchvision::{name}")
    library.define("torchvision::_cuda_version")
    library.register_kernel("torchvision::_cuda_version", "cpu", lambda: -1)
