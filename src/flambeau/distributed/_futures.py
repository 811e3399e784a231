"""Futures of pending collectives: they wait when asked to, and need no thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.futures import Future

__all__ = ["WorkFuture", "future_of"]


class WorkFuture(Future[Any]):
    """A future completed by the first wait(): it waits for its predecessor, and computes its value from that."""

    def __init__(self, finish: Callable[[], Any], ready: Callable[[], bool]) -> None:
        super().__init__()
        self._finish_now, self._ready = finish, ready

    def done(self) -> bool:
        return self._done or self._ready()

    def wait(self) -> Any:
        if not self._done:
            try:
                self.set_result(self._finish_now())
            except BaseException as error:
                self.set_exception(error)
        return super().value()

    def value(self) -> Any:
        return self.wait() if self.done() else super().value()

    def then(self, callback: Callable[[Future[Any]], Any]) -> Future[Any]:
        def finish() -> Any:
            self.wait()
            return callback(self)

        return WorkFuture(finish, self.done)


def future_of(work: Any, value: Any) -> WorkFuture:
    """A future of `value`, which a collective writes; `work` is the collective's result, None if it takes no part."""

    def finish() -> Any:
        if work is not None:
            work.wait()
        return value

    return WorkFuture(finish, lambda: work is None or work.is_completed())
