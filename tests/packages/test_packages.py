"""Packages that people run on CPUs give PyTorch's numbers. Each runs in a process of its own, where it is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import cases
import same_numbers

PACKAGES = sorted({package for package, _ in cases.register_all().values()})


@pytest.mark.parametrize("package", PACKAGES)
def test_numbers_are_those_of_pytorch(package):
    if not cases.installed(package):
        pytest.skip(f"{package} is not installed")
    command = [sys.executable, str(Path(same_numbers.__file__)), package]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert ": same" in result.stdout


def test_differences_are_found():
    import numpy as np
    from record import summary

    value = np.arange(30.0).reshape(5, 6)
    assert same_numbers.differences({"x": value}, {"x": summary(value)}) == []
    swapped = value[[0, 1, 2, 4, 3]]  # beyond the elements that are kept
    assert same_numbers.differences({"x": swapped}, {"x": summary(value)})
    assert same_numbers.differences({"x": value.T}, {"x": summary(value)})
    assert same_numbers.differences({}, {"x": summary(value)})
