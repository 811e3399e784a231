"""Runs cases under flambeau and prints those whose numbers are not PyTorch's.

    python tests/packages/same_numbers.py [names of packages or cases]
"""

from __future__ import annotations

import json
import sys
import time
import traceback

import numpy as np
from record import FILE, summary

TOLERANCE = {"relative": 2e-3, "absolute": 2e-4}


def differences(found: dict[str, np.ndarray], expected: dict) -> list[str]:
    """What differs, one line for each array."""
    if sorted(found) != sorted(expected):
        return [f"results {sorted(found)}, expected {sorted(expected)}"]
    wrong = []
    for name, value in found.items():
        got, want = summary(value), expected[name]
        if got["shape"] != want["shape"]:
            wrong.append(f"{name}: shape {got['shape']}, expected {want['shape']}")
        elif not np.allclose(got["numbers"], want["numbers"], rtol=TOLERANCE["relative"], atol=TOLERANCE["absolute"]):
            wrong.append(f"{name}: {got['numbers']}, expected {want['numbers']}")
    return wrong


def main(wanted: list[str]) -> int:
    import cases

    import flambeau

    flambeau.compat.install()
    expected = json.loads(FILE.read_text())
    failed = 0
    for name, (package, function) in cases.register_all().items():
        if name not in expected or (wanted and name not in wanted and package not in wanted) or not cases.installed(package):
            continue
        start = time.perf_counter()
        try:
            wrong = differences(cases.arrays(function()), expected[name])
        except Exception:
            wrong = [traceback.format_exc()]
        failed += bool(wrong)
        print(f"{name}: {'differs' if wrong else 'same'} ({time.perf_counter() - start:.1f} s)", flush=True)
        for line in wrong:
            print(f"    {line}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
