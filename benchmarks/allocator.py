"""What the caching allocator asks of a device: calls for memory, iteration by iteration, of a ResNet-50 that is trained.

    python benchmarks/allocator.py [--devices sim opencl cpu] [--images 4] [--iterations 6] [--write]

Figure 2 of the PyTorch paper: the first iteration asks the device for memory, later ones live on what is cached. The
optimizer makes its momentum at the end of the first iteration, so the second one asks for the rest. Each device is
measured in a process of its own. With --write it draws allocator.png, replaces its section of RESULTS.md and exits with 1
when an iteration after the second still asks for memory.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import flambeau as fb
from harness import report
from models import resnet

CHART = Path(__file__).with_name("allocator.png")
RESULTS = Path(__file__).with_name("RESULTS.md")


def counters(device: str) -> dict[str, int]:
    if device == "cpu":
        stats = fb.memory_stats()
        return {"maps": stats["system_allocations"], "reserved": stats["reserved_bytes"]}
    stats = fb.accelerator.memory_stats(device)
    return {"maps": stats["num_device_alloc"], "reserved": stats["reserved_bytes.all.current"]}


def iterations(device: str, images: int, side: int, count: int) -> list[dict[str, float]]:
    """For each iteration: calls for memory, bytes that are held after it, and seconds."""
    fb.manual_seed(0)
    net = resnet.build(fb, images=images, side=side, classes=10).to(device)
    optimizer = resnet.optimiser(fb, net)
    x, target = fb.randn(images, 3, side, side).to(device), fb.randint(10, (images,)).to(device)
    wait = (lambda: None) if device == "cpu" else (lambda: fb.accelerator.synchronize(device))
    found = []
    for _ in range(count):
        wait()
        before, begin = counters(device), time.perf_counter()
        loss = resnet.loss(fb, net(x), (target,))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss
        wait()
        after = counters(device)
        found.append({"calls": after["maps"] - before["maps"], "reserved": after["reserved"], "seconds": time.perf_counter() - begin})
    return found


def in_a_process(device: str, options: argparse.Namespace) -> list[dict[str, float]]:
    command = [sys.executable, __file__, "--worker", device, "--images", str(options.images), "--side", str(options.side)]
    result = subprocess.run([*command, "--iterations", str(options.iterations)], capture_output=True, text=True, timeout=3600)
    if result.returncode:
        raise SystemExit(f"{device}: {result.stderr.strip()}")
    return json.loads(result.stdout.splitlines()[-1])


def draw(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Calls for memory per iteration, and what is held."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    calls, held = figure.subplots(1, 2)
    for place, (device, rows) in enumerate(found.items()):
        width = 0.8 / len(found)
        at = [i + 1 + (place - (len(found) - 1) / 2) * width for i in range(len(rows))]
        calls.bar(at, [row["calls"] for row in rows], width=width, label=device)
        held.plot(range(1, len(rows) + 1), [row["reserved"] / 2**20 for row in rows], marker="o", label=device)
    calls.set_ylabel("calls for memory")
    held.set_ylabel("MB held")
    held.set_ylim(0, 1.15 * max(row["reserved"] for rows in found.values() for row in rows) / 2**20)
    for axis in (calls, held):
        axis.set_xlabel("iteration")
        axis.legend()
    figure.suptitle("Training ResNet-50: the first iteration asks for memory, later ones reuse it")
    figure.savefig(path, dpi=120)


def section(found: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> str:
    head = ["device", *(f"iteration {i + 1}" for i in range(options.iterations)), "held in the end"]
    body = [[d, *(f"{row['calls']:.0f}" for row in rows), f"{rows[-1]['reserved'] / 2**20:.0f} MB"] for d, rows in found.items()]
    late = max(row["calls"] for rows in found.values() for row in rows[2:])
    lines = [
        "## Allocator: memory comes from the cache after the first iteration", "",
        f"- Machine: {report.machine()}",
        f"- How: ResNet-50, {options.images} images of {options.side} × {options.side}, SGD with momentum, a process per device; "
        f"{datetime.date.today()}",
        "", "Calls to the device for memory; the optimizer's momentum comes at the end of iteration 1:", "", *report.table(head, body), "",
        *report.table(["budget", "limit", "measured", ""], [
            ["calls for memory in an iteration after the second", "at most 0", f"{late:.0f}", "met" if late == 0 else "**missed**"],
        ]), "",
        f"![Calls for memory in each iteration of training, and memory held]({CHART.name})",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", nargs="+", default=["sim", "opencl", "cpu"], help="devices to measure (default sim opencl cpu)")
    parser.add_argument("--images", type=int, default=4, help="images in a batch (default 4)")
    parser.add_argument("--side", type=int, default=64, help="their height and width (default 64)")
    parser.add_argument("--iterations", type=int, default=6, help="iterations of training, at least 3 (default 6)")
    parser.add_argument("--write", action="store_true", help="draw allocator.png and replace the section of RESULTS.md")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.iterations < 3:
        parser.error("--iterations must be at least 3")
    if options.worker:
        print(json.dumps(iterations(options.worker, options.images, options.side, options.iterations)))
        return 0
    found: dict[str, Any] = {device: in_a_process(device, options) for device in options.devices}
    text = section(found, options)
    print(text)
    if options.write:
        draw(found, CHART)
        RESULTS.write_text(report.replace_section(RESULTS.read_text(), "allocator", text))
    return 0 if all(row["calls"] == 0 for rows in found.values() for row in rows[2:]) else 1


if __name__ == "__main__":
    sys.exit(main())
