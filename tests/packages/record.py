"""Runs the cases under PyTorch and keeps a few numbers of each result in pytorch.json.

    python tests/packages/record.py [names]      # with a Python that has PyTorch and the packages

`summary` says what is kept of an array: its shape, the first elements and two sums that see every element.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "pytorch.json"


def summary(value: np.ndarray) -> dict:
    value = np.nan_to_num(np.asarray(value, np.float64), nan=1e5, posinf=1e4, neginf=-1e4)
    flat = value.ravel()
    waves = np.cos(np.arange(flat.size))  # so that exchanged elements change a sum
    kept = [*flat[:12], float(np.abs(flat).sum()), float(flat @ waves)]
    return {"shape": list(value.shape), "numbers": [float(f"{x:.7g}") for x in kept]}


def main(names: list[str]) -> None:
    import cases
    import torch

    if "flambeau" in str(torch.__version__):
        raise SystemExit("record.py keeps PyTorch's numbers: run it with a Python that has PyTorch")
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, (package, function) in cases.register_all().items():
        if (names and name not in names) or not cases.installed(package):
            continue
        try:
            kept[name] = {key: summary(value) for key, value in cases.arrays(function()).items()}
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    lines = [f"{json.dumps(name)}: {json.dumps(kept[name], sort_keys=True)}" for name in sorted(kept)]  # a line for each case
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
