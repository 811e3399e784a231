"""Which devices there are, what they are called, and what is said when there are none."""

import os
import subprocess
import sys

import pytest

import flambeau as fb

pytestmark = pytest.mark.device(None)
needs_opencl = pytest.mark.skipif(not fb.opencl.is_available(), reason="no OpenCL device works here")


def run(script, **environment):
    return subprocess.run(
        [sys.executable, "-c", "import flambeau as fb\n" + script],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_opencl_devices_are_listed():
    found = fb.opencl.devices()
    used = [d for d in found if d.index is not None]
    assert fb.opencl.device_count() == len(used) and fb.opencl.is_available() == bool(used)
    assert [d.index for d in used] == list(range(len(used))) and all(bool(d.rejected) == (d.index is None) for d in found)
    for d in used:
        assert d.name and d.platform and d.driver and d.library and d.type in ("cpu", "gpu", "accelerator")
        assert d.units > 0 and d.memory >= d.max_allocation > 0 and d.group >= 128 and d.local_memory >= 16384


def test_without_an_implementation_the_error_says_what_to_install():
    said = run("print(fb.opencl.devices(), fb.opencl.is_available())\nfb.zeros(2, device='opencl')", FLAMBEAU_OPENCL="/nowhere/cl.so")
    assert said.stdout == "[] False\n"
    assert "ArgumentError: zeros: there is no OpenCL device that works; pip install flambeau[opencl]" in said.stderr
    assert "/nowhere/cl.so" in said.stderr
    assert "there is no OpenCL device" in run("fb.device('gpu')", FLAMBEAU_OPENCL="/nowhere/cl.so").stderr
    not_opencl = run("fb.zeros(2, device='opencl')", FLAMBEAU_OPENCL=fb._C.__file__).stderr
    assert "lacks functions of OpenCL 1.2" in not_opencl


@needs_opencl
def test_gpu_is_the_best_device():
    assert fb.device("gpu") == fb.device("opencl:0") and fb.zeros(2, device="gpu").device == fb.device("opencl:0")
    with pytest.raises(ValueError, match="'opencl:99' does not exist"):
        fb.zeros(2, device="opencl:99")


@needs_opencl
def test_the_environment_names_the_accelerator():
    ask = (
        "a = fb.accelerator\n"
        "print(a.is_available(), a.device_count(), a.current_accelerator(), a.current_device_index(), a.current_stream().device)"
    )
    count = fb.opencl.device_count()
    for name in ("opencl", "opencl:0", "gpu"):
        assert run(ask, FLAMBEAU_DEVICE=name).stdout == f"True {count} opencl 0 opencl:0\n"
    assert run(ask, FLAMBEAU_DEVICE="sim").stdout == "True 1 sim 0 sim:0\n"
    assert "does not exist" in run("fb.accelerator.synchronize()", FLAMBEAU_DEVICE="opencl:99").stderr


def test_importing_loads_no_driver():
    script = "fb.ones(2) + 1\nprint(any('opencl' in line.lower() or 'intelocl' in line for line in open('/proc/self/maps')))"
    assert run(script).stdout == "False\n"
