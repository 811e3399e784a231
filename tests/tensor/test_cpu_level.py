"""Which instructions kernels use, and the environment variable that lowers them."""

import os
import subprocess
import sys

import pytest

import flambeau as fb
from flambeau import _C

LEVELS = ["baseline", "avx2", "avx512", "avx512_vnni", "avx512_bf16"]


def start(level):
    code = "import flambeau as fb; from flambeau import _C; print(_C.cpu_level())"
    environment = {**os.environ, "FLAMBEAU_CPU_LEVEL": level}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


def test_environment_variable():
    assert start("baseline").stdout == "baseline\n"
    assert start("").stdout == f"{_C.cpu_level()}\n"
    wrong = start("avx1024")
    assert wrong.returncode != 0 and "FLAMBEAU_CPU_LEVEL is avx1024; expected baseline, avx2" in wrong.stderr


def test_levels_in_a_process():
    before = _C.cpu_level()
    try:
        for level in LEVELS[: LEVELS.index(before) + 1]:
            _C.set_cpu_level(level)
            assert _C.cpu_level() == level
            assert f"kernels use {level}" in fb.show_config()
    finally:
        _C.set_cpu_level(before)
    with pytest.raises(ValueError, match="expected baseline"):
        _C.set_cpu_level("sse2")
    with pytest.raises(TypeError, match="expected a str, got int"):
        _C.set_cpu_level(3)
