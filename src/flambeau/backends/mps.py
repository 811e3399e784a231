"""Apple's Metal: no such device."""

__all__ = ["is_available", "is_built"]
__dir__ = __all__.copy


def is_available() -> bool:
    """False: there is no Metal device.

    Example:
        >>> fb.backends.mps.is_available()
        False
    """
    return False


def is_built() -> bool:
    """False: this build knows no Metal.

    Example:
        >>> fb.backends.mps.is_built()
        False
    """
    return False
