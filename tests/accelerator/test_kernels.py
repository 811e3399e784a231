"""Kernels made from formulas, reductions and products: values, layouts and dtypes against the CPU."""

import math
import os
import subprocess
import sys

import pytest

import flambeau as fb
from flambeau import accelerator

DEVICE = fb.device("sim", 0)


@pytest.fixture(autouse=True)
def _counted(monkeypatch):
    accelerator.reset_coverage()
    before = fb._C.accelerator_why(DEVICE)
    yield
    assert fb._C.accelerator_why(DEVICE) == before, fb._C.accelerator_why(DEVICE)


def only_kernels(*ops):
    found = accelerator.coverage()
    return all(op in found and found[op].kernels and not found[op].fallbacks for op in ops)


SPECIAL = [0.0, -0.0, 1.0, -1.5, 3.0, 0.25, 40.0, -40.0, 1e-30, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("name", "exp tanh sqrt relu floor nn.functional.gelu nn.functional.softplus isfinite".split())
def test_functions_of_one_argument(name):
    function = fb.nn.functional
    for part in name.split("."):
        function = getattr(fb if part == name.split(".")[0] else function, part)
    x = fb.tensor(SPECIAL)
    fb.testing.assert_close(function(x.to(DEVICE)).cpu(), function(x), equal_nan=True, rtol=1e-6, atol=1e-7)
    assert not any(count.fallbacks for count in accelerator.coverage().values())


def test_strides_broadcasting_and_types_meet_in_one_kernel():
    x, row, number = fb.randn(4, 6).t()[::2], fb.randn(4), fb.tensor(2.5)
    expected = x + row * number
    got = x.to(DEVICE) + row.to(DEVICE) * number
    assert got.stride() == expected.stride() and fb.equal(got.cpu(), expected)
    for y in (x.flip(0), x.expand(2, 3, 4), x.unsqueeze(1)):
        assert fb.equal((y.to(DEVICE) - 1).cpu(), y - 1)
    halves = fb.randn(3, 5).bfloat16()
    assert fb.equal((halves.to(DEVICE) * 3).cpu(), halves * 3)
    whole = fb.tensor([7, -7, 2**40])
    assert (whole.to(DEVICE) // 2).tolist() == [3, -4, 2**39] and (whole.to(DEVICE) > 3).tolist() == [True, False, True]
    assert fb.where(x.to(DEVICE) > 0, x.to(DEVICE), 0.0).cpu().equal(fb.where(x > 0, x, 0.0))
    part = fb.zeros(4, 4, device=DEVICE)
    part[1:3, ::2] = 5
    part[:, 3] += fb.arange(4.0).to(DEVICE)
    assert part.sum().item() == 26.0
    assert not any(count.fallbacks for count in accelerator.coverage().values())


def test_reductions():
    x = fb.randn(3, 40, 5)
    on = x.to(DEVICE)
    for dims in (None, 0, 1, (0, 2), (1, 2)):
        for keepdim in (False, True):
            for name in ("sum", "mean", "amax", "amin"):
                arguments = {} if dims is None else {"dim": dims, "keepdim": keepdim}
                fb.testing.assert_close(
                    getattr(on, name)(**arguments).cpu(), getattr(x, name)(**arguments), rtol=1e-5, atol=1e-6
                )
    assert only_kernels("sum", "mean", "amax", "amin")
    ints = fb.arange(12).view(3, 4)
    assert ints.to(DEVICE).sum(0).tolist() == [12, 15, 18, 21] and ints.to(DEVICE).prod(1).tolist() == [0, 840, 7920]
    assert (
        ints.to(DEVICE).any().item() and not ints.to(DEVICE).all().item() and (ints.to(DEVICE) > 5).count_nonzero().item() == 6
    )
    assert fb.tensor([1.0, math.nan], device=DEVICE).amax().isnan().item() and fb.zeros(0, 3, device=DEVICE).sum(
        0
    ).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16])
def test_products(dtype):
    a, b = fb.randn(2, 7, 90).to(dtype), fb.randn(2, 90, 70).to(dtype)
    tolerance = 1e-1 if dtype == fb.bfloat16 else 1e-4
    fb.testing.assert_close((a.to(DEVICE) @ b.to(DEVICE)).cpu(), a @ b, rtol=tolerance, atol=tolerance)
    fb.testing.assert_close((a[0].to(DEVICE) @ b[0].to(DEVICE)).cpu(), a[0] @ b[0], rtol=tolerance, atol=tolerance)
    start = fb.randn(7, 70).to(dtype)
    got = fb.addmm(start.to(DEVICE), a[0].to(DEVICE), b[0].to(DEVICE), beta=0.5, alpha=2)
    fb.testing.assert_close(
        got.cpu(), fb.addmm(start, a[0], b[0], beta=0.5, alpha=2), rtol=2 * tolerance, atol=2 * tolerance
    )


def test_training_gives_the_cpus_losses():
    def losses(device):
        fb.manual_seed(0)
        net = fb.nn.Sequential(fb.nn.Linear(8, 16), fb.nn.Tanh(), fb.nn.Linear(16, 3)).to(device)
        optimizer = fb.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        x, target = fb.randn(32, 8).to(device), fb.randint(3, (32,)).to(device)
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = fb.nn.functional.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    assert losses(DEVICE) == pytest.approx(losses("cpu"), rel=1e-4)


@pytest.mark.device("sim")
def test_kernels_are_kept_on_disk_and_a_missing_compiler_is_no_obstacle(tmp_path):
    script = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import flambeau as fb\n"
        "y = (fb.ones(3, device='sim') * 4).tolist()\n"
        "print(y, fb.accelerator.coverage()['mul'], repr(fb._C.accelerator_why(fb.device('sim'))[:40]))"
    )

    def run(**more):
        environment = {**os.environ, "FLAMBEAU_CACHE_DIR": str(tmp_path), **more}
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert "[4.0, 4.0, 4.0] Coverage(kernels=1, fallbacks=0) ''" in run()
    (library,) = (tmp_path / "kernels").iterdir()
    made = library.stat().st_mtime_ns
    assert "kernels=1, fallbacks=0" in run() and library.stat().st_mtime_ns == made and library.suffix == ".so"
    assert '[4.0, 4.0, 4.0] Coverage(kernels=0, fallbacks=1) "there is no C++ compiler' in run(CXX="/nowhere/c++")
