"""How fast single ops are on tensors of a useful size, against PyTorch and NumPy.

    python benchmarks/ops.py [--quick] [--only PATTERN] [--torch-python PATH] [--write] [--plot FILE]

A row's statement is the same text for every library with PyTorch's names; NumPy has its own where the names differ.
"""

from __future__ import annotations

import sys

from compare import main
from harness.report import geomean, ratios
from harness.rows import SAME, Budget, Suite, integers, mask, normal, permutation, positive_definite, uniform
from rows import nn as nn_rows

suite = Suite("ops", __file__, "Ops: speed of single operations")
N = 1024  # a square of N × N float32 is 4 MiB: beyond the second-level cache, far below memory limits
BF16, F64 = "bfloat16", "float64"
square, other = normal(N, N), normal(N, N)
positive = uniform(0.5, 2, N, N)

contiguous = suite.group("pointwise, contiguous")
contiguous("a + b", "a + b", SAME, a=square, b=other)
contiguous("a + b, 64 K elements", "a + b", SAME, a=normal(65536), b=normal(65536))
contiguous("a * 2.0", "a * 2.0", SAME, a=square)
contiguous("a.mul_(1.0)", "a.mul_(1.0)", "a *= 1.0; a", a=square)
contiguous("add(a, b, out=c)", "lib.add(a, b, out=c)", SAME, a=square, b=other, c=other)
contiguous("a / b", "a / b", SAME, a=square, b=positive)
contiguous("clamp(a, min=0)", "lib.clamp(a, min=0)", "lib.maximum(a, 0)", a=square)
contiguous("a > b", "a > b", SAME, a=square, b=other)
contiguous("where(m, a, b)", "lib.where(m, a, b)", SAME, m=mask(0.5, N, N), a=square, b=other)
contiguous("exp", "lib.exp(a)", SAME, a=square)
contiguous("log", "lib.log(a)", SAME, a=positive)
contiguous("sqrt", "lib.sqrt(a)", SAME, a=positive)
contiguous("sin", "lib.sin(a)", SAME, a=square)
contiguous("tanh", "lib.tanh(a)", SAME, a=square)
contiguous("sigmoid", "lib.sigmoid(a)", "1 / (1 + lib.exp(-a))", a=square)
contiguous("erf", "lib.erf(a)", a=square)
contiguous("pow(a, 2.5)", "lib.pow(a, 2.5)", SAME, a=positive)
contiguous("addcmul(a, b, c)", "lib.addcmul(a, b, c)", "a + b * c", a=square, b=other, c=positive)
contiguous("exp, float64", "lib.exp(a)", SAME, a=normal(N, N, dtype=F64))
contiguous("a + b, int64", "a + b", SAME, a=integers(0, 1000, N, N), b=integers(0, 1000, N, N))
contiguous("a // b, int64", "a // b", SAME, a=integers(0, 10**6, N, N), b=integers(1, 1000, N, N))
contiguous("a * b, bfloat16", "a * b", a=normal(N, N, dtype=BF16), b=normal(N, N, dtype=BF16))
contiguous("exp, bfloat16", "lib.exp(a)", a=normal(N, N, dtype=BF16))
contiguous("a * b, complex64", "a * b", SAME, a=normal(N, N, dtype="complex64"), b=normal(N, N, dtype="complex64"))

layouts = suite.group("pointwise, other layouts")
layouts("a[:, ::2] + b[:, ::2]", "a[:, ::2] + b[:, ::2]", SAME, a=normal(N, 2 * N), b=normal(N, 2 * N))
layouts("a[::2] * b[::2]", "a[::2] * b[::2]", SAME, a=normal(2 * N, N), b=normal(2 * N, N))
layouts("a.t() + b.t()", "a.T + b.T", SAME, a=square, b=other)
layouts("a + b.t()", "a + b.T", SAME, a=square, b=other)
layouts("exp(a.t())", "lib.exp(a.T)", SAME, a=square)
layouts("a + row", "a + r", SAME, a=square, r=normal(N))
layouts("a * column", "a * c", SAME, a=square, c=normal(N, 1))
layouts("row - column", "r - c", SAME, r=normal(N), c=normal(N, 1))
layouts("middle axis broadcast", "a + b", SAME, a=normal(64, 128, 128), b=normal(64, 1, 128))
turned = ("a = a.transpose(2, 0, 1)", "a * 3.0")
layouts("permuted 3-d * scalar", "a * 3.0", turned, setup="a = a.permute(2, 0, 1)", a=normal(64, 128, 128))
layouts("float32 + int64", "a + b", a=square, b=integers(0, 9, N, N))
layouts("float32 + float64", "a + b", SAME, a=square, b=normal(N, N, dtype=F64))
layouts("column slice a[:, :512].add_(1)", "a[:, :512].add_(1)", "a[:, :512] += 1; a[:, :512]", a=square)

cube = normal(128, 64, 128)
reductions = suite.group("reductions")
reductions("sum, all", "a.sum()", SAME, a=square)
reductions("sum, first axis", "a.sum(0)", SAME, a=square)
reductions("sum, last axis", "a.sum(1)", SAME, a=square)
reductions("sum, middle axis", "a.sum(1)", SAME, a=cube)
reductions("sum, first and last axis", "a.sum((0, 2))", SAME, a=cube)
reductions("sum, short last axis", "a.sum(1)", SAME, a=normal(N * 128, 8))
reductions("sum, transposed", "a.T.sum(1)", SAME, a=square)
reductions("mean, last axis", "a.mean(1)", SAME, a=square)
reductions("max, all", "a.max()", SAME, a=square)
reductions("amax, first axis", "lib.amax(a, 0)", SAME, a=square)
reductions("amin, last axis", "lib.amin(a, 1)", SAME, a=square)
reductions("max with indices, middle axis", "a.max(1)", a=cube)
reductions("argmax, all", "a.argmax()", SAME, a=square)
reductions("argmax, last axis", "a.argmax(1)", SAME, a=square)
reductions("argmax, first axis", "a.argmax(0)", SAME, a=square)
reductions("var, first axis", "a.var(0)", "a.var(0, ddof=1)", a=square)
reductions("std, all", "a.std()", "a.std(ddof=1)", a=square)
reductions("vector_norm", "lib.linalg.vector_norm(a)", SAME, a=square)
reductions("logsumexp, last axis", "lib.logsumexp(a, 1)", a=square)
reductions("prod, all, float64", "a.prod()", SAME, a=uniform(0.999, 1.001, N, N, dtype=F64))
reductions("sum, all, float64", "a.sum()", SAME, a=normal(N, N, dtype=F64))
reductions("sum, first axis, int64", "a.sum(0)", SAME, a=integers(0, 9, N, N))
reductions("sum, last axis, bfloat16", "a.sum(1)", a=uniform(0, 1, N, N, dtype=BF16))
reductions("any, last axis, bool", "a.any(1)", SAME, a=mask(0.001, N, N))
reductions("count_nonzero", "lib.count_nonzero(a)", a=mask(0.5, N, N))

chains = suite.group("chains")
chains(
    "softmax by hand, last axis",
    "e = (a - a.amax(1, True)).exp(); e / e.sum(1, True)",
    "e = lib.exp(a - a.max(1, keepdims=True)); e / e.sum(1, keepdims=True)",
    a=square,
)
chains(
    "softmax by hand, first axis",
    "e = (a - a.amax(0, True)).exp(); e / e.sum(0, True)",
    "e = lib.exp(a - a.max(0, keepdims=True)); e / e.sum(0, keepdims=True)",
    a=square,
)
chains(
    "layer norm by hand",
    "d = a - a.mean(1, True); d / ((d * d).mean(1, True) + 1e-5).sqrt() * w + c",
    "d = a - a.mean(1, keepdims=True); d / lib.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + c",
    a=square,
    w=normal(N),
    c=normal(N),
)
chains("standardise columns", "(a - a.mean(0)) / a.std(0)", "(a - a.mean(0)) / a.std(0, ddof=1)", a=square)
chains("gelu by hand", "0.5 * a * (1 + lib.tanh(0.79788 * (a + 0.044715 * a * a * a)))", SAME, a=square)
chains("logistic loss", "(lib.log1p(lib.exp(-abs(a))) + lib.clamp(a, min=0) - a * b).mean()", a=square, b=other)
chains(
    "pairwise distances",
    "((x[:, None, :] - y[None, :, :]) ** 2).sum(2).sqrt()",
    "lib.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(2))",
    x=normal(256, 16),
    y=normal(256, 16),
)

order = suite.group("sort, search, scan")
order("sort, 1-d, 256 K", "lib.sort(a)", SAME, a=normal(262144))
order("sort, last axis", "lib.sort(a, 1)", SAME, a=normal(512, 512))
order("sort, first axis", "lib.sort(a, 0)", SAME, a=normal(512, 512))
order("argsort, int64", "lib.argsort(a)", SAME, check=False, a=integers(0, 10**9, 131072))
order("topk 10 of 1000", "lib.topk(a, 10)", a=normal(512, 1000))
order("topk 100 of 1 M", "lib.topk(a, 100)", a=normal(N * N))
order("median, last axis", "lib.median(a, 1)", a=normal(512, 511))
order("unique, int64", "lib.unique(a)", SAME, a=integers(0, 1000, 262144))
order("searchsorted", "lib.searchsorted(s, a)", SAME, setup="s = lib.arange(0.0, 1.0, 1e-4)", a=uniform(0, 1, 131072))
order("bincount", "lib.bincount(a)", SAME, a=integers(0, 1000, N * N))
order("cumsum, last axis", "lib.cumsum(a, 1)", SAME, a=square)
order("cumsum, first axis", "lib.cumsum(a, 0)", SAME, a=square)
order("cumsum, 1-d, int64", "lib.cumsum(a, 0)", SAME, a=integers(0, 9, N * N))
order("nonzero", "lib.nonzero(m)", "lib.argwhere(m)", m=mask(0.1, N, N))

indexing = suite.group("indexing")
rows_, columns = integers(0, N, 2048), integers(0, N, 512)
indexing("gather, last axis", "lib.gather(a, 1, i)", "lib.take_along_axis(a, i, 1)", a=square, i=integers(0, N, N, N))
indexing("gather, first axis", "lib.gather(a, 0, i)", "lib.take_along_axis(a, i, 0)", a=square, i=integers(0, N, N, N))
indexing("index_select, rows", "lib.index_select(a, 0, i)", "lib.take(a, i, 0)", a=square, i=rows_)
indexing("index_select, columns", "lib.index_select(a, 1, i)", "lib.take(a, i, 1)", a=square, i=columns)
indexing("a[i], rows of 64", "a[i]", SAME, a=normal(10000, 64), i=integers(0, 10000, 20000))
indexing("a[i, j]", "a[i, j]", SAME, a=square, i=integers(0, N, 262144), j=integers(0, N, 262144))
indexing("take", "lib.take(a, i)", SAME, a=square, i=integers(0, N * N, 262144))
indexing("a[m], boolean mask", "a[m]", SAME, a=square, m=mask(0.5, N, N))
indexing("a[m] = 0.0", "a[m] = 0.0; a", SAME, a=square, m=mask(0.5, N, N))
indexing("a[i] = b", "a[i] = b; a", SAME, a=normal(10000, 64), b=normal(10000, 64), i=permutation(10000))
indexing("masked_fill", "a.masked_fill(m, 0.0)", "lib.where(m, lib.float32(0), a)", a=square, m=mask(0.5, N, N))
indexing("masked_select", "lib.masked_select(a, m)", "a[m]", a=square, m=mask(0.1, N, N))
indexing("scatter_add, last axis", "a.scatter_add(1, i, b)", a=square, b=other, i=integers(0, N, N, N))
indexing("index_add, rows", "a.index_add(0, i, b)", a=square, b=normal(2048, N), i=rows_)

movement = suite.group("copies, joins, casts")
movement("clone", "a.clone()", "a.copy()", a=square)
movement("transpose-copy", "a.T.contiguous()", "lib.ascontiguousarray(a.T)", a=square)
movement("transpose-copy, 8-byte", "a.T.contiguous()", "lib.ascontiguousarray(a.T)", a=normal(N, N, dtype=F64))
movement(
    "permute-copy, images to channels last",
    "a.permute(0, 2, 3, 1).contiguous()",
    "lib.ascontiguousarray(a.transpose(0, 2, 3, 1))",
    a=normal(16, 32, 48, 48),
)
movement("copy of a[:, ::2]", "a[:, ::2].contiguous()", "a[:, ::2].copy()", a=normal(N, 2 * N))
movement("cat, first axis", "lib.cat((a, b))", "lib.concatenate((a, b))", a=square, b=other)
movement("cat, last axis", "lib.cat((a, b), 1)", "lib.concatenate((a, b), 1)", a=square, b=other)
movement("stack, last axis", "lib.stack((a, b), -1)", "lib.stack((a, b), -1)", a=square, b=other)
movement("flip, last axis", "lib.flip(a, (1,))", "lib.flip(a, (1,)).copy()", a=square)
movement("roll", "lib.roll(a, 100, 1)", SAME, a=square)
movement("tile, 4 times", "a.repeat(4, 1)", "lib.tile(a, (4, 1))", a=normal(512, 512))
movement("tril", "lib.tril(a)", SAME, a=square)
movement("zeros", "lib.zeros(1024, 1024)", "lib.zeros((1024, 1024), 'float32')")
movement("full", "lib.full((1024, 1024), 3.0)", "lib.full((1024, 1024), 3.0, 'float32')")
movement("arange, int64", "lib.arange(1048576)", SAME)
movement("float32 to float64", "a.to(lib.float64)", "a.astype('float64')", a=square)
movement("float32 to bfloat16", "a.to(lib.bfloat16)", a=square)
movement("bfloat16 to float32", "a.to(lib.float32)", a=normal(N, N, dtype=BF16))
movement("float32 to float16", "a.to(lib.float16)", "a.astype('float16')", a=square)
movement("int64 to float32", "a.to(lib.float32)", "a.astype('float32')", a=integers(0, 999, N, N))
movement("float32 to int32", "a.to(lib.int32)", "a.astype('int32')", a=square)
movement("uint8 to float32", "a.to(lib.float32)", "a.astype('float32')", a=integers(0, 255, N, N, dtype="uint8"))

random = suite.group("random")
generator = "g = lib.random.default_rng(0)"
random("rand", "lib.rand(1024, 1024)", (generator, "g.random((1024, 1024), 'float32')"), check=False)
random("randn", "lib.randn(1024, 1024)", (generator, "g.standard_normal((1024, 1024), 'float32')"), check=False)
random("randint", "lib.randint(0, 1000, (1024, 1024))", (generator, "g.integers(0, 1000, (1024, 1024))"), check=False)
random("randperm", "lib.randperm(262144)", (generator, "g.permutation(262144)"), check=False)
random("bernoulli", "lib.bernoulli(p)", check=False, p=uniform(0, 1, N, N))
random("a.uniform_()", "a.uniform_()", (generator, "g.random(out=a, dtype='float32')"), check=False, a=square)

matmul = suite.group("matmul")
for size in (16, 64, 128, 256, 512, 1024):
    matmul(f"square {size}", "a @ b", SAME, a=normal(size, size), b=normal(size, size))
matmul("square 512, float64", "a @ b", SAME, a=normal(512, 512, dtype=F64), b=normal(512, 512, dtype=F64))
matmul("square 512, bfloat16", "a @ b", a=normal(512, 512, dtype=BF16), b=normal(512, 512, dtype=BF16))
matmul("square 128, int64", "a @ b", SAME, a=integers(0, 9, 128, 128), b=integers(0, 9, 128, 128))
matmul("transposed a.t() @ b, 512", "a.T @ b", SAME, a=normal(512, 512), b=normal(512, 512))
matmul("transposed a @ b.t(), 512", "a @ b.T", SAME, a=normal(512, 512), b=normal(512, 512))
matmul("skinny 8192×32 @ 32×32", "a @ b", SAME, a=normal(8192, 32), b=normal(32, 32))
matmul("skinny 32×4096 @ 4096×32", "a @ b", SAME, a=normal(32, 4096), b=normal(4096, 32))
matmul("skinny 1024×16 @ 16×1024", "a @ b", SAME, a=normal(1024, 16), b=normal(16, 1024))
matmul("one row 1×1024 @ 1024×1024", "a @ b", SAME, a=normal(1, 1024), b=square)
matmul("matrix @ vector 1024", "a @ v", SAME, a=square, v=normal(1024))
matmul("batched 64 of 64×64", "a @ b", SAME, a=normal(64, 64, 64), b=normal(64, 64, 64))
matmul("batched 1000 of 8×8", "a @ b", SAME, a=normal(1000, 8, 8), b=normal(1000, 8, 8))
matmul("batched 16 of 128×64 @ (128×64).T", "q @ k.mT", SAME, q=normal(16, 128, 64), k=normal(16, 128, 64))
matmul("addmm 256", "lib.addmm(c, a, b)", "a @ b + c", a=normal(256, 256), b=normal(256, 256), c=normal(256))
matmul("outer 1024", "lib.outer(u, v)", SAME, u=normal(1024), v=normal(1024))
matmul("dot 1 M", "lib.dot(u, v)", SAME, u=normal(N * N), v=normal(N * N))

einsum = suite.group("einsum")
einsum("bij,bjk->bik", "lib.einsum('bij,bjk->bik', a, b)", SAME, a=normal(32, 64, 64), b=normal(32, 64, 64))
einsum(
    "attention bqhd,bkhd->bhqk",
    "lib.einsum('bqhd,bkhd->bhqk', q, k)",
    SAME,
    q=normal(4, 128, 8, 32),
    k=normal(4, 128, 8, 32),
)
einsum("row products ij,ij->i", "lib.einsum('ij,ij->i', a, b)", SAME, a=square, b=other)
einsum("three ij,jk,kl->il", "lib.einsum('ij,jk,kl->il', a, a, v)", a=normal(256, 256), v=normal(256, 8))

linalg = suite.group("linear algebra")
linalg("cholesky 512", "lib.linalg.cholesky(a)", SAME, a=positive_definite(512, 512))
linalg("solve 256, one right side", "lib.linalg.solve(a, b)", SAME, a=positive_definite(256, 256), b=normal(256, 1))
linalg("solve 512, 64 right sides", "lib.linalg.solve(a, b)", SAME, a=positive_definite(512, 512), b=normal(512, 64))
linalg("inv 256", "lib.linalg.inv(a)", SAME, a=positive_definite(256, 256))
linalg("det 256", "lib.linalg.det(a)", SAME, a=positive_definite(256, 256))
linalg("svd 128", "lib.linalg.svd(a)[1]", SAME, a=normal(128, 128))
linalg("singular values 128", "lib.linalg.svdvals(a)", SAME, a=normal(128, 128))
linalg("qr 256×128", "lib.linalg.qr(a)[1]", SAME, a=normal(256, 128))
linalg("eigh 128", "lib.linalg.eigh(a)[0]", SAME, a=positive_definite(128, 128))
linalg("cholesky, 1000 of 8×8", "lib.linalg.cholesky(a)", SAME, a=positive_definite(1000, 8, 8))
linalg("solve, 1000 of 8×8", "lib.linalg.solve(a, b)", SAME, a=positive_definite(1000, 8, 8), b=normal(1000, 8, 1))
linalg("cholesky 256, float64", "lib.linalg.cholesky(a)", SAME, a=positive_definite(256, 256, dtype=F64))


def mean(group=None):
    return lambda results: geomean(ratios(results, group=group))


def worst(group=None):
    return lambda results: min(ratios(results, group=group), default=None)


suite.budgets = [
    Budget("geometric mean of all rows", mean(), at_least=1.5),
    Budget("worst row", worst(), at_least=0.8),
    Budget("geometric mean of matmul", mean("matmul"), at_least=1.1),
    Budget("worst matmul", worst("matmul"), at_least=0.9),
]
nn_rows.add(suite)

if __name__ == "__main__":
    sys.exit(main(suite))
