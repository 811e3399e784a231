"""Processes that are killed, stopped, leave, or call something else: the others raise, and say who."""

import os
import signal
import time

import pytest
from ranks import run, started

ENGINES = pytest.mark.parametrize("engine", [{}, {"FLAMBEAU_SHARED_MEMORY": "0"}], ids=["shared", "tcp"])

WAITING = {
    "all_reduce": "dist.all_reduce(fb.ones(10))",
    "large all_gather": "dist.all_gather([fb.ones(3_000_000) for _ in range(size)], fb.ones(3_000_000))",
    "recv from a third": "dist.recv(fb.ones(3), 3 - rank)",
    "asynchronous": "dist.all_reduce(fb.ones(10), async_op=True).wait()",
    "computing": "[fb.ones(200, 200) @ fb.ones(200, 200) for _ in iter(lambda: time.monotonic() < start + 7, False)]; dist.barrier()",
}

VICTIM = """
start = time.monotonic()
print("ready", flush=True)
if rank == 0:
    time.sleep(60)
try:
    {call}
except dist.PeerLost as error:
    print(error.rank, error.host == __import__("socket").gethostname(), error, flush=True)
    try:
        dist.all_reduce(fb.ones(1))
    except dist.PeerLost as again:
        print(again.rank, flush=True)
os._exit(0)
"""


@ENGINES
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("call", WAITING)
def test_all_others_name_a_rank_that_is_gone(engine, how, call):
    if (how == signal.SIGSTOP and call not in ("all_reduce", "recv from a third")) or (call == "computing" and engine):
        pytest.skip("the same path as another case")
    code = VICTIM.format(call=WAITING[call])
    with started(3, code, **engine) as processes:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        processes[0].send_signal(how)
        gone = time.monotonic()
        for process in processes[1:]:
            output, _ = process.communicate(timeout=30)
            assert time.monotonic() - gone < 10
            assert process.returncode == 0
            lines = output.splitlines()
            assert lines[0].startswith("0 True rank 0 on host ") and " is lost: " in lines[0] and lines[-1] == "0", output
        if how == signal.SIGKILL:
            assert "ended" in lines[0]


def test_a_process_that_is_stopped_for_a_moment_is_not_lost():
    code = """
    print("ready", flush=True)
    for i in range(60):
        x = fb.ones(1)
        dist.all_reduce(x)
        assert x.item() == 3.0
        time.sleep(0.05)
    """
    with started(3, code) as processes:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        processes[1].send_signal(signal.SIGSTOP)
        time.sleep(2)
        processes[1].send_signal(signal.SIGCONT)
        for process in processes:
            output, _ = process.communicate(timeout=30)
            assert process.returncode == 0, output


def test_work_without_the_interpreter_lock_released_is_a_sign_of_life():
    run(2, """
if rank == 0:
    import ctypes
    ctypes.PyDLL(None).usleep(4_000_000)  # PyDLL keeps the interpreter lock
dist.barrier()
""", FLAMBEAU_HEARTBEAT_TIMEOUT="2")  # fmt: skip


@ENGINES
def test_a_rank_that_ends_early_is_named_by_those_who_wait_for_it(engine):
    run(3, """
x = fb.ones(1000)
dist.broadcast(x, src=0)
if rank == 0:
    sys.exit(0)  # what it has sent is complete
group = [1, 2]
with pytest.raises(dist.PeerLost, match="rank 0 on host .* it has left the group|rank 0 on host .* closed its connection") as error:
    dist.all_reduce(x)
assert error.value.rank == 0
dist.send(x, 3 - rank)  # the others still reach each other
dist.recv(x, 3 - rank)
os._exit(0)
""", init=True, **engine)  # fmt: skip


def test_an_exception_in_one_rank_ends_the_others():
    code = """
    if rank == 1:
        raise ValueError("mine")
    dist.barrier()
    """
    with started(2, code) as processes:
        outputs = [process.communicate(timeout=20)[0] for process in processes]
        assert [process.returncode for process in processes] == [1, 1]
    assert "PeerLost: rank 1 on host" in outputs[0] and "ValueError: mine" in outputs[1]


CALLS = {
    "shape": ("dist.all_reduce(fb.ones(3))", "dist.all_reduce(fb.ones(4))", "all_reduce.float32 .3,., SUM", "all_reduce.float32 .4,., SUM"),
    "dtype": ("dist.all_reduce(fb.ones(3))", "dist.all_reduce(fb.ones(3).int())", "float32", "int32"),
    "op": ("dist.all_reduce(fb.ones(3))", "dist.broadcast(fb.ones(3), 0)", "all_reduce", "broadcast"),
    "root": ("dist.broadcast(fb.ones(3), 0)", "dist.broadcast(fb.ones(3), 1)", "src 0", "src 1"),
    "reduction": ("dist.all_reduce(fb.ones(3))", "dist.all_reduce(fb.ones(3), dist.ReduceOp.MAX)", "SUM", "MAX"),
    "no message": (
        "dist.gather(fb.ones(3), [fb.ones(3)] * 3 if rank == 0 else None)", "dist.broadcast(fb.ones(3), 0)", "gather", "broadcast",
    ),
    "large": ("dist.all_reduce(fb.ones(3_000_000))", "dist.barrier()", "all_reduce", "barrier"),
}  # fmt: skip


@ENGINES
@pytest.mark.parametrize("what", CALLS)
def test_different_calls_raise_on_all_ranks_and_name_both(engine, what):
    first, second, one, other = CALLS[what]
    code = f"""
    with pytest.raises(dist.CollectiveMismatch, match="called") as error:
        if rank == 1:
            {second}
        else:
            {first}
        dist.barrier()  # at the latest
    assert re.search("{one}", str(error.value)) and re.search("{other}", str(error.value)), error.value
    with pytest.raises(dist.CollectiveMismatch, match="called"):
        dist.all_reduce(fb.ones(1))  # and from then on
    time.sleep(0.5)
    """
    run(3, "import re\n" + "".join(line[4:] + "\n" if line.startswith("    ") else line + "\n" for line in code.splitlines()), **engine)


@ENGINES
def test_timeouts_name_who_is_late(engine):
    run(2, """
group = dist.new_group(timeout=datetime.timedelta(seconds=1))
if rank == 0:
    with pytest.raises(dist.DistBackendError, match=r"all_reduce.*timed out.*waiting for rank 1 on host"):
        dist.all_reduce(fb.ones(1), group=group)
    work = dist.irecv(fb.ones(1), 1)
    with pytest.raises(dist.DistBackendError, match="not done within 0.1 s"):
        work.wait(datetime.timedelta(seconds=0.1))
time.sleep(2 * rank)
dist.barrier()
if rank == 1:
    dist.send(fb.ones(1), 0)
else:
    work.wait()
dist.barrier()
""", **engine)  # fmt: skip


def test_monitored_barrier_names_who_is_late():
    run(3, """
seconds = datetime.timedelta(seconds=1)
dist.monitored_barrier(timeout=seconds * 20)
if rank == 0:
    with pytest.raises(RuntimeError, match="ranks 1, 2 did not reach the barrier within 1 s"):
        dist.monitored_barrier(timeout=seconds, wait_all_ranks=True)
else:
    time.sleep(1.5)
    with pytest.raises(RuntimeError, match="ranks 1, 2 did not reach"):
        dist.monitored_barrier(timeout=seconds)
dist.barrier()
""")  # fmt: skip


def test_nothing_is_left_behind():
    before = set(os.listdir("/dev/shm"))
    code = "print(os.getpid(), flush=True)\ndist.all_reduce(fb.ones(100))\ntime.sleep(60)\n"
    with started(2, code) as processes:
        pids = [process.stdout.readline().strip() for process in processes]
        time.sleep(0.5)
        for process in processes:
            process.kill()
            process.wait()
    assert set(os.listdir("/dev/shm")) <= before
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_interrupts_reach_a_rank_that_waits():
    code = "print('ready', flush=True)\nif rank == 1: time.sleep(60)\ndist.all_reduce(fb.ones(1))\n"
    for engine in ({}, {"FLAMBEAU_SHARED_MEMORY": "0"}):
        with started(2, code, **engine) as processes:
            for process in processes:
                process.stdout.readline()
            time.sleep(0.5)
            processes[0].send_signal(signal.SIGINT)
            output, _ = processes[0].communicate(timeout=30)
            assert "KeyboardInterrupt" in output, output


def test_forked_children_do_not_keep_a_killed_parent_alive():
    """Workers of a DataLoader inherit the connections of their parent; they must not stay open in them."""
    code = """
    if rank == 0:
        if os.fork() == 0:
            time.sleep(8)
            os._exit(0)
        print("ready", flush=True)
        time.sleep(60)
    print("ready", flush=True)
    start = time.monotonic()
    with pytest.raises(dist.PeerLost, match="rank 0"):
        dist.barrier()
    print(time.monotonic() - start, flush=True)
    os._exit(0)
    """
    with started(2, code, FLAMBEAU_HEARTBEAT_TIMEOUT="60") as processes:
        for process in processes:
            process.stdout.readline()
        time.sleep(0.5)
        processes[0].kill()
        output, _ = processes[1].communicate(timeout=30)
        assert float(output) < 10
        assert processes[1].returncode == 0
