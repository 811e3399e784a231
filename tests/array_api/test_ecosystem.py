"""SciPy's and scikit-learn's array API paths take our tensors and give tensors back; see ecosystem.py."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import ecosystem


@functools.cache
def results(library: str) -> dict[str, str | None]:
    """All checks of a library, run once in a process that has SCIPY_ARRAY_API set before SciPy is imported."""
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("ecosystem.py")), library],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("library", "name"), [(library, name) for library, checks in ecosystem.CHECKS.items() for name in checks]
)
def test_accepts_tensors(library, name):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    problem = results(library)[name]
    assert problem is None, problem
