"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import broadcast_all

__all__ = ["Chi2"]
__dir__ = __all__.copy


class Chi2(Gamma):
    """Chi-squared distribution: Gamma(df / 2, 1 / 2).

    Args:
        df: degrees of freedom.
        validate_args: whether to check parameters and values.

    Example:
        >>> fb.distributions.Chi2(3.0).mean
        tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
