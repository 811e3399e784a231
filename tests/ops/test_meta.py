"""Every row on the meta device: the shape, dtype and strides of the CPU's result and gradients, without a value."""

from __future__ import annotations

import numbers

import pytest

import flambeau as fb

from . import spec as lib
from .catalogue import SPECS
from .gradient_notes import FINISH, NOT_DIFFERENTIABLE
from .spec import INEXACT, OpSpec, S

# What they give, or its shape, depends on values.
BY_VALUE = set(
    """
    allclose argwhere bincount combinations equal histc histogram histogramdd index_put masked_scatter masked_select nonzero
    nonzero_numpy nonzero_static repeat_interleave tensor_split unique unique_consecutive
    """.split()
)
SAMPLES = 4  # per row and dtype: those that are small


def rows():
    return pytest.mark.parametrize("row", list(SPECS.values()), ids=list(SPECS))


def samples(row: OpSpec) -> list[tuple[str, S]]:
    """Small calls in a dtype that has gradients, where there is one, and in another one."""
    inexact = [d for d in row.dtypes if d in INEXACT]
    chosen = dict.fromkeys([*(d for d in ("float32", "complex64") if d in inexact), row.dtypes[0]])
    found = []
    for dtype in chosen:
        small = [s for s in row.samples(dtype) if sum(t.values.size for t in s.tensors()) <= 4096]
        found += [(dtype, s) for s in small[:SAMPLES]]
        if row.edge is not None and dtype == next(iter(chosen)):
            found += [(dtype, s) for s in list(row.edge(dtype))[:2]]
    return found


def described(result) -> list:
    """What there is to know of results without looking at values."""
    found = []
    for leaf in lib.flat_results(result):
        if lib.is_tensor(leaf):
            found.append((tuple(leaf.shape), leaf.dtype, strides(leaf), leaf.requires_grad))
        elif leaf is not None and not isinstance(leaf, (numbers.Number, str)):
            found.append(type(leaf))
    return found


def strides(t) -> tuple:
    """Strides, but those that say nothing."""
    return tuple(s if n > 1 else None for n, s in zip(t.shape, t.stride(), strict=True)) if t.numel() else ()


def call(row: OpSpec, sample: S, device: str, layout: str):
    """The result of a call on a device, and the gradients of what has some."""
    leaves: list = []

    def make(t):
        tensor = t.tensor(layout)
        moved = tensor.to(device) if device != "cpu" else tensor
        if t.dtype in INEXACT and differentiates(row):
            leaves.append(moved.requires_grad_())
        return moved.clone() if row.mutates and moved.requires_grad else moved

    ready = sample.map(make)
    with fb.device(
        "cpu" if sample.tensors() else device
    ):  # what makes tensors from nothing makes them on the default device
        result = row.run(ready)
    gradients = []
    if leaves:
        outputs = [r for r in lib.flat_results(result) if lib.is_tensor(r) and r.requires_grad]
        if finish := FINISH.get(row.name) or FINISH.get(row.canonical):
            outputs = finish(outputs)
        if outputs:
            gradients = fb.autograd.grad(outputs, leaves, [fb.ones_like(o) for o in outputs], allow_unused=True)
    everything = [r for r in [*lib.flat_results(result), *gradients] if lib.is_tensor(r)]
    assert device == "cpu" or all(r.is_meta for r in everything), (
        f"{row.name}{sample}: a result is not on the meta device"
    )
    return described(result), [None if g is None else described(g) for g in gradients]


def differentiates(row: OpSpec) -> bool:
    return not any(name in NOT_DIFFERENTIABLE for name in (row.name, row.canonical))


@rows()
def test_shapes_are_those_of_the_cpu(row):
    refused = 0
    for dtype, sample in samples(row):
        for layout in ("contiguous", "transposed") if row.layouts else ("contiguous",):
            expected = call(row, sample, "cpu", layout)
            what = f"{row.name}{sample} [{dtype}], {layout} inputs"
            try:
                got = call(row, sample, "meta", layout)
            except RuntimeError as error:
                if row.name not in BY_VALUE or "on the meta device has none" not in str(error):
                    raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
                refused += 1
                continue
            except Exception as error:
                raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
            assert got == expected, what
    assert refused or row.name not in BY_VALUE, "no sample needed values: take it off the list"
