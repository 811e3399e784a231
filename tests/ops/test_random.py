"""Random ops: distribution, reproducibility, independence of the thread count."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import flambeau as fb

from . import spec as lib
from .spec import OpSpec, S, name_of, to_numpy
from .specs_random import COUNT, RANDOM

ROWS = list(RANDOM.values())
LARGE = 300_007


def rows(condition=lambda row: True):
    chosen = [row for row in ROWS if condition(row)]
    return pytest.mark.parametrize("row", chosen, ids=[row.name for row in chosen])


def seeded(seed: int):
    generator = fb.Generator()
    generator.manual_seed(seed)
    return generator


def draw(row, n=COUNT, dtype=None, seed=1234):
    """Draw with a generator where the op takes one, else after seeding the default one."""
    if row.generator:
        return row.draw(n, dtype or row.dtypes[0], seeded(seed))
    fb.manual_seed(seed)
    return row.draw(n, dtype or row.dtypes[0], None)


@rows()
def test_distribution(row):
    """Mean and spread within seven standard errors; the whole distribution by Kolmogorov–Smirnov or chi-squared."""
    for dtype in row.dtypes:
        values = draw(row, dtype=dtype)
        assert name_of(values.dtype) == dtype or row.name == "multinomial", f"{row.name}: dtype {values.dtype}"
        sample = to_numpy(values).astype(np.float64).reshape(-1)
        assert sample.size == COUNT and np.isfinite(sample).all()
        # Half precision may round up to the open end.
        top = sample.max() <= row.below if dtype in ("float16", "bfloat16") else sample.max() < row.below
        assert sample.min() >= row.lowest and top, f"{row.name} [{dtype}]: values leave the range"
        mean, spread = row.reference.mean(), row.reference.std()
        if np.isfinite(mean):
            error = abs(sample.mean() - mean)
            slack = 4e-3 * abs(spread) if dtype in ("float16", "bfloat16") else 0
            what = f"{row.name} [{dtype}]"
            assert error < 7 * spread / np.sqrt(COUNT) + slack, f"{what}: mean {sample.mean()}, expected {mean}"
            assert abs(sample.std() / spread - 1) < 0.05, f"{what}: spread {sample.std()}, expected {spread}"
        if dtype in ("float16", "bfloat16"):
            continue
        if not isinstance(getattr(row.reference, "dist", row.reference), stats.rv_discrete):
            chance = stats.kstest(sample, row.reference.cdf).pvalue
        else:
            seen, counts = np.unique(sample, return_counts=True)
            expected = row.reference.pmf(seen) * COUNT
            keep = expected > 10
            chance = stats.chisquare(counts[keep], expected[keep] * counts[keep].sum() / expected[keep].sum()).pvalue
        assert chance > 1e-6, f"{row.name} [{dtype}]: such a sample has a chance of {chance:.2g}"


@rows(lambda row: row.generator)
def test_generator_reproduces(row):
    first, again, other = draw(row, 1000, seed=7), draw(row, 1000, seed=7), draw(row, 1000, seed=8)
    assert lib.same_bits(first, again), f"{row.name}: the same seed gave different numbers"
    assert not lib.same_bits(first, other), f"{row.name}: different seeds gave the same numbers"
    generator = seeded(7)
    one, two = (row.draw(1000, row.dtypes[0], generator) for _ in range(2))
    assert not lib.same_bits(one, two), f"{row.name}: the generator did not advance"
    before = fb.get_rng_state()
    draw(row, 100)
    assert lib.same_bits(before, fb.get_rng_state()), f"{row.name}: an own generator moved the default one"


@rows()
def test_default_seed_reproduces(row):
    fb.manual_seed(11)
    first = row.draw(1000, row.dtypes[0], None)
    state = fb.get_rng_state()
    second = row.draw(1000, row.dtypes[0], None)
    fb.manual_seed(11)
    assert lib.same_bits(first, row.draw(1000, row.dtypes[0], None)), f"{row.name}: manual_seed does not reproduce"
    fb.set_rng_state(state)
    assert lib.same_bits(second, row.draw(1000, row.dtypes[0], None)), f"{row.name}: set_rng_state does not reproduce"
    assert not lib.same_bits(first, second), f"{row.name}: the generator did not advance"


@rows()
def test_threads_do_not_change_numbers(row):
    fb.set_num_threads(1)
    one = draw(row, LARGE)
    fb.set_num_threads(2)
    assert lib.same_bits(one, draw(row, LARGE)), f"{row.name}: 1 and 2 threads draw different numbers"


@rows(lambda row: row.method)
def test_strided_targets(row):
    """A tensor with gaps gets the same numbers as a plain one, and the gaps stay untouched."""
    dtype = row.dtypes[0]
    base = fb.zeros((2 * 500,), dtype=lib.dtype_of(dtype))
    args = {"uniform_": (-2, 4), "normal_": (2, 3), "random_": (3, 9), "cauchy_": (1.0, 2.0),
    "log_normal_": (0.5, 0.25)}
    single = {"bernoulli_": 0.3, "exponential_": 2.0, "geometric_": 0.3}
    call = args.get(row.name) or (single[row.name],)
    target = base[::2]
    returned = getattr(target, row.name)(*call, generator=seeded(5))
    assert returned is target, f"{row.name} does not return the tensor itself"
    assert lib.same_bits(target, row.draw(500, dtype, seeded(5))), f"{row.name}: a strided tensor gets other numbers"
    assert not to_numpy(base[1::2]).any(), f"{row.name}: wrote beside the tensor"


@rows(lambda row: row.errors)
def test_errors(row):
    named = OpSpec(row.name, lambda: None, lambda d: [S()])
    for label, error, call in row.errors:
        lib.assert_error(call, error, named, label)


@rows()
def test_empty(row):
    if row.name == "multinomial":
        assert tuple(fb.multinomial(fb.ones((0, 3)), 2, True).shape) == (0, 2)
    else:
        assert draw(row, 0).numel() == 0
