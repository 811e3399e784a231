"""The arrows of ARCHITECTURE.md: an include or import may only point down."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What each layer of csrc may include.
BELOW = {
    "base": {"base"},
    "memory": {"base", "memory"},
    "cluster": {"base", "cluster"},
    "tensor": {"base", "memory", "tensor"},
    "autograd": {"base", "memory", "tensor", "autograd"},
    "device": {"base", "memory", "tensor", "device"},
    "backend": {"base", "memory", "tensor", "device", "backend"},
    "ops": {"base", "memory", "tensor", "autograd", "device", "ops"},
    "bindings": {"base", "memory", "tensor", "autograd", "device", "backend", "ops", "cluster", "bindings"},
}
# Memory is read and written by backends only.
POINTERS = re.compile(r'\.data<|->data<|\braw\(\)|\bcpu::|#include "backend/')


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


def test_ops_do_not_touch_memory():
    """Ops compute through the families of csrc/device; backend/ has the kernels."""
    found = {}
    for path in sources():
        count = len(POINTERS.findall(path.read_text(encoding="utf-8")))
        if path.relative_to(ROOT / "csrc").parts[0] == "ops" and count:
            found[str(path.relative_to(ROOT))] = count
    assert not found, f"uses of memory or of backend/ in ops; use a family of csrc/device: {found}"
    kernels = sum(len(POINTERS.findall(p.read_text(encoding="utf-8"))) for p in (ROOT / "csrc/backend").rglob("*.cpp"))
    assert kernels > 100, "the pattern finds nothing"


# Files that hold gradients beside their ops. csrc/ops/table is the machinery of gradients; other names may only go.
GRADIENTS_ELSEWHERE = {"table/gradient.cpp", "table/views.cpp", "pointwise/activation.cpp"}


def test_gradients_are_in_grad_files():
    """An op of x.cpp has its gradient in x.grad.cpp, where people look for it."""
    ops = ROOT / "csrc/ops"
    found = {
        str(p.relative_to(ops))
        for p in ops.rglob("*.cpp")
        if not p.name.endswith(".grad.cpp") and re.search(r"^GRAD\(\"", p.read_text(encoding="utf-8"), re.M)
    }
    assert not found - GRADIENTS_ELSEWHERE, f"move these gradients into a .grad.cpp: {sorted(found - GRADIENTS_ELSEWHERE)}"


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


# Parts of Python's C API that give out borrowed items, or sizes that go stale. bindings/items.h wraps them.
BORROWING = re.compile(
    r"\b(PySequence_Fast\w*|PySequence_ITEM|Py(?:Tuple|List)_(?:GET_ITEM|GetItem|GET_SIZE)|ob_item|_PyTuple_ITEMS|"
    r"PyDict_(?:Next|GetItem\w*)|PyStructSequence_GetItem|PyStructSequence_GET_ITEM|PyWeakref_GetObject|PyCell_GET)\b"
)


def test_borrowed_items_only_in_their_header():
    """Note [Borrowed items]: the code a conversion runs can empty the list an item was borrowed from."""
    bindings = [p for p in sources() if p.relative_to(ROOT / "csrc").parts[0] == "bindings"]
    wrong = [
        f"{p.name}:{number}: {found.group()}"
        for p in bindings
        if p.name != "items.h"
        for number, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
        if (found := BORROWING.search(line))
    ]
    assert not wrong, "use Items, all_items, any_item or find_item of bindings/items.h:\n" + "\n".join(wrong)
    assert BORROWING.search((ROOT / "csrc/bindings/items.h").read_text(encoding="utf-8")), "the pattern finds nothing"


def test_text_of_a_str_is_checked():
    """PyUnicode_AsUTF8 gives no characters for lone surrogates; std::string and parsers must not see that."""
    wrong = []
    for path in sources():
        for call in re.findall(r"(?:string|parse_\w+|set_cast|find_op)\(\s*PyUnicode_AsUTF8\(", path.read_text("utf-8")):
            wrong.append(f"{path.name}: {call}; use text_of()")
    assert not wrong, "\n".join(wrong)


def test_modules_of_tests_have_names_of_their_own():
    """In folders without __init__.py a module is known by its file's name alone, and the first one would stand for all."""
    places = {}
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")} | {ROOT / "benchmarks"}
    for path in [path for folder in folders for path in folder.glob("*.py")]:
        if path.name != "conftest.py" and not (path.parent / "__init__.py").exists():
            places.setdefault(path.name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 100
    assert not [paths for paths in places.values() if len(paths) > 1]
