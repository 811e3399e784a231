"""The arrows of ARCHITECTURE.md: an include or import may only point down."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What each layer of csrc may include.
BELOW = {
    "base": {"base"},
    "memory": {"base", "memory"},
    "tensor": {"base", "memory", "tensor"},
    "autograd": {"base", "memory", "tensor", "autograd"},
    "backend": {"base", "memory", "tensor", "backend"},
    "ops": {"base", "memory", "tensor", "autograd", "backend", "ops"},
    "bindings": {"base", "memory", "tensor", "autograd", "backend", "ops", "bindings"},
}


def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(encoding="utf-8"), re.M)


def sources():
    return [p for p in (ROOT / "csrc").rglob("*") if p.suffix in (".h", ".cpp", ".def")]


def test_there_are_sources():
    assert len(sources()) > 20


def test_includes_point_down():
    wrong = []
    for path in sources():
        layer = path.relative_to(ROOT / "csrc").parts[0]
        for name in includes(path):
            target = name.split("/")[0]
            if "/" in name and target in BELOW and target not in BELOW[layer]:  # <memory> is the standard library's
                wrong.append(f"{path.relative_to(ROOT)} includes {name}: {layer} may not know {target}")
    assert not wrong, "\n".join(wrong)


def test_python_only_in_bindings():
    wrong = [
        str(p.relative_to(ROOT))
        for p in sources()
        if "Python.h" in includes(p) and p.relative_to(ROOT / "csrc").parts[0] != "bindings"
    ]
    assert not wrong, f"Python.h outside csrc/bindings: {wrong}"


def test_calls_into_python_do_not_unpack_tuples():
    """A format of one "O" spreads a tuple over the arguments; PyObject_CallOneArg passes it on."""
    wrong = [str(p) for p in (ROOT / "csrc").rglob("*.cpp") if re.search(r'Call(Method|Function)\([^;]*, "O"', p.read_text())]
    assert not wrong, f"a call with the format \"O\" unpacks a tuple; use PyObject_CallOneArg: {wrong}"


def test_python_ops_use_only_the_public_api():
    wrong = []
    for path in (ROOT / "src/flambeau/_ops").glob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.match(r"\s*(from|import)\s+flambeau\._C\b", line):
                wrong.append(f"{path.name}: {line.strip()}")
    assert not wrong, "\n".join(wrong)
