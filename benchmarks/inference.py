"""Models where most of them run: low precision, few rows, and what training in it costs, against PyTorch.

    python benchmarks/inference.py [--quick] [--best] [--only PATTERN] [--torch-python PATH] [--write]

`linear` has rows for several numbers of inputs and shapes of weights; the row of one input is also compared with how
fast this machine reads memory. Rows of training steps come in float32 and under autocast. Rows of decoding, of embedding
and of a cold start need transformers, here and where PyTorch is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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

FORMS = {"float32": ("float32", None), "bfloat16": ("bfloat16", None), "int8": ("float32", "int8"), "int4": ("float32", "int4")}
for size in ("100 M", "400 M"):
    decoding = suite.group(f"decoding 16 tokens, Llama of {size}")
    for batch in (1, 8):
        for form, (dtype, stored) in FORMS.items():
            setup = f"from models.packaged import Decoding; task = Decoding(lib, {size!r}, {dtype!r}, {batch}, {stored!r})"
            decoding(f"batch {batch}, {form}", "task.run()", setup=setup, check=False, skip=("torch",) if stored else ())
embedding = suite.group("embedding, BERT of MiniLM's size")
for rows, length in ((1, 16), (1, 128), (16, 128)):
    setup = f"from models.packaged import Embedding; task = Embedding(lib, {rows}, {length})"
    embedding(f"{rows} × {length}", "task.run()", setup=setup)

COLD = ("cold start", "import, 400 MB of weights, first token")


def cold_start(options, seats) -> tuple[list[Result], list[str]]:
    """A process that imports, opens a folder with 400 MB of float32 weights and generates one token."""
    if not options.only.search("/".join(COLD)):
        return [], []
    result = Result(COLD[0], COLD[1], best=options.best)
    script = Path(__file__).with_name("models") / "packaged.py"
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(1 + options.rounds):  # the first one writes the folder or warms the system's file cache
            for seat in seats:
                if seat.module not in ("flambeau", "torch") or seat.name in result.errors:
                    continue
                start = time.perf_counter()
                command = [seat.python, str(script), seat.module, folder]
                done = subprocess.run(command, capture_output=True, text=True, env=seat.environment())
                if done.returncode:
                    result.errors[seat.name] = done.stderr.strip().splitlines()[-1][:300]
                elif turn:
                    result.rounds.setdefault(seat.name, []).append(time.perf_counter() - start)
    return [result], []


suite.extra = cold_start


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


def decoded(size: str, batch: int, form: str, other: str | None = None) -> Callable[[list[Result]], float | None]:
    """How many times faster a form of weights decodes than PyTorch's, or than another form of ours."""
    group = f"decoding 16 tokens, Llama of {size}"

    def share(results: list[Result]) -> float | None:
        if other is None:
            return next((r.ratio() for r in results if (r.group, r.name) == (group, f"batch {batch}, {form}")), None)
        ours, theirs = (figure(results, group, f"batch {batch}, {name}") for name in (form, other))
        return None if ours is None or theirs is None else theirs / ours

    return share


def least(group: str) -> Callable[[list[Result]], float | None]:
    return lambda results: min(ratios(results, group=group), default=None)


suite.budgets = [
    Budget("linear in bfloat16, geometric mean", linear_rows(lambda found: geomean(found)), at_least=1.5),
    Budget("linear in bfloat16, worst row", linear_rows(lambda found: min(found, default=None)), at_least=1.0),
    Budget("one row: share of the speed at which a sum reads memory", bandwidth, at_least=0.8),
    *(Budget(f"{text}: training under autocast against our float32", gained(text), at_least=1.3) for text in NETWORKS.values()),
    *(Budget(f"{text}: training under autocast against PyTorch's", against_torch(text), at_least=1.5) for text in NETWORKS.values()),
    *(
        Budget(f"decoding, {size}, batch {batch}, {form} against PyTorch", decoded(size, batch, form), at_least=goal)
        for size in ("100 M", "400 M") for batch in (1, 8) for form, goal in (("float32", 1.5), ("bfloat16", 2.0))
    ),
    *(
        Budget(f"decoding, {size}, {form} against our {other}", decoded(size, 1, form, other), at_least=goal)
        for size in ("100 M", "400 M") for form, other, goal in (("int8", "bfloat16", 1.7), ("int4", "int8", 1.3))
    ),
    Budget("embedding against PyTorch, worst row", least("embedding, BERT of MiniLM's size"), at_least=1.5),
    Budget("cold start against PyTorch", least(COLD[0]), at_least=4.0),
]  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(suite))
