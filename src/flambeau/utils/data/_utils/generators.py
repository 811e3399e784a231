"""The default generators of flambeau, the module random and NumPy: seeded for a sample, saved and restored.

Only documented functions are used: `random.seed`, `numpy.random.seed` and the functions for states. The three streams
are independent, since each library derives its state from a seed in its own way.
"""

from __future__ import annotations

import random
from typing import Any

import flambeau as fb
from flambeau import _C


def seed_sample(seed: int, index: int) -> None:
    """Seeds the generators with a function of the epoch's seed and the sample's index."""
    import numpy as np

    mixed = _C.mix(seed, index)
    fb.default_generator.manual_seed(mixed >> 1)
    random.seed(mixed)
    np.random.seed(mixed & 0xFFFFFFFF)
    current = np.random.get_bit_generator()  # type: ignore[attr-defined]  # public, but not in the stub
    if type(current) is not np.random.MT19937:  # then seed() does not reset a cached second normal number
        np.random.set_state({**np.random.get_state(legacy=False), "has_gauss": 0, "gauss": 0.0})


def save() -> Any:
    """The states of flambeau, random and NumPy."""
    import numpy as np

    return fb.default_generator.get_state(), random.getstate(), np.random.get_state(legacy=False)


def restore(saved: Any) -> None:
    """Restores what save() returned."""
    import numpy as np

    ours, python, numpy = saved
    fb.default_generator.set_state(ours)
    random.setstate(python)
    np.random.set_state(numpy)
