"""Results that are there later: set in one thread, waited for in another.

Example:
    >>> future = fb.futures.Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(fb.ones(2))
    >>> doubled.wait()
    tensor([2., 2.])
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from flambeau.errors import DTypeError, StateError

__all__ = ["Future", "collect_all", "wait_all"]
__dir__ = __all__.copy

T = TypeVar("T")
S = TypeVar("S")
_log = logging.getLogger(__name__)


class Future(Generic[T]):
    """A result that is set once, by set_result() or set_exception(), and can be waited for.

    Args:
        devices: of the tensors in the result; only the CPU has any here, so it is accepted and not used.

    Example:
        >>> future = fb.futures.Future()
        >>> future.done()
        False
        >>> future.set_result(3)
        >>> future.wait()
        3
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether the result, or an exception in its place, is there.

        Example:
            >>> fb.futures.Future().done()
            False
        """
        return self._done

    def wait(self) -> T:
        """Waits for the result and gives it; raises the exception that was set in its place.

        Example:
            >>> future = fb.futures.Future()
            >>> future.set_result("ready")
            >>> future.wait()
            'ready'
        """
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> T:
        """The result, which must be there already; raises the exception that was set in its place.

        Example:
            >>> future = fb.futures.Future()
            >>> future.set_result(4)
            >>> future.value()
            4
        """
        if not self._done:
            raise StateError("value: the future has no result yet; call wait(), or value() in a callback of then()")
        if self._error is not None:
            raise self._error
        return self._result

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what a function makes of this one; the function runs when the result is there.

        Args:
            callback: is given this future. An exception in it becomes a RuntimeError of the new future.

        Example:
            >>> future = fb.futures.Future()
            >>> future.set_result(2)
            >>> future.then(lambda done: done.wait() + 1).wait()
            3
        """
        following: Future[S] = Future()

        def run(done: Future[T]) -> None:
            try:
                made = callback(done)
            except Exception as error:
                text = "".join(traceback.format_exception(error))
                failure = RuntimeError(f"Got the following error when running the callback: {type(error).__name__}: {error}\n\n{text}")
                following.set_exception(failure)
            else:
                following.set_result(made)

        self._call_when_done(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Has a function called when the result is there, after those added before it; its errors are logged only.

        Args:
            callback: is given this future.

        Example:
            >>> future = fb.futures.Future()
            >>> future.add_done_callback(lambda done: print(done.value()))
            >>> future.set_result(1)
            1
        """

        def run(done: Future[T]) -> None:
            try:
                callback(done)
            except Exception:
                _log.exception("a callback of Future.add_done_callback failed")

        self._call_when_done(run)

    def _call_when_done(self, run: Callable[[Future[T]], None]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(run)
                return
        run(self)

    def set_result(self, result: T) -> None:
        """Sets the result; who waits goes on, and the callbacks run in this thread.

        Args:
            result: any object.

        Example:
            >>> future = fb.futures.Future()
            >>> future.set_result(5)
            >>> future.value()
            5
        """
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets an exception in place of a result: wait() and value() raise it.

        Args:
            result: the exception.

        Example:
            >>> future = fb.futures.Future()
            >>> future.set_exception(ValueError("too late"))
            >>> future.wait()
            Traceback (most recent call last):
                ...
            ValueError: too late
        """
        if not isinstance(result, BaseException):
            raise DTypeError(f"set_exception: expected an exception, got {type(result).__name__}")
        self._finish(None, result)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise StateError("Future can only be marked completed once: its result, or an exception, is set already")
            self._result, self._error, self._done = result, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for run in callbacks:
            run(self)

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future: what it waits for is in this process; send its value()")


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of all the given ones, there when the last of them is.

    Args:
        futures: the futures to wait for.

    Example:
        >>> first, second = fb.futures.Future(), fb.futures.Future()
        >>> both = fb.futures.collect_all([first, second])
        >>> first.set_result(1)
        >>> both.done()
        False
        >>> second.set_result(2)
        >>> [future.value() for future in both.wait()]
        [1, 2]
    """
    given = list(futures)
    if any(future is None for future in given):
        raise StateError("collect_all: Future can't be None")
    together: Future[list[Future[Any]]] = Future()
    left, lock = len(given), threading.Lock()
    if not given:
        together.set_result(given)

    def count(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            together.set_result(given)

    for future in given:
        future._call_when_done(count)
    return together


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """Waits for all the given futures and gives their results; raises the first exception among them.

    Args:
        futures: the futures to wait for.

    Example:
        >>> future = fb.futures.Future()
        >>> future.set_result(1)
        >>> fb.futures.wait_all([future, future])
        [1, 1]
    """
    return [future.value() for future in collect_all(futures).wait()]
