"""The benchmark runner's arithmetic, report and robustness. Nothing here depends on how fast anything is."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import compare
from harness import report
from harness.process import Seat
from harness.report import Result
from harness.rows import SAME, Budget, Row, Suite
from harness.worker import Worker, fingerprint, first_result

np = pytest.importorskip("numpy")
BENCHMARKS = Path(compare.__file__).parent
SEATS = [Seat("flambeau", "flambeau"), Seat("torch", "torch"), Seat("numpy", "numpy")]


def result(name="row", ours=1.0, theirs=2.0, group="group", **more):
    return Result(group, name, rounds={"flambeau": [ours], "torch": [theirs]}, **more)


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.suite


# ----- arithmetic -----


def test_geomean():
    assert report.geomean([2.0, 8.0]) == pytest.approx(4.0)
    assert report.geomean([0.5, 2.0]) == pytest.approx(1.0)
    assert report.geomean([]) is None


def test_figure_is_the_median_over_rounds_and_ratio_is_theirs_over_ours():
    measured = Result("g", "r", rounds={"flambeau": [1.0, 9.0, 2.0], "torch": [5.0, 6.0, 100.0]})
    assert measured.figure("flambeau") == 2.0
    assert measured.ratio() == pytest.approx(3.0)
    measured.best = True
    assert measured.figure("flambeau") == 1.0 and measured.ratio() == pytest.approx(5.0)
    assert measured.figure("numpy") is None and measured.ratio("numpy") is None


def test_a_failed_row_has_no_ratio_and_counts_in_no_mean():
    good, bad = result(ours=1, theirs=4), result(ours=1, theirs=1000, errors={"flambeau": "ValueError: no"})
    assert bad.ratio() is None
    assert report.ratios([good, bad]) == [4.0]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (312e-9, "s", "312 ns"),
        (4.563e-3, "s", "4.56 ms"),
        (45.63e-6, "s", "45.6 µs"),
        (2.0, "s", "2.00 s"),
        (78.91, "MB", "78.9 MB"),
        (0.0, "s", "0 ns"),
        (None, "s", "–"),
    ],
)
def test_quantity(value, unit, text):
    assert report.quantity(value, unit) == text


@pytest.mark.parametrize(("rounds", "expected"), [([1.0, 1.01, 1.02, 1.0, 1.01], False), ([1.0, 2.0, 1.0, 2.0], True)])
def test_rounds_that_disagree_are_noisy(rounds, expected):
    assert compare.noisy(Result("g", "r", rounds={"torch": rounds})) is expected


def test_budget_limits():
    least, most = Budget("a", lambda _: 1, at_least=1.5), Budget("b", lambda _: 1, at_most=0.25, unit="s")
    assert least.met(1.5) and not least.met(1.49)
    assert most.met(0.25) and not most.met(0.26)
    assert least.limit == "≥ 1.5 ×" and most.limit == "≤ 0.25 s"


def test_disagreement_names_what_differs():
    base = {"shape": [2], "dtype": "float32", "size": 1.0}
    assert compare.disagreement(base, dict(base), True) is None
    assert "shape [3]" in compare.disagreement({**base, "shape": [3]}, base, True)
    assert "dtype float64" in compare.disagreement({**base, "dtype": "float64"}, base, True)
    assert "differ" in compare.disagreement({**base, "size": 1.1}, base, True)
    assert compare.disagreement({**base, "size": 1.1}, base, False) is None
    assert compare.disagreement({**base, "size": float("nan")}, {**base, "size": float("nan")}, True) is None
    assert compare.disagreement({}, base, True) is None


# ----- the text -----


def test_table_lines_up():
    lines = report.table(["row", "time"], [["a long name", "1 ns"], ["b", "100 ns"]])
    assert len({len(line) for line in lines}) == 1
    assert lines[0].startswith("| row ") and lines[1].endswith("-: |") and lines[3].endswith("| 100 ns |")


@pytest.mark.parametrize(("theirs", "mark"), [(2.0, ""), (0.97, "even"), (0.9, "slower"), (0.5, "**slower, < 0.8**")])
def test_losses_are_marked(theirs, mark):
    assert report.verdict(result(ours=1.0, theirs=theirs)) == mark


def test_losses_are_listed_worst_first():
    lines = report.losses([result("good"), result("bad", theirs=0.9), result("worst", theirs=0.2)])
    assert [line.split("/")[1].split(":")[0].strip() for line in lines] == ["worst", "bad"]


def test_section_shows_means_losses_errors_and_budgets():
    results = [
        result("first", 1.0, 4.0, "one"),
        result("second", 1.0, 0.25, "two"),
        result("third", 1.0, 1.0, "two", errors={"flambeau": "ValueError: broken"}),
    ]
    budget = Budget("worst row", lambda rs: min(report.ratios(rs)), at_least=0.8)
    text = report.section("Title", ["- machine"], results, SEATS, [budget])
    summary = next(line for line in text.splitlines() if "all rows" in line)
    cells = [cell.strip() for cell in summary.split("|")[1:-1]]
    assert cells == ["**all rows**", "2 of 3", "1.00 ×", "–", "second: 0.25 ×"]
    assert "- 0.25 × two / second: 1.00 s, PyTorch 250 ms" in text
    assert "- two / third, flambeau: ValueError: broken" in text
    assert "**missed**" in text and "### one" in text and "### two" in text


def test_section_without_flambeau_has_figures_only():
    text = report.section("Title", [], [result()], SEATS[1:], [])
    assert "2.00 s" in text and "vs" not in text


def test_no_mean_over_seconds_and_megabytes():
    text = "\n".join(report.summary([result("a"), result("b", group="peak", unit="MB")], SEATS))
    assert "peak" in text and "all rows" not in text


# ----- the file -----


def test_markers_are_added_then_replaced_and_neighbours_stay():
    text = report.replace_section("# Results\n\nIntro.\n", "ops", "first")
    text = report.replace_section(text, "memory", "other")
    again = report.replace_section(text, "ops", "second\n")
    assert again.startswith("# Results\n\nIntro.\n")
    assert "second" in again and "first" not in again and "other" in again
    assert again.index("second") < again.index("other")
    assert report.replace_section(again, "ops", "second") == again


def test_broken_markers_are_refused():
    text = report.replace_section("", "ops", "body").replace("<!-- ops: end -->", "")
    with pytest.raises(ValueError, match="one pair"):
        report.replace_section(text, "ops", "new")


# ----- rows and workers -----


def test_numpy_runs_its_own_statement():
    assert Row("g", "n", "a.t()", "s").source("torch") == ("s", "a.t()")
    assert Row("g", "n", "a.t()", "s").source("numpy") is None
    assert Row("g", "n", "a", "s", SAME).source("numpy") == ("s", "a")
    assert Row("g", "n", "a.t()", "s", "a.T").source("numpy") == ("s", "a.T")
    assert Row("g", "n", "a.t()", "s", ("z", "a.T")).source("numpy") == ("z", "a.T")


def test_a_row_cannot_be_there_twice():
    add = Suite("s", "s.py", "t").group("g")
    add("name", "1")
    with pytest.raises(ValueError, match="twice"):
        add("name", "2")


def test_first_result_is_the_last_expression():
    assert first_result("b = a + 1; b * 2", {"a": 1}) == 4
    assert first_result("b = a", {"a": 1}) is None


def test_fingerprint_of_arrays_scalars_and_tuples():
    values = np.array([-1.0, 2.0], dtype="float32")
    assert fingerprint(np, values) == {"shape": [2], "dtype": "float32", "size": 3.0}
    assert fingerprint(np, (values, None))["size"] == 3.0
    assert fingerprint(np, np.array([3 + 4j]))["size"] == 5.0
    assert fingerprint(np, -2.5) == {"shape": [], "dtype": "float", "size": 2.5}
    assert fingerprint(np, "text") == {}


def test_worker_times_a_row_and_reports_an_unknown_one():
    suite = Suite("s", "s.py", "t")
    suite.group("g")("sum", "x + 1", setup="x = 1")
    worker = Worker(suite, "flambeau", np)
    answer = worker.answer({"do": "time", "key": "g/sum", "target": 1e-5, "repeats": 3})
    assert len(answer["times"]) == 3 and min(answer["times"]) > 0 and answer["result"]["size"] == 2.0
    assert "no row" in worker.answer({"do": "time", "key": "g/none", "target": 1e-5, "repeats": 3})["error"]


TINY = """
import sys
sys.path.insert(0, {path!r})
from compare import main
from harness.rows import SAME, Suite, normal
suite = Suite("tiny", __file__, "Tiny suite", target_seconds=1e-4, after="'seen ' + lib.__name__")
add = suite.group("group")
add("good", "a + a", SAME, a=normal(4))
add("raises", "a.no_such_method()", "a * 2", a=normal(4))
add("dies", "import os; os._exit(3)", "a * 2", a=normal(4))
add("prints", "print('noise'); a", SAME, a=normal(4))
suite.group("peak", kind="peak")("ones", "y = lib.ones(4_000_000)", SAME)
if __name__ == "__main__":
    sys.exit(main(suite))
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(TINY.format(path=str(BENCHMARKS)))
    return path


def run(path, *arguments):
    command = [sys.executable, str(path), "--flambeau-module", "numpy", "--libs", "flambeau,numpy", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_failing_row_is_an_error_in_the_table_and_the_others_are_measured(tiny):
    done = run(tiny, "--rounds", "2")
    assert done.returncode == 0, done.stderr
    lines = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("| ")}
    for failed in ("raises", "dies"):
        cells = [cell.strip() for cell in lines[failed].split("|")]
        assert cells[2] == "error" and cells[3].endswith("s") and cells[-2] == "error"
    for fine in ("good", "prints"):
        assert "error" not in lines[fine] and "×" in lines[fine]
    assert "no_such_method" in done.stdout and "ended with code 3" in done.stdout
    assert "MB" in lines["ones"] and "seen numpy" in done.stdout


def test_a_missing_flambeau_says_how_to_build_it(tiny):
    done = run(tiny, "--flambeau-module", "no_such_library")
    assert done.returncode != 0
    assert "No module named 'no_such_library'" in done.stderr and "make dev" in done.stderr


def test_a_missing_pytorch_is_left_out_with_a_hint(monkeypatch):
    def start(seat, suite_path):
        return "ModuleNotFoundError: No module named 'torch'" if seat.module == "torch" else None

    monkeypatch.setattr(Seat, "start", start)
    suite = Suite("s", "s.py", "t")
    seats, notes = compare.open_seats(suite, compare.parse(suite, ["--tuned"]))
    assert [seat.name for seat in seats] == ["flambeau", "numpy"]
    assert notes == ["PyTorch not installed: pip install torch==2.13.0"]


def test_an_interpreter_that_is_not_there_is_named(tiny):
    seat = Seat("torch", "torch", "/no/such/python")
    assert "/no/such/python" in seat.start(str(tiny))


def test_only_selects_and_complains_about_nothing(tiny):
    assert run(tiny, "--list", "--only", "^group/go").stdout == "group/good\n"
    nothing = run(tiny, "--only", "no such row")
    assert nothing.returncode != 0 and "no row matches" in nothing.stderr


def test_write_replaces_the_section(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compare, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setattr(compare, "run", lambda suite, options: ([result()], "## Fresh section\n"))
    for _ in range(2):
        assert compare.main(Suite("ops", "ops.py", "t"), ["--write"]) == 0
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.startswith("# Benchmark results\n") and text.count("## Fresh section") == 1
    assert capsys.readouterr().out.count("## Fresh section") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--write", "--only", "x"], "cannot go with --only"),
        (["--threads", "0"], "at least 1"),
        (["--only", "("], "--only"),
    ],
)
def test_bad_options(arguments, message, capsys):
    with pytest.raises(SystemExit):
        compare.parse(Suite("s", "s.py", "t"), arguments)
    assert message in capsys.readouterr().err


# ----- the suites themselves -----


@pytest.mark.parametrize("name", ["overhead", "ops", "memory"])
def test_every_statement_parses_and_runs_for_numpy_where_it_has_one(name):
    suite = load(name)
    assert suite.rows and suite.budgets
    for row in suite.rows:
        for seat in ("flambeau", "numpy"):
            for text in row.source(seat) or ():
                ast.parse(text)
    if name == "overhead":
        worker = Worker(suite, "numpy", np)
        for row in suite.rows:
            if row.source("numpy"):
                assert isinstance(worker.prepare(row.key, 1e-7), dict)


def test_budgets_of_the_suites_read_results():
    for name in ("overhead", "ops", "memory"):
        suite = load(name)
        results = [result(row.name, 1.0, 2.0, row.group) for row in suite.rows]
        values = [budget.value(results) for budget in suite.budgets]
        assert any(value is not None for value in values)
        assert all(budget.value([]) is None for budget in suite.budgets if budget.text != "wheel")


def test_the_op_table_covers_what_it_promises():
    suite = load("ops")
    assert len(suite.rows) >= 60
    text = "\n".join(row.key for row in suite.rows)
    for wanted in (
        "a[:, ::2]", "a + row", "a.t() + b.t()", "first axis", "last axis", "middle axis", "sum, all", "softmax",
        "sort", "topk", "cumsum", "gather", "index_select", "boolean mask", "cat", "transpose-copy", "to float64",
        "randn", "rand", "square", "skinny", "batched", "einsum", "cholesky", "svd", "solve", "float64", "int64",
        "bfloat16",
    ):  # fmt: skip
        assert wanted in text, wanted


def test_plot_draws_a_file(tmp_path):
    pytest.importorskip("matplotlib")
    report.plot([result("a"), result("b", theirs=0.5)], "title", str(tmp_path / "chart.png"))
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match="pip install matplotlib"):
        report.plot([result()], "title", "chart.png")


def test_budgets_of_inference():
    """They say nothing about rows that were not measured, and divide the right way round."""
    suite = load("inference")
    assert all(budget.value([]) is None for budget in suite.budgets)
    measured = [
        result("1 × 4096 → 11008", 2.0, 4.0, "linear, bfloat16"),
        result("sum of 22,544,384 float32", 1.8, 2.0, "reading memory"),
        result("GPT-2 small, float32", 3.0, 9.0, "training step"),
        result("GPT-2 small, bfloat16", 2.0, 4.0, "training step"),
    ]
    values = {budget.text: budget.value(measured) for budget in suite.budgets}
    assert values["one row: share of the speed at which a sum reads memory"] == pytest.approx(0.9)
    assert values["GPT-2 small: training under autocast against our float32"] == pytest.approx(1.5)
    assert values["GPT-2 small: training under autocast against PyTorch's"] == pytest.approx(2.0)
    assert values["linear in bfloat16, worst row"] == pytest.approx(2.0)
    assert all(suite.find(f"{r.group}/{r.name}") is not None for r in measured)
