"""Workers that fail, die or starve: an error in the parent within seconds, and nothing left behind."""

import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

import flambeau as fb
from flambeau.utils.data import DataLoader, Dataset, IterableDataset

BOTH = [{"worker_type": "process"}, {"worker_type": "thread"}]

pytestmark = pytest.mark.slow_sanitized  # processes die within time limits here


class Odd(Exception):
    """Cannot be made from a text alone."""

    def __init__(self, a, b):
        super().__init__(a, b)


class Does(Dataset):
    """Calls a function for sample 5."""

    def __init__(self, what, n=20):
        self.what, self.n = what, n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index == 5:
            self.what()
        return fb.full((10,), index)


def raise_value():
    raise ValueError("a bad sample")


def raise_key():
    return {}["missing"]


def raise_odd():
    raise Odd(1, 2)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def nothing_is_left():
    list(DataLoader(range(2), num_workers=1))  # what stays for good is there now
    before, files = descriptors(), set(os.listdir("/dev/shm"))
    yield

    def segments():
        return [name for name in set(os.listdir("/dev/shm")) - files if name.startswith("flambeau")]

    for _ in range(50):  # tests that run beside this one have segments too, for a moment
        if descriptors() <= before + 1 and not multiprocessing.active_children() and not segments():
            break
        time.sleep(0.1)
    assert not multiprocessing.active_children()
    assert descriptors() <= before + 1  # one more segment of shared memory at most
    assert not segments()


def within(seconds, call, error, match):
    start = time.monotonic()
    with pytest.raises(error, match=match) as caught:
        call()
    assert time.monotonic() - start < seconds
    return caught.value


@pytest.mark.parametrize("workers", BOTH, ids=["process", "thread"])
def test_exception_in_a_sample(workers):
    kind = workers["worker_type"]
    loader = DataLoader(Does(raise_value), 2, num_workers=2, **workers)
    error = within(20, lambda: list(loader), ValueError, f"Caught ValueError in DataLoader worker {kind} 0")
    assert 'raise ValueError("a bad sample")' in str(error) and "__getitem__" in str(error)
    error = within(20, lambda: list(DataLoader(Does(raise_key), 2, num_workers=1, **workers)), KeyError, "'missing'")
    assert "\n" in str(error)
    within(20, lambda: list(DataLoader(Does(raise_odd), 2, num_workers=1, **workers)), RuntimeError, "Caught Odd")


@pytest.mark.parametrize("workers", BOTH, ids=["process", "thread"])
def test_iteration_goes_on_after_a_bad_sample(workers):
    batches, good = iter(DataLoader(Does(raise_value), 2, num_workers=2, **workers)), 0
    while True:
        try:
            next(batches)
            good += 1
        except ValueError:
            continue
        except StopIteration:
            break
    assert good == 9


def test_exception_in_the_beginning():
    def init(number):
        raise OSError("no such disk")

    class Broken(IterableDataset):
        def __iter__(self):
            raise LookupError("no index")

    within(20, lambda: list(DataLoader(range(9), num_workers=2, worker_init_fn=init)), OSError, "no such disk")
    within(20, lambda: list(DataLoader(Broken(), num_workers=2)), LookupError, "no index")


def test_results_that_cannot_be_sent():
    loader = DataLoader(range(4), num_workers=1, collate_fn=lambda batch: lambda: batch)
    within(20, lambda: list(loader), Exception, "Caught .* in DataLoader worker process 0")
    loader = DataLoader(range(4), num_workers=1, collate_fn=lambda batch: fb.ones(2, requires_grad=True) * 2)
    within(20, lambda: list(loader), RuntimeError, "non-leaf tensor")


def test_killed_worker():
    error = within(20, lambda: list(DataLoader(Does(kill), 2, num_workers=2)), RuntimeError, "killed by signal SIGKILL")
    assert "pid" in str(error)
    loader = DataLoader(Does(lambda: os._exit(7)), 2, num_workers=2, persistent_workers=True)
    within(20, lambda: list(loader), RuntimeError, "exit code 7")
    within(20, lambda: list(loader), RuntimeError, "exit code 7")  # new workers, the same end


def test_worker_killed_from_outside_while_idle():
    loader = DataLoader(Does(lambda: None, 200), 2, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    next(batches)
    for process in loader._pool.processes:
        os.kill(process.pid, signal.SIGKILL)
    within(20, lambda: list(batches), RuntimeError, "SIGKILL")


def test_timeout():
    loader = DataLoader(Does(lambda: time.sleep(60)), 2, num_workers=2, timeout=1)
    within(20, lambda: list(loader), RuntimeError, "timed out after 1 seconds")


def test_leaving_early_ends_the_workers():
    for _ in range(3):
        for _batch in DataLoader(Does(lambda: None, 100), 2, num_workers=2):
            break
    batches = iter(DataLoader(Does(lambda: time.sleep(60)), 1, num_workers=1))
    kept = [next(batches) for _ in range(3)]
    start = time.monotonic()
    del batches
    gc.collect()
    assert time.monotonic() - start < 15
    assert [int(batch[0, 0]) for batch in kept] == [0, 1, 2]  # batches outlive their worker


def test_shared_memory_is_full():
    def limit(number):
        resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, 6 << 20))

    class Large(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return fb.ones(4 << 20)

    loader = DataLoader(Large(), 2, num_workers=2, worker_init_fn=limit)
    error = within(30, lambda: list(loader), fb.OutOfMemoryError, "Caught OutOfMemoryError in DataLoader worker")
    assert "raise the limit" in str(error)


def test_worker_without_descriptors():
    def limit(number):
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))

    loader = DataLoader(Does(lambda: None), 5, num_workers=1, worker_init_fn=limit)
    within(20, lambda: list(loader), OSError, "too many open files")


def test_parent_without_descriptors():
    text = """
import os, resource, multiprocessing
import flambeau as fb
from flambeau.utils.data import DataLoader
used = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (used + 10, used + 10))
try:
    list(DataLoader(range(100), num_workers=20))
except RuntimeError as error:
    assert not multiprocessing.active_children()
    # The standard module does not close the first of two pipes when the second fails.
    assert len(os.listdir("/proc/self/fd")) <= used + 2
    print(error)
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=60)
    assert "could not be started" in result.stdout and "ulimit -n" in result.stdout, result.stderr


SLOW = """
import os, sys, time
from flambeau.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 100
    def __getitem__(self, index):
        time.sleep(0.2)
        return index
batches = iter(DataLoader(Slow(), 1, num_workers=2))
next(batches)
print(*[p.pid for p in batches.pool.processes], flush=True)
for batch in batches:
    pass
"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_or_killed_parent(sent):
    parent = subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore Ctrl-C
    )  # fmt: skip
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2
    start = time.monotonic()
    # A terminal sends Ctrl-C to the whole group, the others come alone.
    os.killpg(parent.pid, sent) if sent == signal.SIGINT else os.kill(parent.pid, sent)
    _, errors = parent.communicate(timeout=30)
    while any(map(alive, workers)) and time.monotonic() - start < 20:
        time.sleep(0.1)
    assert not any(map(alive, workers)) and time.monotonic() - start < 20
    if sent == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1 and "Process" not in errors


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


class Own(LookupError):
    pass


class Raising(fb.utils.data.Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 3:
            raise self.error
        return index


def test_errors_keep_their_class_where_they_can():
    for error, kind in ((Own("x"), Own), (TwoArguments(1, 2), RuntimeError), (KeyError("x"), KeyError)):
        with pytest.raises(kind, match=type(error).__name__):
            list(DataLoader(Raising(error), num_workers=1))


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_of_a_sample_ends_the_loop_with_any_number_of_workers(workers):
    assert [b.tolist() for b in DataLoader(Raising(StopIteration()), 2, num_workers=workers)] == [[0, 1]]


class Ends(Dataset):
    """A sample that ends its worker, in one of the ways an exception can."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            raise self.error
        return index


class Wordless(Exception):
    def __str__(self):
        raise ValueError("no text")


class Terse(Exception):
    def __str__(self):
        return "terse"


@pytest.mark.parametrize("options", [{"worker_type": "process"}, {"worker_type": "thread"}])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=lambda e: type(e).__name__)
def test_what_would_end_a_program_is_an_error_of_the_sample(error, options):
    loader = DataLoader(Ends(error), num_workers=1, timeout=30, **options)
    with pytest.raises(RuntimeError, match=f"Caught {type(error).__name__} in DataLoader worker"):
        list(loader)


def test_exceptions_with_a_text_of_their_own():
    loader = DataLoader(Ends(Wordless()), num_workers=1)
    with pytest.raises(RuntimeError, match="Caught Wordless in DataLoader worker process 0"):
        list(loader)
    with pytest.raises(Terse) as caught:
        list(DataLoader(Ends(Terse()), num_workers=1))
    assert "in __getitem__" in caught.value.__notes__[0]


def test_a_class_that_only_the_worker_knows():
    class Local(Exception):
        pass

    with pytest.raises(RuntimeError, match="Caught Local in DataLoader worker process 0"):
        list(DataLoader(Ends(Local("x")), num_workers=1))


def test_workers_can_be_asked_about_after_the_end():
    loader = iter(fb.utils.data.DataLoader(range(8), num_workers=2))
    workers = loader._workers
    next(loader)
    del loader
    for worker in workers:
        worker.join(20)
        assert not worker.is_alive() and worker.exitcode is not None


def test_unpicklable_arguments_of_a_spawned_worker_are_explained():
    loader = fb.utils.data.DataLoader(range(8), num_workers=1, multiprocessing_context="spawn", worker_init_fn=lambda i: None)
    with pytest.warns(UserWarning, match="Got pickle error when"), pytest.raises(Exception, match="pickle"):
        iter(loader)


def test_every_batch_beyond_the_promised_length_warns():
    class Long(fb.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

        def __len__(self):
            return 3

    loader = fb.utils.data.DataLoader(Long())
    assert len(list(loader)) == 5  # the length has not been requested yet
    assert len(loader) == 3
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    for n in (4, 5):
        with pytest.warns(UserWarning, match=rf"but {n} samples have been fetched\. For multiprocessing data-loading, this"):
            next(batches)
