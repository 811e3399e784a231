"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all

__all__ = ["VonMises"]
__dir__ = __all__.copy


class VonMises(Distribution):
    """Von Mises distribution of angles.

    Args:
        loc: the mean angle, in radians.
        concentration: how closely angles gather around it.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.VonMises(0.0, 2.0).variance
        tensor(0.3022)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _parts = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # i0e = exp(-κ) I₀ cannot overflow; its factor goes to the cosine.
        cosine = self.concentration * (fb.cos(value - self.loc) - 1)
        return cosine - math.log(2 * math.pi) - fb.special.i0e(self.concentration).log()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        # Best and Fisher's rejection from a wrapped Cauchy distribution; double precision keeps large κ apart.
        shape = self._extended_shape(sample_shape)
        with fb.no_grad():
            kappa = self.concentration.double()
            tau = 1 + (1 + 4 * kappa**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            ratio = (1 + rho**2) / (2 * rho)
            ratio = fb.where(kappa < 1e-5, 1 / kappa + kappa, ratio).expand(shape)
            angle, waiting = fb.zeros(shape, dtype=fb.double), fb.ones(shape, dtype=fb.bool)
            while waiting.any():
                u1, u2, u3 = fb.rand((3, *shape), dtype=fb.double)
                z = fb.cos(math.pi * u1)
                f = (1 + ratio * z) / (ratio + z)
                c = kappa * (ratio - f)
                accepted = waiting & ((c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0))
                angle = fb.where(accepted, (u3 - 0.5).sign() * f.clamp(min=-1, max=1).acos(), angle)
                waiting = waiting & ~accepted
            turned = (angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Circular variance: one minus the length of the mean direction."""
        return 1 - fb.special.i1e(self.concentration) / fb.special.i0e(self.concentration)
