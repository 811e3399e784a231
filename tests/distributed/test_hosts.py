"""Several hosts: network namespaces with addresses of their own, joined by virtual links that tests cut and delay."""

import os
import signal
import subprocess
import sys
import time

import pytest
from ranks import HEAD, INIT, environment, free_port


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


def can_make_namespaces():
    name = f"fb{os.getpid()}probe"
    try:
        made = ip("netns", "add", name, check=False)
        joined = ip("-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1", check=False)
        ip("netns", "del", name, check=False)
        return made.returncode == 0 and joined.returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not can_make_namespaces(), reason="network namespaces cannot be made here (needs root and ip)")


class Hosts:
    """Hosts 10.9.0.1, 10.9.0.2 ... on one switch, which is a namespace too."""

    def __init__(self, count):
        self.names = [f"fb{os.getpid()}h{i}" for i in range(count)]
        self.switch = f"fb{os.getpid()}s"
        self.processes = []
        try:
            ip("netns", "add", self.switch)
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
            for i, name in enumerate(self.names):
                ip("netns", "add", name)
                ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
                ip("-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")
                ip("-n", name, "addr", "add", f"10.9.0.{i + 1}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def cut(self, i):
        ip("-n", self.switch, "link", "set", f"port{i}", "down")

    def shape(self, i, *rule):
        """Whether the kernel has this rule."""
        command = ["tc", "-n", self.switch, "qdisc", "add", "dev", f"port{i}", "root", *rule]
        return subprocess.run(command, capture_output=True).returncode == 0

    def start(self, code, per_host=1, **more):
        """One process per rank, the first ranks on the first host."""
        port = free_port()
        for rank in range(per_host * len(self.names)):
            env = environment(rank, per_host * len(self.names), port, MASTER_ADDR="10.9.0.1", **more)
            command = ["ip", "netns", "exec", self.names[rank // per_host], sys.executable, "-c", HEAD + INIT + code]
            self.processes.append(
                subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
        return self.processes

    def close(self):
        for process in self.processes:
            process.kill()
            process.communicate()
        for name in [*self.names, self.switch]:
            ip("netns", "del", name, check=False)


@pytest.fixture
def hosts(request):
    made = Hosts(request.param)
    yield made
    made.close()


def ends(processes, timeout=60):
    end = time.monotonic() + timeout
    outputs = []
    for rank, process in enumerate(processes):
        output, _ = process.communicate(timeout=max(end - time.monotonic(), 1))
        assert process.returncode == 0, f"rank {rank}:\n{output}"
        outputs.append(output)
    return outputs


COLLECTIVES = """
x = fb.full((1000,), float(rank + 1))
dist.all_reduce(x)
assert x.tolist() == [size * (size + 1) / 2] * 1000
y = fb.full((300_000,), float(rank + 1))
dist.all_reduce(y)
assert float(y.mean()) == size * (size + 1) / 2
dist.broadcast(y, src=size - 1)
parts = [fb.zeros(3) for _ in range(size)]
dist.all_gather(parts, fb.full((3,), float(rank)))
assert fb.stack(parts)[:, 0].tolist() == list(range(size))
z = fb.zeros(2)
dist.reduce_scatter_tensor(z, fb.arange(2.0 * size))
assert z.tolist() == [size * 2.0 * rank, size * (2.0 * rank + 1)]
every = [None] * size
dist.all_gather_object(every, rank)
assert every == list(range(size))
"""


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_two_hosts_with_two_ranks_each(hosts):
    ends(hosts.start(COLLECTIVES + """
local = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
dist.all_reduce(z, group=local)
across = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
w = fb.full((1,), float(rank))
dist.all_reduce(w, group=across)
assert w.item() == 2 * (rank % 2) + 2
from flambeau.distributed._shared import SharedEngine
assert isinstance(local._engine, SharedEngine) and not isinstance(across._engine, SharedEngine)
dist.destroy_process_group()
""", per_host=2))  # fmt: skip


@pytest.mark.parametrize("hosts", [3], indirect=True)
def test_three_hosts_over_slow_links(hosts):
    if not hosts.shape(1, "netem", "delay", "20ms"):
        assert hosts.shape(1, "tbf", "rate", "20mbit", "burst", "16kb", "latency", "100ms")
    assert hosts.shape(2, "tbf", "rate", "200mbit", "burst", "64kb", "latency", "50ms")
    ends(hosts.start(COLLECTIVES + "dist.destroy_process_group()\n"))


@pytest.mark.parametrize("hosts", [3], indirect=True)
@pytest.mark.parametrize("call", ["dist.all_reduce(fb.ones(10))", "dist.all_reduce(fb.ones(3_000_000))"], ids=["small", "large"])
def test_a_host_that_drops_off_the_network_is_named(hosts, call):
    processes = hosts.start(f"""
print("ready", flush=True)
try:
    while True:
        {call}
        time.sleep(0.01)
except dist.PeerLost as error:
    print(error.rank, str(error).split(" is lost")[0][-10:], flush=True)
os._exit(0)
""")  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    hosts.cut(1)
    start = time.monotonic()
    outputs = ends(processes, timeout=30)
    assert time.monotonic() - start < 10
    assert outputs[0] == outputs[2] == "1 (10.9.0.2)\n", outputs
    assert outputs[1][0] in "02"


@pytest.mark.parametrize("hosts", [3], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_of_another_host_that_ends_or_is_stopped_is_named(hosts, number):
    processes = hosts.start("""
print(os.getpid(), flush=True)
try:
    while True:
        dist.all_reduce(fb.ones(1000))
        time.sleep(0.01)
except dist.PeerLost as error:
    print(error.rank, str(error).split(" is lost")[0][-10:], flush=True)
os._exit(0)
""")  # fmt: skip
    numbers = [int(process.stdout.readline()) for process in processes]
    time.sleep(0.5)
    start = time.monotonic()
    os.kill(numbers[2], number)
    assert ends(processes[:2], timeout=30) == ["2 (10.9.0.3)\n"] * 2
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_launcher_with_a_host_file(hosts, tmp_path):
    (tmp_path / "hosts").write_text("".join(f"{name} slots=2\n" for name in hosts.names))
    (tmp_path / "rsh").write_text('#!/bin/sh\nexec ip netns exec "$1" sh -c "$2"\n')
    (tmp_path / "rsh").chmod(0o755)
    (tmp_path / "train.py").write_text("""
import os, signal
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if dist.get_rank() == 3: os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    raise AssertionError("rank 3 is gone")
os.write(1, f"{dist.get_rank()} {os.environ['LOCAL_RANK']} {os.environ['GROUP_RANK']} {x.item()}\\n".encode())
""")
    ended = subprocess.run(
        [sys.executable, "-m", "flambeau.distributed.run", f"--hostfile={tmp_path}/hosts", f"--rsh={tmp_path}/rsh",
         "--master-addr=10.9.0.1", f"--master-port={free_port()}", "--max-restarts=1", str(tmp_path / "train.py")],
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == ["0 0 0 4.0", "1 1 0 4.0", "2 0 1 4.0", "3 1 1 4.0"]
    assert "was killed by SIGKILL" in ended.stderr and "restart 1 of 1" in ended.stderr
