"""Version numbers, with the names PyTorch scripts look at.

Example:
    >>> fb.version.__version__ == fb.__version__
    True
"""

__version__ = "0.1.0"
cuda = None
hip = None
xpu = None
debug = False
git_version = "unknown"
