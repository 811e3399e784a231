"""The data suite: its rows do the work they name, in the small form, and its budgets read what it measures."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import compare
import flambeau as fb
from harness.report import Result
from rows import loading

SCRIPT = Path(compare.__file__).with_name("data.py")


@pytest.fixture(scope="module")
def suite():
    spec = importlib.util.spec_from_file_location("benchmark_data", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.suite


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_has_every_sample(workers):
    assert loading.Loading(fb, "small", 100, workers).epoch() == 100
    assert loading.Loading(fb, "small", 100, workers, stay=False).once() == 64


def test_rows_are_loaded_too():
    assert loading.Loading(fb, "rows", 100, 0).epoch() == 100


def test_a_worker_has_memory_of_its_own():
    assert 0.1 < loading.Loading(fb, "small", 256, 1, stay=False).memory() < 1000


def test_a_tensor_goes_there_and_back():
    task = loading.Passing(fb, 1 << 15)
    assert task.round_trip() == 1.0 and task.process.is_alive()


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("ending", [".safetensors", ".pt"])
def test_a_file_is_saved_loaded_and_removed(ending, disk, tmp_path, monkeypatch):
    monkeypatch.setenv(loading.FOLDER if disk else loading.MEMORY_FOLDER, str(tmp_path))
    task = loading.Files(fb, 1, ending, disk=disk)
    task.save_for_good()
    assert task.load() == task.load(mmap=True) == 64
    assert task.load_and_use() == pytest.approx(1_000_000 // 256 * 64)
    del task
    assert not os.listdir(tmp_path)


def test_the_rows_cover_what_the_table_promises(suite):
    keys = [row.key for row in suite.rows if not row.small]
    for samples in ("small", "large"):
        for workers in ("0 workers", "1 worker", "2 workers", "4 workers"):
            assert any(f"{samples} samples/" in key and workers in key for key in keys), (samples, workers)
    large = ("load mapped, 1000 MB", "load, 1000 MB", "save, 1000 MB", "on the disk, 64 MB")
    for wanted in ("1 KB", "100 MB", "first batch", "per worker", *large):
        assert any(wanted in key for key in keys), wanted


def test_budgets_are_about_every_row_in_which_both_do_the_same(suite):
    results = [Result("g", str(i), rounds={"flambeau": [1.0], "torch": [r]}) for i, r in enumerate((1.5, 6.0))]
    results.append(
        Result(
            "for the record: waiting for the disk against not waiting",
            "save",
            rounds={"flambeau": [9.0], "torch": [1.0]},
        )
    )
    assert [budget.value(results) for budget in suite.budgets] == [pytest.approx(3.0), pytest.approx(1.5)]
    assert [budget.value([]) for budget in suite.budgets] == [None, None]


def test_the_script_measures_a_small_row_and_leaves_no_file(tmp_path):
    command = [
        sys.executable,
        str(SCRIPT),
        "--small",
        "--quick",
        "--libs",
        "flambeau",
        "--only",
        "files on a memory disk/load, 16",
    ]
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "load, 16 MB, small" in done.stdout and not os.listdir(tmp_path)
