"""Scripts written for CUDA run unmodified on the accelerator that FLAMBEAU_DEVICE names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as fb

DEVICE = fb.device("sim", 0)
SCRIPTS = sorted(Path(__file__).with_name("scripts_for_cuda").glob("*.py"))


def run(*arguments, device):
    command = [sys.executable, "-m", "flambeau", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env={**os.environ, "FLAMBEAU_DEVICE": device})


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_for_cuda(script):
    result = run(script, device=DEVICE.type)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("done\n")


@pytest.mark.device(None)
def test_without_a_device_there_is_no_cuda():
    result = run("-c", "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())", device="cpu")
    assert result.stdout == "False 0\n", result.stderr


@pytest.mark.device(None)
def test_elsewhere_cuda_means_cuda(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_DEVICE", "sim")
    assert str(fb.ones(1, device="sim").device) == "sim:0" and fb.cuda.device_count() == len(
        [d for d in fb.cuda.devices() if d["index"] >= 0]
    )
    with fb.compat.torch() as torch:
        assert torch.device("cuda").type == "cuda" and torch.ones(2, device="cuda").device == torch.device("sim:0")
    assert fb.ones(1, device="sim").device.type == "sim"
