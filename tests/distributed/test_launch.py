"""Ways to start processes, and what happens when some are missing."""

import os
import subprocess
import sys

import pytest
from ranks import INIT, free_port, run, started

LAUNCH = [sys.executable, "-m", "flambeau.distributed.run"]


def launch(*arguments, timeout=90, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE", "MASTER_"))} | more
    return subprocess.run([*LAUNCH, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, env=env)


@pytest.fixture
def script(tmp_path):
    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


TORCH = """
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
x = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(x)
sys.stdout.write(f"{dist.get_rank()} {os.environ['LOCAL_RANK']} {dist.get_world_size()} {x.item()} {sys.argv[1:]}\\n")
dist.destroy_process_group()
"""


def test_launcher_runs_scripts_written_for_pytorch(script):
    ended = launch("--nproc_per_node=3", "--standalone", script(TORCH), "--lr", "0.1")
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [f"{r} {r} 3 6.0 ['--lr', '0.1']" for r in range(3)]


def test_launcher_on_two_nodes(script):
    options = ["--nnodes=2", "--nproc-per-node=1", f"--master-port={free_port()}", "--master-addr=127.0.0.1"]
    command = [*LAUNCH, *options, "--node-rank=1", str(script(TORCH))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as other:
        ended = launch(*options, "--node-rank=0", script(TORCH))
        output, _ = other.communicate(timeout=60)
    assert ended.returncode == 0 and other.returncode == 0, ended.stderr + output
    assert ended.stdout == "0 0 2 3.0 []\n" and output == "1 0 2 3.0 []\n"


def test_launcher_restarts_all_processes(script):
    ended = launch(
        "--nproc-per-node=2", "--standalone", "--max-restarts=2",
        script("""
import os, signal, sys
import flambeau as fb
fb.distributed.init_process_group("gloo")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
x = fb.ones(1)
fb.distributed.all_reduce(x)
if attempt == 0 and fb.distributed.get_rank() == 1: os.kill(os.getpid(), signal.SIGKILL)
if attempt == 1 and fb.distributed.get_rank() == 0: sys.exit(3)
if attempt < 2:
    fb.distributed.barrier()
os.write(1, f"{attempt} {x.item()}\\n".encode())
"""),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["2 2.0", "2 2.0"]
    assert "was killed by SIGKILL" in ended.stderr and "exit code 3" in ended.stderr and "restart 2 of 2" in ended.stderr


def test_launcher_gives_up_and_ends_what_runs(script):
    path = script("import os, sys, time\nos.write(1, b'%d\\n' % os.getpid())\nif os.environ['RANK'] == '0': sys.exit(7)\ntime.sleep(600)\n")
    ended = launch("--nproc-per-node=3", "--standalone", path)
    assert ended.returncode == 1 and "local rank 0" in ended.stderr and "exit code 7" in ended.stderr
    for pid in ended.stdout.split():
        assert not os.path.exists(f"/proc/{pid}")


def test_launcher_options(script, tmp_path):
    path = script("import os, sys; print(os.environ['RANK'], file=sys.stderr); os.write(1, b'out\\n')")
    ended = launch("--nproc-per-node=2", "--standalone", f"--log-dir={tmp_path}/logs", "--redirects=3", path)
    assert ended.returncode == 0 and ended.stdout == ""
    assert (tmp_path / "logs/attempt_0/1/stderr.log").read_text() == "1\n"
    assert (tmp_path / "logs/attempt_0/0/stdout.log").read_text() == "out\n"
    ended = launch("--nproc-per-node=2", "--standalone", "--no-python", "sh", "-c", "echo $LOCAL_RANK of $LOCAL_WORLD_SIZE")
    assert sorted(ended.stdout.split("\n")) == ["", "0 of 2", "1 of 2"]
    ended = launch("--standalone", "-m", "json.tool", "--help")
    assert ended.returncode == 0 and "usage" in ended.stdout
    for options, message in (
        (["--nproc-per-node=none"], "--nproc-per-node must be"), (["--nnodes=1:4"], "varying number"),
        (["--nnodes=2", "--standalone"], "one host"), (["--redirects=9", "--standalone"], "--redirects must be"),
        (["--hostfile=/nowhere"], "cannot read"),
    ):  # fmt: skip
        ended = launch(*options, path)
        assert ended.returncode == 1 and message in ended.stderr and "Traceback" not in ended.stderr, ended.stderr


def test_missing_ranks_are_listed():
    code = """
    with pytest.raises(dist.DistStoreError, match=r"ranks 1, 3 of 4 did not start within 2 s"):
        dist.init_process_group("gloo", world_size=4, rank=2 * rank)
    """
    run(2, code, init=False, FLAMBEAU_START_TIMEOUT="2")
    code = """
    with pytest.raises(dist.DistNetworkError, match="rank 1 of 2 found no store.*is the process that serves there .rank 0. running"):
        dist.init_process_group("gloo", world_size=2, rank=1)
    """
    run(1, code, init=False, FLAMBEAU_START_TIMEOUT="1")


def test_contradictions_are_noticed():
    code = """
    dist.init_process_group("gloo", world_size=2, rank=0) if rank == 0 else time.sleep(0.2)
    if rank == 1:
        with pytest.raises(ValueError, match="two processes have rank 0"):
            store = dist.PrefixStore("attempt/0", dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"])))
            dist.init_process_group("gloo", store=store, world_size=2, rank=0)
        dist.init_process_group("gloo")
    """
    run(2, code, init=False)


@pytest.mark.parametrize("method", ["tcp", "file"])
def test_spawn_as_in_scripts_for_pytorch(script, tmp_path, method):
    url = f"tcp://127.0.0.1:{free_port()}" if method == "tcp" else f"file://{tmp_path}/store"
    path = script(f"""
import torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank, size):
    dist.init_process_group("gloo", init_method="{url}", rank=rank, world_size=size)
    x = torch.ones(3) * rank
    dist.all_reduce(x)
    assert x.tolist() == [3.0] * 3
    dist.barrier()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(work, args=(3,), nprocs=3)
""")
    ended = subprocess.run([sys.executable, "-m", "flambeau", path], capture_output=True, text=True, timeout=90)
    assert ended.returncode == 0, ended.stderr


def test_groups_one_after_the_other():
    code = """
    for i in range(5):
        dist.init_process_group("gloo")
        x = fb.ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [2.0, 2.0]
        if i % 2:
            dist.barrier()
        dist.destroy_process_group()
    """
    run(2, code, init=False)


def test_variables_of_other_launchers():
    code = """
    dist.init_process_group()
    assert dist.get_rank() == rank and dist.get_world_size() == 2
    """
    wrapper = "for k in ('RANK', 'WORLD_SIZE'): os.environ[{0}[k]] = os.environ.pop(k)\n"
    for names in (
        {"RANK": "PMI_RANK", "WORLD_SIZE": "PMI_SIZE"},
        {"RANK": "OMPI_COMM_WORLD_RANK", "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE"},
        {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS"},
    ):
        run(2, wrapper.format(names) + code.replace("\n    ", "\n"), init=False)


def test_names_of_backends():
    with started(2, INIT.replace("gloo", "nccl") + "dist.barrier()", init=False) as processes:
        outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert "backend 'nccl' is carried by flambeau's own engine" in outputs[0] and outputs[1] == ""


def test_stores():
    run(2, """
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, rank == 0)
if rank == 0:
    time.sleep(0.2)
    store.set("key", b"\\x00value")
assert store.get("key") == b"\\x00value"
store.add("count", 5)
store.append("list", f"{rank},")
store.wait(["list"], datetime.timedelta(seconds=5))
store.add("seen", 1)
while store.add("seen", 0) < 2: time.sleep(0.01)
assert store.add("count", 0) == 10 and sorted(store.get("list").split(b",")) == [b"", b"0", b"1"]
with pytest.raises(dist.DistStoreError, match="no process has set: nothing"):
    store.wait(["nothing"], datetime.timedelta(seconds=0.2))
assert store.check(["key"]) and not store.check(["key", "nothing"])
store.add("seen", 1)
while store.add("seen", 0) < 4: time.sleep(0.01)
if rank == 1:
    assert store.delete_key("key") and not store.delete_key("key")
    assert store.compare_set("key", "other", "x") == b"other" and store.compare_set("key", "", "x") == b"x"
    inner = dist.PrefixStore("a", dist.PrefixStore("b", store))
    inner.multi_set(["u", "v"], ["1", "2"])
    assert store.get("b/a/u") == b"1" and inner.multi_get(["u", "v"]) == [b"1", b"2"]
    store.set("end", "1")
store.get("end")
time.sleep(0.3 * (rank == 0))
""", init=False)  # fmt: skip
