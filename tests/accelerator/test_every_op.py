"""Every row of the op database on the simulated accelerator gives the CPU's values and gradients."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.ops import spec as lib
from tests.ops.catalogue import SPECS
from tests.ops.gradient_notes import FINISH, NOT_DIFFERENTIABLE
from tests.ops.spec import INEXACT

import flambeau as fb

# Ops with uninitialised results.
UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_"}

pytestmark = pytest.mark.device(None)


@pytest.fixture(autouse=True, scope="module")
def _without_kernels():
    """What falls back is what is tested here: the same code on the same CPU, so every bit is the same."""
    fb._C.set_accelerator_kernels(False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*has no kernel on device")
        yield
    fb._C.set_accelerator_kernels(True)


def call(row, sample, device):
    fb.manual_seed(0)
    leaves: list = []

    def make(t):
        tensor = t.tensor().to(device)
        if t.dtype in INEXACT and not any(name in NOT_DIFFERENTIABLE for name in (row.name, row.canonical)):
            leaves.append(tensor.requires_grad_())
        return tensor.clone() if row.mutates and tensor.requires_grad else tensor

    ready = sample.map(make)
    with fb.device("cpu" if sample.tensors() else device):
        result = row.run(ready)
    outputs = [r for r in lib.flat_results(result) if lib.is_tensor(r) and r.requires_grad]
    if finish := FINISH.get(row.name) or FINISH.get(row.canonical):
        outputs = finish(outputs)
    gradients = []
    if leaves and outputs:
        gradients = fb.autograd.grad(outputs, leaves, [fb.ones_like(o) for o in outputs], allow_unused=True)
    return lib.flat_results(result), list(gradients)


def same(got, expected) -> bool:
    if not lib.is_tensor(expected):
        return type(got) is type(expected) and (got == expected or got != got)
    if got.device.type != "sim" or got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if (
        any(n > 1 and a != b for n, a, b in zip(got.shape, got.stride(), expected.stride(), strict=True))
        and got.numel()
    ):
        return False
    return np.array_equal(
        lib.to_numpy(got.detach().cpu()), lib.to_numpy(expected.detach()), equal_nan=got.dtype.is_floating_point
    )


@pytest.mark.parametrize("row", list(SPECS.values()), ids=list(SPECS))
def test_the_device_gives_what_the_cpu_gives(row):
    inexact = [d for d in row.dtypes if d in INEXACT]
    dtype = "float32" if "float32" in inexact else row.dtypes[0]
    small = [s for s in row.samples(dtype) if sum(t.values.size for t in s.tensors()) <= 512]
    for sample in small[:1]:
        expected, expected_gradients = call(row, sample, "cpu")
        what = f"{row.name}{sample} [{dtype}]"
        try:
            got, gradients = call(row, sample, "sim")
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        if row.name in UNSET:
            continue
        for g, e in [*zip(got, expected, strict=True), *zip(gradients, expected_gradients, strict=True)]:
            assert (g is None) == (e is None) and (g is None or same(g, e)), f"{what}: got {g}, expected {e}"
