"""Every row of the op database with the kernels of an OpenCL device: the CPU's values and gradients, within rounding.

The simulated accelerator has the same kernels; building them all with a C++ compiler would take too long here.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.accelerator.test_every_op import UNSET, call
from tests.ops import spec as lib
from tests.ops.catalogue import SPECS
from tests.ops.spec import INEXACT

import flambeau as fb

pytestmark = pytest.mark.device("opencl")
DEVICE = fb.device("opencl", 0)

# Decompositions whose signs follow from the rounding of products.
FREE_SIGNS = {"svd_lowrank", "pca_lowrank"}


@pytest.mark.parametrize("row", list(SPECS.values()), ids=list(SPECS))
def test_kernels_give_what_the_cpu_gives(row):
    inexact = [d for d in row.dtypes if d in INEXACT]
    dtype = "float32" if "float32" in inexact else row.dtypes[0]
    small = [s for s in row.samples(dtype) if sum(t.values.size for t in s.tensors()) <= 512]
    for sample in small[:1]:
        expected, expected_gradients = call(row, sample, "cpu")
        what = f"{row.name}{sample} [{dtype}]"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*has no kernel on device")
            try:
                got, gradients = call(row, sample, DEVICE.type)
            except Exception as error:
                raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        for g, e in [*zip(got, expected, strict=True), *zip(gradients, expected_gradients, strict=True)]:
            assert (g is None) == (e is None), what
            if not lib.is_tensor(e):
                assert e is None or (type(g) is type(e) and (g == e or g != g)), f"{what}: got {g}, expected {e}"
                continue
            assert (g.device, g.dtype, g.shape) == (DEVICE, e.dtype, e.shape), what
            if row.name not in UNSET | FREE_SIGNS:
                a, b = lib.to_numpy(g.detach().cpu()), lib.to_numpy(e.detach())
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6, err_msg=what)
    assert fb._C.accelerator_why(DEVICE) == "", f"{row.name}: a kernel did not compile"
