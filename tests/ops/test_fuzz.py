"""A fuzzer over the whole op table: malformed calls give a Python exception or a consistent result, never a crash.

Quick by default; FLAMBEAU_FUZZ=<count> sets the calls per op (1000 digs deep), FLAMBEAU_FUZZ_TRACE=<file> writes every
call down before it is made, so that a crash names its cause.
"""

from __future__ import annotations

import math
import os
import resource
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import flambeau as fb

from . import spec as lib
from .catalogue import SPECS
from .fuzz_values import POOLS, Make, as_is, hostile_for, tensor
from .registry import FUNCTION, INPLACE, METHOD, OUT, Overload, overloads
from .spec import S, find

TRACE = os.environ.get("FLAMBEAU_FUZZ_TRACE")
EXAMPLES = int(os.environ.get("FLAMBEAU_FUZZ", 30))
CAP = 64 << 20  # bytes of tensors a call may ask for
SPARE = 3 << 30  # address space beyond the present use

# What a caller can understand. Anything else is an internal error that leaked.
EXPECTED = (TypeError, ValueError, IndexError, RuntimeError, MemoryError, OverflowError, ZeroDivisionError,
NotImplementedError)
LEAKS = ("std::", "_M_", "basic_string", "bad_alloc", "bad_variant", "bad_optional", "vector::", "SystemError",
"nanobind")
OPS = sorted(overloads().items())
CHOICE = st.integers(min_value=0, max_value=2**16 - 1)


@pytest.fixture(scope="module", autouse=True)
def bounded_memory():
    """Calls that ask for too much must fail by themselves, not take the machine down."""
    fb.set_memory_cap(fb.memory_reserved() + CAP)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    fb.set_memory_cap(None)


class Call:
    """One call: which form, which arguments."""

    def __init__(self, op: Overload, form: str, args: list[Make], kwargs: dict[str, Make], out: str):
        self.op, self.form, self.args, self.kwargs, self.out = op, form, args, kwargs, out

    def __repr__(self) -> str:
        parts = [m.__name__ for m in self.args] + [f"{k}={m.__name__}" for k, m in self.kwargs.items()]
        target = f", out={self.out}" if self.out else ""
        return f"{self.form} {self.op.name}({'; '.join(parts)}{target})"

    def run(self) -> tuple[Any, list[Any]]:
        args = [make() for make in self.args]
        kwargs = {name: make() for name, make in self.kwargs.items()}
        tensors = [a for a in (*args, *kwargs.values()) if lib.is_tensor(a)]
        if self.out:
            kwargs["out"] = chosen_out(self.out, tensors)
        name = self.op.name.rpartition(".")[2]
        if self.form == "function":
            return find(self.op.name)(*args, **kwargs), tensors
        if not args or not lib.is_tensor(args[0]):
            raise TypeError(f"{name}: no tensor to call the method on")
        return getattr(args[0], name + "_" * (self.form == "in-place"))(*args[1:], **kwargs), tensors


def chosen_out(kind: str, tensors: list[Any]) -> Any:
    """Results wanted in good, wrong and overlapping places."""
    if kind == "alias" and tensors:
        return tensors[0]
    if kind == "part" and tensors and tensors[0].ndim:
        return tensors[0][:1]
    if kind == "overlapping" and tensors and tensors[-1].ndim and tensors[-1].numel():
        return tensors[-1][:1].expand(tensors[-1].shape)
    if kind == "shifted" and tensors and tensors[0].numel() > 1:
        flat = tensors[0].reshape(-1)
        return flat[1:]
    return {"pair": (fb.empty(0), fb.empty(0, dtype=fb.int64)), "text": "x", "none": None,
    "ints": fb.zeros(2, 3, dtype=fb.int64)}.get(
        kind, fb.empty(0)
    )


LOOP_COUNTS = ("niter",)  # asking for 2**62 rounds is slow, not wrong
OUTS = ("", "", "", "empty", "alias", "part", "overlapping", "shifted", "pair", "ints", "text", "none")


def samples_of(name: str) -> list[S]:
    """The spec row's own samples: valid calls to start from."""
    row = SPECS.get(name) or SPECS.get(name + "_")
    wanted = [d for d in ("float32", "int64", "complex64",
    "bool") if row and d in row.dtypes] or (row.dtypes[:1] if row else ())
    return [s for d in wanted for s in row.samples(d)]


def spoilt(pick, op: Overload, form: str, sample: S) -> Call:
    """A valid call with one or two arguments replaced."""
    args, kwargs = [as_is(a) for a in sample.args], {k: as_is(v) for k, v in sample.kwargs.items()}
    for _ in range(pick((0, 1, 1, 1, 2))):
        place = pick([*range(len(args)), *kwargs])
        original = sample.kwargs[place] if isinstance(place, str) else sample.args[place]
        target = kwargs if isinstance(place, str) else args
        target[place] = pick(hostile_for(original))
    return Call(op, form, args, kwargs, pick(OUTS) if op.flags & OUT and form == "function" else "")


@st.composite
def calls(draw, rows: list[Overload], samples: list[S]) -> Call:
    """Spoilt samples, plausible calls with one hostile argument, and some with nothing else."""

    def pick(pool):
        return pool[draw(CHOICE) % len(pool)]

    op = pick(rows)
    forms = ["function"] * bool(op.flags & FUNCTION) + ["method"] * bool(op.flags & METHOD)
    forms += ["in-place"] * bool(op.flags & INPLACE)
    form = pick(forms or ["method"])
    if samples and draw(CHOICE) % 2:
        return spoilt(pick, op, form, pick(samples))
    mood = pick(("one", "plausible", "one", "kin", "chaos", "one", "kin"))
    victim = draw(CHOICE) % max(len(op.params), 1) if mood == "one" else -1
    shared = pick(POOLS["Tensor"][0])
    args: list[Make] = []
    kwargs: dict[str, Make] = {}
    skipped = False
    for i, param in enumerate(op.params):
        hostile = (mood == "chaos" or i == victim) and param.name not in LOOP_COUNTS
        if param.default is not None and not hostile and draw(CHOICE) % 2:
            skipped = True
            continue
        pool = POOLS[param.kind][1 if hostile else 0]
        if param.kind in ("Tensor", "Operand") and mood == "kin" and draw(CHOICE) % 3:
            made = shared
        else:
            made = pick(pool)
        if param.keyword_only or skipped:
            kwargs[param.name] = made
        else:
            args.append(made)
    out = pick(OUTS) if op.flags & OUT and form == "function" else ""
    return Call(op, form, args, kwargs, out)


def storage_size(t: Any) -> int:
    """Elements in the tensor's memory."""
    return t.untyped_storage().nbytes() // t.element_size()


def consistent(result: Any) -> None:
    """Shape, strides, dtype and memory of every tensor in a result agree with each other."""
    for t in lib.flat_results(result):
        if not lib.is_tensor(t):
            continue
        shape, stride = tuple(t.shape), tuple(t.stride())
        assert len(shape) == len(stride) == t.ndim, f"shape {shape}, strides {stride}, ndim {t.ndim}"
        assert all(n >= 0 for n in shape), f"a negative size in {shape}"
        assert t.numel() == math.prod(shape), f"numel {t.numel()} for shape {shape}"
        assert t.dtype in lib.BY_DTYPE or t.dtype.name in lib.STORAGE, f"unknown dtype {t.dtype}"
        if not t.numel():
            continue
        offset, size = t.storage_offset(), storage_size(t)
        low = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True) if s < 0)
        high = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True) if s > 0)
        assert 0 <= low <= high < size, f"elements {low}..{high} of a storage of {size}"
        if t.numel() <= 100_000:
            lib.to_numpy(t.detach() if t.requires_grad else t)
        else:
            t[(-1,) * t.ndim].item()


@pytest.mark.timeout(20 + EXAMPLES, method="thread")
@pytest.mark.parametrize("name, rows", OPS, ids=[name for name, _ in OPS])
def test_malformed_calls(name, rows):
    @hypothesis.settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    @hypothesis.given(calls(rows, samples_of(name)))
    def survive(call):
        if TRACE:
            with open(TRACE, "a") as file:
                print(call, file=file)
        try:
            result, tensors = call.run()
        except RecursionError as error:
            raise AssertionError(f"{call}: endless recursion") from error
        except EXPECTED as error:
            text = str(error)
            # Python's own MemoryError says nothing more.
            assert text or isinstance(error, MemoryError), f"{call}: {type(error).__name__} without a message"
            leak = [word for word in LEAKS if word in text]
            assert not leak, f"{call}: internal error text {text!r}"
        except Exception as error:
            raise AssertionError(f"{call}: {type(error).__name__} leaked: {error}") from error
        else:
            consistent(result)
            consistent(tensors)

    survive()


def test_the_library_still_works():
    """After all that, a plain computation is still right and memory comes back."""
    x = tensor((2, 3), "float32")()
    assert float((x + 1).sum()) == 12.0
    before = fb.memory_allocated()
    y = fb.zeros(1000, 1000)
    assert fb.memory_allocated() > before
    del y
    assert fb.memory_allocated() == before
