"""Signal processing: window functions.

Example:
    >>> fb.signal.windows.hann(4)
    tensor([0.0000, 0.7500, 0.7500, 0.0000])
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.signal import windows

__all__ = ["windows"]
__dir__ = _package_dir(__name__)
