"""Intel's MKL: not used, matrix products run on OpenBLAS."""

__all__ = ["is_available"]
__dir__ = __all__.copy


def is_available() -> bool:
    """False: MKL is not used.

    Example:
        >>> fb.backends.mkl.is_available()
        False
    """
    return False
