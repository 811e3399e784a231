"""Constraints: sets of tensors that parameters and values must lie in.

A constraint's `check` answers True where a tensor is in the set, one answer per value: the last `event_dim` dimensions
belong to one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent",
    "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot",
    "positive", "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square",
    "stack", "symmetric", "unit_interval",
]  # fmt: skip
__dir__ = __all__.copy


class Constraint:
    """A set of tensors.

    Attributes:
        is_discrete: whether its values are separate points.
        event_dim: how many dimensions one value has.

    Example:
        >>> fb.distributions.constraints.positive.check(fb.tensor([1.0, -1.0]))
        tensor([ True, False])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each value is in the set."""
        raise NotImplementedError(f"{type(self).__name__} does not define check")

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A parameter or support whose constraint depends on other parameters."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        if self._is_discrete is NotImplemented:
            raise NotImplementedError("is_discrete depends on other parameters; ask the distribution's support")
        return self._is_discrete

    @property
    def event_dim(self) -> int:
        if self._event_dim is NotImplemented:
            raise NotImplementedError("event_dim depends on other parameters; ask the distribution's support")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """A copy that knows more: dependent(is_discrete=True, event_dim=0)."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("dependent: this constraint depends on other parameters; ask the distribution's support")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint is only known together with other parameters.

    Example:
        >>> fb.distributions.constraints.is_dependent(fb.distributions.constraints.positive)
        False
    """
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):
    """A property that is a constraint: on an instance the constraint itself, on the class a dependent one.

    Example:
        >>> fb.distributions.Uniform(0.0, 2.0).support
        Interval(lower_bound=0.0, upper_bound=2.0)
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> dependent_property:  # type: ignore[override]  # used as a decorator
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A constraint whose rightmost batch dimensions belong to one value."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"independent: expected at least {self.event_dim} dimensions, got {value.dim()}")
        return result.reshape(result.shape[: result.dim() - self.reinterpreted_batch_ndims] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values that every component of a mixture admits; the components are the last batch dimension.

    Example:
        >>> c = fb.distributions.constraints.MixtureSameFamilyConstraint(fb.distributions.constraints.positive)
        >>> c.check(fb.tensor([1.0, -1.0]))
        tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"MixtureSameFamilyConstraint: expected a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if result.dim() < 1:
            raise ValueError("MixtureSameFamilyConstraint: the value has too few dimensions")
        return result.all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


# ---- numbers -------------------------------------------------------------------------------------------------------


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # all but NaN


class _Bounded(Constraint):
    """Numbers between bounds, which may be tensors."""

    lower_bound: Any = None
    upper_bound: Any = None

    def __repr__(self) -> str:
        name = "".join(word.capitalize() for word in type(self).__name__.strip("_").split("_"))
        bounds = [f"{k}={v}" for k in ("lower_bound", "upper_bound") if (v := getattr(self, k)) is not None]
        return f"{name}({', '.join(bounds)})"


class integer_interval(_Bounded):
    """Whole numbers from lower_bound to upper_bound, both included.

    Example:
        >>> fb.distributions.constraints.integer_interval(0, 2).check(fb.tensor([0.0, 1.5, 3.0]))
        tensor([ True, False, False])
    """

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _integer_greater_than(_Bounded):
    """Whole numbers from lower_bound on."""

    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class greater_than(_Bounded):
    """Numbers above lower_bound.

    Example:
        >>> fb.distributions.constraints.greater_than(1.0).check(fb.tensor([1.0, 2.0]))
        tensor([False,  True])
    """

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class greater_than_eq(_Bounded):
    """Numbers from lower_bound on.

    Example:
        >>> fb.distributions.constraints.greater_than_eq(1.0).check(fb.tensor([1.0, 0.0]))
        tensor([ True, False])
    """

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class less_than(_Bounded):
    """Numbers below upper_bound.

    Example:
        >>> fb.distributions.constraints.less_than(1.0).check(fb.tensor([1.0, 0.0]))
        tensor([False,  True])
    """

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class interval(_Bounded):
    """Numbers from lower_bound to upper_bound, both included.

    Example:
        >>> fb.distributions.constraints.interval(0.0, 1.0)
        Interval(lower_bound=0.0, upper_bound=1.0)
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class half_open_interval(interval):
    """Numbers from lower_bound up to, but not including, upper_bound.

    Example:
        >>> fb.distributions.constraints.half_open_interval(0.0, 1.0).check(fb.tensor([0.0, 1.0]))
        tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


# ---- vectors -------------------------------------------------------------------------------------------------------


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Counts that sum to at most upper_bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# ---- matrices ------------------------------------------------------------------------------------------------------


class _Matrix(Constraint):
    event_dim = 2


class _LowerTriangular(_Matrix):
    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Cholesky factors of correlation matrices: rows of length 1."""

    def check(self, value: Tensor) -> Tensor:
        # The tolerance grows with the number of terms a row sums.
        tolerance = fb.finfo(value.dtype).eps * value.shape[-1] * 10
        row_norms = fb.linalg.norm(value.detach(), dim=-1)
        return super().check(value) & ((row_norms - 1).abs() <= tolerance).all(-1)


class _Square(_Matrix):
    def check(self, value: Tensor) -> Tensor:
        return fb.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=fb.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if not square.all():
            return square
        return fb.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return (fb.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return fb.linalg.cholesky_ex(value).info == 0


# ---- joined --------------------------------------------------------------------------------------------------------


class cat(Constraint):
    """Constraints for consecutive pieces along a dimension.

    Args:
        cseq: the constraints.
        dim: the dimension.
        lengths: the size of each piece; 1 each if not given.

    Example:
        >>> c = fb.distributions.constraints
        >>> c.cat([c.positive, c.real], 0, [1, 2]).check(fb.tensor([1.0, -1.0, 0.0]))
        tensor([True, True, True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if not all(isinstance(c, Constraint) for c in self.cseq) or len(self.lengths) != len(self.cseq):
            raise ValueError(f"cat: expected constraints and as many lengths, got {self.cseq} and {self.lengths}")

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        pieces = value.split(self.lengths, self.dim)
        return fb.cat([c.check(piece) for c, piece in zip(self.cseq, pieces, strict=True)], self.dim)


class stack(Constraint):
    """Constraints for the slices along a dimension.

    Args:
        cseq: the constraints.
        dim: the dimension.

    Example:
        >>> c = fb.distributions.constraints
        >>> c.stack([c.positive, c.real]).check(fb.tensor([[1.0], [-1.0]]))
        tensor([[True],
                [True]])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise ValueError(f"stack: expected constraints, got {self.cseq}")

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        slices = value.unbind(self.dim)
        return fb.stack([c.check(part) for c, part in zip(self.cseq, slices, strict=True)], self.dim)


dependent = _Dependent()
independent = _IndependentConstraint
boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
nonnegative_integer: Constraint = _integer_greater_than(0)
positive_integer: Constraint = _integer_greater_than(1)
real: Constraint = _Real()
real_vector: Constraint = independent(real, 1)
positive: Constraint = greater_than(0.0)
nonnegative: Constraint = greater_than_eq(0.0)
unit_interval: Constraint = interval(0.0, 1.0)
simplex: Constraint = _Simplex()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()
multinomial = _Multinomial
# PyTorch's class names, which libraries of distributions derive from and compare with.
_Cat, _Stack = cat, stack
_GreaterThan, _GreaterThanEq, _LessThan = greater_than, greater_than_eq, less_than
_Interval, _HalfOpenInterval = interval, half_open_interval
_IntegerInterval, _IntegerGreaterThan = integer_interval, _integer_greater_than
