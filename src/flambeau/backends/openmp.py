"""OpenMP: what ops run their threads with."""

__all__ = ["is_available"]


def is_available() -> bool:
    """True: ops split their work by OpenMP.

    Example:
        >>> fb.backends.openmp.is_available()
        True
    """
    return True
