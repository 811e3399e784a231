"""Run PyTorch's own test files with flambeau as `torch` and report the share of applicable tests that pass.

    TORCH_SOURCE=<checkout> PYTHONPATH=src python tools/torch_report.py [test_torch.py nn ...] [--jobs 2] [-k EXPRESSION] [--share 3]

Without names it runs `FILES`. Each file runs in processes of its own (`tools/torch_tests.py` is the plugin), so a crash costs one test.
Tests that match a line of `tools/torch_tests_not_applicable.txt`, and tests that PyTorch itself skips here, do not count. A table
per file goes to standard output, the failures with the first line of their messages to `--output`.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent
FILES = """
    test_torch.py test_binary_ufuncs.py test_unary_ufuncs.py test_reductions.py test_tensor_creation_ops.py test_view_ops.py
    test_type_promotion.py test_shape_ops.py test_indexing.py test_sort_and_select.py test_scatter_gather_ops.py
    test_numpy_interop.py test_dlpack.py test_complex.py test_namedtuple_return_api.py test_as_strided.py test_type_info.py
    test_testing.py test_comparison_utils.py test_segment_reductions.py test_autocast.py test_autograd.py autograd test_nn.py nn
    test_modules.py test_transformers.py test_native_mha.py test_stateless.py test_overrides.py test_subclass.py
    test_module_tracker.py test_flop_counter.py functorch/test_vmap.py functorch/test_eager_transforms.py test_ops.py
    test_ops_gradients.py test_linalg.py test_foreach.py test_sparse.py test_sparse_csr.py test_spectral_ops.py test_masked.py
    test_dataloader.py distributions test_optim.py optim test_serialization.py test_multiprocessing.py test_multiprocessing_spawn.py
    test_utils.py test_tensorboard.py test_pytree.py test_weak.py test_hub.py test_monitor.py profiler/test_profiler.py
""".split()

OUTCOMES = ("passed", "failed", "crashed", "timed out", "skipped", "not applicable")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", help="files or folders below the checkout's test/ (default: the list in this file)"
    )
    parser.add_argument("-k", dest="expression", default="", help="pytest's -k: run the tests that match only")
    parser.add_argument(
        "--share", type=int, default=1, help="run one test in so many, the same ones each time (default: 1)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes per file (default: 2)")
    parser.add_argument("--timeout", type=int, default=120, help="seconds per test (default: 120)")
    parser.add_argument("--file-timeout", type=int, default=3600, help="seconds per file (default: 3600)")
    parser.add_argument("--memory", type=int, default=0, help="GiB of address space per process (default: no limit)")
    parser.add_argument("--output", type=Path, default=Path("torch_report.txt"), help="where failures are listed")
    options = parser.parse_args()
    source = Path(os.environ.get("TORCH_SOURCE", ""))
    if not (source / "test" / "test_torch.py").is_file():
        parser.error(f"TORCH_SOURCE={str(source)!r} is not a PyTorch checkout: it has no test/test_torch.py")

    files: list[Path] = []
    for name in options.names or FILES:
        path = source / "test" / name
        if not path.exists():
            parser.error(f"{path} does not exist")
        files += sorted(path.glob("test_*.py")) if path.is_dir() else [path]

    total: Counter[str] = Counter()
    print(
        f"{'file':44s}" + "".join(f"{outcome:>15s}" for outcome in OUTCOMES) + f"{'share':>9s}{'seconds':>9s}",
        flush=True,
    )
    with options.output.open("w") as listing:
        for file in files:
            start = time.monotonic()
            name = name_of(file, source)
            counts = run_file(file, name, options, listing)
            total += counts
            print(row(name, counts) + f"{time.monotonic() - start:9.0f}", flush=True)
    print(row("total", total))
    return 0


def name_of(file: Path, source: Path) -> str:
    return str(file.relative_to(source / "test"))


def row(name: str, counts: Counter[str]) -> str:
    applicable = sum(counts[outcome] for outcome in OUTCOMES[:4])
    share = f"{100 * counts['passed'] / applicable:8.1f}%" if applicable else "       -"
    return f"{name:44s}" + "".join(f"{counts[outcome]:15d}" for outcome in OUTCOMES) + share


def run_file(file: Path, name: str, options: argparse.Namespace, listing) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "torch_tests",
            "-p",
            "no:cacheprovider",
            "-q",
            "--tb=line",
            "--noconftest",
            "-o",
            "addopts=",
        ]
        command += ["-n", str(options.jobs), "--max-worker-restart", "100", "--timeout", str(options.timeout)]
        command += ["--junitxml", str(report), "-o", "junit_family=xunit1", str(file)]
        if options.expression:
            command += ["-k", options.expression]
        if options.share > 1:
            command += ["--share", str(options.share)]
        paths = [str(TOOLS), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        limit = options.memory << 30
        bound = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))} if limit else {}
        tail, stopped = run_within(command, options.file_timeout, cwd=folder, env=environment, **bound)
        if not report.exists():
            listing.write(f"{name}: no report\n{tail}\n")
            return Counter({"crashed": 1})
        counts = read_report(report, name, listing)
        if stopped:
            listing.write(f"timed out\t{name}\tstopped after {options.file_timeout} s, the tests left did not run\n")
            counts["timed out"] += 1
        return counts


def run_within(command: list[str], seconds: float, **options: Any) -> tuple[str, bool]:
    """The end of a command's output, and whether it was interrupted, after which pytest still reports what it has run."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    try:
        return process.communicate(timeout=seconds)[0][-4000:], False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=300)[0][-4000:], True
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0][-4000:], True


def read_report(report: Path, name: str, listing) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{name}::{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        outcome, message = outcome_of(case)
        if not_applicable(test):
            outcome = "not applicable"
        counts[outcome] += 1
        if outcome in OUTCOMES[1:4]:
            listing.write(f"{outcome}\t{test}\t{message}\n")
    listing.flush()
    return counts


def outcome_of(case: ElementTree.Element) -> tuple[str, str]:
    for child in case:
        message = (child.get("message") or child.text or "").strip().partition("\n")[0]
        if child.tag == "skipped":
            # An expected failure that failed is what PyTorch does too.
            return ("passed" if child.get("type") == "pytest.xfail" else "skipped"), message
        if child.tag in ("failure", "error"):
            if message.removeprefix("Failed: ").startswith(("Unexpected success", "[XPASS(strict)]")):
                return "passed", "PyTorch is expected to fail"
            if re.match(r"worker .* crashed", message):
                return "crashed", message
            return ("timed out" if "Timeout" in message else "failed"), message
    return "passed", ""


@functools.cache
def exemptions() -> list[str]:
    lines = (TOOLS / "torch_tests_not_applicable.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def not_applicable(test: str) -> bool:
    return any(fnmatch.fnmatchcase(test, pattern) for pattern in exemptions())


if __name__ == "__main__":
    sys.exit(main())
