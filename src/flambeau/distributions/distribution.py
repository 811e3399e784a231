"""Distribution: what every distribution offers, and how it checks parameters and values."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import flambeau as fb
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.utils import lazy_property

__all__ = ["Distribution"]
__dir__ = __all__.copy


class Distribution:
    """A probability distribution over tensors.

    A draw has the shape `sample_shape + batch_shape + event_shape`: independent draws, independent distributions with
    parameters of their own, and the shape of one value. A distribution says which functions it has by defining them;
    the
    others raise NotImplementedError.

    Args:
        batch_shape: shape of the independent distributions.
        event_shape: shape of one value.
        validate_args: whether to check parameters and values; the class's default if not given (on, unless Python
            runs with -O).

    Example:
        >>> d = fb.distributions.Normal(fb.zeros(3), 1.0)
        >>> d.sample((2,)).shape, d.batch_shape, d.event_shape
        (flambeau.Size([2, 3]), flambeau.Size([3]), flambeau.Size([]))
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    # What `expand` broadcasts: attributes and how many of their dimensions belong to one value.
    _parts: ClassVar[dict[str, int]] = {}

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} does not define arg_constraints, so its parameters are not checked; define it, "
                "or pass validate_args=False",
                stacklevel=4,
            )
            return
        for name, constraint in expected.items():
            if constraints.is_dependent(constraint):
                continue  # needs another parameter; the class checks it itself
            if name not in vars(self) and isinstance(_class_attribute(type(self), name), lazy_property):
                continue  # computed from a checked parameter
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"{type(self).__name__}: Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) "
                    f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions check parameters and values when they are not told.

        Example:
            >>> fb.distributions.Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    # ---- shapes ----------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """Shape of the independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one value."""
        return self._event_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch, as a view of the parameters.

        Args:
            batch_shape: the new batch shape; the present one must broadcast to it.

        Example:
            >>> fb.distributions.Normal(0.0, 1.0).expand((2, 3)).batch_shape
            flambeau.Size([2, 3])
        """
        new = type(self).__new__(type(self)) if _instance is None else _instance
        batch_shape = Size(batch_shape)
        vars(new).update(vars(self))
        for name, event_dims in self._parts.items():
            part = vars(self).get(name)
            if isinstance(part, Tensor):
                part = part.expand(batch_shape + part.shape[part.dim() - event_dims :])
            elif isinstance(part, Distribution):
                part = part.expand(batch_shape)
            if part is not None:
                vars(new)[name] = part
        new._batch_shape = batch_shape
        return new

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(tuple(sample_shape) + self._batch_shape + self._event_shape)

    # ---- properties ------------------------------------------------------------------------------------------------

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """What each parameter must satisfy, by name."""
        raise NotImplementedError(f"{type(self).__name__} does not define arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that values satisfy."""
        raise NotImplementedError(f"{type(self).__name__} does not define its support")

    @property
    def mean(self) -> Tensor:
        """Expected value."""
        raise NotImplementedError(f"{type(self).__name__} has no mean in closed form")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__} has no mode in closed form")

    @property
    def variance(self) -> Tensor:
        """Expected squared distance from the mean."""
        raise NotImplementedError(f"{type(self).__name__} has no variance in closed form")

    @property
    def stddev(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    def entropy(self) -> Tensor:
        """Expected negative log-probability, in nats, one per distribution of the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy in closed form")

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    # ---- draws -----------------------------------------------------------------------------------------------------

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws values, without gradients.

        Args:
            sample_shape: shape of the independent draws.

        Example:
            >>> fb.distributions.Bernoulli(fb.tensor([0.0, 1.0])).sample()
            tensor([0., 1.])
        """
        with fb.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws values as a differentiable function of the parameters and of noise.

        Args:
            sample_shape: shape of the independent draws.

        Example:
            >>> loc = fb.zeros(1, requires_grad=True)
            >>> fb.distributions.Normal(loc, 1.0).rsample((4,)).sum().backward()
            >>> loc.grad
            tensor([4.])
        """
        raise NotImplementedError(f"{type(self).__name__} has no differentiable draws; use sample()")

    def sample_n(self, n: int) -> Tensor:
        """Draws n values; an older spelling of sample((n,)), and deprecated."""
        warnings.warn("sample_n is deprecated; use sample((n,))", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    # ---- probabilities ---------------------------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the probability (density) of values.

        Args:
            value: values whose shape broadcasts with batch_shape + event_shape.

        Example:
            >>> fb.distributions.Uniform(0.0, 2.0).log_prob(fb.tensor(1.0)).exp()
            tensor(0.5000)
        """
        raise NotImplementedError(f"{type(self).__name__} does not define log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of drawing at most a value."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf in closed form")

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which a draw falls with a given probability; inverse of cdf."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf in closed form")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, stacked along a new first dimension.

        Args:
            expand: whether to repeat them over the batch; otherwise the batch dimensions have size 1.

        Example:
            >>> fb.distributions.Bernoulli(0.5).enumerate_support()
            tensor([0., 1.])
        """
        raise NotImplementedError(f"{type(self).__name__} cannot list its values")

    def _validate_sample(self, value: Tensor) -> None:
        name = type(self).__name__
        if not isinstance(value, Tensor):
            raise ValueError(f"{name}: The value argument to log_prob must be a Tensor, got {type(value).__name__}")
        event_dims = len(self._event_shape)
        if value.shape[value.dim() - event_dims :] != self._event_shape or value.dim() < event_dims:
            raise ValueError(
                f"{name}: the last dimensions of a value must be {tuple(self._event_shape)}, got {tuple(value.shape)}"
            )
        expected = self._batch_shape + self._event_shape
        for got, size in zip(reversed(value.shape), reversed(expected), strict=False):
            if got != size and 1 not in (got, size):
                raise ValueError(
                    f"{name}: a value of shape {tuple(value.shape)} does not broadcast with batch and event shape "
                    f"{tuple(expected)}"
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{name} does not define its support, so values are not checked; define it, or pass validate_args=False",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"{name}: Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}), but found invalid values:\n{value}"
            )

    # ---- for subclasses --------------------------------------------------------------------------------------------

    def _get_checked_instance(self, cls: type[Any], _instance: Any = None) -> Any:
        """An empty instance for `expand`; a subclass with its own __init__ must override expand."""
        if _instance is None and _class_attribute(type(self), "__init__") is not _class_attribute(cls, "__init__"):
            raise NotImplementedError(
                f"{type(self).__name__} defines __init__ but not expand, so it cannot be expanded as {cls.__name__}"
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in vars(self)]
        parts = [f"{n}: {vars(self)[n] if vars(self)[n].numel() == 1 else vars(self)[n].size()}" for n in names]
        return f"{type(self).__name__}({', '.join(parts)})"


def _class_attribute(cls: type[Any], name: str) -> Any:
    """The descriptor itself, without running it."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
