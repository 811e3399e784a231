"""Memory of a process whose shapes never repeat: convolutions, products, attention and pooling, forwards and backwards.

python benchmarks/soak.py [SECONDS]     600 by default

Prints the memory in use over time. Exits with 1 when it still grows in the second half, by a straight line through
the samples.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

import flambeau as fb

F = fb.nn.functional
WARM = 0.4  # part of the time in which caches fill up to their bounds
MOST = 24.0  # MB that the line through the rest may rise: noise of the allocators


def resident() -> float:
    """MB in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def leaf(*shape: int) -> fb.Tensor:
    return fb.randn(*shape, requires_grad=True)


def conv(r: random.Random, spatial: int) -> fb.Tensor:
    groups = r.choice([1, 1, 1, 2])
    inputs, outputs = groups * r.randint(1, 24), groups * r.randint(1, 24)
    kernel = [r.choice([1, 2, 3, 5]) for _ in range(spatial)]
    size = [k + r.randint(0, {1: 200, 2: 32, 3: 10}[spatial]) for k in kernel]
    x, w = leaf(r.randint(1, 4), inputs, *size), leaf(outputs, inputs // groups, *kernel)
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[spatial]
    bias = leaf(outputs) if r.random() < 0.5 else None
    return function(x, w, bias, stride=r.randint(1, 2), padding=r.randint(0, 1), groups=groups)


def transposed(r: random.Random) -> fb.Tensor:
    inputs, outputs = r.randint(1, 20), r.randint(1, 20)
    x, w = leaf(r.randint(1, 3), inputs, r.randint(2, 20), r.randint(2, 20)), leaf(inputs, outputs, 3, 3)
    return F.conv_transpose2d(x, w, stride=r.randint(1, 2))


def product(r: random.Random) -> fb.Tensor:
    m, k, n = (r.randint(1, 200) for _ in range(3))
    return leaf(m, k) @ leaf(k, n)


def attention(r: random.Random) -> fb.Tensor:
    shape = r.randint(1, 3), r.randint(1, 4), r.randint(1, 90), r.randint(1, 40)
    return F.scaled_dot_product_attention(leaf(*shape), leaf(*shape), leaf(*shape), is_causal=r.random() < 0.5)


def pooling(r: random.Random) -> fb.Tensor:
    x = leaf(r.randint(1, 4), r.randint(1, 20), r.randint(4, 40), r.randint(4, 40))
    pool = r.choice([F.max_pool2d, F.avg_pool2d, lambda t, k: F.adaptive_avg_pool2d(t, k)])
    return pool(F.relu(F.batch_norm(x, None, None, training=True)), r.randint(1, 4))


KINDS: list[Callable[[random.Random], fb.Tensor]] = [
    lambda r: conv(r, 1), lambda r: conv(r, 2), lambda r: conv(r, 2), lambda r: conv(r, 3), transposed, product, attention, pooling,
]  # fmt: skip


def rise(samples: list[tuple[float, float]]) -> float:
    """How much the least-squares line through (time, memory) rises from the first sample to the last."""
    n = len(samples)
    mean_t, mean_m = sum(t for t, _ in samples) / n, sum(m for _, m in samples) / n
    spread = sum((t - mean_t) ** 2 for t, _ in samples) or 1.0
    slope = sum((t - mean_t) * (m - mean_m) for t, m in samples) / spread
    return slope * (samples[-1][0] - samples[0][0])


def main(seconds: float) -> int:
    r, steps, start = random.Random(0), 0, time.monotonic()
    samples: list[tuple[float, float]] = []
    print(f"start      {resident():7.1f} MB", flush=True)
    while (now := time.monotonic() - start) < seconds:
        if now >= len(samples) * seconds / 100:
            samples.append((now, resident()))
            if len(samples) % 5 == 1:
                print(f"{now:7.1f} s  {samples[-1][1]:7.1f} MB  {steps} steps", flush=True)
        r.choice(KINDS)(r).sum().backward()
        steps += 1
    samples.append((seconds, resident()))
    late = [s for s in samples if s[0] >= WARM * seconds]
    grown = rise(late)
    print(f"{seconds:7.1f} s  {samples[-1][1]:7.1f} MB  {steps} steps; {grown:+.1f} MB over the last {100 * (1 - WARM):.0f} %")
    print({"reserved": fb.memory_stats()["reserved_bytes"]})
    if grown > MOST:
        print(f"memory is not flat: {grown:.1f} MB is more than {MOST:.0f} MB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0))
