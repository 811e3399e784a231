"""The page of differences tells what is not there, and stops telling when it is."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("gen_differences", DOCS / "gen_differences.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_lists_only_what_is_missing(tool):
    absent, without = tool.listed()
    assert len(absent) > 10
    left, arguments = tool.remaining(absent, without)
    come = sorted(set(absent) - set(left)) + sorted(name for name in without if without[name] != arguments.get(name))
    assert not come, f"docs/differences.md says that these are missing: {come}; run python docs/gen_differences.py"


def test_a_table_of_names_becomes_lists_and_back(tool, tmp_path):
    table = tmp_path / "table.tsv"
    rows = [
        ("no_such_op", "function", "(input)"), ("Tensor.no_such_method", "method", ""), ("nn.Linear", "class", "(in_features, colour=1)"),
        ("nn.NoSuch", "class", "()"), ("nn.NoSuch.forward", "method", "(x)"), ("finfo.bits", "property", ""),
        ("optim.SGD", "class", "(params, lr)"),
    ]  # fmt: skip
    table.write_text("\n".join(["name\tkind\tsignature", *("\t".join(row) for row in rows)]))
    absent, without = tool.compared(table)
    assert absent == ["no_such_op", "Tensor.no_such_method", "nn.NoSuch"] and without == {"nn.Linear": {"colour"}}
    page = tmp_path / "page.md"
    page.write_text("# Head\n")
    for _ in range(2):
        tool.write(absent, without, page)
    text = page.read_text()
    assert text.startswith("# Head\n") and text.count("## Names that are not there") == 1
    assert (sorted(tool.listed(page)[0]), tool.listed(page)[1]) == (sorted(absent), without)
    assert tool.remaining(["nn.Linear", "no_such_op"], {"nn.Linear": {"bias", "colour"}}) == (["no_such_op"], {"nn.Linear": {"colour"}})
