"""What the profiler records, how it sums up, and the files it writes."""

import gzip
import json
import os
import threading

import pytest

import flambeau as fb

P = fb.profiler


def names(profile):
    return [event.name for event in profile.events()]


def test_ops_backward_and_ranges_are_recorded_in_order():
    w = fb.ones(3, 3, requires_grad=True)
    with P.profile() as profile:
        with P.record_function("forward"):
            loss = (w @ w).exp().sum()
        loss.backward()
    w.exp()  # after the end
    found = names(profile)
    assert found[:4] == ["forward", "matmul", "exp", "sum"]
    assert {"SumBackward0", "ExpBackward0", "MatmulBackward0"} <= set(found)
    forward, matmul = profile.events()[:2]
    assert forward.is_user_annotation and matmul.cpu_parent is forward and matmul in forward.cpu_children
    assert forward.cpu_time_total >= matmul.cpu_time_total > 0
    assert 0 <= forward.self_cpu_time_total <= forward.cpu_time_total - matmul.cpu_time_total
    backward = next(e for e in profile.events() if e.name == "MatmulBackward0")
    assert backward.cpu_children and not backward.is_user_annotation
    assert forward.time_range.start <= matmul.time_range.start < matmul.time_range.end <= forward.time_range.end
    assert matmul.time_range.elapsed_us() == pytest.approx(matmul.cpu_time_total)


def test_shapes_memory_and_stacks():
    x = fb.ones(4, 5)
    with P.profile(record_shapes=True, profile_memory=True, with_stack=True) as profile:
        y = x @ fb.ones(5, 1000)
    event = next(e for e in profile.events() if e.name == "matmul")
    assert event.input_shapes == [[4, 5], [5, 1000]]
    assert event.cpu_memory_usage >= 4 * 1000 * 4 == y.numel() * 4
    assert "test_profiler.py" in event.stack[0] and event.stack[0].endswith("test_shapes_memory_and_stacks")
    plain = P.profile()
    with plain:
        x.exp()
    assert plain.events()[0].input_shapes == [] and plain.events()[0].stack == []


def test_averages_and_table():
    with P.profile(record_shapes=True) as profile:
        for n in (2, 2, 3):
            fb.ones(n).exp()
    rows = {row.key: row for row in profile.key_averages()}
    assert rows["exp"].count == 3 and rows["exp"].cpu_time == pytest.approx(rows["exp"].cpu_time_total / 3)
    by_shape = [row for row in profile.key_averages(group_by_input_shape=True) if row.key == "exp"]
    assert sorted(row.count for row in by_shape) == [1, 2]
    table = profile.key_averages().table(sort_by="count", row_limit=1, header="title")
    lines = table.splitlines()
    assert lines[0] == "title" and "# of Calls" in lines[2] and "Self CPU time total" in lines[-1]
    assert len([line for line in lines if "%" in line and "Self CPU %" not in line]) == 1
    total = sum(e.self_cpu_time_total for e in profile.events())
    assert profile.key_averages().self_cpu_time_total == pytest.approx(total)
    with pytest.raises(ValueError, match="sort_by"):
        profile.key_averages().table(sort_by="colour")


def test_trace_files(tmp_path):
    with P.profile(record_shapes=True, with_stack=True) as profile:
        profile.add_metadata("model", "tiny")
        fb.ones(3).exp()
    profile.export_chrome_trace(tmp_path / "trace.json")
    profile.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert json.load(file) == trace
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert trace["model"] == "tiny" and [e["name"] for e in complete] == ["ones", "exp"]
    assert all(e["dur"] >= 0 and e["ts"] > 0 and {"pid", "tid", "cat"} <= set(e) for e in complete)
    assert complete[1]["args"]["Input Dims"] == [[3]]
    profile.export_stacks(tmp_path / "stacks.txt")
    assert all(line.rsplit(" ", 1)[1].isdigit() for line in (tmp_path / "stacks.txt").read_text().splitlines())
    with pytest.raises(RuntimeError, match="with_stack=True"):
        P.profile().export_stacks(tmp_path / "none.txt")


def test_schedule(tmp_path):
    saved = []

    def ready(profile):
        saved.append([n for n in names(profile) if n.startswith("ProfilerStep")])
        P.tensorboard_trace_handler(str(tmp_path / "runs"), "me")(profile)

    steps = P.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    with P.profile(schedule=steps, on_trace_ready=ready) as profile:
        for _ in range(12):
            fb.ones(2).exp()
            profile.step()
    assert saved == [["ProfilerStep#3", "ProfilerStep#4"], ["ProfilerStep#7", "ProfilerStep#8"]]
    assert len(list((tmp_path / "runs").glob("me.*.pt.trace.json"))) == 2
    with pytest.raises(ValueError, match="active"):
        P.schedule(wait=0, warmup=0, active=0)


def test_threads_are_kept_apart():
    with P.profile() as profile:
        thread = threading.Thread(target=lambda: fb.ones(3).exp())
        thread.start()
        thread.join()
        fb.ones(3).exp()
    assert len({event.thread for event in profile.events()}) == 2


def test_only_one_at_a_time_and_none_after_an_error():
    with P.profile():
        with pytest.raises(RuntimeError, match="another profile"):
            P.profile().start()
    with pytest.raises(KeyError), P.profile() as profile, P.record_function("failing"):
        raise KeyError
    assert names(profile) == ["failing"]
    with P.profile() as again:
        fb.ones(1)
    assert names(again) == ["ones"]


def test_arguments():
    for option in ("with_flops", "with_modules"):
        with pytest.raises(ValueError, match=option):
            P.profile(**{option: True})
    with pytest.raises(ValueError, match="no accelerator"):
        P.profile(activities=[P.ProfilerActivity.CUDA])
    P.profile(activities=[P.ProfilerActivity.CPU, P.ProfilerActivity.CUDA])
    with pytest.raises(TypeError, match="str"):
        P.record_function(3)
    with pytest.raises(RuntimeError, match="start"):
        P.profile().step()


def test_decorator_and_older_name():
    @P.record_function("named")
    def double(x):
        return x + x

    with fb.autograd.profiler.profile() as profile:
        double(fb.ones(2))
    assert [e.name for e in profile.function_events][1:] == ["named", "add"]
    assert "named" in profile.key_averages().table() and profile.self_cpu_time_total > 0
    with fb.autograd.profiler.profile(enabled=False) as off:
        double(fb.ones(2))
    assert list(off) == []


def test_no_partial_files(tmp_path):
    """A trace that cannot be written completely leaves what was there before."""
    with fb.profiler.profile(with_stack=True) as prof:
        fb.ones(2) + 1
    for name in ("trace.json", "trace.json.gz"):
        path = tmp_path / name
        path.write_text("before")
        with pytest.raises(TypeError):
            prof.events().export_chrome_trace(path, {"unwritable": object()})
        assert path.read_text() == "before"
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    prof.export_stacks(tmp_path / "stacks")
    assert sorted(os.listdir(tmp_path)) == ["stacks", "trace.json", "trace.json.gz"]


def test_a_full_disk_leaves_no_trace(tmp_path, monkeypatch):
    from flambeau._files import target

    def full(*_):
        raise OSError(28, "No space left on device")

    with fb.profiler.profile() as prof:
        fb.ones(2) + 1
    monkeypatch.setattr(target.FileWriter, "write", full)
    with pytest.raises(OSError, match="No space"):
        prof.export_chrome_trace(tmp_path / "trace.json")
    assert os.listdir(tmp_path) == []
