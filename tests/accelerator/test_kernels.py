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


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, math.inf])
def test_distances(p):
    x, y = fb.randn(2, 30, 7), fb.randn(2, 11, 7)
    y[0, 3] = x[0, 5]  # at no distance
    results = []
    for device in ("cpu", DEVICE):
        leaves = [t.to(device).requires_grad_() for t in (x, y)]
        out = fb.cdist(*leaves, p=p, compute_mode="donot_use_mm_for_euclid_dist")
        pairs = fb.nn.functional.pdist(leaves[0][0], p=p)
        results.append([out, pairs, *fb.autograd.grad(out.square().sum() + pairs.sum(), leaves)])
    for expected, got in zip(*results, strict=True):
        fb.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-5)
    assert only_kernels("cdist", "pdist")


def test_outer_products_ignore_a_start_without_a_share():
    start, x = fb.full((3, 4), math.nan, dtype=fb.bfloat16), fb.arange(3.0).bfloat16()
    got = fb.addr(start.to(DEVICE), x.to(DEVICE), fb.ones(4, dtype=fb.bfloat16, device=DEVICE), beta=0)
    assert got.sum().item() == 12


def test_places_to_split_at_lie_on_the_cpu():
    x = fb.arange(6.0, device=DEVICE)
    assert [part.tolist() for part in x.tensor_split(fb.tensor([1, 4]))] == [[0.0], [1.0, 2.0, 3.0], [4.0, 5.0]]


def test_distances_by_a_product():
    x, y = fb.randn(40, 5), fb.randn(3, 28, 5)
    fb.testing.assert_close(fb.cdist(x.to(DEVICE), y.to(DEVICE)).cpu(), fb.cdist(x, y), rtol=1e-4, atol=1e-4)
    assert only_kernels("cdist")


def test_rounding_to_decimals_and_powers_of_two():
    x = fb.tensor([1.2345, -1234.5, 0.5, 2.5, -0.0, math.inf, math.nan])
    for dtype in (fb.float32, fb.float64, fb.bfloat16):
        for decimals in (-2, 0, 2, 7):
            a, b = x.to(dtype).to(DEVICE).round(decimals=decimals), x.to(dtype).round(decimals=decimals)
            fb.testing.assert_close(a.cpu(), b, equal_nan=True, rtol=0, atol=0)
        e = fb.tensor([3, -140, 200, -1, 5, 2, 1])
        fb.testing.assert_close(
            fb.ldexp(x.to(dtype).to(DEVICE), e.to(DEVICE)).cpu(), fb.ldexp(x.to(dtype), e), equal_nan=True, rtol=0, atol=0
        )
    assert only_kernels("round", "ldexp")


def test_repeats_that_differ():
    x, times = fb.arange(12.0).view(4, 3), fb.tensor([2, 0, 3, 1])
    got = x.to(DEVICE).repeat_interleave(times.to(DEVICE), 0)
    assert got.cpu().equal(x.repeat_interleave(times, 0)) and got.shape == (6, 3)
    assert fb.repeat_interleave(fb.tensor([0, 0], device=DEVICE)).shape == (0,)
    assert only_kernels("repeat_interleave")
    with pytest.raises(ValueError, match="repeat_interleave: repeats can not be negative, got -1"):
        x.to(DEVICE).repeat_interleave(fb.tensor([2, -1, 3, 1], device=DEVICE), 0)


def test_late_errors_name_the_function_that_was_called():
    weight, at = fb.randn(5, 3, device=DEVICE), fb.tensor([[1, 7]], device=DEVICE)
    with pytest.raises(IndexError, match="^embedding: index 7 is out of bounds for dimension 0 with size 5"):
        fb.nn.functional.embedding(at, weight).cpu()
    with pytest.raises(IndexError, match="^embedding_bag: index 7 is out of bounds"):
        fb.nn.functional.embedding_bag(at, weight).cpu()
    with pytest.raises(IndexError, match="^index_select: index 7 is out of bounds"):
        weight.index_select(0, at[0]).cpu()


@pytest.mark.parametrize("shape", [(5, 2000), (70, 300), (300, 70), (3, 7, 1030)])
def test_columns_of_all_widths(shape):
    """Processors take as many columns at a time as fit the first cache."""
    x = fb.randn(shape)
    for name in ("sum", "amax", "var", "logsumexp", "argmin", "all"):
        got, expected = getattr(x.to(DEVICE), name)(0), getattr(x, name)(0)
        fb.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", [fb.contiguous_format, fb.channels_last])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_and_relu(layout, training):
    x = fb.randn(3, 5, 4, 6).contiguous(memory_format=layout)
    results = []
    for device in ("cpu", DEVICE):
        leaves = [t.to(device).requires_grad_() for t in (x + 3, fb.linspace(-1, 2, 5), fb.linspace(0, 1, 5))]
        running = [t.to(device) for t in (fb.full((5,), 2.5), fb.full((5,), 1.5))]
        fb.manual_seed(0)
        y = fb.nn.functional.batch_norm(leaves[0], *running, *leaves[1:], training).relu()
        results.append([y, *fb.autograd.grad((y * fb.randn(x.shape).to(device)).sum(), leaves), *running])
    for expected, got in zip(*results, strict=True):
        fb.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_complex_numbers():
    x, y = fb.randn(3, 4, dtype=fb.complex64), fb.randn(4, dtype=fb.complex64)
    x[1, 2] = 0
    a, b = x.to(DEVICE), y.to(DEVICE)
    calls = [
        lambda x, y: x + 2j * y, lambda x, y: x * y - 1, lambda x, y: x / y, lambda x, y: x.conj_physical().real + y.imag,
        lambda x, y: x.abs() + y.angle(), lambda x, y: (x == y) | x.isnan(), lambda x, y: x.exp() + y.log().sqrt(),
        lambda x, y: x.nonzero(), lambda x, y: x.to(fb.complex128).sgn(), lambda x, y: fb.where(x.real > 0, x, y),
        lambda x, y: (x @ y) + (x.mT.conj() @ x).sum(), lambda x, y: x.sin() + y.cos() + x.sinh() * y.cosh(),
        lambda x, y: fb.addcmul(x, x, y, value=2 - 1j), lambda x, y: fb.complex(x.real, x.imag) * x.bool(),
    ]  # fmt: skip
    for call in calls:
        fb.testing.assert_close(call(a, b).cpu(), call(x, y), rtol=1e-5, atol=1e-5)
    grads = []
    for device in ("cpu", DEVICE):
        leaves = [t.detach().to(device).requires_grad_() for t in (x, y)]
        grads.append(fb.autograd.grad(((leaves[0] * leaves[1] + 1) / 2).abs().sum(), leaves))
    for expected, got in zip(*grads, strict=True):
        fb.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)
    assert only_kernels("mul", "true_divide", "nonzero", "exp", "where")
