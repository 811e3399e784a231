"""Random ops: what they draw, and the distribution it must come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

import flambeau as fb

from .spec import FLOATS, FULL_FLOATS, dtype_of

COUNT = 60_000  # enough for sharp statistics, little enough for a quick test


@dataclass(frozen=True)
class RandomSpec:
    """A random op; `draw(n, dtype, generator)` gives about `n` samples of the reference distribution."""

    name: str
    draw: Callable[[int, Any, Any], Any]
    reference: Any  # a frozen scipy.stats distribution
    dtypes: tuple[str, ...] = FULL_FLOATS
    method: bool = False
    errors: tuple[tuple[str, type | tuple, Callable[[], Any]], ...] = ()
    lowest: float = -np.inf
    below: float = np.inf  # the values stay under it
    generator: bool = True  # takes generator=


def empty(n, dtype):
    return fb.empty((n,), dtype=dtype_of(dtype))


def zeros(n, dtype):
    return fb.zeros((n,), dtype=dtype_of(dtype))


WEIGHTS = (0.1, 0.2, 0.3, 0.4)
CATEGORIES = stats.rv_discrete(values=(range(4), WEIGHTS))
NEGATIVE_SIZE = ("a negative size", RuntimeError)
TOO_LARGE = ("a size that overflows", RuntimeError)

# fmt: off
ROWS = [
    RandomSpec("rand", lambda n, d, g: fb.rand(n, dtype=dtype_of(d), generator=g), stats.uniform(0, 1), FLOATS,
               lowest=0, below=1,
               errors=((*NEGATIVE_SIZE, lambda: fb.rand(-1)), (*TOO_LARGE, lambda: fb.rand(2**40, 2**40)),
                       ("an integer dtype", RuntimeError, lambda: fb.rand(2, dtype=fb.int64)))),
    RandomSpec("randn", lambda n, d, g: fb.randn(n, dtype=dtype_of(d), generator=g), stats.norm(0, 1), FLOATS,
               errors=((*NEGATIVE_SIZE, lambda: fb.randn(-1)), ("an integer dtype", RuntimeError,
                       lambda: fb.randn(2, dtype=fb.int64)))),
    RandomSpec("randint", lambda n, d, g: fb.randint(3, 9, (n,), dtype=dtype_of(d), generator=g), stats.randint(3, 9),
               ("int64", "int32", "uint8", "float32"), lowest=3, below=9,
               errors=((*NEGATIVE_SIZE, lambda: fb.randint(0, 2, (-1,))), ("an empty range", RuntimeError,
                       lambda: fb.randint(2, 2, (3,))), ("a range beyond the dtype", RuntimeError,
                       lambda: fb.randint(0, 1000, (3,), dtype=fb.uint8)))),
    RandomSpec("rand_like", lambda n, d, g: fb.rand_like(zeros(n, d)), stats.uniform(0, 1), FLOATS, lowest=0, below=1,
               generator=False, errors=(("a list", TypeError, lambda: fb.rand_like([1.0])),)),
    RandomSpec("randn_like", lambda n, d, g: fb.randn_like(zeros(n, d)), stats.norm(0, 1), FLOATS, generator=False,
               errors=(("a list", TypeError, lambda: fb.randn_like([1.0])),)),
    RandomSpec("randint_like", lambda n, d, g: fb.randint_like(zeros(n, d), 3, 9), stats.randint(3, 9),
               ("int64", "float32"),
               lowest=3, below=9, generator=False),
    RandomSpec("normal", lambda n, d, g: fb.normal(fb.full((n,), 2.0, dtype=dtype_of(d)), 3.0, generator=g),
               stats.norm(2, 3),
               errors=(("a negative spread", RuntimeError, lambda: fb.normal(0.0, -1.0, (3,))),)),
    RandomSpec("bernoulli", lambda n, d, g: fb.bernoulli(fb.full((n,), 0.3, dtype=dtype_of(d)), generator=g),
               stats.bernoulli(0.3), FLOATS, errors=(("a probability above one", RuntimeError,
                                                      lambda: fb.bernoulli(fb.tensor([1.5]))),)),
    RandomSpec("poisson", lambda n, d, g: fb.poisson(fb.full((n,), 4.0, dtype=dtype_of(d)), generator=g),
               stats.poisson(4.0),
               errors=(("a negative rate", RuntimeError, lambda: fb.poisson(fb.tensor([-1.0]))),)),
    RandomSpec("multinomial", lambda n, d, g: fb.multinomial(fb.tensor(WEIGHTS, dtype=dtype_of(d)), n, True,
               generator=g),
               CATEGORIES, errors=(
                   ("too many without replacement", RuntimeError, lambda: fb.multinomial(fb.ones(3), 4)),
                   ("a negative weight", RuntimeError, lambda: fb.multinomial(fb.tensor([1.0, -1.0]), 1)),
                   ("weights that sum to zero", RuntimeError, lambda: fb.multinomial(fb.zeros(3), 1)),
                   ("no samples", RuntimeError, lambda: fb.multinomial(fb.ones(3), 0)),
                   ("three dimensions", RuntimeError, lambda: fb.multinomial(fb.ones(1, 1, 3), 1)))),
    RandomSpec("binomial", lambda n, d, g: fb.binomial(fb.full((n,), 10.0, dtype=dtype_of(d)), fb.full((n,), 0.3,
               dtype=dtype_of(d)), generator=g), stats.binom(10, 0.3)),
    RandomSpec("uniform_", lambda n, d, g: empty(n, d).uniform_(-2, 4, generator=g), stats.uniform(-2, 6), FLOATS,
               method=True,
               lowest=-2, below=4, errors=(("from above to", RuntimeError, lambda: zeros(2, "float32").uniform_(2, 1)),
                                           ("an integer tensor", RuntimeError, lambda: zeros(2, "int64").uniform_()))),
    RandomSpec("normal_", lambda n, d, g: empty(n, d).normal_(2, 3, generator=g), stats.norm(2, 3), FLOATS, method=True,
               errors=(("a negative spread", RuntimeError, lambda: zeros(2, "float32").normal_(0, -1)),)),
    RandomSpec("bernoulli_", lambda n, d, g: empty(n, d).bernoulli_(0.3, generator=g), stats.bernoulli(0.3),
               ("float32", "int64", "bool"), method=True,
               errors=(("a probability above one", RuntimeError, lambda: zeros(2, "float32").bernoulli_(1.5)),)),
    RandomSpec("exponential_", lambda n, d, g: empty(n, d).exponential_(2.0, generator=g), stats.expon(scale=0.5),
               method=True,
               lowest=0, errors=(("a negative rate", RuntimeError, lambda: zeros(2, "float32").exponential_(-1.0)),)),
    RandomSpec("cauchy_", lambda n, d, g: empty(n, d).cauchy_(1.0, 2.0, generator=g), stats.cauchy(1, 2), method=True,
               errors=(("a negative width", RuntimeError, lambda: zeros(2, "float32").cauchy_(0, -1.0)),)),
    RandomSpec("log_normal_", lambda n, d, g: empty(n, d).log_normal_(0.5, 0.25, generator=g),
               stats.lognorm(0.25, scale=np.exp(0.5)), method=True, lowest=0,
               errors=(("a negative spread", RuntimeError, lambda: zeros(2, "float32").log_normal_(0, -1.0)),)),
    RandomSpec("geometric_", lambda n, d, g: empty(n, d).geometric_(0.3, generator=g), stats.geom(0.3),
               ("float32", "float64", "int64"), method=True, lowest=1,
               errors=(("a probability of zero", RuntimeError, lambda: zeros(2, "float32").geometric_(0.0)),)),
    RandomSpec("random_", lambda n, d, g: empty(n, d).random_(3, 9, generator=g), stats.randint(3, 9),
               ("int64", "float32", "uint8"), method=True, lowest=3, below=9,
               errors=(("an empty range", RuntimeError, lambda: zeros(2, "int64").random_(3, 3)),)),
]
# fmt: on
# randperm has no element distribution; test_random.py treats it by itself.
SPECIAL = ("randperm",)
RANDOM = {row.name: row for row in ROWS}
