"""The timeline as one HTML file: timeline.html with the events in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flambeau.profiler._events import _CATEGORIES, FALLBACK, EventList, MemoryEvent
from flambeau.profiler._memory import peak_of

__all__ = ["page"]

_MOST_POINTS = 20000  # of a memory curve


def page(events: EventList, memory: Sequence[MemoryEvent]) -> str:
    """The text of the page."""
    begin = min([e.start_ns for e in events] + [m.time_ns for m in memory], default=0)
    names: dict[str, int] = {}
    tracks: dict[tuple[Any, ...], dict[str, Any]] = {}
    for e in events:
        key = ("1", e.device, e.stream) if e.on_device else ("0", e.thread)
        title = f"{e.device}, stream {e.stream}" if e.on_device else f"thread {e.thread}"
        track = tracks.setdefault(key, {"title": title, "device": e.on_device, "events": []})
        depth, parent = 0, e.cpu_parent
        while parent is not None:
            depth, parent = depth + 1, parent.cpu_parent
        track["events"].append([
            names.setdefault(e.name, len(names)), (e.start_ns - begin) / 1000, 0 if e.kind == FALLBACK else (e.end_ns - e.start_ns) / 1000,
            0 if e.on_device else depth, _CATEGORIES[e.kind], e.bytes_moved or e.cpu_memory_usage, str(e.input_shapes or ""),
            e.stack[0] if e.stack else "",
        ])  # fmt: skip
    curves = []
    for device in sorted({m.device for m in memory}):
        own = [m for m in memory if m.device == device]
        peak = peak_of(own, device)
        step = max(1, -(-len(own) // _MOST_POINTS))
        # The maximum of each step's events, so that the peak stays visible.
        points = [max(own[i : i + step], key=lambda m: m.total) for i in range(0, len(own), step)]
        curves.append({
            "device": device, "points": [[(m.time_ns - begin) / 1000, m.total] for m in points], "peak": peak.bytes,
            "peak_at": (peak.time_ns - begin) / 1000, "before": peak.before, "holders": [list(h) for h in peak.holders[:100]],
        })  # fmt: skip
    data = {"names": list(names), "tracks": [tracks[key] for key in sorted(tracks)], "memory": curves}
    text = (Path(__file__).with_name("timeline.html")).read_text(encoding="utf-8")
    # In a script element "<" could end the element.
    return text.replace("__DATA__", json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))
