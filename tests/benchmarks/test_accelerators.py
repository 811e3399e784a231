"""The figures of the paper's evaluation: the scripts run on a small scale and draw. Nothing here depends on speed."""

import importlib.util
from pathlib import Path

import pytest

import compare

pytest.importorskip("matplotlib")
BENCHMARKS = Path(compare.__file__).parent


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_async_draws_host_and_device(tmp_path, monkeypatch, capsys):
    script = load("async")
    monkeypatch.setattr(script, "CHART", tmp_path / "async.png")
    monkeypatch.setattr(script, "RESULTS", tmp_path / "RESULTS.md")
    (tmp_path / "RESULTS.md").write_text("# Results\n")
    assert script.main(["--images", "1", "--side", "32", "--rounds", "2", "--write"]) in (0, 1)
    said, written = capsys.readouterr().out, (tmp_path / "RESULTS.md").read_text()
    assert "the host has queued the step" in said and said.strip() in written and "async: end" in written
    assert (tmp_path / "async.png").read_bytes().startswith(b"\x89PNG")


def test_allocator_counts_calls_for_memory(tmp_path):
    script = load("allocator")
    rows = script.iterations("sim", images=2, side=32, count=4)
    assert rows[0]["calls"] > 0 and rows[2]["calls"] == rows[3]["calls"] == 0 < rows[3]["reserved"]
    options = type("Options", (), {"iterations": 4, "images": 2, "side": 32})
    assert "**missed**" not in script.section({"sim": rows}, options)
    late = [*rows[:3], {**rows[3], "calls": 2}]
    assert "**missed**" in script.section({"sim": late}, options)
    script.draw({"sim": rows}, tmp_path / "allocator.png")
    assert (tmp_path / "allocator.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit):
        script.main(["--iterations", "2"])
