"""The type stubs: up to date, complete, accepted by a strict type checker, and able to find a wrong call."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import stubgen

import flambeau as fb
from flambeau._registry.signatures import parse_signature

PACKAGE = Path(fb.__file__).parent

GOOD = """
import numpy as np

import flambeau as fb


def standardise(x: fb.Tensor, dim: int = 0) -> fb.Tensor:
    centred = x - x.mean(dim=dim, keepdim=True)
    return centred / centred.std(dim, keepdim=True).clamp(min=1e-6)


x: fb.Tensor = fb.randn(4, 3, dtype=fb.float64, device="cpu")
y = standardise(x) @ fb.eye(3, dtype=x.dtype)
values, indices = y.max(dim=1)
largest: fb.Tensor = y.sort(dim=0).values[-1]
total: float = float(y.sum(axis=0, keepdims=True).sum())
shape: tuple[int, ...] = fb.zeros(2, 3).shape
array = fb.from_numpy(np.ones(3)).numpy()
parts: tuple[fb.Tensor, ...] = fb.split(x, 2)
y[y > 0] = 1.5
y += 2 * x
flag: bool = fb.equal(x, y)
u, s, vh = fb.linalg.svd(x)
fb.add(x, 1, out=y)
x.view(-1).mul_(2).reshape((3, 4)).permute(1, 0)
generator = fb.Generator().manual_seed(0)
fb.rand(3, generator=generator)
fb.cat([x, y], dim=0)
"""

# (statement, what the checker must complain about)
BAD = [
    ("fb.zeros('three')", "zeros"),
    ("fb.ones(3).sum(dims=0)", "sum"),
    ("fb.cat(1)", "cat"),
    ("fb.ones(3).no_such_method()", "no_such_method"),
    ("fb.no_such_function()", "no_such_function"),
    ("n: int = fb.ones(3).mean()", "Incompatible types"),
    ("fb.ones(3) + 'x'", "Unsupported operand"),
    ("fb.ones(3, dtype='float32')", "ones"),
    ("fb.matmul(fb.ones(3))", "matmul"),
]


def check(folder, *files):
    """Runs mypy in strict mode on these files (and silently on their imports); returns its exit code and output."""
    options = [
        "--strict",
        "--follow-imports=silent",
        "--config-file=",
        "--no-error-summary",
        "--cache-dir",
        str(folder),
    ]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
    )
    return result.returncode, result.stdout + result.stderr


@pytest.mark.parametrize("name", sorted(stubgen.generate()))
def test_committed_stub_is_up_to_date(name):
    committed = (PACKAGE / name).read_text()
    assert committed == stubgen.generate()[name], "run make stubs"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Shared by the runs of the checker, which spends most of its time on NumPy's types."""
    return tmp_path_factory.mktemp("mypy")


def test_type_checker_accepts_the_stubs_and_right_code(tmp_path, cache):
    script = tmp_path / "good.py"
    script.write_text(GOOD)
    code, text = check(cache, script, *(PACKAGE / name for name in stubgen.generate()))
    assert code == 0, text


def test_type_checker_finds_wrong_code(tmp_path, cache):
    script = tmp_path / "bad.py"
    script.write_text("import flambeau as fb\n\n" + "\n".join(statement for statement, _ in BAD) + "\n")
    code, text = check(cache, script)
    assert code == 1, text
    for line, (statement, word) in enumerate(BAD, start=3):
        complaints = [row for row in text.splitlines() if f"bad.py:{line}: error" in row]
        assert any(word in row for row in complaints), f"{statement}: expected one about {word}, got {complaints}"


def test_every_public_name_is_typed():
    stub = (PACKAGE / "__init__.pyi").read_text()
    for name in dir(fb):
        if not name.startswith("_"):
            typed = re.search(rf"^(class|def) {name}\b|^{name}:|import .*\b{name}\b", stub, re.MULTILINE)
            assert typed, f"fb.{name} is missing in the stub"


def test_every_member_of_tensor_is_typed():
    stub = (PACKAGE / "__init__.pyi").read_text()
    body = re.search(r"^class Tensor.*?(?=^\S)", stub, re.MULTILINE | re.DOTALL).group()
    for name in dir(fb.Tensor):
        if not name.startswith("_"):
            assert re.search(rf"^    (def {name}\(|{name}:)", body, re.MULTILINE), (
                f"Tensor.{name} is missing in the stub"
            )


@pytest.mark.parametrize(
    "text, expected",
    [
        ("int[]? dim=None", "dim: _int | Sequence[_int] | None = None"),
        ("Tensor[] tensors", "tensors: Sequence[Tensor]"),
        ("Operand other", "other: _Operand"),
        ("str mode='floor, or not'", 'mode: _str = "floor, or not"'),
        ("int[] dims=[-2, -1]", "dims: _int | Sequence[_int] = ..."),
        ("float p=inf", "p: _float = ..."),
        ("Scalar? from", "from_: _Number | None"),
    ],
)
def test_parameter(text, expected):
    (parameter,) = parse_signature(f"op({text}) -> Tensor").parameters
    assert stubgen._parameter(parameter) == expected
