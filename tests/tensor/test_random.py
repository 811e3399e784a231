"""Random numbers: distributions by their moments, reproducibility, independence of threads and layout, errors."""

import math
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fb

N = 200_000
FLOATS = [fb.float16, fb.bfloat16, fb.float32, fb.float64]


@pytest.fixture(autouse=True)
def seed():
    fb.manual_seed(11)


def moments(t):
    x = t.double().numpy()
    return x.mean(), x.var()


def check_moments(t, mean, variance):
    """Within six standard errors, plus the rounding of the half types."""
    found_mean, found_variance = moments(t)
    slack = 6 / math.sqrt(t.numel()) + (0.01 if t.element_size() == 2 else 0)
    assert abs(found_mean - mean) < slack * math.sqrt(variance)
    assert abs(found_variance - variance) < 3 * slack * variance


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_and_normal(dtype):
    u = fb.rand(N, dtype=dtype)
    check_moments(u, 0.5, 1 / 12)
    assert u.min() >= 0 and u.max() < 1
    check_moments(fb.randn(N, dtype=dtype), 0, 1)
    check_moments(fb.empty(N, dtype=dtype).uniform_(-2, 4), 1, 3)
    check_moments(fb.empty(N, dtype=dtype).normal_(3, 2), 3, 4)


def test_normal_has_the_right_shape():
    x = fb.randn(N).double().numpy()
    for limit, share in ((1, 0.6827), (2, 0.9545), (3, 0.9973)):
        assert abs((np.abs(x) < limit).mean() - share) < 0.005
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02
    assert np.abs(x).max() > 3.9


@pytest.mark.parametrize("dtype", [fb.complex64, fb.complex128])
def test_complex_normal_has_variance_one(dtype):
    z = fb.randn(N, dtype=dtype)
    check_moments(z.real, 0, 0.5)
    check_moments(z.imag, 0, 0.5)


def test_other_distributions():
    check_moments(fb.empty(N).exponential_(2), 0.5, 0.25)
    check_moments(fb.empty(N).geometric_(0.2), 5, 20)
    check_moments(fb.empty(N).log_normal_(0, 0.25), math.exp(1 / 32), (math.exp(1 / 16) - 1) * math.exp(1 / 16))
    assert abs(fb.empty(N).cauchy_(2, 3).median().item() - 2) < 0.1
    check_moments(fb.empty(N).bernoulli_(0.3), 0.3, 0.21)
    check_moments(fb.bernoulli(fb.full((N,), 0.7)), 0.7, 0.21)
    assert bool(fb.empty(1000).bernoulli_(1.0).all()) and not bool(fb.empty(1000).bernoulli_(0.0).any())


@pytest.mark.parametrize("mean", [0.5, 5.0, 20.0, 1000.0])
def test_poisson(mean):
    check_moments(fb.poisson(fb.full((N,), mean)), mean, mean)


@pytest.mark.parametrize("n, p", [(10, 0.3), (100, 0.5), (1000, 0.02), (1000, 0.9), (3, 1.0), (3, 0.0)])
def test_binomial(n, p):
    x = fb.binomial(fb.full((N,), float(n)), fb.full((N,), p))
    assert x.min() >= 0 and x.max() <= n
    if 0 < p < 1:
        check_moments(x, n * p, n * p * (1 - p))
    else:
        assert bool((x == n * p).all())


def test_integers():
    counts = np.bincount(fb.randint(0, 6, (60_000,)).numpy())
    assert len(counts) == 6 and np.abs(counts - 10_000).max() < 600
    x = fb.randint(-3, 2**40, (N,))
    assert x.min() >= -3 and x.max() > 2**39
    assert fb.randint(5, (2, 2), dtype=fb.int32).dtype == fb.int32
    assert set(fb.empty(1000, dtype=fb.bool).random_().tolist()) == {False, True}
    assert fb.empty(N, dtype=fb.uint8).random_().max() == 255
    assert fb.empty(N, dtype=fb.int64).random_().min() >= 0


def test_randperm():
    for n in (0, 1, 2, 1000):
        assert sorted(fb.randperm(n).tolist()) == list(range(n))
    first = fb.stack([fb.randperm(4)[:1] for _ in range(4000)])
    assert np.abs(np.bincount(first.flatten().numpy()) - 1000).max() < 200


def test_multinomial():
    weights = fb.tensor([1.0, 2.0, 3.0, 0.0])
    counts = np.bincount(fb.multinomial(weights, 60_000, replacement=True).numpy(), minlength=4)
    assert np.abs(counts - [10_000, 20_000, 30_000, 0]).max() < 700
    pairs = fb.multinomial(weights.expand(20_000, 4), 2)
    assert bool((pairs[:, 0] != pairs[:, 1]).all()) and pairs.max() == 2
    assert abs((pairs[:, 0] == 2).double().mean().item() - 0.5) < 0.02


@pytest.mark.parametrize("make", [fb.rand, fb.randn])
def test_threads_and_memory_order_change_nothing(make):
    fb.set_num_threads(1)
    fb.manual_seed(3)
    one = make(300_001)
    fb.set_num_threads(3)
    fb.manual_seed(3)
    assert bool((one == make(300_001)).all())
    fb.manual_seed(3)
    turned = fb.empty(50, 40).T
    getattr(turned, "uniform_" if make is fb.rand else "normal_")()
    fb.manual_seed(3)
    assert bool((turned == make(40, 50)).all())


def test_first_numbers_do_not_depend_on_the_size():
    fb.manual_seed(1)
    long = fb.rand(1000)
    fb.manual_seed(1)
    assert bool((fb.rand(64) == long[:64]).all())


def test_generators_and_state():
    g = fb.Generator().manual_seed(9)
    a = fb.randn(5, generator=g)
    b = fb.randn(5, generator=g)
    assert not bool((a == b).all())
    g.manual_seed(9)
    assert bool((fb.randn(5, generator=g) == a).all())
    state = fb.get_rng_state()
    x = fb.rand(7)
    fb.set_rng_state(state)
    assert bool((fb.rand(7) == x).all())
    with fb.random.fork_rng():
        inside = fb.rand(3)
    assert bool((fb.rand(3) == inside).all())


def test_normal_overloads():
    mean, std = fb.tensor([0.0, 100.0]), fb.tensor([0.0, 0.0])
    assert fb.normal(mean, std).tolist() == [0.0, 100.0]
    assert fb.normal(mean, 0.0).tolist() == [0.0, 100.0]
    assert fb.normal(3.0, std).tolist() == [3.0, 3.0]
    assert fb.normal(2.0, 0.0, (2, 1)).tolist() == [[2.0], [2.0]]
    assert fb.normal(mean.unsqueeze(1), std).shape == (2, 2)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: fb.rand(-1), ValueError, "negative"),
        (lambda: fb.rand(2, dtype=fb.int64), TypeError, "floating point"),
        (lambda: fb.randint(5, 5, (2,)), ValueError, "'from' to be less than 'to', but got from="),
        (lambda: fb.randint(0, 300, (2,), dtype=fb.uint8), ValueError, "out of bounds"),
        (lambda: fb.empty(2).normal_(0, -1), ValueError, "std >= 0"),
        (lambda: fb.empty(2).uniform_(1, 0), ValueError, "range, but found"),
        (lambda: fb.empty(2).exponential_(0), ValueError, "lambda > 0"),
        (lambda: fb.empty(2).geometric_(1), ValueError, r"in \(0, 1\)"),
        (lambda: fb.empty(2).bernoulli_(2), ValueError, "from 0 to 1"),
        (lambda: fb.bernoulli(fb.tensor([0.5, 1.5])), ValueError, "from 0 to 1"),
        (lambda: fb.multinomial(fb.ones(3), 4), ValueError, "without replacement"),
        (lambda: fb.multinomial(fb.zeros(3), 1), ValueError, "sum to zero"),
        (lambda: fb.multinomial(fb.tensor([-1.0, 2.0]), 1), ValueError, "element < 0"),
        (lambda: fb.multinomial(fb.tensor([float("nan"), 2.0]), 1), ValueError, "`nan`"),
        (lambda: fb.poisson(fb.tensor([-1.0])), ValueError, "not negative"),
        (lambda: fb.randperm(-1), ValueError, "negative"),
        (lambda: fb.randperm(300, dtype=fb.uint8), ValueError, "too large"),
        (lambda: fb.empty(3, 1).expand(3, 4).uniform_(), ValueError, "a single memory location"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_unseeded_processes_draw_different_numbers():
    script = "import flambeau as fb; print(fb.initial_seed(), fb.rand(4).tolist(), fb.Generator().initial_seed())"
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert runs[0] != runs[1]
    assert runs[0].split()[-1] == runs[1].split()[-1]  # a generator of one's own starts from a fixed seed, as in PyTorch
    assert all(0 <= int(r.split()[0]) < 2**53 for r in runs)


def test_randperm_visits_every_place():
    for n in (0, 1, 2, 10, 1000):
        values = fb.randperm(n, generator=fb.Generator().manual_seed(3)).numpy()
        assert sorted(values.tolist()) == list(range(n))
    assert fb.equal(fb.randperm(50, generator=fb.Generator().manual_seed(3)), fb.randperm(50, generator=fb.Generator().manual_seed(3)))
    assert not fb.equal(fb.randperm(50, generator=fb.Generator().manual_seed(3)), fb.randperm(50, generator=fb.Generator().manual_seed(4)))
    assert fb.randperm(4).dtype == fb.int64
    assert fb.randperm(4, dtype=fb.int32).dtype == fb.int32
    generator = fb.Generator().manual_seed(9)
    counts = np.zeros((4, 4))
    for _ in range(2000):
        counts[range(4), fb.randperm(4, generator=generator).numpy()] += 1
    # Every element visits every place equally often: 500 times, give or take.
    assert (np.abs(counts - 500) < 140).all(), counts
    with pytest.raises(RuntimeError, match="^randperm: "):
        fb.randperm(-1)


def test_multinomial_without_replacement():
    drawn = fb.multinomial(fb.ones((200, 5)), 5, generator=fb.Generator().manual_seed(2)).numpy()
    assert (np.sort(drawn, axis=1) == np.arange(5)).all(), "an index was drawn twice"
    weights = fb.tensor([0.0, 1.0, 0.0, 1.0])
    drawn = fb.multinomial(weights.expand(300, 4), 2, generator=fb.Generator().manual_seed(2)).numpy()
    assert set(drawn.reshape(-1).tolist()) == {1, 3}, "an impossible index was drawn"
    assert 90 < (drawn[:, 0] == 1).sum() < 210


def test_state_of_a_generator():
    generator = fb.Generator()
    generator.manual_seed(77)
    assert generator.initial_seed() == 77
    state = generator.get_state()
    first = fb.rand(10, generator=generator)
    generator.set_state(state)
    assert fb.equal(first, fb.rand(10, generator=generator))


def test_bits_are_not_repeated_across_ops():
    """Two draws in a row share no numbers, whatever their sizes."""
    generator = fb.Generator().manual_seed(1)
    seen = np.concatenate([fb.rand(n, dtype=fb.float64, generator=generator).numpy() for n in (1, 3, 5, 1000, 7)])
    assert len(np.unique(seen)) == len(seen)


@pytest.mark.parametrize("dtype", [fb.float64, fb.complex64, fb.complex128])
@pytest.mark.parametrize("draw", [fb.rand, fb.randn])
def test_out_gives_the_dtype(draw, dtype):
    fb.manual_seed(5)
    expected = draw(3, 2, dtype=dtype)
    fb.manual_seed(5)
    assert fb.equal(draw(3, 2, out=fb.empty(0, dtype=dtype)), expected)


@pytest.mark.parametrize(("dtype", "least"), [(fb.float16, 4000), (fb.bfloat16, 1000)])
def test_uniform_halves_take_many_values_and_never_the_end(dtype, least):
    x = fb.empty(20000, dtype=dtype).uniform_(-100, 100)
    assert x.unique().numel() > least and (x >= -100).all() and (x < 100).all()
    assert (fb.rand(200000, dtype=dtype) < 1).all()
    assert (fb.empty(10, dtype=dtype).uniform_(2, 2) == 2).all()
