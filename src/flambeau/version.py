"""Version numbers, with the names PyTorch scripts look at.

Example:
    >>> fb.version.__version__ == fb.__version__
    True
"""

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]
__dir__ = __all__.copy

__version__ = "0.1.0"
cuda = None
hip = None
xpu = None
debug = False
git_version = "unknown"
