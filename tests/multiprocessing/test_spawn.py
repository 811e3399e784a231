"""spawn(): results, errors, signals."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import flambeau as fb
import flambeau.multiprocessing as mp
from flambeau.multiprocessing.spawn import ProcessException


def fill(index, x):
    x[index] = index + 1


def fail(index):
    if index == 1:
        raise ValueError("this one fails")
    time.sleep(60)


def end(index, how):
    if index == 1:
        os._exit(3) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def test_spawn_shares_tensors():
    x = fb.zeros(2)
    mp.spawn(fill, (x,), nprocs=2)
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_first_error_ends_all(method):
    start = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match="this one fails") as caught:
        mp.start_processes(fail, nprocs=2, start_method=method)
    assert caught.value.error_index == 1 and time.monotonic() - start < 30
    assert 'raise ValueError("this one fails")' in str(caught.value)


@pytest.mark.parametrize(("how", "code", "name"), [("exit", 3, None), ("kill", -9, "SIGKILL")])
def test_ended_process(how, code, name):
    with pytest.raises(mp.ProcessExitedException) as caught:
        mp.start_processes(end, (how,), nprocs=2, start_method="fork")
    assert (caught.value.exit_code, caught.value.signal_name) == (code, name)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, ProcessException) and again.exit_code == code


def test_join_can_wait_in_steps():
    context = mp.start_processes(fail, nprocs=1, join=False, start_method="fork")
    assert context.join(timeout=0.1) is False and len(context.pids()) == 1
    os.kill(context.pids()[0], signal.SIGKILL)
    with pytest.raises(mp.ProcessExitedException):
        context.join(timeout=10)
    with pytest.raises(ValueError, match="start_processes"):
        mp.spawn(fail, start_method="fork")


def test_hogwild_example_learns():
    script = Path(__file__).parents[2] / "examples" / "hogwild.py"
    result = subprocess.run([sys.executable, str(script), "--epochs", "2"], capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    accuracy = float(result.stdout.strip().splitlines()[-1].split()[-1].rstrip("%"))
    assert accuracy > 90, result.stdout


def wait_and_write(index, x):
    if index == 0:
        sys.exit(7)
    time.sleep(0.5)
    x[0] = 1


def test_grace_period_lets_the_others_end_by_themselves(caplog):
    x = fb.zeros(1).share_memory_()
    context = mp.start_processes(wait_and_write, (x,), nprocs=2, join=False, start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 7"):
        while not context.join(grace_period=20):
            pass
    assert x.item() == 1 and not caplog.records


def test_without_a_grace_period_the_others_are_terminated_and_the_log_says_so(caplog):
    context = mp.start_processes(end, ("exit",), nprocs=2, join=False, start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with exit code 3"):
        while not context.join():
            pass
    assert f"Terminating process {context.processes[0].pid} via signal" in caplog.text


def test_a_fork_server_can_start_all_at_once(monkeypatch):
    monkeypatch.setenv(mp.ENV_VAR_PARALLEL_START, "1")
    x = fb.zeros(2)
    mp.start_processes(fill, (x,), nprocs=2, start_method="forkserver")
    assert x.tolist() == [1, 2]
