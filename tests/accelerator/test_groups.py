"""Kernels from text: work-groups with shared memory and barriers, several in one program, and errors they report."""

import struct

import pytest

import flambeau as fb
from flambeau import _C

DEVICE = fb.device("sim", 0)
SUM = """
    SHARED f32 part[64];
    part[LID] = GID < g.n ? x[GID] : 0.0f;
    BARRIER;
    for (int step = SIZE / 2; step > 0; step /= 2) {
        if (LID < step) part[LID] += part[LID + step];
        BARRIER;
    }
    if (LID == 0) out[GROUP] = part[0];
"""
PARAMS = "typedef struct { i64 n; } Params;"
POINTERS = ["GLOBAL const f32* x", "GLOBAL f32* out"]
TAKE = """
    const i64 at = index[GID < g.n ? GID : 0];
    if (at < 0 || at >= 4) FAIL(1, at);
    if (GID < g.n) out[GID] = x[at < 0 ? 0 : at >= 4 ? 3 : at];
"""


def launch(kernel, tensors, n, items, a=0, b=0):
    _C.accelerator_launch(DEVICE, kernel, tensors, struct.pack("q", n), items, a, b)


def test_groups_share_memory_and_wait_for_each_other():
    (kernel,) = _C.accelerator_build(DEVICE, PARAMS, [("group_sum", POINTERS, SUM, 64, [])])
    for n in (1, 64, 65, 1000):
        x = fb.arange(float(n))
        out = fb.empty((n + 63) // 64, device=DEVICE)
        launch(kernel, [x.to(DEVICE), out], n, n)
        assert out.cpu().tolist() == [float(part.sum()) for part in x.split(64)]


def test_a_program_has_several_kernels_with_groups_of_their_own_size():
    body = "if (GID < g.n) out[GID] = twice(x[GID]) + (f32)(SIZE * 1000 + LID);"
    text = PARAMS + "FN f32 twice(f32 x) { return 2 * x; }"
    first, second = _C.accelerator_build(
        DEVICE, text, [("first", POINTERS, body, 4, []), ("second", POINTERS, "if (GID < g.n) out[GID] = -x[GID];", 8, [])]
    )  # fmt: skip
    x, out = fb.arange(6.0).to(DEVICE), fb.zeros(6, device=DEVICE)
    launch(first, [x, out[:5]], 5, 5)
    assert out.tolist() == [4000.0, 4003.0, 4006.0, 4009.0, 4008.0, 0.0]
    launch(second, [out[1:], out[1:]], 2, 2)  # pointers into the middle
    assert out.tolist() == [4000.0, -4003.0, -4006.0, 4009.0, 4008.0, 0.0]


def test_atomics():
    body = "ADD_U32(count, 2); if (GID == 3) CAS_U32(count + 1, 7, 9);"
    (kernel,) = _C.accelerator_build(DEVICE, PARAMS, [("count_up", ["GLOBAL u32* count"], body, 16, [])])
    count = fb.tensor([0, 7], dtype=fb.int32, device=DEVICE)
    launch(kernel, [count], 0, 160)
    assert count.tolist() == [320, 9]


def test_an_error_in_a_kernel_is_raised_by_the_next_wait_and_the_device_goes_on():
    pointers = ["GLOBAL const f32* x", "GLOBAL const i64* index", "GLOBAL f32* out"]
    faults = ["never", "index {index} is out of bounds for dimension {a} with size {b}"]
    (kernel,) = _C.accelerator_build(DEVICE, PARAMS, [("take", pointers, TAKE, 8, faults)])
    x, out = fb.arange(4.0).to(DEVICE), fb.zeros(3, device=DEVICE)
    index = fb.tensor([1, 17, -9], device=DEVICE)
    launch(kernel, [x, index, out], 3, 3, 0, 4)  # nothing is raised here
    with pytest.raises(IndexError) as error:
        out.cpu()
    text = str(error.value)
    assert text.startswith("kernel: index ") and "is out of bounds for dimension 0 with size 4" in text
    assert ("index 17" in text or "index -9" in text) and f"on device '{DEVICE}'" in text
    assert "test_groups.py:" in text  # where it was launched
    assert (x + 1).tolist() == [1.0, 2.0, 3.0, 4.0] and out.tolist()[0] == 1.0  # raised once, and the device goes on
    launch(kernel, [x, index, out], 3, 3, 0, 4)
    with pytest.raises(IndexError, match="out of bounds"):
        fb.accelerator.synchronize(DEVICE)
    side = fb.accelerator.Stream(DEVICE)
    with side:
        launch(kernel, [x, index, out], 3, 3, 0, 4)
    with pytest.raises(IndexError, match="out of bounds"):
        side.synchronize()
    fb.accelerator.synchronize(DEVICE)


def test_a_kernel_that_does_not_compile_shows_its_line():
    with pytest.raises(RuntimeError, match=r"cannot be built(.|\n)*x\[GID\] \+ wrong_name"):
        _C.accelerator_build(DEVICE, PARAMS, [("broken", POINTERS, "out[GID] = x[GID] + wrong_name;", 8, [])])
    _C.accelerator_build(DEVICE, PARAMS, [("whole", POINTERS, "out[GID] = x[GID];", 8, [])])
    assert _C.accelerator_why(DEVICE) == ""


def test_calls_that_do_not_fit_are_refused():
    (kernel,) = _C.accelerator_build(DEVICE, PARAMS, [("group_sum", POINTERS, SUM, 64, [])])
    x = fb.zeros(4, device=DEVICE)
    with pytest.raises(ValueError, match="got 1 tensors, expected 2"):
        launch(kernel, [x], 4, 4)
    with pytest.raises(ValueError, match="got a tensor on 'cpu'"):
        launch(kernel, [x, fb.zeros(1)], 4, 4)
    with pytest.raises(ValueError, match="groups of 1 to 1024 items"):
        _C.accelerator_build(DEVICE, PARAMS, [("group_sum", POINTERS, SUM, 5000, [])])
    split = "if (LID < 3) { BARRIER; } if (GID < g.n) out[GID] = x[GID];"
    (torn,) = _C.accelerator_build(DEVICE, PARAMS, [("torn", POINTERS, split, 8, [])])
    if DEVICE.type == "sim":
        launch(torn, [x, x.clone()], 4, 4)
        with pytest.raises(RuntimeError, match="only some items of a group"):
            fb.accelerator.synchronize(DEVICE)
