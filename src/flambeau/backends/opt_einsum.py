"""The package opt_einsum: not used, einsum works from left to right."""

__all__ = ["is_available"]
__dir__ = __all__.copy

enabled = False
strategy = None


def is_available() -> bool:
    """False: opt_einsum is not used.

    Example:
        >>> fb.backends.opt_einsum.is_available()
        False
    """
    return False
