"""fb.accelerator.selftest(): what it reports of a device that works, and of one that does not."""

import pytest

import flambeau as fb
from flambeau.utils import selftest

DEVICE = fb.device("sim", 0)
FAMILIES = ["broadcast", "reduce", "product", "sort"]


def test_a_device_that_works(tmp_path):
    path = tmp_path / "report.txt"
    state = fb.get_rng_state()
    report = fb.accelerator.selftest(DEVICE, path=path, size=600, families=FAMILIES)
    assert report.passed and [row.family for row in report.rows] == FAMILIES and fb.get_rng_state().equal(state)
    assert all(row.device_ms > 0 and row.cpu_ms > 0 and row.fallbacks == 0 and row.error <= row.allowed for row in report.rows)
    text = path.read_text()
    assert text == str(report) and f"4 of 4 families passed on {DEVICE}" in text and f"selftest of {DEVICE}" in text
    if DEVICE.type == "opencl":
        assert fb.opencl.devices()[0].name in text and fb.opencl.devices()[0].driver in text


@pytest.mark.device("opencl")
def test_all_families_pass():
    report = fb.accelerator.selftest(DEVICE, path=None, size=3000)
    assert report.passed and len(report.rows) >= 20, str(report)


@pytest.mark.device(None)
def test_wrong_values_and_errors_are_reported(monkeypatch):
    def wrong(x):
        return x + (x.device.type == "sim")

    def fails(x):
        raise ValueError("broken here")

    def inputs(n):
        return [fb.zeros(n)]

    def nan(x):
        return x / (x.device.type != "sim")

    families = {"wrong": (1e-6, inputs, wrong), "fails": (1e-6, inputs, fails), "nan": (1e-6, inputs, nan)}
    monkeypatch.setattr(selftest, "_families", lambda: families)
    report = fb.accelerator.selftest("sim", path=None, size=10)
    assert not report.passed and [row.passed for row in report.rows] == [False] * 3
    assert "1.0e+00" in str(report) and "ValueError: broken here" in str(report) and "0 of 3 families passed" in str(report)
    with pytest.raises(ValueError, match="got families"):
        fb.accelerator.selftest("sim", path=None, families=["none"])
    with pytest.raises(ValueError, match="is not an accelerator"):
        fb.accelerator.selftest("cpu")
    with pytest.raises(ValueError, match="got size 0"):
        fb.accelerator.selftest("sim", size=0)
