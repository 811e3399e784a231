"""Models where most of them run: low precision, few rows, and what training in it costs, against PyTorch.

    python benchmarks/inference.py [--quick] [--best] [--only PATTERN] [--torch-python PATH] [--write]

`linear` has rows for several numbers of inputs and shapes of weights; the row of one input is also compared with how
fast this machine reads memory. Rows of training steps come in float32 and under autocast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from compare import main
from harness.report import Result, geomean, ratios
from harness.rows import Budget, Suite, normal

suite = Suite(
    "inference",
    __file__,
    "Inference: low precision and few rows",
    target_seconds=0.02,
    libs=("flambeau", "torch"),
    rounds=3,
    slow=0.5,
    patience=600,
)
ROWS = (1, 8, 64, 256)
WEIGHTS = ((1024, 1024), (4096, 4096), (4096, 11008))  # inputs, outputs
READ = 4096 * 11008  # elements of bfloat16 that the largest weight has

for dtype in ("bfloat16", "float16", "float32"):
    linear = suite.group(f"linear, {dtype}")
    for k, n in WEIGHTS:
        for m in ROWS:
            linear(
                f"{m} × {k} → {n}", "F.linear(x, w, b)", setup="F = lib.nn.functional",
                x=normal(m, k, dtype=dtype), w=normal(n, k, dtype=dtype), b=normal(n, dtype=dtype),
            )  # fmt: skip

memory = suite.group("reading memory")
memory(f"sum of {READ // 2:,} float32", "lib.sum(x)", setup=f"x = lib.ones({READ // 2})")

products = suite.group("products, bfloat16")
for name, left, right in (
    ("square 1024", (1024, 1024), (1024, 1024)),
    ("batched 96 of 128×64 @ 64×128", (96, 128, 64), (96, 64, 128)),
    ("long sums 256×8192 @ 8192×256", (256, 8192), (8192, 256)),
):
    products(name, "a @ b", a=normal(*left, dtype="bfloat16"), b=normal(*right, dtype="bfloat16"))

attention = suite.group("attention, bfloat16")
for name, query, keys in (
    ("8 × 12 heads, 256 queries, causal", (8, 12, 256, 64), (8, 12, 256, 64)),
    ("1 × 32 heads, 1 query, 2048 keys", (1, 32, 1, 128), (1, 32, 2048, 128)),
):
    attention(
        name, f"F.scaled_dot_product_attention(q, k, v, is_causal={'causal' in name})", setup="F = lib.nn.functional",
        q=normal(*query, dtype="bfloat16"), k=normal(*keys, dtype="bfloat16"), v=normal(*keys, dtype="bfloat16"),
    )  # fmt: skip

NETWORKS = {"gpt": "GPT-2 small", "vit": "ViT-S/16", "resnet": "ResNet-50"}
training = suite.group("training step")
for name, text in NETWORKS.items():
    for kind in ("float32", "bfloat16"):
        setup = f"from models.training import Training; task = Training(lib, {name!r}, autocast={kind == 'bfloat16'})"
        training(f"{text}, {kind}", "task.step()", setup=setup, check=False)


def figure(results: list[Result], group: str, name: str) -> float | None:
    """Our time of a row."""
    return next((r.figure("flambeau") for r in results if (r.group, r.name) == (group, name)), None)


def linear_rows(value: Callable[[list[float]], float | None]) -> Callable[[list[Result]], float | None]:
    return lambda results: value(ratios(results, group="linear, bfloat16"))


def bandwidth(results: list[Result]) -> float | None:
    """How fast `linear` of one input reads its weight, as a share of how fast a sum reads memory."""
    ours = figure(results, "linear, bfloat16", f"1 × {WEIGHTS[-1][0]} → {WEIGHTS[-1][1]}")
    sums = next((r.figure("flambeau") for r in results if r.group == "reading memory"), None)
    return None if ours is None or sums is None else sums / ours


def gained(text: str) -> Callable[[list[Result]], float | None]:
    """How many times faster our training step is under autocast than in float32."""

    def share(results: list[Result]) -> float | None:
        wide, low = (figure(results, "training step", f"{text}, {kind}") for kind in ("float32", "bfloat16"))
        return None if wide is None or low is None else wide / low

    return share


def against_torch(text: str) -> Callable[[list[Result]], float | None]:
    return lambda results: next((r.ratio() for r in results if r.name == f"{text}, bfloat16"), None)


suite.budgets = [
    Budget("linear in bfloat16, geometric mean", linear_rows(lambda found: geomean(found)), at_least=1.5),
    Budget("linear in bfloat16, worst row", linear_rows(lambda found: min(found, default=None)), at_least=1.0),
    Budget("one row: share of the speed at which a sum reads memory", bandwidth, at_least=0.8),
    *(Budget(f"{text}: training under autocast against our float32", gained(text), at_least=1.3) for text in NETWORKS.values()),
    *(Budget(f"{text}: training under autocast against PyTorch's", against_torch(text), at_least=1.5) for text in NETWORKS.values()),
]  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(suite))
