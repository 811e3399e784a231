"""Streams, events, memory and limits of each kind of accelerator."""

import copy
import pickle
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import flambeau as fb
from flambeau import accelerator

DEVICE = fb.device("sim", 0)


@pytest.fixture
def slow():
    """A tensor whose product takes the device a while."""
    x = fb.ones(700, 700, device=DEVICE)
    (x @ x).sum().item()
    return x


def test_work_is_queued_and_reads_wait(slow):
    shares = []
    for _ in range(5):  # the host may have to wait for a core
        begin = time.perf_counter()
        y = slow
        for _ in range(3):
            y = (slow @ y) / 700
        queued = time.perf_counter() - begin
        pending = not accelerator.current_stream(DEVICE).query()
        assert y[0, 0].item() == pytest.approx(1.0)
        assert accelerator.current_stream(DEVICE).query()
        shares.append(queued / (time.perf_counter() - begin) if pending else 1.0)
    assert min(shares) < 0.5


def test_streams_run_side_by_side_and_events_order_them(slow):
    side = accelerator.Stream(DEVICE)
    assert side != accelerator.current_stream(DEVICE) and side == accelerator.Stream._numbered(side.device, side.stream_id)
    with side:
        assert accelerator.current_stream(DEVICE) == side
        y = slow @ slow
        done = side.record_event()
    assert accelerator.current_stream(DEVICE).stream_id == 0 and not done.query()
    done.wait()
    z = y + 1
    assert z[3, 3].item() == 701.0 and done.query()
    third = accelerator.Stream(DEVICE)
    third.wait_stream(side)
    with third:
        assert (y - 1)[0, 0].item() == 699.0
    third.synchronize()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(accelerator.current_stream(DEVICE).stream_id))
    with side:
        thread.start()
        thread.join()
    assert seen == [0]  # each thread has its own current stream


def test_events_measure_time(slow):
    start, end = (accelerator.Event(DEVICE, enable_timing=True) for _ in range(2))
    start.record()
    y = slow @ slow
    end.record()
    with pytest.raises(RuntimeError, match="not done yet"):
        start.elapsed_time(end)
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000 and y is not None
    with pytest.raises(RuntimeError, match="enable_timing"):
        accelerator.Event(DEVICE).elapsed_time(end)


def test_memory_of_one_stream_is_not_given_to_others_too_early(slow):
    side = accelerator.Stream(DEVICE)
    for _ in range(3):
        x = fb.full((700, 700), 2.0, device=DEVICE)
        accelerator.synchronize(DEVICE)
        with side:
            y = slow @ x
        del x
        other = fb.full((700, 700), 9.0, device=DEVICE)
        side.synchronize()
        assert y[5, 5].item() == 1400.0 and other[0, 0].item() == 9.0


def test_memory_is_counted_and_reused():
    accelerator.synchronize(DEVICE)
    before = accelerator.memory_allocated(DEVICE)
    x = fb.empty(1 << 20, device=DEVICE)
    assert accelerator.memory_allocated(DEVICE) - before == 4 << 20
    host = fb.memory_allocated()
    maps = accelerator.memory_stats(DEVICE)["num_device_alloc"]
    for _ in range(20):
        y = x + 1
    y.sum().item()
    assert accelerator.memory_stats(DEVICE)["num_device_alloc"] - maps <= 3 and fb.memory_allocated() - host < 1 << 20
    assert accelerator.max_memory_allocated(DEVICE) >= accelerator.memory_allocated(DEVICE) > before
    free, total = accelerator.get_memory_info(DEVICE)
    with pytest.raises(MemoryError, match=str(DEVICE)):
        fb.empty(total, device=DEVICE)
    assert 0 < free < total
    del x, y
    fb._C.accelerator_empty_cache(DEVICE)
    assert accelerator.memory_reserved(DEVICE) <= free


def test_the_host_does_not_see_the_memory():
    x = fb.ones(3, device=DEVICE)
    for reader in (lambda: np.asarray(x), lambda: memoryview(x), lambda: x.numpy(), lambda: x.__dlpack__()):
        with pytest.raises(TypeError, match=f"can't convert {DEVICE} device type tensor to numpy|numpy"):
            reader()
    with pytest.raises(ValueError, match="only memory of the CPU can be shared"):
        x.share_memory_()
    script = (
        "import flambeau as fb, ctypes\n"
        "x = fb.ones(3, device='DEVICE'); fb.accelerator.synchronize('DEVICE')\n"
        "print(ctypes.c_float.from_address(x.data_ptr()).value)"
    )
    done = subprocess.run([sys.executable, "-c", script.replace("DEVICE", str(DEVICE))], capture_output=True)
    assert done.returncode == -11 or b"AddressSanitizer: SEGV" in done.stderr


def test_what_python_does_with_tensors():
    x = fb.arange(6.0, device=DEVICE).view(2, 3)
    assert repr(x) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='" + str(DEVICE) + "')" and x.tolist()[1] == [
        3.0,
        4.0,
        5.0,
    ]
    assert (
        bool(x[0, 1]) and int(x[1, 2]) == 5 and x.device == DEVICE and x.to(DEVICE.type) is x and x.cpu().is_cpu
    )
    for again in (
        copy.deepcopy(x),
        copy.copy(x),
        pickle.loads(pickle.dumps(x)),
        fb.tensor(x.tolist(), device=DEVICE),
        x.clone(),
    ):
        assert again.device == x.device and again.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(x.t())).stride() == (1, 3)
    y = x.to(DEVICE.type, fb.float64)
    assert y.dtype == fb.float64 and y.to("cpu", fb.int64).tolist() == x.tolist()
    with fb.device(DEVICE.type):
        assert fb.zeros(2).device == DEVICE and fb.nn.Linear(2, 2).weight.device == DEVICE
    x.resize_(20)
    assert x[:6].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    leaf = fb.ones(2, device=DEVICE, requires_grad=True)
    (leaf.cpu() * fb.tensor([1.0, 2.0])).sum().backward()
    assert leaf.grad.device == leaf.device and leaf.grad.tolist() == [1.0, 2.0]


def test_random_numbers_are_the_cpus():
    fb.manual_seed(3)
    expected = fb.randn(5), fb.rand(3), fb.randperm(7)
    fb.manual_seed(3)
    got = fb.randn(5, device=DEVICE), fb.rand(3, device=DEVICE), fb.randperm(7, device=DEVICE)
    assert all(fb.equal(g.cpu(), e) for g, e in zip(got, expected, strict=True))


def test_fallbacks_are_counted_and_can_be_refused():
    accelerator.reset_coverage()
    x = fb.tensor([[4.0, 0.0], [0.0, 9.0]], device=DEVICE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fb.geqrf(x)
    assert accelerator.coverage()["geqrf"].fallbacks >= 1
    script = "import flambeau as fb\nx = fb.ones(2, 2, device='DEVICE')\nfb.geqrf(x); fb.geqrf(x); fb.erfinv(x)"
    said = subprocess.run([sys.executable, "-c", script.replace("DEVICE", str(DEVICE))], capture_output=True, text=True, check=True).stderr
    assert said.count(f"has no kernel on device '{DEVICE}'") == 1 and "'geqrf' has no kernel" in said
    accelerator.set_strict(True)
    try:
        assert accelerator.is_strict() and (x + 1).tolist() == [[5.0, 1.0], [1.0, 10.0]]
        with pytest.raises(NotImplementedError, match=f"geqrf: has no kernel on device '{DEVICE}'"):
            fb.geqrf(x)
    finally:
        accelerator.set_strict(False)
    assert fb.geqrf(x)[0].diag().abs().tolist() == [4.0, 9.0]


def test_indices_out_of_range_are_errors_and_the_device_goes_on():
    x = fb.ones(3, device=DEVICE)
    y = x[fb.tensor([5], device=DEVICE)]  # the kernel has not run yet
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 3.*test_streams.py"):
        y.tolist()
    assert (x + 1).tolist() == [2.0, 2.0, 2.0]
    loss = fb.nn.functional.cross_entropy(fb.zeros(2, 3, device=DEVICE), fb.tensor([1, 7], device=DEVICE))
    with pytest.raises(IndexError, match="target 7 is out of bounds for 3 classes"):
        loss.item()
    assert x.sum().item() == 3.0


def test_a_forked_child_is_told():
    script = (
        "import os, flambeau as fb\n"
        "x = fb.ones(3, device='DEVICE')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        x + 1\n"
        "    except RuntimeError as error:\n"
        "        os._exit(7 if 'forked subprocess' in str(error) else 8)\n"
        "    os._exit(9)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), (x + 1).tolist())"
    )
    found = subprocess.run([sys.executable, "-c", script.replace("DEVICE", str(DEVICE))], capture_output=True, text=True, timeout=60)
    assert found.stdout == "7 [2.0, 2.0, 2.0]\n", found.stderr


@pytest.mark.device(None)
def test_which_accelerator_there_is(monkeypatch):
    assert (
        not accelerator.is_available() and accelerator.device_count() == 0 and accelerator.current_accelerator() is None
    )
    for call in (
        accelerator.current_stream,
        accelerator.memory_allocated,
        accelerator.Stream,
        accelerator.current_device_index,
    ):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            call()
    monkeypatch.setenv("FLAMBEAU_DEVICE", "sim")
    assert (
        accelerator.is_available()
        and accelerator.device_count() == 1
        and accelerator.current_accelerator() == fb.device("sim")
    )
    assert accelerator.current_device_index() == 0 and accelerator.Stream().device.type == "sim"
    accelerator.empty_cache()
    monkeypatch.setenv("FLAMBEAU_DEVICE", "tpu")
    with pytest.raises(RuntimeError, match="names no device"):
        accelerator.is_available()
    with pytest.raises(ValueError, match="does not exist"):
        accelerator.synchronize("sim:1")
    with pytest.raises(ValueError, match="does not exist"):
        fb.zeros(2, device="sim:1")
    with pytest.raises(ValueError, match="is not an accelerator"):
        accelerator.synchronize("cpu")
    with pytest.raises(RuntimeError, match="no backend in this build"):
        fb.zeros(2, device="xpu")
