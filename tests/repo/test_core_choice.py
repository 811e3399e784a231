"""A wheel holds two cores; the one for AVX-512 is taken where the processor has it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as fb
from flambeau import _core

SHOW = "import flambeau as fb; print(fb._C.__file__); print(float((fb.arange(3.0) * 2).sum()))"


@pytest.fixture
def installed(tmp_path):
    """A package with two cores, as a wheel installs it: the second one is a copy of the first."""
    package = tmp_path / "flambeau"
    (package / "_avx512").mkdir(parents=True)
    core = Path(fb._C.__file__)
    for entry in Path(fb.__file__).parent.iterdir():
        if entry.name not in (core.name, "_avx512"):
            (package / entry.name).symlink_to(entry)
    # The core finds its libraries by its place, so it is linked to, not copied.
    (package / core.name).symlink_to(core)
    (package / "_avx512" / core.name).symlink_to(core)
    return tmp_path


def core_of(installed, **environment):
    run = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "PYTHONPATH": str(installed), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    path, result = run.stdout.split()
    assert result == "6.0"
    return Path(path).parent.name


def test_the_core_follows_the_processor(installed):
    wide = _core._flags() >= _core._NEEDED
    assert core_of(installed, FLAMBEAU_CPU_LEVEL="") == ("_avx512" if wide else "flambeau")


def test_the_environment_can_ask_for_the_other_core(installed):
    assert core_of(installed, FLAMBEAU_CPU_LEVEL="avx2") == "flambeau"


def test_an_empty_folder_changes_nothing(installed):
    for core in (installed / "flambeau" / "_avx512").iterdir():
        core.unlink()
    assert core_of(installed) == "flambeau"
