"""How far the host runs ahead of an accelerator: the first layers of ResNet-50, queued by the host and run by the device.

    python benchmarks/async.py [--device sim] [--images 4] [--rounds 7] [--write]

Figure 1 of the PyTorch paper, for the accelerator of this machine. The host queues the stem and the first stage, forwards
and backwards, and is done long before the device is. With --write it draws async.png, replaces its section of RESULTS.md
and exits with 1 when the host takes more than a third of the device's time.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import flambeau as fb
from harness import report
from models import resnet

CHART = Path(__file__).with_name("async.png")
RESULTS = Path(__file__).with_name("RESULTS.md")
LIMIT = 1 / 3


def first_layers(images: int, side: int, device: str) -> tuple[Any, Any]:
    """The stem and the first three blocks, and pictures."""
    fb.manual_seed(0)
    net = resnet.build(fb, images=images, side=side, classes=10)
    layers = fb.nn.Sequential(net.stem, *list(net.blocks)[:3]).to(device)
    return layers, fb.randn(images, 3, side, side).to(device)


def step(layers: Any, x: Any) -> None:
    layers(x).mean().backward()
    layers.zero_grad()


def measure(layers: Any, x: Any, device: str, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds until the host has queued a step, and until the device has done it."""
    host, whole = [], []
    for _ in range(rounds):
        fb.accelerator.synchronize(device)
        begin = time.perf_counter()
        step(layers, x)
        host.append(time.perf_counter() - begin)
        fb.accelerator.synchronize(device)
        whole.append(time.perf_counter() - begin)
    return host, whole


def trace(layers: Any, x: Any, device: str) -> list[Any]:
    """One step as the profiler sees it: of fifteen the one in which the host was least held up by other programs."""
    found = []
    for _ in range(15):
        fb.accelerator.synchronize(device)
        with fb.profiler.profile() as profile:
            step(layers, x)
        found.append(profile.events())
    return min(found, key=lambda events: sum(e.self_cpu_time_total for e in events))


def draw(events: list[Any], device: str, path: Path) -> None:
    """Two tracks on one axis of time, ops of the host and kernels of the device: the whole step, and its beginning."""
    from matplotlib.figure import Figure

    begin = min(e.start_ns for e in events)
    names = sorted({e.name.removesuffix(" (kernel)") for e in events})
    tracks = {device: [e for e in events if e.on_device], "host": [e for e in events if not e.on_device and e.cpu_parent is None]}
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    ends = {}
    for axis in (axes := figure.subplots(2, 1)):
        for place, (label, chosen) in enumerate(tracks.items()):
            bars = [((e.start_ns - begin) / 1e6, (e.end_ns - e.start_ns) / 1e6) for e in chosen]
            colors = [f"C{names.index(e.name.removesuffix(' (kernel)')) % 10}" for e in chosen]
            axis.broken_barh(bars, (place + 0.1, 0.8), color=colors)
            ends[label] = max(start + length for start, length in bars)
            axis.text(ends[label], place + 0.5, f"  {ends[label]:.1f} ms", va="center", clip_on=True)
        axis.set_yticks([0.5, 1.5], list(tracks))
    axes[0].set_title("ResNet-50's first layers, forwards and backwards: queued by the host, run by the device")
    axes[0].set_xlim(0, 1.12 * ends[device])
    axes[1].set_xlim(0, 1.5 * ends["host"])
    axes[1].set_xlabel("milliseconds; below, the beginning")
    figure.savefig(path, dpi=120)


def section(device: str, images: int, side: int, host: list[float], whole: list[float], events: list[Any]) -> tuple[str, float]:
    share = median(host) / median(whole)
    kernels = [e for e in events if e.on_device]
    rows = [
        ["the host has queued the step", report.quantity(median(host))],
        ["the device has done it", report.quantity(median(whole))],
        ["kernels and copies", str(len(kernels))],
        ["host, per kernel", report.quantity(median(host) / len(kernels))],
    ]
    lines = [
        "## Async: the host runs ahead of the device", "",
        f"- Machine: {report.machine()}",
        f"- How: {device} ({about(device)}), ResNet-50's stem and first stage, {images} images of {side} × {side}, forwards and backwards; "
        f"median of {len(host)} steps after one that builds kernels; load average {os.getloadavg()[0]:.1f}; {datetime.date.today()}", "",
        *report.table(["what", "figure"], rows), "",
        *report.table(["budget", "limit", "measured", ""], [
            ["host's time against the device's", "at most 0.333", f"{share:.3f}", "met" if share <= LIMIT else "**missed**"],
        ]), "",
        f"![Ops of the host above, kernels of the device below, on one axis of time]({CHART.name})",
    ]  # fmt: skip
    return "\n".join(lines) + "\n", share


def about(device: str) -> str:
    kind, _, index = device.partition(":")
    rows = {"opencl": fb.opencl.devices, "cuda": fb.cuda.devices}.get(kind, list)()
    names = [row["name"] if isinstance(row, dict) else row.name for row in rows]
    return names[int(index or 0)] if names else "the simulated accelerator, which computes on the CPU"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="sim", help="the accelerator (default sim)")
    parser.add_argument("--images", type=int, default=4, help="images in a batch (default 4)")
    parser.add_argument("--side", type=int, default=96, help="their height and width (default 96)")
    parser.add_argument("--rounds", type=int, default=7, help="steps that are measured (default 7)")
    parser.add_argument("--write", action="store_true", help="draw async.png and replace the section of RESULTS.md")
    options = parser.parse_args(argv)
    layers, x = first_layers(options.images, options.side, options.device)
    step(layers, x)
    host, whole = measure(layers, x, options.device, options.rounds)
    events = trace(layers, x, options.device)
    text, share = section(options.device, options.images, options.side, host, whole, events)
    print(text)
    if options.write:
        draw(events, options.device, CHART)
        RESULTS.write_text(report.replace_section(RESULTS.read_text(), "async", text))
    return 0 if share <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
