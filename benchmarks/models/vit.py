"""ViT-S/16: Dosovitskiy et al., "An image is worth 16 × 16 words" (2020), in the small form: width 384, 6 heads."""

from __future__ import annotations

from typing import Any

from models.images import ITEMS as ITEMS
from models.images import batch as batch
from models.images import items as items
from models.images import loss as loss

TITLE = "ViT-S/16"
FULL = {"images": 8, "side": 224, "classes": 1000, "width": 384, "heads": 6, "blocks": 12}
SMALL = {"images": 2, "side": 64, "classes": 10, "width": 48, "heads": 3, "blocks": 2}
PATCH = 16


def build(lib: Any, images: int, side: int, classes: int, width: int, heads: int, blocks: int) -> Any:
    nn = lib.nn

    class Net(nn.Module):
        """Patches and a class token through encoder layers that normalize first; the class token decides."""

        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, PATCH, stride=PATCH)
            self.token = nn.Parameter(lib.zeros(1, 1, width))
            self.places = nn.Parameter(lib.zeros(1, (side // PATCH) ** 2 + 1, width))
            self.layers = nn.Sequential(
                *[
                    nn.TransformerEncoderLayer(
                        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
                    )
                    for _ in range(blocks)
                ]
            )
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = lib.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
            return self.head(self.norm(self.layers(x))[:, 0])

    return Net()


def optimiser(lib: Any, net: Any) -> Any:
    return lib.optim.AdamW(net.parameters(), lr=3e-4)
