"""Gradients of every row, first and second, against finite differences in float64 and complex128."""

from __future__ import annotations

import pytest

import flambeau as fb

from . import spec as lib
from .catalogue import SPECS
from .gradient_notes import CONSTANT, FINISH, INPUTS, NOT_DIFFERENTIABLE, PREPARE, RANDOM
from .spec import OpSpec, S, T

SAMPLES = 3  # per row and dtype: those that are small
LARGEST = 40  # elements of all tensors of a sample together


def candidates(row: OpSpec, dtype: str) -> list[S]:
    """The first few small samples that have something to differentiate by."""
    maker = INPUTS.get(row.name) or INPUTS.get(row.canonical) or row.samples
    chosen = []
    for sample in maker(dtype):
        tensors = sample.tensors()
        sizes = [t.values.size for t in tensors]
        if 0 not in sizes and sum(sizes) <= LARGEST and any(t.dtype in lib.INEXACT for t in tensors):
            chosen.append(sample)
        if len(chosen) == SAMPLES:
            break
    return chosen


def as_function(row: OpSpec, sample: S):
    """The row as a function of its float tensors, and those tensors."""
    leaves: list = []

    def grow(t: T):
        tensor = t.tensor()
        if t.dtype in lib.INEXACT:
            leaves.append(tensor)
            return len(leaves) - 1
        return tensor

    places = sample.map(lambda t: _Place(grow(t)))

    prepare, finish = (notes.get(row.name) or notes.get(row.canonical) for notes in (PREPARE, FINISH))

    def call(*values):
        values = prepare(sample.kwargs, *values) if prepare else values

        def put(x):
            if isinstance(x, _Place):
                if not isinstance(x.at, int):
                    return x.at
                return values[x.at].clone() if row.mutates else values[x.at]
            if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
                return type(x)(put(v) for v in x)
            return x

        ready = S(*[put(a) for a in places.args], **{k: put(v) for k, v in places.kwargs.items()})
        found = lib.flat_results(row.run(ready))
        results = tuple(r for r in found if lib.is_tensor(r) and (r.is_floating_point() or r.is_complex()))
        return finish(results) if finish else results

    return call, [t.requires_grad_() for t in leaves]


class _Place:
    """Where a tensor goes in the call."""

    def __init__(self, at):
        self.at = at


def rows(condition=lambda row: True):
    chosen = [row for row in SPECS.values() if condition(row)]
    return pytest.mark.parametrize("row", chosen, ids=[row.name for row in chosen])


def named(row: OpSpec, names) -> bool:
    return row.name in names or row.canonical in names


@rows(lambda row: not any(named(row, notes) for notes in (CONSTANT, NOT_DIFFERENTIABLE, RANDOM)))
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients(row, dtype):
    if dtype not in row.dtypes:
        pytest.skip("the op has no such dtype")
    checked = 0
    for sample in candidates(row, dtype):
        function, leaves = as_function(row, sample)
        outputs = [out for out in function(*leaves) if out.requires_grad]
        if not outputs or not any(out.numel() for out in outputs):
            continue
        try:
            fb.autograd.gradcheck(function, leaves, fast_mode=True, check_undefined_grad=False)
            fb.autograd.gradgradcheck(function, leaves, fast_mode=True, check_undefined_grad=False)
        except Exception as error:
            raise AssertionError(f"{row.name}{sample}: {type(error).__name__}: {error}") from error
        checked += 1
    if not checked:
        pytest.skip("no small sample with a gradient")


@rows(lambda row: named(row, CONSTANT))
def test_results_without_gradient(row):
    """What does not depend smoothly on its inputs has no history, or a gradient of zero."""
    for sample in candidates(row, "float64") if "float64" in row.dtypes else []:
        function, leaves = as_function(row, sample)
        for out in function(*leaves):
            if out.requires_grad:
                for g in fb.autograd.grad(out, leaves, fb.ones_like(out), allow_unused=True, retain_graph=True):
                    assert g is None or not bool(g.any()), f"{row.name}{sample}: a gradient that is not zero"


@rows(lambda row: named(row, NOT_DIFFERENTIABLE))
def test_missing_gradients_say_so(row):
    for sample in candidates(row, "float64")[:1] if "float64" in row.dtypes else []:
        function, leaves = as_function(row, sample)
        for out in function(*leaves):
            if out.requires_grad and out.numel():
                with pytest.raises((NotImplementedError, RuntimeError), match="derivative|differentiable|not supported"):
                    fb.autograd.grad(out, leaves, fb.ones_like(out), allow_unused=True)


def test_notes_name_rows():
    known = set(SPECS) | {row.canonical for row in SPECS.values()}
    for notes in (CONSTANT, NOT_DIFFERENTIABLE, RANDOM, INPUTS, PREPARE, FINISH):
        assert set(notes) <= known, f"no such rows: {sorted(set(notes) - known)}"


def test_every_core_op_has_a_gradient_or_says_why_not():
    missing = {text.split("(")[0] for text, state in fb._C.gradients().items() if state == "missing" and "Tensor" in text.split("->")[0]}
    # Fused backward kernels run only where nothing records them.
    names = """
    attention cross_entropy gru gru_cell lstm lstm_cell elu gelu gelu_tanh hardsigmoid hardswish hardtanh leaky_relu logsigmoid
    mish sigmoid silu softplus tanh
    """
    fused = {f"_{name}_backward" for name in names.split()}
    allowed = set(NOT_DIFFERENTIABLE) | fused
    assert not missing - allowed, f"ops without a gradient: {sorted(missing - allowed)}"
