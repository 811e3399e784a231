"""The list of expected failures of the public suite is well formed, and the runner explains itself."""

import subprocess
import sys
from pathlib import Path

from . import run_suite


def test_every_expected_failure_has_a_reason():
    for test, reason in run_suite.expected_failures(run_suite.XFAILS.read_text()).items():
        assert test.startswith("array_api_tests/test_") and "::" in test, test
        assert len(reason) > 20, f"{test} stands in xfails.txt without a reason"


def test_reasons_are_read():
    text = "# first\n# reason\na::b\nc::d\n\n# other\ne::f\n# third\ng::h\n\ni::j\n"
    assert run_suite.expected_failures(text) == {
        "a::b": "first reason", "c::d": "first reason", "e::f": "other", "g::h": "third", "i::j": "",
    }  # fmt: skip


def test_runner_wants_a_checkout(tmp_path):
    run = subprocess.run(
        [sys.executable, str(Path(run_suite.__file__)), "--suite", str(tmp_path)], capture_output=True, text=True
    )
    assert run.returncode == 2 and "no checkout of array-api-tests" in run.stderr
