"""Thread count, fork safety, and results that do not depend on either."""

import os
import subprocess
import sys
import threading

import pytest

import flambeau as fb


@pytest.fixture(autouse=True)
def restore_threads():
    n = fb.get_num_threads()
    yield
    fb.set_num_threads(n)


def test_the_count_follows_the_affinity():
    code = "import flambeau as fb; print(fb.get_num_threads())"
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    one = min(os.sched_getaffinity(0))
    run = subprocess.run(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{one}}}); {code}"],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == "1"
    run = subprocess.run([sys.executable, "-c", code], env={**env, "OMP_NUM_THREADS": "3"}, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "3"


def test_bad_counts():
    for n in (0, -1, 10**6):
        with pytest.raises(ValueError, match="set_num_threads"):
            fb.set_num_threads(n)
    with pytest.raises(TypeError):
        fb.set_num_threads("two")


def test_show_config_says_why():
    fb.set_num_threads(2)
    text = fb.show_config()
    assert "threads" in text and "set_num_threads" in text and "openblas" in text


@pytest.mark.parametrize(
    "op",
    [
        lambda x: x.sum(), lambda x: x.mean(0), lambda x: x.var(1), lambda x: x.exp(), lambda x: x.cumsum(1), lambda x: x @ x.t(),
        lambda x: x.sort(dim=1).values, lambda x: fb.randn(300_000, generator=fb.Generator().manual_seed(1)), lambda x: x.std(),
        lambda x: fb.logsumexp(x, 0), lambda x: x.t().contiguous(), lambda x: x.norm(),
        lambda x: x.reshape(300, 77, 13).sum((0, 2)), lambda x: x.reshape(-1, 33).sum(1), lambda x: fb.linalg.qr(x).Q,
        lambda x: fb.linalg.eigh(x @ x.t()).eigenvectors, lambda x: fb.linalg.cholesky((x[:, :64, None] * fb.eye(64)).abs() + fb.eye(64)),
        lambda x: fb.linalg.cholesky((x[:, :8, None] * fb.eye(8)).abs() + fb.eye(8)),
    ],
)  # fmt: skip
def test_bit_equal_for_one_and_two_threads(op):
    x = fb.randn(300, 1001, generator=fb.Generator().manual_seed(0))
    results = []
    for n in (1, 2, 3):
        fb.set_num_threads(n)
        results.append(op(x).numpy().tobytes())
    assert results[0] == results[1] == results[2]


def test_a_forked_child_computes():
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
import flambeau as fb
fb.set_num_threads(2)
x = fb.ones(1_000_000)
assert x.add(1).sum().item() == 2_000_000
pid = os.fork()
if pid == 0:
    ok = x.add(1).sum().item() == 2_000_000 and fb.get_num_threads() == 1
    os._exit(0 if ok else 1)
_, status = os.waitpid(pid, 0)
assert x.add(1).sum().item() == 2_000_000
sys.exit(os.waitstatus_to_exitcode(status))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_many_python_threads_at_once():
    errors = []

    def work(seed):
        try:
            x = fb.full((200, 200), float(seed))
            for _ in range(20):
                assert (x + 1).sum().item() == (seed + 1) * 40_000
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_an_error_on_a_worker_thread_reaches_the_caller():
    x = fb.ones(1_000_000, dtype=fb.int64)
    y = fb.ones(1_000_000, dtype=fb.int64)
    y[-1] = 0
    with pytest.raises(RuntimeError, match="floor_divide: .*division by zero"):
        x // y


def test_threads_share_the_workers():
    """Loops, convolutions, and changes of the thread count, from several threads at once."""
    x, image, weight = fb.randn(400, 500), fb.randn(4, 32, 20, 20), fb.randn(32, 32, 1, 1)

    def work():
        y = fb.nn.functional.conv2d(image, weight.requires_grad_())
        (grad,) = fb.autograd.grad(y, weight, y)
        return [t.numpy().tobytes() for t in (x @ x.t(), x.exp(), x.sum(0), x.sort().values, y.detach(), grad)]

    fb.set_num_threads(1)
    one = work()[:4]
    fb.set_num_threads(2)
    expected, wrong = work(), []
    assert expected[:4] == one

    def repeat():
        for _ in range(15):
            if work() != expected:
                wrong.append(1)

    crowd = [threading.Thread(target=repeat) for _ in range(4)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join(120)
    assert not wrong and not any(t.is_alive() for t in crowd)


def test_more_threads_than_cpus():
    x = fb.randn(3000, 1001)
    fb.set_num_threads(1)
    expected = [x.exp(), x.sum(0), fb.nn.functional.conv2d(x[:1000, :1000].reshape(4, 25, 100, 100), fb.ones(8, 25, 1, 1))]
    for n in (13, 2, 40, 3):
        fb.set_num_threads(n)
        got = [x.exp(), x.sum(0), fb.nn.functional.conv2d(x[:1000, :1000].reshape(4, 25, 100, 100), fb.ones(8, 25, 1, 1))]
        assert fb.equal(got[0], expected[0]) and fb.equal(got[1], expected[1])
        fb.testing.assert_close(got[2], expected[2])


def test_an_error_on_a_worker_reaches_the_caller_and_the_workers_go_on():
    fb.set_num_threads(2)
    index = fb.zeros(400_000, dtype=fb.int64)
    index[-1] = 7
    for _ in range(20):
        with pytest.raises(IndexError):
            fb.ones(5).index_select(0, index)
        assert fb.ones(1_000_000).add(1).sum() == 2_000_000


def test_a_forked_child_may_ask_for_threads():
    code = """
import os, warnings
warnings.simplefilter("ignore")
import flambeau as fb
fb.set_num_threads(2)
image, weight = fb.ones(4, 32, 20, 20), fb.ones(32, 32, 1, 1)
x = fb.ones(1_000_000)
x.add(1), fb.nn.functional.conv2d(image, weight)
pid = os.fork()
if pid == 0:
    fb.set_num_threads(2)
    ok = x.add(1).sum() == 2_000_000 and fb.nn.functional.conv2d(image, weight).sum() == 32 * image.numel()
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
