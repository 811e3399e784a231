"""Convolutions as networks have them, each with the gradients of its input and weight, against PyTorch (oneDNN).

    python benchmarks/convolutions.py [--quick] [--best --threads 1] [--only PATTERN] [--torch-python PATH] [--write]

Images are channels-last in both libraries. `--best --threads 1` gives steady ratios on a busy machine.
"""

from __future__ import annotations

import sys

from compare import main
from harness.report import geomean, ratios
from harness.rows import Budget, Suite, normal

suite = Suite("convolutions", __file__, "Convolutions: layers of networks", libs=("flambeau", "torch"))

# group: name, input, weight, further arguments
LAYERS = {
    "first layers": (
        ("ResNet 7×7/2", (2, 3, 224, 224), (64, 3, 7, 7), "stride=2, padding=3"),
        ("AlexNet 11×11/4", (2, 3, 224, 224), (64, 3, 11, 11), "stride=4, padding=2"),
        ("MobileNet 3×3/2", (2, 3, 224, 224), (32, 3, 3, 3), "stride=2, padding=1"),
        ("VGG 3×3", (1, 3, 224, 224), (64, 3, 3, 3), "padding=1"),
        ("digits 5×5", (64, 1, 28, 28), (20, 1, 5, 5), ""),
        ("audio, 10 taps, stride 5", (1, 1, 16000), (512, 1, 10), "stride=5"),
        ("video 3×3×3", (1, 3, 8, 56, 56), (64, 3, 3, 3, 3), "padding=1"),
    ),
    "1×1": (
        ("64 → 256, 56²", (1, 64, 56, 56), (256, 64, 1, 1), ""),
        ("256 → 64, 56²", (1, 256, 56, 56), (64, 256, 1, 1), ""),
        ("1024 → 256, 14²", (2, 1024, 14, 14), (256, 1024, 1, 1), ""),
        ("2048 → 512, 7²", (2, 2048, 7, 7), (512, 2048, 1, 1), ""),
        ("24 → 144, 56²", (2, 24, 56, 56), (144, 24, 1, 1), ""),
        ("160 → 960, 7²", (8, 160, 7, 7), (960, 160, 1, 1), ""),
        ("stride 2, 256 → 512, 56²", (1, 256, 56, 56), (512, 256, 1, 1), "stride=2"),
        ("stride 2, 1024 → 2048, 14²", (2, 1024, 14, 14), (2048, 1024, 1, 1), "stride=2"),
    ),
    "3×3": (
        ("64, 56²", (1, 64, 56, 56), (64, 64, 3, 3), "padding=1"),
        ("256, 14²", (1, 256, 14, 14), (256, 256, 3, 3), "padding=1"),
        ("512, 7²", (1, 512, 7, 7), (512, 512, 3, 3), "padding=1"),
        ("stride 2, 128, 56²", (1, 128, 56, 56), (128, 128, 3, 3), "stride=2, padding=1"),
        ("stride 2, 512, 14²", (1, 512, 14, 14), (512, 512, 3, 3), "stride=2, padding=1"),
        ("dilation 2, 256, 28²", (1, 256, 28, 28), (256, 256, 3, 3), "padding=2, dilation=2"),
        ("dilation 12, 256, 33²", (1, 256, 33, 33), (256, 256, 3, 3), "padding=12, dilation=12"),
    ),
    "groups": (
        ("32 of 4, 56²", (1, 128, 56, 56), (128, 4, 3, 3), "padding=1, groups=32"),
        ("32 of 8, 28²", (2, 256, 28, 28), (256, 8, 3, 3), "padding=1, groups=32"),
        ("32 of 8, stride 2, 56²", (1, 256, 56, 56), (256, 8, 3, 3), "stride=2, padding=1, groups=32"),
        ("32 of 32, 7²", (2, 1024, 7, 7), (1024, 32, 3, 3), "padding=1, groups=32"),
        ("depthwise, 144, 56²", (2, 144, 56, 56), (144, 1, 3, 3), "padding=1, groups=144"),
        ("depthwise, stride 2, 96, 112²", (1, 96, 112, 112), (96, 1, 3, 3), "stride=2, padding=1, groups=96"),
        ("depthwise 7×7, 96, 56²", (1, 96, 56, 56), (96, 1, 7, 7), "padding=3, groups=96"),
        ("depthwise 5×5, 576, 7²", (4, 576, 7, 7), (576, 1, 5, 5), "padding=2, groups=576"),
    ),
    "other windows": (
        ("5×5, 64 → 192, 27²", (1, 64, 27, 27), (192, 64, 5, 5), "padding=2"),
        ("1×7, 192, 17²", (2, 192, 17, 17), (192, 192, 1, 7), "padding=(0, 3)"),
        ("7×1, 192, 17²", (2, 192, 17, 17), (192, 192, 7, 1), "padding=(3, 0)"),
        ("GAN 4×4/2, 128 → 256, 32²", (1, 128, 32, 32), (256, 128, 4, 4), "stride=2, padding=1"),
        ("GAN 4×4/2, 3 → 64, 64²", (4, 3, 64, 64), (64, 3, 4, 4), "stride=2, padding=1"),
        ("64 → 3, 64²", (1, 64, 64, 64), (3, 64, 3, 3), "padding=1"),
        ("1-d, 3 taps, 256", (2, 256, 500), (256, 256, 3), "padding=1"),
        ("1-d, 9 taps, 64", (2, 64, 1000), (64, 64, 9), "padding=4"),
        ("1-d, 3 taps, stride 2, 512", (1, 512, 800), (512, 512, 3), "stride=2"),
        ("3×3×3, 64", (1, 64, 4, 28, 28), (64, 64, 3, 3, 3), "padding=1"),
        ("3×3×3, stride 2, 64 → 128", (1, 64, 8, 28, 28), (128, 64, 3, 3, 3), "stride=2, padding=1"),
    ),
}

LAST = """
F = lib.nn.functional
def last(t):
    order = range(t.dim())
    return t.permute(0, *order[2:], 1).contiguous().permute(0, order[-1], *order[1:-1])
x = last(x)
"""
GRADIENT = """
x.requires_grad_(), w.requires_grad_()
y = {call}
g = last(lib.ones_like(y).contiguous())
"""

for group, layers in LAYERS.items():
    rows = suite.group(group)
    for name, image, weight, more in layers:
        call = f"F.conv{len(image) - 2}d(x, w, {more})"
        inputs = {"x": normal(*image), "w": normal(*weight)}
        rows(name, call, setup=LAST, **inputs)
        for of, leaf in (("input", "x"), ("weight", "w")):
            setup = LAST + GRADIENT.format(call=call)
            rows(f"{name}, gradient of {of}", f"lib.autograd.grad(y, {leaf}, g, retain_graph=True)[0]", setup=setup, **inputs)

suite.budgets = [
    Budget(f"{group}, geometric mean", lambda found, group=group: geomean(ratios(found, group=group)), at_least=1.0)
    for group in LAYERS
]

if __name__ == "__main__":
    sys.exit(main(suite))
