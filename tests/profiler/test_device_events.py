"""What the profiler records of accelerators and of memory: events, tables, traces, the HTML page, and bounds."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import flambeau as fb

P = fb.profiler
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def recorded(**options):
    """A step with a copy there, two products, a named range, an op without a kernel and a copy back."""
    x, w = fb.randn(64, 64), fb.randn(64, 64, device="sim")
    (x.to("sim") @ w).cpu()
    with P.profile(**options) as profile:
        with P.record_function("forward"):
            y = (x.to("sim") @ w).relu()
            y = y @ w
        y.cpu()
    return profile


def test_kernels_and_copies_have_the_devices_times():
    profile = recorded(profile_memory=True)
    events = profile.events()
    kernels = [e for e in events if e.name.endswith("(kernel)")]
    copies = {e.name: e for e in events if e.name.startswith("Memcpy")}
    assert {"matmul (kernel)", "relu (kernel)"} <= {e.name for e in kernels} and set(copies) == {"Memcpy HtoD", "Memcpy DtoH"}
    assert all(e.device == "sim:0" and e.stream == 0 and e.device_type == P.DeviceType.PrivateUse1 for e in kernels)
    assert all(e.self_device_time_total > 0 and e.cpu_time_total == 0 and e.launched_ns <= e.start_ns for e in kernels)
    ordered = sorted(kernels + [copies["Memcpy HtoD"]], key=lambda e: e.start_ns)
    assert all(a.end_ns <= b.start_ns for a, b in zip(ordered, ordered[1:], strict=False))  # one stream, in order
    assert copies["Memcpy HtoD"].bytes_moved == copies["Memcpy DtoH"].bytes_moved == 64 * 64 * 4
    forward = next(e for e in events if e.name == "forward")
    own = [e for e in kernels if e.launched_ns < forward.end_ns]
    assert forward.self_device_time_total == 0
    assert forward.device_time_total == pytest.approx(sum(e.self_device_time_total for e in [*own, copies["Memcpy HtoD"]]))
    product = next(e for e in events if e.name == "matmul")
    assert product.kernels and product.self_device_memory_usage == 64 * 64 * 4 and product.cpu_memory_usage == 0
    rows = {row.key: row for row in profile.key_averages()}
    assert rows["matmul"].count == 2 and rows["matmul"].device_time == pytest.approx(rows["matmul"].device_time_total / 2)
    assert rows["matmul"].self_device_time_total == pytest.approx(rows["matmul (kernel)"].self_device_time_total)
    total = sum(e.self_device_time_total for e in events if e.on_device)
    assert profile.key_averages().self_device_time_total == pytest.approx(total)
    table = profile.key_averages().table(sort_by="cuda_time_total", row_limit=3)
    assert all(word in table for word in ("Self SIM", "SIM total", "Self SIM Mem", "Self SIM time total"))
    assert "SIM" not in P.profile().events().table()


def test_streams_are_tracks_of_their_own_and_arrows_lead_there(tmp_path):
    side = fb.accelerator.Stream("sim")
    x = fb.ones(32, device="sim")
    with P.profile(profile_memory=True) as profile:
        y = x + 1
        with side:
            z = x * 2
        fb.accelerator.synchronize("sim")
    del y, z
    streams = {e.name: e.stream for e in profile.events() if e.on_device}
    assert streams["add (kernel)"] == 0 and streams["mul (kernel)"] == side.stream_id != 0
    profile.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernel = next(e for e in trace if e["name"] == "mul (kernel)")
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] in ("process_name", "thread_name")}
    assert named[kernel["pid"], kernel["tid"]] == f"stream {side.stream_id}" and named[kernel["pid"], 0] == "stream 0"
    starts, ends = ({e["id"]: e for e in trace if e["ph"] == kind} for kind in "sf")
    assert starts.keys() == ends.keys() and any(e["ts"] == kernel["ts"] and e["pid"] == kernel["pid"] for e in ends.values())
    levels = [e["args"]["bytes"] for e in trace if e["ph"] == "C" and e["name"] == "memory sim:0"]
    assert len(levels) >= 2 and levels[1] - levels[0] == 32 * 4


@pytest.mark.filterwarnings("ignore:.*has no kernel")
def test_fallbacks_are_marked(tmp_path):
    matrix = fb.eye(3, device="sim")
    with P.profile() as profile:
        fb.linalg.inv(matrix)
    (row,) = [row for row in profile.key_averages() if "fallback" in row.key]
    assert row.key == "linalg.inv (fallback)" and row.count >= 1
    profile.export_chrome_trace(tmp_path / "trace.json")
    assert any(e["ph"] == "i" and e["name"] == row.key for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"])


def test_activities_choose():
    cpu, accelerator = P.ProfilerActivity.CPU, P.ProfilerActivity.CUDA
    assert not any(e.on_device for e in recorded(activities=[cpu]).events())
    assert {e.on_device for e in recorded(activities=[cpu, accelerator]).events()} == {True, False}


def test_only_the_accelerator(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_DEVICE", "sim")
    assert P.supported_activities() == {P.ProfilerActivity.CPU, P.ProfilerActivity.CUDA}
    events = recorded(activities=[P.ProfilerActivity.XPU]).events()
    assert events and all(e.on_device for e in events)
    with fb.autograd.profiler.profile(use_cuda=True) as profile:
        fb.ones(3, device="sim").exp()
    assert any(e.on_device for e in profile.function_events)


def hold():
    return fb.zeros(1000, device="sim")


def test_memory_at_the_peak_by_op_and_line():
    old = fb.zeros(500, device="sim")
    with P.profile(profile_memory=True) as profile:
        kept = [hold() for _ in range(3)]
        kept.append(kept[0] + 1)
        del kept
        fb.zeros(10, device="sim")
    peak = profile.peak_memory("sim")
    assert peak.bytes >= 16000 and peak.before >= old.numel() * 4
    first, second = peak.holders[:2]
    assert (first.bytes, first.tensors, first.op) == (12000, 3, "zeros") and (second.bytes, second.op) == (4000, "add")
    line = hold.__code__.co_firstlineno + 1
    assert first.line.endswith(f"{Path(__file__).name}:{line}") and first.line in str(peak)
    assert profile.peak_memory().device == "sim:0"
    with pytest.raises(ValueError, match="nothing was allocated on 'opencl:0'"):
        profile.peak_memory("opencl")
    with pytest.raises(RuntimeError, match="profile_memory=True"):
        P.profile().peak_memory()


def test_recordings_are_bounded():
    x = fb.ones(4, device="sim")
    with P.profile(profile_memory=True, max_events=50) as profile:
        for _ in range(100):
            x.exp()
    events = profile.events()
    host = [e for e in events if not e.on_device]
    assert len(host) == 50 and len(events) - len(host) == 50 and len(profile.memory_events()) == 50
    assert profile.dropped_events == 50 + 50 + 150
    with pytest.raises(ValueError, match="max_events must be at least 1"):
        P.profile(max_events=0)
    with P.profile(max_events=10) as profile:
        fb.ones(2)
    assert profile.dropped_events == 0


# Real events of the mouse and the keyboard; what the page shows afterwards becomes the text of the document.
DRIVE = """
<script>
const report = {drawn: drawn, titles: data.tracks.map(t => t.title), whole: view[1] - view[0]};
report.events = data.tracks.map(t => t.events.length);
const at = x_of(view[1] / 3), before = time_of(at);
const box = canvas.getBoundingClientRect();
canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: -300, clientX: box.left + at, clientY: box.top + 50, cancelable: true}));
report.zoomed = view[1] - view[0];
report.stayed = Math.abs(time_of(at) - before) < report.whole / 100;
const field = document.getElementById("search");
field.value = "MATMUL";
field.dispatchEvent(new Event("input"));
report.found = document.getElementById("found").textContent;
field.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
report.selected = data.names[selected[NAME]];
report.inside = view[0] <= selected[START] && selected[START] + selected[TIME] <= view[1];
document.getElementById("all").click();
report.again = view[1] - view[0];
report.ink = new Set(context.getImageData(0, 0, canvas.width, canvas.height).data).size;
report.memory = [...document.querySelectorAll("#below h2")].map(h => h.textContent);
document.body.textContent = "";
document.title = JSON.stringify(report);
</script>
"""


def test_the_page_is_whole_and_safe(tmp_path):
    with P.profile(profile_memory=True) as profile, P.record_function("</script><b>"):
        fb.ones(3, device="sim").exp()
    profile.export_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert "</script><b>" in data["names"] and [c["device"] for c in data["memory"]][-1] == "sim:0"
    assert [t["title"] for t in data["tracks"]][-1] == "sim:0, stream 0" and text.count("</script>") == 2
    assert "http" not in text  # nothing comes from elsewhere


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
def test_the_page_in_a_browser(tmp_path):
    profile = recorded(profile_memory=True, record_shapes=True, with_stack=True)
    path = tmp_path / "page.html"
    profile.export_html(path)
    path.write_text(path.read_text().replace("</body>", DRIVE + "</body>"))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'user'}", "--window-size=1200,800"]
    result = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120)
    report = json.loads(result.stdout.split("<title>")[1].split("</title>")[0])
    assert sum(report["events"]) == len(profile.events()) and 0 < report["drawn"] <= sum(report["events"])
    assert report["titles"][-1] == "sim:0, stream 0" and report["ink"] > 20
    assert report["zoomed"] < report["whole"] / 2 and report["stayed"]
    products = [e for e in profile.events() if "matmul" in e.name]
    assert report["found"].startswith(f"{len(products)} events") and "matmul" in report["selected"] and report["inside"]
    assert report["again"] == report["whole"] and any(text.startswith("sim:0: ") for text in report["memory"])
