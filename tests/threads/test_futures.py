"""Futures: results set in one thread and waited for in another."""

import pickle
import threading
import time

import pytest

import flambeau as fb
from flambeau.futures import Future, collect_all, wait_all


def test_a_thread_waits_for_another():
    future = Future[int]()
    thread = threading.Thread(target=lambda: (time.sleep(0.05), future.set_result(3)))
    thread.start()
    assert not future.done() and future.wait() == 3 and future.done() and future.value() == 3
    thread.join()


def test_a_result_is_set_once_and_asked_for_after():
    future = Future()
    with pytest.raises(RuntimeError, match="no result yet"):
        future.value()
    future.set_result(1)
    for again in (lambda: future.set_result(1), lambda: future.set_exception(ValueError())):
        with pytest.raises(RuntimeError, match="Future can only be marked completed once"):
            again()
    with pytest.raises(TypeError, match="expected an exception"):
        Future().set_exception("text")


def test_callbacks_run_in_order_before_and_after_the_result():
    future, seen = Future(), []
    future.add_done_callback(lambda f: seen.append(("first", f.value())))
    then = future.then(lambda f: (seen.append("then"), f.value() + 1)[1])
    future.add_done_callback(lambda f: seen.append("last"))
    future.set_result(1)
    assert seen == [("first", 1), "then", "last"] and then.value() == 2
    future.add_done_callback(lambda f: seen.append("late"))
    assert seen[-1] == "late"


def test_errors_pass_through_then_and_stop_at_done_callbacks(caplog):
    future = Future()
    following = future.then(lambda f: f.value())
    future.add_done_callback(lambda f: f.value())
    future.set_exception(ValueError("too late"))
    with pytest.raises(ValueError, match="too late"):
        future.wait()
    with pytest.raises(RuntimeError, match="Got the following error when running the callback: ValueError: too late"):
        following.wait()
    assert "add_done_callback failed" in caplog.text


def test_all_of_several():
    futures = [Future() for _ in range(3)]
    together = collect_all(futures)
    for i, future in enumerate(futures):
        assert not together.done()
        future.set_result(i)
    assert together.wait() == futures and wait_all(futures) == [0, 1, 2] and collect_all([]).value() == []
    bad = futures[0].then(lambda f: 1 / 0)
    with pytest.raises(RuntimeError, match="division by zero"):
        wait_all([bad, futures[1]])
    with pytest.raises(RuntimeError, match="Future can't be None"):
        collect_all([None])


def test_a_future_stays_in_its_process():
    with pytest.raises(RuntimeError, match="Can not pickle torch.futures.Future"):
        pickle.dumps(Future())


def test_fork_gives_a_future():
    future = fb.jit.fork(lambda x: x + 1, 2)
    assert isinstance(future, Future) and fb.jit.wait(future) == 3
    with pytest.raises(RuntimeError, match="Future can't be None"):
        fb.jit.wait(None)
