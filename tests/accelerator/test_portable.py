"""The text of kernels keeps to what OpenCL C 1.2, CUDA C++ and C++ have in common."""

from __future__ import annotations

import re

import pytest

import flambeau as fb

pytestmark = pytest.mark.device("sim")
SIM = fb.device("sim")

# Constructs that one of the dialects lacks. Programs are read as they are before a dialect's head is put in front.
FORBIDDEN = {
    "a C++ keyword": r"\b(template|typename|auto|class|namespace|constexpr|static_cast|decltype|using|nullptr|bool|true|false)\b",
    "a keyword of OpenCL": r"(?<!#)\b(kernel|global|local|constant|half|quad|event_t|sampler_t)\b",
    "a scope": r"\w::\w|std::",
    "a reference": r"\b(?:i8|i16|i32|i64|u8|u16|u32|u64|f32|f64|T|ix|Params)\s*&\s*\w+\s*[,)=]",
    "a type with a size of its own": r"\b(long|double|unsigned|size_t|uint64_t|int64_t|uint32_t|int32_t|float\b(?!_))\b",
    "a vector type": r"\b(?:float|double|int|uint|long|char|half)(?:2|3|4|8|16)\b",
    "a function of one dialect": r"\b(?:__\w+|get_global_id|as_float|threadIdx|native_\w+|half_\w+\((?=float))",
    "a function with a type's letter": r"\b(?:exp|log|sqrt|sin|cos|tanh|fabs|pow|floor|ceil|fmod)f\s*\(",
    "a recursive macro or include": r"#include",
}
# What a division's right side may be: a literal, or a member of g, which the host keeps from zero.
DIVISION = re.compile(r"(?<![/*])[/%]=?\s*(?![/*])(\([^()]*\)|[\w.]+(?:\[[^\]]*\])?)")
SAFE = re.compile(r"^(?:\(T\)|\(f64\))?(?:\d[\w.]*|g\.\w+(?:\[\w+\])?|K)$")
INTEGER_SAFE = {
    "(y == 0 ? (T)1 : y)", "(g == 0 ? 1 : g)", "b", "(g.width + g.width)", "(g.bytes < 1 ? 1 : g.bytes)", "TO_PIXELS", "TO",
    "COUNT", "SIZES", "FROM_PIXELS",
}  # fmt: skip


def sources():
    """Programs of all families, small ones: (text, compute type)."""
    F, nn = fb.nn.functional, fb.nn
    x = fb.randn(4, 6, device=SIM, requires_grad=True)
    image = fb.randn(2, 4, 9, 9, device=SIM, requires_grad=True)
    index = fb.randint(6, (4, 6), device=SIM)
    weight = fb.randn(8, 4, 3, 3, device=SIM, requires_grad=True)
    results = [
        x.exp() + F.gelu(x), x.sum(), x.var(0), x.logsumexp(1), x.amax(1), x.cumsum(1), x.softmax(1), F.layer_norm(x, (6,)),
        F.rms_norm(x, (6,)), x @ x.t(), F.conv2d(image, weight), F.max_pool2d(image, 2), F.avg_pool2d(image, 2),
        F.adaptive_avg_pool2d(image, 3), F.batch_norm(image, None, None, training=True), F.group_norm(image, 2),
        x.gather(1, index), x[fb.tensor([1, 1], device=SIM)], x[x > 0], F.cross_entropy(x, index[:, 0]),
        F.scaled_dot_product_attention(image, image, image), nn.LSTM(6, 3).to(SIM)(x)[0], nn.GRU(6, 3).to(SIM)(x)[0],
        F.dropout(x, 0.5), x.sort().values, x.median(), x.scatter_add(1, index, x),
    ]  # fmt: skip
    sum(r.sum() for r in results).backward()
    ints = fb.arange(1, 13, device=SIM).view(3, 4)
    for dtype in (fb.int64, fb.uint8, fb.float64, fb.bfloat16, fb.float16):
        y = ints.to(dtype)
        y + y, y.sum(), y.max(), y.cumsum(0), y.sort(), y.unique(), y > 3, y.argmax(1)
        if not dtype.is_floating_point:
            y // 3, y % 3, y**2, y << 1, y.gcd(y), y.lcm(y)
        else:
            fb.randn(7, device=SIM, dtype=dtype), fb.rand(7, device=SIM, dtype=dtype)
    (
        fb.randint(9, (5,), device=SIM),
        fb.randperm(5, device=SIM),
        fb.bincount(ints.flatten()),
        fb.tril(ints),
        fb.linspace(0, 1, 5, device=SIM),
    )
    for make in (fb.optim.SGD, fb.optim.Adam, fb.optim.RMSprop, fb.optim.Adagrad):
        p = fb.nn.Parameter(fb.ones(3, device=SIM))
        p.sum().backward()
        make([p], lr=0.1).step()
    fb.accelerator.synchronize(SIM)
    return fb._C.accelerator_sources()


@pytest.fixture(scope="module")
def programs():
    found = sources()
    assert len(found) > 150
    return found


def own(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


@pytest.mark.parametrize("what", list(FORBIDDEN))
def test_programs_keep_to_the_common_subset(programs, what):
    for text in programs:
        found = re.search(FORBIDDEN[what], own(text))
        assert not found, f"{what}: {own(text)[max(0, found.start() - 80) : found.end() + 40]!r}"


def test_programs_of_single_precision_have_no_double_literals(programs):
    single = [t for t in programs if re.search(r"typedef f32 T;", t) and "f64" not in t]
    assert len(single) > 50
    for text in single:
        code = re.sub(r"\bK\([^()]*\)", "K", own(text))
        found = re.search(r"(?<![\w.])(?:\d+\.\d*|\.\d+)(?:e[+-]?\d+)?(?![\w.])", code)
        assert not found, code[max(0, found.start() - 60) : found.end() + 30]


def test_divisions_of_integers_are_guarded(programs):
    """By a number of the launch, which is not zero, a literal, or an expression that excludes it."""
    for text in programs:
        code = re.sub(r"\bDIVIDE\((\w+), ", r"(\1 / ", re.sub(r"#define DIVIDE.*", "", own(text)))
        floating = "typedef f32 T;" in code or "typedef f64 T;" in code
        if floating:
            continue
        for match in DIVISION.finditer(code):
            right = match.group(1)
            if SAFE.match(right) or right in INTEGER_SAFE or right.split("[")[0] in INTEGER_SAFE:
                continue
            raise AssertionError(f"divides by {right!r}: {code[max(0, match.start() - 60) : match.end() + 20]!r}")


def test_programs_do_not_multiply_with_shapes():
    def work(n):
        x = fb.randn(n, 3, device=SIM)
        return ((x @ x.t()).softmax(1).sum(0) + x.var()).sort().values.cumsum(0).max().item()

    for n in (20, 21, 40, 70, 140):  # some sizes have kernels of their own
        work(n)
    before = len(fb._C.accelerator_sources())
    for n in range(50, 150, 3):
        work(n)
    assert len(fb._C.accelerator_sources()) == before
