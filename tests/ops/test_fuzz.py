"""A fuzzer over the whole op table and nn.functional: malformed calls give a Python exception or a consistent result,
never a crash.

Quick by default. FLAMBEAU_FUZZ=<count> sets the calls per op (1000 digs deep), FLAMBEAU_FUZZ_SEED=<number> gives other calls,
FLAMBEAU_FUZZ_TRACE=<file> writes every call down before it is made, so that a crash names its cause. `make guard` and
`make sanitize` run it on builds that notice accesses outside a tensor's memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import resource
from typing import Any

import pytest

import flambeau as fb

from . import spec as lib
from .fuzz_calls import random_call, samples_of
from .fuzz_functional import FUNCTIONS
from .fuzz_values import as_is, tensor
from .registry import overloads

TRACE = os.environ.get("FLAMBEAU_FUZZ_TRACE")
EXAMPLES = int(os.environ.get("FLAMBEAU_FUZZ", 30))
SEED = os.environ.get("FLAMBEAU_FUZZ_SEED", "0")
CAP = 64 << 20  # bytes of tensors a call may ask for
SPARE = 3 << 30  # address space beyond the present use

# What a caller can understand. Anything else is an internal error that leaked.
EXPECTED = (TypeError, ValueError, IndexError, RuntimeError, MemoryError, OverflowError, ZeroDivisionError,
NotImplementedError)
LEAKS = ("std::", "_M_", "basic_string", "bad_alloc", "bad_variant", "bad_optional", "vector::", "SystemError",
"nanobind")
OPS = sorted(overloads().items())


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


def storage_size(t: Any) -> int:
    """Elements in the tensor's memory."""
    return t.untyped_storage().nbytes() // t.element_size()


def consistent(result: Any) -> None:
    """Shape, strides, dtype and memory of every tensor in a result agree with each other."""
    for t in lib.flat_results(result):
        if not lib.is_tensor(t):
            continue
        try:
            shape, stride = tuple(t.shape), tuple(t.stride())
        except MemoryError:  # a result of free layout is copied once its strides are asked for
            continue
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
            with contextlib.suppress(MemoryError):  # the results alone may come close to the cap
                t.detach().clone()  # reads every element
        else:
            t[(-1,) * t.ndim].item()


def survive(call: Any, expected: tuple[type[Exception], ...] = EXPECTED) -> None:
    """Makes the call; it may fail in a way that a caller understands."""
    if TRACE:
        with open(TRACE, "a") as file:
            print(call, file=file)
    try:
        tensors = call.run()
    except RecursionError as error:
        raise AssertionError(f"{call}: endless recursion") from error
    except expected as error:
        text = str(error)
        # Python's own MemoryError says nothing more.
        assert text or isinstance(error, MemoryError), f"{call}: {type(error).__name__} without a message"
        leak = [word for word in LEAKS if word in text]
        assert not leak, f"{call}: internal error text {text!r}"
    except Exception as error:
        raise AssertionError(f"{call}: {type(error).__name__} leaked: {error}") from error
    else:
        try:
            consistent(tensors)
        except AssertionError as error:
            raise AssertionError(f"{call}: {error}") from None


@pytest.mark.timeout(60 + EXAMPLES, method="thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, rows", OPS, ids=[name for name, _ in OPS])
def test_malformed_calls(name, rows):
    dice = random.Random(f"{SEED} {name}")
    for _ in range(EXAMPLES):
        survive(random_call(dice, rows, samples_of(name)))


@pytest.mark.timeout(60 + EXAMPLES, method="thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_malformed_calls_of_functions(name):
    """Functions written in Python, from valid calls of theirs."""
    dice = random.Random(f"{SEED} {name}")
    row, samples = FUNCTIONS[name]
    for _ in range(EXAMPLES):
        # Written in Python, they say about many objects that are not tensors that an attribute is missing.
        survive(random_call(dice, [row], samples), (*EXPECTED, AttributeError))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_there_is_a_valid_call(name):
    errors = []
    for s in FUNCTIONS[name][1]:
        args, kwargs = [as_is(a)() for a in s.args], {k: as_is(v)() for k, v in s.kwargs.items()}
        try:
            lib.find(name)(*args, **kwargs)
            return
        except EXPECTED as error:
            errors.append(error)
    raise AssertionError(f"no call of {name} is valid: {errors}")


def test_every_function_of_nn_is_covered():
    public = {f"nn.functional.{n}" for n in fb.nn.functional.__all__ if callable(getattr(fb.nn.functional, n))}
    assert not public - set(FUNCTIONS) - {name for name, _ in OPS}, "add valid calls to fuzz_functional.py"


def test_the_library_still_works():
    """After all that, a plain computation is still right and memory comes back."""
    x = tensor((2, 3), "float32")()
    assert float((x + 1).sum()) == 12.0
    before = fb.memory_allocated()
    y = fb.zeros(1000, 1000)
    assert fb.memory_allocated() > before
    del y
    assert fb.memory_allocated() == before
