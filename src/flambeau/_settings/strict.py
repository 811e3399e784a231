"""Rules where flambeau is deliberately stricter than PyTorch: errors natively, warnings in programs written for
PyTorch.

A program that runs on PyTorch must not fail here because of a rule that PyTorch does not have. While `torch` is
flambeau (compat.install(), compat.torch(), python -m flambeau), such a rule only warns, and the call does what
PyTorch's does.
"""

from __future__ import annotations

import sys
import warnings

from flambeau.errors import ArgumentError

__all__ = ["StrictnessWarning", "be_lenient", "is_lenient", "strict_or_warn"]

_lenient = False


class StrictnessWarning(UserWarning):
    """A call that `import flambeau` refuses, accepted in a program written for PyTorch.

    Example:
        >>> with fb.compat.torch(), warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     loss = fb.nn.functional.mse_loss(fb.ones(3, 1), fb.zeros(3))
        >>> caught[0].category.__name__
        'StrictnessWarning'
    """


def is_lenient() -> bool:
    """Whether rules that PyTorch does not have currently only warn."""
    return _lenient


def be_lenient(on: bool) -> None:
    """Called by compat.install() and compat.uninstall()."""
    global _lenient
    _lenient = on


def strict_or_warn(message: str, error: type[Exception] = ArgumentError) -> None:
    """Raises under `import flambeau`; warns, and returns, while `torch` is flambeau.

    Args:
        message: what is wrong, and the way out.
        error: the class of the error.
    """
    if not is_lenient():
        raise error(message)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "flambeau":
        frame, level = frame.f_back, level + 1
    warnings.warn(f"{message} (an error under `import flambeau`; accepted here, as in PyTorch)", StrictnessWarning, stacklevel=level)
