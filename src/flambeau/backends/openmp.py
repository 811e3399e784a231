"""OpenMP, which the library does without: its threads are its own (`OMP_NUM_THREADS` still says how many)."""

__all__ = ["is_available"]
__dir__ = __all__.copy


def is_available() -> bool:
    """False: ops share their work between threads of the library's own.

    Example:
        >>> fb.backends.openmp.is_available()
        False
    """
    return False
