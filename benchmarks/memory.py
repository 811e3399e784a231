"""What memory costs: fresh outputs against reused ones, repeated allocation, and the peak of a chain of ops.

    python benchmarks/memory.py [--quick] [--only PATTERN] [--torch-python PATH] [--write]

Needs about 3 GB of free memory.
"""

from __future__ import annotations

import sys

from compare import main
from harness.report import geomean, ratios
from harness.rows import Budget, Suite

suite = Suite("memory", __file__, "Memory: fresh pages, allocation and peaks")

BIG = 50_000_000  # float32 elements: 200 MB
big = f"a = lib.ones({BIG}); b = lib.ones({BIG}); c = lib.empty({BIG})"
big_numpy = f"f = 'float32'; a = lib.ones({BIG}, f); b = lib.ones({BIG}, f); c = lib.empty({BIG}, f)"

fresh = suite.group("elementwise on fresh 200 MB")
fresh("relu as clamp(a, min=0)", "lib.clamp(a, min=0)", (big_numpy, "lib.maximum(a, 0)"), setup=big)
fresh("a + b", "a + b", (big_numpy, "a + b"), setup=big)
fresh("a * 2.0 + b", "a * 2.0 + b", (big_numpy, "a * lib.float32(2) + b"), setup=big)

reused = suite.group("elementwise into a reused 200 MB output")
reused("clamp(a, min=0, out=c)", "lib.clamp(a, min=0, out=c)", (big_numpy, "lib.maximum(a, 0, out=c)"), setup=big)
reused("add(a, b, out=c)", "lib.add(a, b, out=c)", (big_numpy, "lib.add(a, b, out=c)"), setup=big)

allocation = suite.group("allocate and free")
for text, count in (("256 B", 64), ("4 KB", 1024), ("256 KB", 65536), ("4 MB", 1 << 20), ("64 MB", 1 << 24)):
    allocation(f"empty, {text}", f"lib.empty({count})", f"lib.empty({count}, 'float32')", check=False)
for text, count in (("256 KB", 65536), ("4 MB", 1 << 20), ("64 MB", 1 << 24)):
    allocation(f"empty and fill, {text}", f"lib.empty({count}).fill_(1.0)", f"lib.full({count}, 1.0, 'float32')")
allocation(
    "100 tensors of mixed sizes alive at once",
    "kept = [lib.empty(n) for n in sizes]; kept[-1]",
    ("sizes = [1000 * (1 + i * 37 % 100) for i in range(100)]", "kept = [lib.empty(n, 'float32') for n in sizes]"),
    setup="sizes = [1000 * (1 + i * 37 % 100) for i in range(100)]",
    check=False,
)

# Each of these runs once, in a process of its own; a 4096 × 4096 float32 matrix is 67 MB.
peaks = suite.group("peak memory, inputs included", kind="peak")
matrix = "a = lib.ones(4096, 4096); b = lib.ones(4096, 4096)"
matrix_numpy = "a = lib.ones((4096, 4096), 'float32'); b = lib.ones((4096, 4096), 'float32')"
peaks(
    "softmax by hand",
    "e = (a - a.amax(1, True)).exp(); y = e / e.sum(1, True)",
    (matrix_numpy, "e = lib.exp(a - a.max(1, keepdims=True)); y = e / e.sum(1, keepdims=True)"),
    setup=matrix,
)
peaks(
    "20 ops, each result dropped by the next",
    "y = a\nfor i in range(10): y = y * 0.5; y = y + b",
    (matrix_numpy, "y = a\nfor i in range(10): y = y * lib.float32(0.5); y = y + b"),
    setup=matrix,
)
peaks(
    "20 in-place ops",
    "for i in range(10): a.mul_(0.5); a.add_(b)",
    (matrix_numpy, "for i in range(10): a *= lib.float32(0.5); a += b"),
    setup=matrix,
)
peaks("sum of a transposed product", "y = (a.T * b).sum(0)", (matrix_numpy, "y = (a.T * b).sum(0)"), setup=matrix)
peaks("a @ b", "y = a @ b", (matrix_numpy.replace("4096", "2048"), "y = a @ b"), setup=matrix.replace("4096", "2048"))
peaks("float32 + float64", "y = a + b.double()", (matrix_numpy, "y = a + b.astype('float64')"), setup=matrix)


def slowest_share(results):
    """Our time as a share of PyTorch's in the worst of the fresh rows."""
    shares = [1 / ratio for ratio in ratios(results, group="elementwise on fresh 200 MB")]
    return max(shares, default=None)


def peak_share(results):
    mean = geomean(ratios(results, group="peak memory, inputs included"))
    return 1 / mean if mean else None


suite.after = "'\\n'.join(f'{key}: {value}' for key, value in lib.memory_stats().items())"
suite.budgets = [
    Budget("time on fresh 200 MB against PyTorch, worst row", slowest_share, at_most=0.25),
    Budget("peak memory against PyTorch, geometric mean", peak_share, at_most=1.0),
]

if __name__ == "__main__":
    sys.exit(main(suite))
