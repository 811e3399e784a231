"""Types from the user's view: mypy and pyright, both strict, on a typed program; both on the examples and the guide."""

import doctest
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
import typed_program

import flambeau as fb

ROOT = Path(__file__).parents[2]
SOURCES = Path(fb.__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]

# Programs that a strict checker must reject, with the line of the first complaint.
WRONG = """\
import flambeau as fb
from flambeau import nn
model = nn.Linear(2, 3)
model(fb.ones(2), 1)
nn.Linear("two", 3)
fb.optim.Adam(model.parameters(), learning_rate=0.1)
fb.optim.SGD(model.parameters()).step(1)
nn.Sequential(fb.ones(2))
fb.distributions.Normal(0.0)
fb.utils.data.DataLoader([1, 2], batch_size="four")
n: int = nn.functional.relu(fb.ones(2))
nn.NoSuchModule
fb.utils.no_such_module
fb.autograd.no_such_module
fb.optim.no_such_module
"""


def mypy(folder, *files, options=("--strict",)):
    """What mypy complains about, as (file name, line) pairs, and its text."""
    command = [sys.executable, "-m", "mypy", *options, "--follow-imports=silent", "--config-file=", "--no-error-summary"]
    result = subprocess.run(
        [*command, "--cache-dir", str(folder / "cache"), *map(str, files)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "MYPYPATH": str(SOURCES)},
    )  # fmt: skip
    rows = [row.split(":") for row in result.stdout.splitlines() if ": error:" in row]
    assert result.returncode == 0 or rows, result.stdout + result.stderr
    return {(Path(row[0]).name, int(row[1])) for row in rows}, result.stdout


def pyright(folder, *files, mode="strict", **settings):
    """What pyright complains about, as (file name, line) pairs, and its text. basedpyright brings its own node.js."""
    config = {"typeCheckingMode": mode, "extraPaths": [str(SOURCES)], "pythonVersion": "3.11", "include": [], **settings}
    (folder / "pyrightconfig.json").write_text(json.dumps(config | {"include": [str(file) for file in files]}))
    command = [sys.executable, "-m", "basedpyright", "-p", str(folder), "--outputjson", "--pythonpath", sys.executable]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files), result.stdout + result.stderr
    found = [row for row in report["generalDiagnostics"] if row["severity"] == "error"]
    lines = [(Path(row["file"]).name, row["range"]["start"]["line"] + 1, row["message"]) for row in found]
    return {line[:2] for line in lines}, "\n".join(f"{name}:{line}: {message}" for name, line, message in lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One for the module: mypy's cache in it saves most of the time."""
    return tmp_path_factory.mktemp("types")


@pytest.fixture(scope="module")
def programs(folder):
    """The examples, and each page of the guide as the program that its Python blocks make."""
    files = list(EXAMPLES)
    for page in PAGES:
        file = folder / f"{page.stem.lower()}_page.py"
        blocks = doctest.DocTestParser().get_examples(page.read_text())
        file.write_text("import numpy as np\nimport flambeau as fb\n" + "".join(block.source for block in blocks))
        files.append(file)
    return files


@pytest.mark.parametrize("check", [mypy, pyright])
def test_strict_checkers_accept_a_typed_program(check, folder):
    found, text = check(folder, typed_program.__file__)
    assert not found, text


def test_the_typed_program_runs():
    typed_program.main()


@pytest.mark.parametrize("check", [mypy, pyright])
def test_strict_checkers_find_wrong_calls(check, folder):
    file = folder / "wrong.py"
    file.write_text(WRONG)
    found, text = check(folder, file)
    assert found == {("wrong.py", line) for line in range(4, len(WRONG.splitlines()) + 1)}, text


def test_mypy_accepts_examples_and_guide(folder, programs):
    found, text = mypy(folder, *programs, options=("--ignore-missing-imports", "--allow-redefinition", "--no-strict-optional"))
    assert not found, text


def test_pyright_accepts_examples_and_guide(folder, programs):
    # A loop that may not run, statements of a single expression, x.grad without a check: that is how examples look.
    usual = "MissingImports OptionalMemberAccess OptionalSubscript PossiblyUnboundVariable UnusedExpression".split()
    found, text = pyright(folder, *programs, mode="standard", **{f"report{name}": False for name in usual})
    assert not found, text


@pytest.mark.parametrize("check", [mypy, pyright])
def test_submodules_that_load_when_used_are_known(check, folder):
    file = folder / "lazy.py"
    names = [f"utils.{module.name}" for module in pkgutil.iter_modules(fb.utils.__path__) if module.name[0] != "_"]
    names += ["optim.swa_utils", *(f"autograd.{name}" for name in fb.autograd._LAZY)]
    file.write_text("import flambeau as fb\n" + "".join(f"print(fb.{name}.__name__)\n" for name in names))
    found, text = check(folder, file)
    assert not found, text


def test_every_public_symbol_has_a_known_type():
    """pyright's own measure: nothing in the public interface is of a type that checkers cannot know."""
    command = [sys.executable, "-m", "basedpyright", "--verifytypes", "flambeau", "--ignoreexternal", "--outputjson"]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(SOURCES)}
    )
    report = json.loads(result.stdout)["typeCompleteness"]
    assert report["exportedSymbolCounts"]["withKnownType"] > 3000, result.stdout[:2000]
    unknown = [
        f"{symbol['name']}: {'; '.join(row['message'] for row in symbol['diagnostics'])}"
        for symbol in report["symbols"]
        if not symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]
    ]
    assert not unknown, "annotate these:\n" + "\n".join(unknown)
