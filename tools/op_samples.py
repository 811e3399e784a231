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
import sys
import time
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

CATEGORIES = ("forward", "gradient", "second gradient", "out=", "error", "strides", "message")
# Relative to the element and to the mean magnitude of the tensor: sums may add in another order.
TOLERANCE = {
    "float64": 1e-8, "complex128": 1e-8, "float32": 5e-5, "complex64": 5e-5, "float16": 1e-2, "complex32": 1e-2, "bfloat16": 4e-2,
}  # fmt: skip
# Which of several equal elements they name is up to the library: indices are not compared.
TIES = {"topk", "kthvalue", "mode", "median", "nanmedian"}
OUT_SAMPLES = 3  # per dtype; float32, or the first dtype of an op that has none, takes all

torch: Any = None  # PyTorch in `record`, flambeau in `replay`


# Arguments and results as plain data: tensors become dictionaries, what has no description is left to the replayed sample.


class Left:
    """A function or another object that both processes make for themselves."""


def encode(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return encode_tensor(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return ("name", str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return ("device", str(value))
    if isinstance(value, (list, tuple)):
        return ("list" if isinstance(value, list) else "tuple", [encode(item) for item in value])
    if isinstance(value, dict):
        return ("dict", {key: encode(item) for key, item in value.items()})
    if isinstance(value, slice):
        return ("slice", [encode(value.start), encode(value.stop), encode(value.step)])
    if value is None or isinstance(value, (bool, int, float, complex, str, np.generic, np.ndarray, type(...))):
        return ("plain", value)
    return ("left", None)


def encode_tensor(value: Any) -> Any:
    dtype = str(value.dtype).rpartition(".")[2]
    value, requires_grad = value.detach(), value.requires_grad
    if value.is_meta:
        return ("meta", dtype, tuple(value.shape), tuple(value.stride()))
    if getattr(value, "_is_zerotensor", bool)():
        value = torch.zeros(value.shape, dtype=value.dtype)
    if value.layout is not torch.strided:
        layout = str(value.layout).rpartition(".")[2]
        parts = (
            [value._indices(), value._values()]
            if layout == "sparse_coo"
            else [value.crow_indices(), value.col_indices(), value.values()]
            if layout in ("sparse_csr", "sparse_bsr")
            else [value.ccol_indices(), value.row_indices(), value.values()]
        )
        coalesced = layout == "sparse_coo" and value.is_coalesced()
        return ("sparse", layout, [encode_tensor(part) for part in parts], tuple(value.shape), coalesced, requires_grad)
    value = value.resolve_conj().resolve_neg()
    extent = (
        1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
        if value.numel()
        else 0
    )
    if value.storage_offset() + extent > value.untyped_storage().nbytes() // value.element_size():
        value, extent = (
            value.clone(memory_format=torch.contiguous_format),
            value.numel(),
        )  # PyTorch does not check its own views
    flat = value.as_strided((extent,), (1,)).contiguous()
    data = flat.view(torch.uint8).numpy().tobytes() if extent else b""
    return ("tensor", dtype, tuple(value.shape), tuple(value.stride()), data, requires_grad)


def decode(code: Any, local: Any = None) -> Any:
    """The value of a description; `local` is the same argument of the sample made here."""
    kind, *rest = code
    if kind == "tensor":
        name, shape, strides, data, requires_grad = rest
        dtype = getattr(torch, name)
        flat = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype) if data else torch.empty(0, dtype=dtype)
        return flat.as_strided(shape, strides).requires_grad_(requires_grad)
    if kind == "sparse":
        layout, parts, shape, coalesced, requires_grad = rest
        parts = [decode(part) for part in parts]
        if layout == "sparse_coo":
            result = torch.sparse_coo_tensor(*parts, shape)._coalesced_(coalesced)
        else:
            result = torch.sparse_compressed_tensor(*parts, shape, layout=getattr(torch, layout))
        return result.requires_grad_(requires_grad)
    if kind == "meta":
        return torch.empty_strided(*rest[1:], dtype=getattr(torch, rest[0]), device="meta")
    (value,) = rest
    if kind == "name":
        return getattr(torch, value)
    if kind == "device":
        return torch.device(value)
    if kind in ("list", "tuple"):
        known = local if isinstance(local, (list, tuple)) and len(local) == len(value) else [None] * len(value)
        items = [decode(item, other) for item, other in zip(value, known, strict=True)]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        known = local if isinstance(local, dict) else {}
        return {key: decode(item, known.get(key)) for key, item in value.items()}
    if kind == "slice":
        return slice(*(decode(item) for item in value))
    return local if kind == "left" else value


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return [tensor for item in value.values() for tensor in tensors_in(item)] if isinstance(value, dict) else []


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
    outs = differentiable(process(op.gradcheck_wrapper(op.op, first, *args, **kwargs)))
    leaves = [leaf for leaf in tensors_in(arguments) if leaf.requires_grad]
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
        sys.exit(f"op_samples: the op database has no {', '.join(sorted(missing))}")
    return [op for op in op_db if not names or op.name in names]


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


def tensor_dtypes(code: Any) -> set[str]:
    if isinstance(code, tuple) and code and code[0] == "tensor":
        return {code[1]}
    if isinstance(code, dict):
        return set().union(*map(tensor_dtypes, code.values()))
    return set().union(*map(tensor_dtypes, code)) if isinstance(code, (list, tuple)) else set()


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
    found, expected, exact = attempt(forward, op, arguments[1], process), case["forward"], not case["random"]
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
        report.add("forward", where, problem)
        if problem is None:
            report.add("strides", where, different_strides(result, wanted))
    for category in ("gradient", "second gradient"):
        if category in case and not takes_more(case[category]):
            weights = dict(case["weights"])
            found = attempt(gradient, op, again(), process, weights, category != "gradient")
            report.add(category, where, different_outcome(found, case[category], exact, near))
    for name, expected in case.get("out=", {}).items():
        found = attempt(with_out, op, again(), decode(case["forward"][1][0]), name)
        if takes_more(expected) or (expected[0] == "raises" and holds_result(found, case["forward"][1][0], near)):
            continue
        report.add(
            "out=",
            f"{where} {name}",
            different_out(found, expected, exact and case["forward"][1][1] is None, near, name not in RESIZED),
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
    if len(result[1]) != 2 or result[0] == "tensor" or different(result[1][0], wanted[1][0]):
        return False
    return different(result[1][1], wanted[1][1]) is not None


def takes_more(outcome: Any) -> bool:
    """Whether PyTorch has no kernel for a dtype: what flambeau does then is its own affair."""
    return outcome[0] == "raises" and ("NotImplementedError" in outcome[1] or "not implemented for" in outcome[2])


def different_outcome(found: Any, expected: Any, exact: bool = True, tolerance: float = 0.0) -> str | None:
    """Whether two calls end differently; of two gradients the zero one may be None."""
    if expected[0] == "raises":
        if found[0] == "raises":
            return None if expected[1][0] in found[1] else f"{found[1][0]} instead of {expected[1][0]}: {found[2]}"
        return f"no {expected[1][0]}: {expected[2]}"
    if found[0] == "raises":
        return f"raises {found[1][0]}: {found[2]}"
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


def different_out(found: Any, expected: Any, exact: bool, tolerance: float, strides: bool) -> str | None:
    if "raises" in (found[0], expected[0]):
        return different_outcome(found, expected)
    (outs, warned, kept), (wanted, warned_wanted, kept_wanted) = found[1], expected[1]
    if warned_wanted and not warned:
        return "no warning of a resize"
    if kept != kept_wanted:
        return "out has other memory" if kept_wanted else "out keeps its memory"
    return different(outs, wanted, exact, tolerance) or (different_strides(outs, wanted) if strides else None)


def different_strides(code: Any, wanted: Any) -> str | None:
    if code[0] == "tensor" and wanted[0] == "tensor":
        (_, _, shape, strides, *_), (_, _, _, expected, *_) = code, wanted
        if 0 in shape or all(one == two or size == 1 for size, one, two in zip(shape, strides, expected, strict=True)):
            return None
        return f"strides {strides} instead of {expected} for shape {shape}"
    if code[0] in ("list", "tuple"):
        return next(filter(None, map(different_strides, code[1], wanted[1])), None)
    return None


def different(
    code: Any, wanted: Any, exact: bool = True, tolerance: float = 0.0, gradients: bool = False
) -> str | None:
    """What differs between two descriptions of results, or None; without `exact` only dtypes and shapes count."""
    if gradients and ("plain", None) in (code, wanted) and code != wanted:
        tensor = code if wanted == ("plain", None) else wanted
        if tensor[0] == "tensor" and not np.any(numbers(tensor)):
            return None
    if code[0] != wanted[0] and {code[0], wanted[0]} != {"list", "tuple"}:
        return f"a {describe(code)} instead of a {describe(wanted)}"
    if code[0] in ("list", "tuple"):
        if len(code[1]) != len(wanted[1]):
            return f"{len(code[1])} results instead of {len(wanted[1])}"
        for index, (one, two) in enumerate(zip(code[1], wanted[1], strict=True)):
            problem = different(one, two, exact, tolerance, gradients)
            if problem:
                return f"result {index}: {problem}" if len(code[1]) > 1 else problem
        return None
    if code[0] == "sparse":
        if code[1] != wanted[1] or code[3:5] != wanted[3:5]:
            return f"{code[1]} {code[3:5]} instead of {wanted[1]} {wanted[3:5]}"
        return next(
            filter(None, (different(*pair, exact, tolerance) for pair in zip(code[2], wanted[2], strict=True))), None
        )
    if code[0] == "tensor":
        if code[1] != wanted[1]:
            return f"{code[1]} instead of {wanted[1]}"
        if code[2] != wanted[2]:
            return f"shape {code[2]} instead of {wanted[2]}"
        floor = 1.0 if gradients else 0.0  # sums of gradients that cancel
        return different_numbers(numbers(code), numbers(wanted), tolerance, floor) if exact else None
    if code[0] == "plain" and exact:
        one, two = code[1], wanted[1]
        if isinstance(two, (float, complex)) and isinstance(one, (float, complex)):
            return different_numbers(np.asarray(one), np.asarray(two), tolerance)
        same = type(one) is type(two) and (np.array_equal(one, two) if isinstance(two, np.ndarray) else one == two)
        return None if same else f"{one!r} instead of {two!r}"
    return None if code == wanted or not exact else f"{code} instead of {wanted}"


def describe(code: Any) -> str:
    return repr(code[1]) if code[0] == "plain" else code[0]


def numbers(code: Any) -> np.ndarray:
    tensor = decode((*code[:5], False))
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128).numpy()
    return tensor.to(torch.float64).numpy() if tensor.dtype.is_floating_point else tensor.numpy()


def different_numbers(one: np.ndarray, two: np.ndarray, tolerance: float, floor: float = 0.0) -> str | None:
    if not np.issubdtype(two.dtype, np.inexact):
        wrong = one != two
        kind = "integers"
    elif np.issubdtype(two.dtype, np.complexfloating):
        parts = [different_numbers(part(one), part(two), tolerance, floor) for part in (np.real, np.imag)]
        if not any(parts) or (
            np.isfinite(two).all()
            and np.allclose(one, two, tolerance, tolerance * (floor + float(np.mean(np.abs(two)))))
        ):
            return None
        return parts[0] or parts[1]
    else:
        finite = np.isfinite(two)
        scale = floor + (float(np.mean(np.abs(two[finite]))) if finite.any() else 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(one - two) <= tolerance * (np.abs(two) + scale)
        same = (one == two) | (np.isnan(one) & np.isnan(two)) | (finite & np.isfinite(one) & near)
        wrong = ~same
        kind = "values"
        if np.any(wrong & ~finite) or np.any(wrong & ~np.isfinite(one)):
            kind = "non-finite values"
    if not np.any(wrong):
        return None
    place = tuple(int(index) for index in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return f"{kind}: {int(np.sum(wrong))} of {wrong.size} differ, first {one[place]!r} instead of {two[place]!r} at {place}"


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
    torch = __import__("torch")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.action == "record":
        record(options.folder, options.names, options.most)
    else:
        replay(options.folder, options.names, options.output)


if __name__ == "__main__":
    main()
