"""Runs the public conformance suite (data-apis/array-api-tests) on flambeau.array_api.

    python tests/array_api/run_suite.py --suite PATH [--max-examples N] [-- more pytest arguments]

PATH is a checkout of the suite with its array-api submodule. Tests listed in xfails.txt next to this file are expected
to fail; the run fails if any other test does. The suite is not part of this repository and needs hypothesis, ndindex
and pytest-json-report.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

XFAILS = Path(__file__).with_name("xfails.txt")


def expected_failures(text: str) -> dict[str, str]:
    """Test id -> reason. In the file a comment gives the reason for the ids below it, up to the next blank line."""
    reasons: dict[str, str] = {}
    reason: list[str] = []
    listing = False
    for line in text.splitlines():
        if line.startswith("#"):
            reason = [line[1:].strip()] if listing or not reason else [*reason, line[1:].strip()]
            listing = False
        elif line.strip():
            reasons[line.strip()] = " ".join(reason)
            listing = True
        else:
            reason, listing = [], False
    return reasons


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True, type=Path, help="checkout of data-apis/array-api-tests")
    parser.add_argument("--max-examples", type=int, default=100, help="Hypothesis examples per test (default 100)")
    parser.add_argument("rest", nargs="*", help="further arguments for pytest, after --")
    args = parser.parse_args()
    suite = args.suite.resolve()
    if not (suite / "array_api_tests").is_dir():
        parser.error(f"{suite} is no checkout of array-api-tests: it has no folder array_api_tests")
    if not (suite / "array-api" / "src").is_dir():
        parser.error(f"{suite}/array-api is empty; run `git submodule update --init` in the checkout")
    command = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "--disable-deadline", "-p", "no:cacheprovider"]
    command += ["--max-examples", str(args.max_examples), "--xfails-file", str(XFAILS), "-W", "ignore", *args.rest]
    environment = {**os.environ, "ARRAY_API_TESTS_MODULE": "flambeau.array_api"}
    return subprocess.run(command, cwd=suite, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
