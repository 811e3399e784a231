"""Tensors between processes: shared memory, lifetimes, every way of starting and of ending."""

import gc
import multiprocessing as standard
import os
import pickle
import signal
import subprocess
import sys
import time
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import flambeau as fb
import flambeau.multiprocessing as mp
from flambeau.multiprocessing import _arena

METHODS = ["fork", "spawn", "forkserver"]


class Named(fb.Tensor):
    """A subclass, with attributes."""


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def run(text, timeout=60):
    """A program of its own; its files must be gone when it has ended."""
    before = {name for name in os.listdir("/dev/shm") if name.startswith("flambeau")}
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=timeout)
    end = time.monotonic() + 20
    # Those of other programs, say tests that run beside this one, go away by themselves.
    while left := {name for name in os.listdir("/dev/shm") if name.startswith("flambeau")} - before:
        assert time.monotonic() < end, f"left behind: {left}"
        time.sleep(0.1)
    return result


# ---- moving to shared memory ---------------------------------------------------------------------------------------------


def test_share_memory_moves_views_along():
    x = fb.arange(6.0)
    view = x[2:4]
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared() and view.is_shared() and view.storage_offset() == 2
    x += 1
    assert view.tolist() == [3, 4] and x.tolist() == [1, 2, 3, 4, 5, 6]
    assert x.share_memory_().is_shared()
    assert fb.empty(0).share_memory_().numel() == 0


def test_gradients_flow_through_shared_parameters():
    layer = fb.nn.Linear(3, 2)
    layer.share_memory()
    assert all(p.is_shared() and p.is_leaf and p.requires_grad for p in layer.parameters())
    layer(fb.ones(1, 3)).sum().backward()
    fb.optim.SGD(layer.parameters(), lr=0.1).step()
    assert layer.bias.grad.tolist() == [1, 1] and layer.weight.is_shared()


def test_memory_lent_to_numpy_stays_valid():
    x = fb.arange(5000.0)
    array = x.numpy()
    x.share_memory_()
    fb.zeros(5000)  # would take the memory if it had been freed
    assert array[4999] == 4999 and x[4999] == 4999
    y = fb.from_numpy(np.arange(4.0)).share_memory_()
    assert y.tolist() == [0, 1, 2, 3]
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        fb.from_numpy(fixed).share_memory_()


# ---- messages ------------------------------------------------------------------------------------------------------------


def send(value):
    return ForkingPickler.loads(ForkingPickler.dumps(value))


def test_every_dtype_and_layout():
    for kind in (fb.bool, fb.uint8, fb.int64, fb.float16, fb.bfloat16, fb.float64, fb.complex64):
        x = fb.arange(6).view(2, 3).to(kind)
        for view in (x, x.T, x[:, ::2], x[1], x[0, 0], x[:, :, None]):
            y = send(view)
            assert y.dtype == kind and y.shape == view.shape and y.stride() == view.stride() and y.equal(view)
    assert send(fb.empty(0, 3)).shape == (0, 3)


def test_subclasses_attributes_and_gradients():
    parameter = fb.nn.Parameter(fb.ones(3))
    got = send(parameter)
    assert type(got) is fb.nn.Parameter and got.requires_grad and got.is_leaf
    own = fb.ones(2).as_subclass(Named)
    own.name = "x"
    got = send(own)
    assert type(got) is Named and got.name == "x" and got.is_shared()
    assert send(fb.ones(2, requires_grad=True)).requires_grad
    with pytest.raises(RuntimeError, match="non-leaf"):
        ForkingPickler.dumps(fb.ones(2, requires_grad=True) * 2)


def test_a_message_is_received_once():
    message = ForkingPickler.dumps(fb.ones(4))
    first = ForkingPickler.loads(message)
    with pytest.raises(RuntimeError, match="received before"):
        ForkingPickler.loads(message)
    assert first.tolist() == [1, 1, 1, 1]


def test_blocks_are_reused_and_descriptors_few():
    fb.set_num_threads(1)
    gc.collect()
    before, reserved = descriptors(), _arena.arena.reserved
    for _ in range(300):
        send(fb.ones(100_000))
    held = [send(fb.ones(1000)) for _ in range(2000)]
    assert descriptors() - before <= 3
    assert _arena.arena.reserved - reserved < 40e6
    assert all(t.is_shared() for t in held)


def test_large_memory_goes_back_to_the_system():
    arena = _arena.Arena()
    blocks = [arena.allocate(8 << 20) for _ in range(40)]
    used = os.fstat(arena.segments[-1].fd).st_blocks
    del blocks
    arena.trim(keep=0)
    assert os.fstat(arena.segments[-1].fd).st_blocks < used / 10 and arena.reserved == 0
    again = arena.allocate(8 << 20)
    assert arena.reserved > 0
    del again
    for segment in arena.segments:
        os.close(segment.fd)


def add_one(queue, answers, shared):
    x = queue.get()
    x += 1
    shared += 5
    answers.put((x.is_shared(), fb.arange(5), [fb.ones(300, 300)]))


@pytest.mark.parametrize("method", METHODS)
def test_queues(method):
    context = mp.get_context(method)
    queue, answers = context.Queue(), context.Queue()
    shared = fb.zeros(3).share_memory_()
    process = context.Process(target=add_one, args=(queue, answers, shared))
    process.start()
    x = fb.zeros(4)
    view = x[1:]
    queue.put(x)
    assert x.is_shared()  # at once, not when another thread gets to it
    process.join(30)
    assert process.exitcode == 0
    seen, small, (large,) = answers.get(timeout=10)  # the sender has ended
    assert seen and small.tolist() == [0, 1, 2, 3, 4] and large.sum() == 90_000
    assert view.tolist() == [1, 1, 1] and shared.tolist() == [5, 5, 5]


def echo(connection):
    while (x := connection.recv()) is not None:
        x *= 2
        connection.send(x)


@pytest.mark.parametrize("method", METHODS)
def test_pipes_share_both_ways(method):
    context = mp.get_context(method)
    here, there = context.Pipe()
    process = context.Process(target=echo, args=(there,), daemon=True)
    process.start()
    x = fb.ones(5)
    for power in (2, 4, 8):
        here.send(x)
        y = here.recv()
        assert y.tolist() == x.tolist() == [power] * 5
    here.send(None)
    process.join(10)


def square(x):
    return x * x


def test_pool_and_simple_queue_and_standard_queue():
    with mp.Pool(2) as pool:
        assert [int(r.sum()) for r in pool.map(square, [fb.full((3,), float(i)) for i in range(4)])] == [0, 3, 12, 27]
    queue = mp.SimpleQueue()
    queue.put({"x": fb.ones(2)})
    assert queue.get()["x"].is_shared()
    queue = standard.get_context("fork").Queue()
    x = fb.ones(4000)
    queue.put(x)
    y = queue.get(timeout=10)
    assert y.tolist() == x.tolist() and not x.is_shared()  # pickled in a thread: the sender's memory stays


def test_drop_in():
    for name in standard.__all__:
        assert hasattr(mp, name), name
    assert mp.get_all_start_methods() == standard.get_all_start_methods()
    with pytest.raises(ValueError):
        mp.get_context("teleport")
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(ValueError, match="strategy"):
        mp.set_sharing_strategy("carrier pigeon")
    with pytest.raises((AttributeError, pickle.PicklingError)):
        mp.Queue().put(lambda: 0)  # the standard queue prints this in another thread and loses the object


# ---- processes that end --------------------------------------------------------------------------------------------------


def send_and_wait(queue, ready):
    queue.put(fb.ones(1000))
    time.sleep(0.3)
    ready.send(1)
    time.sleep(60)


def test_sender_killed_before_the_tensor_was_received():
    context = mp.get_context("fork")
    queue, (here, there) = context.Queue(), context.Pipe()
    process = context.Process(target=send_and_wait, args=(queue, there))
    process.start()
    here.recv()
    process.kill()
    process.join()
    with pytest.raises(RuntimeError, match=f"pid {process.pid}.*was killed"):
        queue.get(timeout=10)


def test_sender_killed_after_the_tensor_was_received():
    context = mp.get_context("fork")
    queue, (_here, there) = context.Queue(), context.Pipe()
    process = context.Process(target=send_and_wait, args=(queue, there))
    process.start()
    x = queue.get(timeout=10)
    process.kill()
    process.join()
    x += 1
    assert x.sum() == 2000


def receive_and_die(connection):
    x = connection.recv()
    x[0] = 7
    os.kill(os.getpid(), signal.SIGKILL)


def test_receiver_killed():
    context = mp.get_context("fork")
    x = fb.zeros(1000)
    for _ in range(3):
        here, there = context.Pipe()
        process = context.Process(target=receive_and_die, args=(there,))
        process.start()
        here.send(x)
        process.join(10)
        assert process.exitcode == -9 and x[0] == 7
        x[0] = 0
    assert x.sum() == 0


def hold(x, go, answer):
    go.recv()
    answer.send(float(x.sum()))


def test_a_forked_child_keeps_what_it_inherited():
    context = mp.get_context("fork")
    (here, there), (answer_here, answer_there) = context.Pipe(), context.Pipe()
    x = fb.ones(5000).share_memory_()
    process = context.Process(target=hold, args=(x, there, answer_there))
    process.start()
    del x
    others = [fb.zeros(5000).share_memory_() for _ in range(20)]  # must not take the block
    here.send(1)
    assert answer_here.recv() == 5000 and len(others) == 20
    process.join()


def test_nothing_is_left_when_everything_is_killed():
    text = """
import os, signal, time
import flambeau as fb, flambeau.multiprocessing as mp
def child(q):
    q.put(fb.ones(100000)); time.sleep(60)
if __name__ == "__main__":
    os.setpgid(0, 0)
    q = mp.get_context("fork").Queue()
    mp.get_context("fork").Process(target=child, args=(q,)).start()
    x = q.get(); q.put(x)
    os.killpg(0, signal.SIGKILL)
"""
    assert run(text).returncode == -9


def test_what_nobody_received_is_removed_at_the_end():
    text = """
import flambeau as fb, flambeau.multiprocessing as mp, os
def child(q):
    q.put(fb.ones(1000))
if __name__ == "__main__":
    c = mp.get_context("fork")
    q = c.Queue()
    p = c.Process(target=child, args=(q,)); p.start(); p.join()
    assert [n for n in os.listdir("/dev/shm") if n.startswith("flambeau")]
"""
    result = run(text)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("limit", "error"),
    [("RLIMIT_FSIZE, (1 << 20, 1 << 20)", "OutOfMemoryError"), ("RLIMIT_NOFILE, (n, n)", "too many open files")],
)
def test_too_little_of_something(limit, error):
    text = f"""
import os, resource
import flambeau as fb, flambeau.multiprocessing as mp
x = fb.ones(1000)
n = len(os.listdir("/proc/self/fd")) - 1
resource.setrlimit(resource.{limit})
x.share_memory_()
"""
    result = run(text)
    assert result.returncode == 1 and error in result.stderr and "raise the limit" in result.stderr


def test_storages_can_be_shared():
    x = fb.ones(3)
    storage = x.untyped_storage()
    assert not storage.is_shared()
    assert storage.share_memory_() is storage and storage.is_shared() and x.is_shared() and x.tolist() == [1.0, 1.0, 1.0]


def test_storages_share_memory_with_the_tensors_they_are_sent_with():
    x = fb.zeros(5, 5)
    queue = mp.Queue()
    queue.put([x.storage(), x, x[2], x.untyped_storage()])
    typed, whole, row, plain = queue.get(timeout=30)
    assert isinstance(typed, fb.TypedStorage) and isinstance(plain, fb.UntypedStorage)
    typed[10] = 4.0
    assert whole[2, 0] == row[0] == x[2, 0] == 4
    assert typed._cdata == x.storage()._cdata == plain._cdata


def test_meta_tensors_and_marked_hooks():
    x = ForkingPickler.loads(ForkingPickler.dumps(fb.zeros(2, 3, device="meta")))
    assert x.is_meta and x.shape == (2, 3)
    y = fb.zeros(2, requires_grad=True)
    y.register_hook(fb.utils.hooks.unserializable_hook(lambda g: g))
    assert ForkingPickler.loads(ForkingPickler.dumps(y)).requires_grad
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(y * 2)
