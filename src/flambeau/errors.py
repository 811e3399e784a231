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

__all__ = ["ArgumentError", "DTypeError", "LinAlgError", "OutOfMemoryError", "OutOfRangeError", "StateError"]
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


# In the order of ErrorKind in csrc/base/error.h.
BY_KIND = (ArgumentError, DTypeError, OutOfRangeError, StateError, OutOfMemoryError, NotImplementedError, LinAlgError)
