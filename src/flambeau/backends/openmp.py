"""OpenMP, which the library does not use: it has its own thread pool (`OMP_NUM_THREADS` still sets the number)."""

__all__ = ["is_available"]
__dir__ = __all__.copy


def is_available() -> bool:
    """False: ops run on the library's own thread pool.

    Example:
        >>> fb.backends.openmp.is_available()
        False
    """
    return False
