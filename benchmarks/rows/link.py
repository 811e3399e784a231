"""Training on two hosts that a link of 1 Gbit/s joins: network namespaces with a pair of virtual devices."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from typing import Any

RATE = "1gbit"
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN, _THEIRS = "10.77.0.1", "10.77.0.2"


def _do(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"not measured: `{' '.join(words)}` failed ({done.stderr.strip()}); needs root, ip and tc with tbf")


class _Link:
    """Two namespaces; what each sends is held to the rate."""

    def __init__(self) -> None:
        self.names = [f"fblink{os.getpid()}{side}" for side in "ab"]

    def __enter__(self) -> list[str]:
        a, b = self.names
        try:
            for name in self.names:
                _do("ip", "netns", "add", name)
            _do("ip", "-n", a, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", b)
            for name, address in ((a, _OWN), (b, _THEIRS)):
                _do("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
                for device in ("lo", "eth0"):
                    _do("ip", "-n", name, "link", "set", device, "up")
                _do("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", RATE, "burst", "256kb", "latency", "50ms")
        except BaseException:
            self.__exit__()
            raise
        return self.names

    def __exit__(self, *error: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@functools.cache
def over_link() -> dict[str, float]:
    """What rank 0 of two finds; both values are of one run."""
    try:
        with _Link() as hosts:
            processes = []
            for rank, host in enumerate(hosts):
                env = os.environ | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": _OWN, "MASTER_PORT": "29511"}
                env["OMP_NUM_THREADS"] = "1"
                code = f"import sys; sys.path.insert(0, {HERE!r}); from rows.link import measure; measure()"
                command = ["ip", "netns", "exec", host, sys.executable, "-c", code]
                processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            try:
                answers = [process.communicate(timeout=300) for process in processes]
            finally:
                for process in processes:
                    process.kill()
    except FileNotFoundError as missing:
        raise RuntimeError(f"not measured: there is no {missing.filename}") from None
    if any(process.returncode for process in processes):
        raise RuntimeError(answers[0][1][-2000:] or answers[1][1][-2000:])
    return json.loads(answers[0][0].splitlines()[-1])


def hidden() -> float:
    """The share of the communication's time by which an overlapped step is shorter than step and communication in turn."""
    return over_link()["hidden"]


def compressed() -> float:
    """Bytes on the link in a step with gradients in bfloat16, in parts of those without compression."""
    return over_link()["compressed"]


def measure() -> None:
    """What each rank does; rank 0 prints the result."""
    import flambeau as fb
    from flambeau.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
    from models.training import Training

    dist, parallel = fb.distributed, fb.nn.parallel.DistributedDataParallel
    fb.set_num_threads(1)
    dist.init_process_group("gloo")
    local, plain, small = (Training(fb, "resnet18") for _ in range(3))
    plain.net, small.net = (parallel(t.net, bucket_cap_mb=8) for t in (plain, small))
    small.net.register_comm_hook(None, bf16_compress_hook)
    plain.step(), plain.step(), small.step(), small.step(), local.step()
    flats = [fb.zeros(sum(plain.net.reducer.params[i].numel() for i in bucket.members)) for bucket in plain.net.reducer.buckets]

    def communicate() -> None:
        for flat in flats:
            dist.all_reduce(flat)

    times: dict[str, list[float]] = {}
    sent: dict[str, int] = {}
    calls: dict[str, Any] = {"local": local.step, "link": communicate, "plain": plain.step, "small": small.step}
    for _ in range(4):
        for name, call in calls.items():
            dist.barrier()
            before, start = _sent(), time.perf_counter()
            call()
            times.setdefault(name, []).append(time.perf_counter() - start)
            sent[name] = _sent() - before
    best = {name: min(values) for name, values in times.items()}
    if dist.get_rank() == 0:
        hidden = (best["local"] + best["link"] - best["plain"]) / best["link"]
        print(json.dumps({"hidden": hidden, "compressed": sent["small"] / sent["plain"], **best}))
    dist.destroy_process_group()


def _sent() -> int:
    with open("/sys/class/net/eth0/statistics/tx_bytes") as file:
        return int(file.read())
