"""The tests of this folder run on each kind of accelerator that works here: the module's DEVICE is one of them.

A test of one kind alone carries ``@pytest.mark.device("sim")``; files about all kinds, ``pytestmark = pytest.mark.device(None)``.
"""

import pytest

import flambeau as fb

KINDS = ["sim", *(["opencl"] if fb._C.accelerator_count(fb.device("opencl")) else [])]


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
