"""Exception classes of the core.

Each is also the class that a PyTorch user would catch: most of PyTorch's errors are plain RuntimeErrors, so the
argument errors here derive from both the fitting Python class and RuntimeError.

Example:
    >>> try:
    ...     fb.zeros(2, 3) + fb.zeros(4)
    ... except ValueError as e:
    ...     print(type(e).__name__)
    ArgumentError
"""

__all__ = [
    "ArgumentError", "CollectiveMismatch", "DTypeError", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError",
    "LinAlgError", "OutOfMemoryError", "OutOfRangeError", "PeerLost", "StateError",
]  # fmt: skip
__dir__ = __all__.copy


class ArgumentError(ValueError, RuntimeError):
    """A value, shape or combination of arguments that an op cannot work with.

    Example:
        >>> issubclass(fb.errors.ArgumentError, ValueError)
        True
    """


class DTypeError(TypeError, RuntimeError):
    """A dtype or a kind of object that an op does not take.

    Example:
        >>> issubclass(fb.errors.DTypeError, TypeError)
        True
    """


class OutOfRangeError(IndexError, RuntimeError):
    """A dimension or an index outside its range.

    Example:
        >>> issubclass(fb.errors.OutOfRangeError, IndexError)
        True
    """


class StateError(RuntimeError):
    """Something is not possible in the present state.

    Example:
        >>> issubclass(fb.errors.StateError, RuntimeError)
        True
    """


class OutOfMemoryError(RuntimeError, MemoryError):
    """No memory for a tensor; the message ends with the allocator's table.

    Example:
        >>> issubclass(fb.OutOfMemoryError, MemoryError)
        True
    """


class LinAlgError(RuntimeError, ValueError):
    """A matrix that a decomposition cannot handle: singular, not positive definite, not finite.

    Example:
        >>> issubclass(fb.linalg.LinAlgError, RuntimeError)
        True
    """


class DistError(RuntimeError):
    """Something went wrong between the processes of a group.

    Example:
        >>> issubclass(fb.distributed.DistBackendError, fb.distributed.DistError)
        True
    """


class DistBackendError(DistError):
    """A collective or a message failed.

    Example:
        >>> issubclass(fb.errors.PeerLost, fb.errors.DistBackendError)
        True
    """


class DistNetworkError(DistError):
    """A connection could not be made, or broke.

    Example:
        >>> issubclass(fb.errors.DistNetworkError, RuntimeError)
        True
    """


class DistStoreError(DistError):
    """A store has no such value, or not in time.

    Example:
        >>> issubclass(fb.errors.DistStoreError, RuntimeError)
        True
    """


class CollectiveMismatch(DistBackendError):
    """The ranks of a group made different calls; the message names two of them.

    Example:
        >>> issubclass(fb.errors.CollectiveMismatch, RuntimeError)
        True
    """


class PeerLost(DistBackendError):
    """Another process of the program was killed or stopped, ended, or cannot be reached.

    Args:
        message: what happened.
        rank: its rank in the default group.
        host: where it ran.

    Example:
        >>> fb.errors.PeerLost("rank 3 on host node7 is lost", 3, "node7").rank
        3
    """

    def __init__(self, message: str, rank: int = -1, host: str = "") -> None:
        super().__init__(message)
        self.rank, self.host = rank, host

    def __reduce__(self) -> tuple[type, tuple[str, int, str]]:
        return type(self), (str(self), self.rank, self.host)


# In the order of ErrorKind in csrc/base/error.h.
BY_KIND = (ArgumentError, DTypeError, OutOfRangeError, StateError, OutOfMemoryError, NotImplementedError, LinAlgError)
