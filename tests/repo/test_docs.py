"""Every example in the documentation runs, and every public name has one."""

import doctest
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau as fb

ROOT = Path(__file__).parents[2]
PAGES = [
    *(path for path in sorted(ROOT.glob("*.md"))),
    *(path for path in sorted(ROOT.glob("docs/**/*.md")) if "reference" not in path.parts),
]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _reference():
    spec = importlib.util.spec_from_file_location("gen_reference", ROOT / "docs" / "gen_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _reference()


def _documented():
    """{path: object} of everything public: functions, classes, members of Tensor, members of the submodules."""
    found = {}
    for module, value in reference.public_modules().items():
        for name, member in reference.public_members(value).items():
            found[f"fb.{module}.{name}" if module else f"fb.{name}"] = member
    for name, member in reference.public_members(fb.Tensor).items():
        found[f"fb.Tensor.{name}"] = member
    return found


DOCUMENTED = _documented()
# The forms of an op share one docstring; it runs once.
DOCSTRINGS = {}
for _path, _member in DOCUMENTED.items():
    DOCSTRINGS.setdefault(inspect.getdoc(_member) or "", _path)
DOCSTRINGS.pop("", None)


@pytest.fixture(autouse=True)
def clean_state():
    """Each text starts from the defaults and may change them (dtype and threads are put back for every test)."""
    fb.manual_seed(0)
    yield
    fb.set_printoptions(profile="default")


def run_examples(text, name):
    """Runs the examples of a text in one namespace; returns their number."""
    test = doctest.DocTestParser().get_doctest(text, {"fb": fb, "np": np}, name, name, 0)
    report = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert result.failed == 0, "".join(report)
    return result.attempted


def examples_of(page):
    """The Python blocks of a page, without the fences: a fence would be taken for output."""
    return "\n".join(match.group(1) for match in _BLOCK.finditer(page.read_text()) if ">>>" in match.group(1))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_page(page):
    run_examples(examples_of(page), page.name)


def test_the_guide_has_examples():
    guides = [page for page in PAGES if page.name == "README.md" or page.parent.name == "guide"]
    assert len(guides) >= 6
    for page in guides:
        assert examples_of(page).count(">>>") > 2, page


@pytest.mark.parametrize("doc", DOCSTRINGS, ids=DOCSTRINGS.values())
def test_examples_of_docstring(doc):
    run_examples(doc, DOCSTRINGS[doc])


def _without(wanted, paths):
    return [path for path in paths if not wanted(inspect.getdoc(DOCUMENTED[path]) or "")]


def test_every_public_name_has_a_docstring():
    missing = _without(str.strip, DOCUMENTED)
    assert not missing, f"no docstring (an op gets it at its registration, a function in its definition): {missing}"


def test_every_docstring_has_an_example():
    """Properties say what they are in a line, and the array API's functions are the standard's; the rest shows how."""
    paths = [p for p in DOCUMENTED if not inspect.isdatadescriptor(DOCUMENTED[p]) and not p.startswith("fb.array_api.")]
    assert len(paths) > 500
    missing = _without(lambda doc: "Example" in doc and ">>>" in doc, paths)
    assert not missing, f"no 'Example:' with a '>>>' line in the docstring of: {missing}"


def test_a_wrong_example_is_found():
    with pytest.raises(AssertionError, match="Expected"):
        run_examples(">>> fb.tensor([1, 2]).sum()\ntensor(4)\n", "wrong")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_resolve(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        generated = target.startswith(("reference/", "gallery/", "benchmarks/")) and page.name == "index.md"
        if not target.startswith(("http://", "https://")) and not generated:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_and_notes_that_a_page_names_exist(page):
    text = " ".join((ROOT / page).read_text().split())
    folders = ("csrc", "src", "docs", "tests", "tools", "benchmarks")
    known = {path.relative_to(ROOT).as_posix() for folder in folders for path in ROOT.glob(f"{folder}/**/*.*")}
    known |= {path.name for path in ROOT.iterdir()} | {"Python.h"}
    named = re.findall(r"`([\w./]+\.(?:cpp|h|py|def|md))`", text)
    assert len(named) > 10
    missing = [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in known)]
    assert not missing, f"{page} names files that are not there: {missing}"
    files = [path for kind in ("csrc/**/*.h", "csrc/**/*.cpp", "src/**/*.py") for path in ROOT.glob(kind)]
    written = {note for path in files for note in re.findall(r"Note \[([\w ]+)\](?::|\n)", path.read_text())}
    notes = set(re.findall(r"Note \[([\w ]+)\]", text)) - {"Some name", "Name"}
    assert not notes - written, f"{page} names notes that are not there: {notes - written}"


def run_script(name, *arguments):
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_tour_draws_a_picture(tmp_path):
    result = run_script("tour.py", "--size", 64, "--steps", 10, "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "tour.png").read_bytes().startswith(b"\x89PNG")
    assert f"wrote {tmp_path / 'tour.png'}" in result.stdout


def test_numpy_day_equals_numpy():
    result = run_script("numpy_day.py", "--rows", 1000)
    assert result.returncode == 0, result.stderr
    assert "all results equal NumPy's" in result.stdout


@pytest.mark.parametrize("script, option", [("tour.py", "--size"), ("numpy_day.py", "--rows")])
def test_scripts_refuse_a_size_that_is_too_small(script, option):
    result = run_script(script, option, 2)
    assert result.returncode == 2
    assert f"{option} must be at least" in result.stderr
