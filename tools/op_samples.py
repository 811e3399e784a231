"""Compare every op of PyTorch's op database with PyTorch: values, gradients, second gradients, `out=` and errors.

    <python with PyTorch> tools/op_samples.py record FOLDER [add nn.functional.conv2d ...]
    TORCH_SOURCE=<checkout> PYTHONPATH=tools:src python tools/op_samples.py replay FOLDER [add ...] [--output FILE]

`record` runs the samples of each op in every dtype of the CPU on PyTorch and writes arguments and outcomes into one file per op.
`replay` calls flambeau with the same arguments, prints the share that agrees per category, and lists the rest in a file.

Categories: `forward` (values, dtypes and shapes), `gradient`, `second gradient` (float64 and complex128), `out=` (garbage in out, a
strided out, an empty one, a wrong shape and its warning, a wrong dtype, an out that requires gradients), `error` (the class of the
exception), and beside them `strides` of results and `message` (PyTorch's pattern of the message), which are informative.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import pickle
import re
import time
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import op_sample_values as values
from op_sample_values import (
    TOLERANCE,
    decode,
    different,
    different_numbers,
    different_strides,
    encode,
    farther,
    numbers,
    tensor_dtypes,
    tensors_in,
    widened,
)

CATEGORIES = ("forward", "gradient", "second gradient", "out=", "error", "strides", "message")
# Which of several equal elements they name is up to the library: indices are not compared.
TIES = {"topk", "kthvalue", "mode", "median", "nanmedian", "sort", "argsort", "msort"}
# Differences that docs/differences.md gives reasons for, by op and category.
DIFFERENT = {
    ("as_strided_scatter", "gradient"), ("as_strided_scatter", "second gradient"), ("torch._scaled_mm", "forward"),
    ("torch._scaled_mm", "out="), ("torch._scaled_mm_v2", "forward"), ("torch._scaled_mm_v2", "out="),
    ("special_bessel_j0", "forward"), ("special_bessel_y0", "forward"), ("linalg_det", "second gradient"),
    ("linalg_norm_subgradients_at_zero", "second gradient"), ("msort", "gradient"),
    ("__rdiv__", "error"), ("sparse_sampled_addmm", "second gradient"),
}  # fmt: skip
OUT_SAMPLES = 3  # per dtype; float32, or the first dtype of an op that has none, takes all

torch: Any = None  # PyTorch in `record`, flambeau in `replay`


# What is run on both sides. An outcome is ("value", description) or ("raises", class names, message).


def attempt(function: Any, *args: Any) -> tuple[Any, ...]:
    try:
        return ("value", function(*args))
    except Exception as error:
        return ("raises", [kind.__name__ for kind in type(error).__mro__], str(error))


def call(op: Any, arguments: Any, **more: Any) -> Any:
    first, args, kwargs = arguments
    return op(first, *args, **kwargs, **more)


def forward(op: Any, arguments: Any, process: Any) -> Any:
    torch.manual_seed(0)
    result = call(op.op, arguments)
    processed = process(result)
    return encode(result), None if processed is result else encode(processed)


def differentiable(result: Any) -> list[Any]:
    return [out for out in tensors_in(result) if out.requires_grad]


def gradient(op: Any, arguments: Any, process: Any, weights: Any, twice: bool) -> Any:
    """Gradients for the weights of `weights`, which is filled where it is empty; with `twice` also those of the gradients."""
    torch.manual_seed(0)
    first, args, kwargs = arguments
    outs = [
        out if out.layout is torch.strided else out.to_dense()
        for out in differentiable(process(op.gradcheck_wrapper(op.op, first, *args, **kwargs)))
    ]
    leaves = [leaf for leaf in tensors_in(arguments) if leaf.requires_grad]
    if not outs:
        return encode([])
    cotangents = weigh(weights, "first", outs, twice)
    grads = torch.autograd.grad(outs, leaves, cotangents, allow_unused=True, create_graph=twice)
    if not twice:
        return encode(grads)
    again = differentiable(grads)
    if not again:
        return encode([])
    sources = leaves + cotangents
    return encode(torch.autograd.grad(again, sources, weigh(weights, "second", again, False), allow_unused=True))


def weigh(weights: Any, name: str, outs: list[Any], requires_grad: bool) -> list[Any]:
    if name not in weights:
        weights[name] = encode([torch.randn(out.shape, dtype=out.dtype) for out in outs])
    return [tensor.requires_grad_(requires_grad) for tensor in decode(weights[name])]


def out_strided(out: Any) -> Any:
    """Every other element of a larger tensor."""
    whole = torch.zeros((*out.shape, 2) if out.dim() else (2,), dtype=out.dtype)
    return whole[..., 0] if out.dim() else whole[0]


def out_garbage(out: Any) -> Any:
    if out.dtype.is_floating_point or out.dtype.is_complex:
        return torch.full_like(out, float("nan"))
    return torch.full_like(out, True if out.dtype is torch.bool else torch.iinfo(out.dtype).max)


def out_larger(out: Any) -> Any:
    return torch.zeros((*out.shape[:-1], out.shape[-1] + 1) if out.dim() else (2,), dtype=out.dtype)


OUTS = {
    "garbage": out_garbage,
    "strided": out_strided,
    "empty": lambda out: torch.zeros(0, dtype=out.dtype),
    "larger": out_larger,
    "long": lambda out: torch.zeros(out.shape, dtype=torch.int64),
    "double": lambda out: torch.zeros(out.shape, dtype=torch.float64),
    "requires grad": lambda out: torch.zeros_like(out).requires_grad_(
        out.dtype.is_floating_point or out.dtype.is_complex
    ),
}


RESIZED = ("empty", "larger")


def with_out(op: Any, arguments: Any, like: Any, case: str) -> Any:
    """What a call writes into outs made like a result, their strides, whether memory stayed, and whether it warned of a resize."""
    if case != "requires grad":
        for tensor in tensors_in(arguments):
            tensor.requires_grad_(False)
    outs = [OUTS[case](out) for out in tensors_in(like)]
    before = [out.data_ptr() for out in outs]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        call(op.op, arguments, out=outs[0] if isinstance(like, torch.Tensor) else tuple(outs))
    warned = any("An output with one or more elements" in str(warning.message) for warning in caught)
    kept = case in RESIZED or before == [out.data_ptr() for out in outs]
    return encode(outs), warned, kept


# Record


def record(folder: Path, names: list[str], most: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for op in chosen_ops(names):
        path, start = folder / f"{file_name(op)}.pickle", time.monotonic()
        if path.exists():
            continue
        data: dict[str, Any] = {"dtypes": {}, "errors": [], "notes": []}
        for dtype in sorted(op.supported_dtypes("cpu"), key=str):
            name = str(dtype).rpartition(".")[2]
            data["dtypes"][name] = attempt_list(
                functools.partial(record_dtype, op, dtype, most, data["notes"]), data["notes"]
            )
        errors = attempt_list(functools.partial(op.error_inputs, "cpu"), data["notes"]) if op.error_inputs_func else []
        for sample in errors:
            arguments = arguments_of(sample.sample_input)
            code = encode(arguments)
            outcome = attempt(call, op, arguments)
            data["errors"].append((code, outcome if outcome[0] == "raises" else ("value", None), sample.error_regex))
        path.write_bytes(zlib.compress(pickle.dumps(data), 1))
        cases = sum(map(len, data["dtypes"].values()))
        print(
            f"{op.formatted_name}: {cases} samples, {time.monotonic() - start:.1f} s {' '.join(data['notes'])}",
            flush=True,
        )


def chosen_ops(names: list[str]) -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    missing = set(names) - {op.name for op in op_db}
    if missing:
        print(f"op_samples: the op database has no {', '.join(sorted(missing))}")
    # The jiterator compiles for CUDA.
    return [op for op in op_db if op.name in names or not names and not op.name.startswith("jiterator")]


@contextlib.contextmanager
def other_seeds() -> Any:
    """Seeds that the samples set themselves are other ones here."""
    seed = torch.manual_seed
    torch.manual_seed = lambda number: seed(number + 1)
    try:
        torch.manual_seed(0)
        yield
    finally:
        torch.manual_seed = seed


def file_name(op: Any) -> str:
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name


def arguments_of(sample: Any) -> Any:
    return sample.input, sample.args, sample.kwargs


def attempt_list(make: Any, notes: list[str]) -> list[Any]:
    """The samples until one cannot be made, with a note of the reason."""
    samples: list[Any] = []
    try:
        samples.extend(make())
    except Exception as error:
        notes.append(f"[{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}]")
    return samples


def record_dtype(op: Any, dtype: Any, most: int, notes: list[str]) -> Any:
    grads = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    preferred = (
        torch.float32 if torch.float32 in op.supported_dtypes("cpu") else min(op.supported_dtypes("cpu"), key=str)
    )
    samples = attempt_list(functools.partial(op.sample_inputs, "cpu", dtype, grads), notes)
    step = -(-len(samples) // most)
    for index, sample in enumerate(samples[:: step or 1]):
        code = encode(arguments_of(sample))
        again = functools.partial(decode, code, arguments_of(sample))
        process = sample.output_process_fn_grad
        outcome = attempt(forward, op, again(), process)
        case: dict[str, Any] = {"arguments": code, "number": index * step, "forward": outcome, "random": False}
        if outcome[0] == "value":
            with other_seeds():
                other = attempt(call, op.op, again())
            case["random"] = "empty" in op.name or other[0] != "value" or encode(other[1]) != outcome[1][0]
            if grads:
                weights: dict[str, Any] = {}
                torch.manual_seed(2)
                case["weights"] = weights
                case["gradient"] = attempt(gradient, op, again(), process, weights, False)
                if op.supports_gradgrad and dtype in (torch.float64, torch.complex128):
                    case["second gradient"] = attempt(gradient, op, again(), process, weights, True)
            if op.supports_out and (dtype == preferred or index < OUT_SAMPLES):
                case["out="] = {
                    name: attempt(with_out, op, again(), decode(outcome[1][0]), name)
                    for name in (OUTS if tensors_in(decode(outcome[1][0])) else ())
                }
        yield case


# Replay


class Report:
    def __init__(self, output: Path) -> None:
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.listing = output.open("w")

    def add(self, category: str, where: str, problem: str | None) -> None:
        if (where.partition(" ")[0].replace("torch__", "torch._"), category) in DIFFERENT:
            return
        if problem is None:
            self.passed[category] += 1
        else:
            self.failed[category] += 1
            print(f"{category}\t{where}\t{' '.join(problem.split())[:400]}", file=self.listing, flush=True)

    def table(self) -> str:
        rows = [f"{'category':16s}{'passed':>10s}{'failed':>10s}{'share':>10s}"]
        for category in CATEGORIES:
            good, bad = self.passed[category], self.failed[category]
            if good + bad:
                rows.append(f"{category:16s}{good:10d}{bad:10d}{100 * good / (good + bad):9.2f}%")
        return "\n".join(rows)


def replay(folder: Path, names: list[str], output: Path) -> None:
    report = Report(output)
    for op in chosen_ops(names):
        path = folder / f"{file_name(op)}.pickle"
        if not path.exists():
            print(f"{op.formatted_name}: not recorded", flush=True)
            continue
        start, before = time.monotonic(), report.failed.copy()
        data = pickle.loads(zlib.decompress(path.read_bytes()))
        for name, cases in data["dtypes"].items():
            replay_dtype(op, name, cases, report)
        replay_errors(op, data["errors"], report)
        news = {name: count for name, count in (report.failed - before).items() if count}
        print(f"{op.formatted_name}: {time.monotonic() - start:.1f} s {news or ''}", flush=True)
    print(report.table())


def needs_local(code: Any) -> bool:
    if isinstance(code, tuple) and code and code[0] == "left":
        return True
    return isinstance(code, (tuple, list, dict)) and any(
        map(needs_local, code.values() if isinstance(code, dict) else code)
    )


def replay_dtype(op: Any, name: str, cases: list[Any], report: Report) -> None:
    dtype = getattr(torch, name)
    local: list[Any] = []
    wanted = any(case["forward"][0] == "value" and case["forward"][1][1] is not None for case in cases)
    if wanted or any(needs_local(case["arguments"]) for case in cases):
        local = attempt_list(
            functools.partial(op.sample_inputs, "cpu", dtype, any("gradient" in case for case in cases)), []
        )
    for case in cases:
        number = case["number"]
        sample = local[number] if number < len(local) else None
        replay_case(op, f"{op.formatted_name} {name} {number}", case, sample, report)


def closer(truth: Any, code: Any, wanted: Any) -> bool:
    """Whether PyTorch's result is nearer than ours to that of float64: False where ours is at least as near."""
    if truth[0] == "raises" or different(code, wanted, False):
        return True
    lists = [codes[1] if codes[0] in ("list", "tuple") else [codes] for codes in (truth[1], code, wanted)]
    return any(farther(*codes) for codes in zip(*lists, strict=True))


def tolerance_of(case: dict[str, Any]) -> float:
    """That of the least exact dtype in it."""
    dtypes = tensor_dtypes(case["arguments"])
    if case["forward"][0] == "value":
        dtypes |= tensor_dtypes(case["forward"][1][0])
    return max((TOLERANCE[name] for name in dtypes if name in TOLERANCE), default=0.0)


def replay_case(op: Any, where: str, case: dict[str, Any], sample: Any, report: Report) -> None:
    process = sample.output_process_fn_grad if sample is not None else lambda result: result
    again = functools.partial(decode, case["arguments"], arguments_of(sample) if sample is not None else None)
    arguments = attempt(again)
    if arguments[0] == "raises":
        report.add("forward", where, f"arguments: {arguments[2]}")
        return
    found, expected = attempt(forward, op, arguments[1], process), case["forward"]
    own = found[1][0] if found[0] == "value" else ("plain", None)
    exact = not case["random"] and "fractional" not in op.name
    if (
        found[0] == "value"
        and expected[0] == "value"
        and op.name in TIES
        and indices_differ(found[1][0], expected[1][0])
    ):
        exact = False
    near = tolerance_of(case)
    if takes_more(expected):
        pass
    elif "raises" in (found[0], expected[0]):
        report.add("forward", where, different_outcome(found, expected))
    else:
        (result, processed), (wanted, processed_wanted) = found[1], expected[1]
        if processed_wanted is None:
            problem = different(result, wanted, exact, near)
        else:
            problem = different(result, wanted, False) or different(processed, processed_wanted, exact, near)
        if problem and exact and near > TOLERANCE["float64"] and processed_wanted is None:
            truth = attempt(lambda: encode(call(op.op, widened(again()))))
            problem = problem if closer(truth, result, wanted) else None
        report.add("forward", where, problem)
        if problem is None:
            report.add("strides", where, different_strides(result, wanted))
    for category in ("gradient", "second gradient"):
        if category in case and not takes_more(case[category]):
            weights = dict(case["weights"])
            found = attempt(gradient, op, again(), process, weights, category != "gradient")
            problem = different_outcome(found, case[category], exact, near)
            if problem and exact and near > TOLERANCE["float64"] and found[0] == case[category][0] == "value":
                wide_weights = {key: encode(widened(decode(code))) for key, code in case["weights"].items()}
                truth = attempt(gradient, op, widened(again()), process, wide_weights, category != "gradient")
                problem = problem if closer(truth, found[1], case[category][1]) else None
            report.add(category, where, problem)
    outs = case.get("out=", {})
    if all(outcome[0] == "raises" for outcome in outs.values()):
        outs = {}  # PyTorch has no out= there
    for name, expected in outs.items():
        found = attempt(with_out, op, again(), decode(case["forward"][1][0]), name)
        if takes_more(expected) or (expected[0] == "raises" and holds_result(found, case["forward"][1][0], near)):
            continue
        report.add(
            "out=",
            f"{where} {name}",
            different_out(name, found, expected, own, exact and case["forward"][1][1] is None, near),
        )


def replay_errors(op: Any, errors: list[Any], report: Report) -> None:
    local = attempt_list(functools.partial(op.error_inputs, "cpu"), []) if errors else []
    for index, (code, expected, pattern) in enumerate(errors):
        if expected[0] != "raises":  # not on the CPU
            continue
        where = f"{op.formatted_name} {index}"
        # The sample made here, where there is one: its arguments may share memory.
        here = len(local) == len(errors)
        arguments = ("value", arguments_of(local[index].sample_input)) if here else attempt(decode, code)
        found = attempt(call, op, arguments[1]) if arguments[0] == "value" else arguments
        problem = different_outcome(found, expected) if found[0] == "raises" else f"no {expected[1][0]}: {expected[2]}"
        report.add("error", where, problem)
        if problem is None:
            matches = re.search(pattern, found[2]) is not None
            report.add("message", where, None if matches else f"{found[2]!r} instead of {pattern!r}")


def indices_differ(result: Any, wanted: Any) -> bool:
    """Whether only the second of two results differs."""
    if result[0] == "tensor":
        return result[1] == "int64"
    if len(result[1]) != 2 or different(result[1][0], wanted[1][0]):
        return False
    return different(result[1][1], wanted[1][1]) is not None


def takes_more(outcome: Any) -> bool:
    """Whether PyTorch has no kernel for a dtype: what flambeau does then is its own affair."""
    return outcome[0] == "raises" and (
        "NotImplementedError" in outcome[1] or "not implemented" in outcome[2] or "_to_sparse does not" in outcome[2]
    )


def different_outcome(found: Any, expected: Any, exact: bool = True, tolerance: float = 0.0) -> str | None:
    """Whether two calls end differently; of two gradients the zero one may be None."""
    if expected[0] == "raises":
        if found[0] == "raises":
            return None if expected[1][0] in found[1] else f"{found[1][0]} instead of {expected[1][0]}: {found[2]}"
        return f"no {expected[1][0]}: {expected[2]}"
    if found[0] == "raises":
        return f"raises {found[1][0]}: {found[2]}"
    if not found[1][1] and not np.any([np.any(numbers(code)) for code in expected[1][1] if code[0] == "tensor"]):
        return None
    if not expected[1][1] and not np.any([np.any(numbers(code)) for code in found[1][1] if code[0] == "tensor"]):
        return None
    return different(found[1], expected[1], exact, tolerance, gradients=True)


def holds_result(found: Any, wanted: Any, tolerance: float) -> bool:
    """Whether a dtype of out that PyTorch refuses got the result, in numbers that can hold it."""
    if found[0] == "raises":
        return False
    outs, wanted = found[1][0][1], wanted[1] if wanted[0] in ("list", "tuple") else [wanted]
    for out, result in zip(outs, wanted, strict=True):
        if out[1] == result[1] or not torch.can_cast(getattr(torch, result[1]), getattr(torch, out[1])):
            return False
        if different_numbers(numbers(out), numbers(result).astype(numbers(out).dtype), tolerance):
            return False
    return True


def different_out(case: str, found: Any, expected: Any, own: Any, exact: bool, tolerance: float) -> str | None:
    if "raises" in (found[0], expected[0]):
        return different_outcome(found, expected)
    (outs, warned, kept), (wanted, warned_wanted, kept_wanted) = found[1], expected[1]
    if case == "larger" and warned_wanted and not warned:
        return "no warning of a resize"
    if kept != kept_wanted:
        return "out has other memory" if kept_wanted else "out keeps its memory"
    problem = different(outs, wanted, exact, tolerance) or (
        None if case in RESIZED else different_strides(outs, wanted)
    )
    if problem and own[0] == "tensor" and case not in ("long", "double"):
        # PyTorch may miss its own result in an out with other strides; ours holds what the call without out= gives.
        return different(outs, ("list", [own]), exact, tolerance) and problem
    return problem


def main() -> None:
    global torch
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "replay"))
    parser.add_argument("folder", type=Path, help="where the recorded files are")
    parser.add_argument("names", nargs="*", help="names of ops (default: all)")
    parser.add_argument("--output", type=Path, default=Path("op_samples.txt"), help="where failures are listed")
    parser.add_argument(
        "--most", type=int, default=1000, help="record so many samples per dtype, spread over all (default: 1000)"
    )
    options = parser.parse_args()
    if options.action == "replay":
        import torch_tests  # noqa: F401, makes flambeau be torch
    torch = values.torch = __import__("torch")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.action == "record":
        record(options.folder, options.names, options.most)
    else:
        replay(options.folder, options.names, options.output)


if __name__ == "__main__":
    main()
