"""The tests of this folder run on each kind of accelerator that works here: the module's DEVICE is one of them.

A test of one kind alone carries ``@pytest.mark.device("sim")``; files about all kinds, ``pytestmark = pytest.mark.device(None)``.
"""

import ctypes
import os

import pytest

import flambeau as fb

# Another list, as test_cuda.py gives for its run on a stand-in for CUDA's driver.
GIVEN = os.environ.get("FLAMBEAU_TEST_DEVICES")
KINDS = GIVEN.split() if GIVEN else ["sim", *(["opencl"] if fb._C.accelerator_count(fb.device("opencl")) else [])]


def pytest_generate_tests(metafunc):
    marks = [mark.args for mark in metafunc.definition.iter_markers("device")]
    if marks and marks[0] == (None,):
        return
    kinds = [kind for kind in KINDS if not marks or kind in marks[0]]
    metafunc.parametrize("_device_kind", kinds, indirect=True)


@pytest.fixture(autouse=True)
def _device_kind(request):
    """Gives the module its DEVICE."""
    kind = getattr(request, "param", None)
    if kind is not None and hasattr(request.module, "DEVICE"):
        request.module.DEVICE = fb.device(kind, 0)
    return kind


def pytest_sessionfinish(session):
    """Says what the stand-in for CUDA's driver refused."""
    if GIVEN and (library := os.environ.get("FLAMBEAU_CUDA")):
        fake = ctypes.CDLL(library)
        fake.fake_violations.restype = ctypes.c_char_p
        print("\ncuda:", fake.fake_violations().decode() or "clean")
