"""Signal processing: window functions.

Example:
    >>> fb.signal.windows.hann(4)
    tensor([0.0000, 0.7500, 0.7500, 0.0000])
"""

from flambeau.signal import windows

__all__ = ["windows"]
