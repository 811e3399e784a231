"""A lock between processes: a file that exists while one of them holds it.

Example:
    >>> import os, tempfile
    >>> baton = fb.utils.file_baton.FileBaton(os.path.join(tempfile.mkdtemp(), "lock"))
    >>> baton.try_acquire(), baton.try_acquire()
    (True, False)
    >>> baton.release()
"""

from __future__ import annotations

import os
import time
import warnings

__all__ = ["FileBaton"]
__dir__ = __all__.copy


class FileBaton:
    """Holds the lock while its file exists; others wait until the file is removed.

    Args:
        lock_file_path: the file to create.
        wait_seconds: how long wait() sleeps between two looks.
        warn_after_seconds: when wait() warns that the file may have been left behind; None never warns.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "lock")
        >>> baton = fb.utils.file_baton.FileBaton(path)
        >>> if baton.try_acquire():
        ...     baton.release()
        >>> os.path.exists(path)
        False
    """

    def __init__(self, lock_file_path: str, wait_seconds: float = 0.1, warn_after_seconds: float | None = None) -> None:
        self.lock_file_path = lock_file_path
        self.wait_seconds = wait_seconds
        self.warn_after_seconds = warn_after_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """Creates the file; False if it is there already."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Returns when the file is gone: whoever held the lock has released it."""
        start, warned = time.monotonic(), False
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            waited = time.monotonic() - start
            if self.warn_after_seconds is not None and not warned and waited > self.warn_after_seconds:
                warnings.warn(
                    f"FileBaton: waited {waited:.1f} s for {self.lock_file_path!r}; if no process holds it, delete the file",
                    stacklevel=2,
                )
                warned = True

    def release(self) -> None:
        """Removes the file."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
