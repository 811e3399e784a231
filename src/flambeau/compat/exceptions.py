"""`torch._utils.ExceptionWrapper`: an exception passed from one thread or process to another."""

from __future__ import annotations

import sys
from typing import Any

from flambeau.utils.data._utils.worker import WorkerError

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """An exception with its traceback as text, to be raised elsewhere.

    Args:
        exc_info: what sys.exc_info() gives; by default that of the exception being handled.
        where: how the message says where the exception was raised.

    Example:
        >>> from flambeau.compat.exceptions import ExceptionWrapper
        >>> try:
        ...     1 / 0
        ... except ZeroDivisionError:
        ...     caught = ExceptionWrapper(where="in thread 3")
        >>> caught.exc_type.__name__
        'ZeroDivisionError'
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        error = (sys.exc_info() if exc_info is None else exc_info)[1]
        if error is None:
            raise ValueError("ExceptionWrapper: no exception is being handled; pass exc_info=sys.exc_info() inside of except")
        self._error, self.where = WorkerError(error, where), where
        self.exc_type: type[BaseException] = type(error)
        self.exc_msg = self._error.text

    def reraise(self) -> None:
        """Raises an exception of the same class whose message ends with the traceback."""
        self._error.reraise()
