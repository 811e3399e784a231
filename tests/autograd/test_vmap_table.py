"""Every op of the table under vmap: the same as a loop over the examples, or an error that says why not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as fb
from flambeau.func._batching import RULES
from flambeau.utils._pytree import tree_flatten
from ops.catalogue import SPECS
from ops.spec import T

# Refused for every call: the size of the result depends on values, or the op depends on memory layout or draws numbers.
REFUSED = {
    "argwhere", "bincount", "histc", "histogram", "masked_select", "nonzero", "nonzero_numpy", "pca_lowrank",
    "svd_lowrank", "unique", "unique_consecutive", "vander",
}  # fmt: skip
# Refused when certain arguments differ per example.
PARTLY = {"cov", "index_put", "istft", "nanquantile", "quantile", "repeat_interleave", "segment_reduce"}
# The samples are refused by the op itself once their tensors stand in one batch.
NOT_COMPARED = {"histogramdd"}
# Memory as it was found.
UNDEFINED = {"empty_like", "new_empty", "new_empty_strided"}
# Their offsets count from where an example begins, as those of a tensor of its own do.
IN_MEMORY = {"as_strided", "as_strided_copy", "as_strided_scatter"}
DTYPES = ("float64", "int64", "complex128", "bool")


def second(t: T):
    """Another example near the first: in the same domain, valid as an index, but not the same."""
    x = t.tensor()
    if x.is_floating_point() or x.is_complex():
        return x * 0.96875
    return x.flip(0) if x.ndim and not t.fixed else x


def calls(row):
    """(sample, which tensors to batch): all, and each alone."""
    dtype = next((d for d in DTYPES if d in row.dtypes), row.dtypes[0])
    makers = [m for m in (row.samples, row.edge, row.broadcast) if m is not None]
    for maker in makers:
        for sample in itertools.islice(maker(dtype), 8):
            count = len(sample.tensors())
            if count:
                yield sample, set(range(count))
            for k in range(count if count > 1 else 0):
                yield sample, {k}


def examples(row, sample, which):
    """The tensors to batch, stacked, and a function that rebuilds the call from one example of them."""
    fixed = row.name.startswith(("linalg.", "lu_", "ormqr", "searchsorted"))
    number = itertools.count()

    def build(tensors):
        numbers = iter(range(10**6))
        stream = iter(tensors)
        return sample.map(lambda t: next(stream) if next(numbers) in which else t.tensor())

    stacked = []
    for t in sample.tensors():
        if next(number) in which:
            t.fixed = fixed
            stacked.append(fb.stack([t.tensor(), second(t)]))
    return stacked, build


def compare(got, want, what):
    got, want = tree_flatten(got)[0], tree_flatten(want)[0]
    assert len(got) == len(want), f"{what}: {len(got)} results, expected {len(want)}"
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype, f"{what}: dtype {g.dtype}, expected {w.dtype}"
        assert g.shape == w.shape, f"{what}: shape {tuple(g.shape)}, expected {tuple(w.shape)}"
        close = np.allclose(g.numpy(), w.numpy(), rtol=1e-9, atol=1e-10, equal_nan=True)
        assert close, f"{what}: {g} is not {w}"


def looped(run, stacked, apart=False):
    """The results of a loop, stacked; `apart` gives every example memory of its own."""
    results = [tree_flatten(run(*(x[i].clone() if apart else x[i] for x in stacked)))[0] for i in range(2)]
    return [fb.stack(list(column)) for column in zip(*results, strict=True)]


def judge(row) -> tuple[int, int]:
    """How many calls were the same as the loop, and how many were refused."""
    same = refused = 0
    for sample, which in calls(row):
        stacked, build = examples(row, sample, which)

        def run(*xs, build=build):
            return row.run(build(xs))

        with np.errstate(all="ignore"):
            try:
                want = looped(run, stacked, row.name in IN_MEMORY)
            except Exception:
                continue  # not a call this op takes, or its results cannot be stacked
        what = f"{row.name}{sample} batched at {sorted(which)}"
        try:
            got = fb.func.vmap(run)(*stacked)
        except (fb.errors.StateError, fb.errors.ArgumentError) as error:
            assert "vmap" in str(error) or "example" in str(error), f"{what}: {error}"
            refused += 1
            continue
        if row.name not in UNDEFINED:
            compare(got, want, what)
        same += 1
    return same, refused


@pytest.mark.parametrize("row", SPECS.values(), ids=SPECS)
def test_vmap_is_a_loop_without_the_loop(row):
    if row.result is None or row.mutates or not any(True for _ in calls(row)):
        pytest.skip("its result or its arguments are no tensors, or it writes to its argument")
    same, refused = judge(row)
    if row.name in NOT_COMPARED:
        assert not same and not refused, f"{row.name}: {same} calls work, {refused} are refused; take it off NOT_COMPARED"
    elif row.name in REFUSED:
        assert refused and not same, f"{row.name}: {same} calls work; take it off REFUSED"
    elif row.name in PARTLY:
        assert refused and same, f"{row.name}: {same} calls work, {refused} do not; take it off PARTLY"
    else:
        assert same, f"{row.name}: no call was compared"
        assert not refused, f"{row.name}: {refused} calls were refused, {same} work"


def weighted(results):
    """A number that depends on every floating result, each element with a weight of its own."""
    total = fb.zeros((), dtype=fb.float64)
    for x in tree_flatten(results)[0]:
        if x.requires_grad:
            weights = fb.linspace(0.5, 1.5, x.numel(), dtype=fb.float64).reshape(x.shape)
            total = total + ((x.real + 2 * x.imag if x.is_complex() else x) * weights).sum()
    return total


def gradients(results, inputs):
    total = weighted(results)
    if not total.requires_grad:
        return None
    return fb.autograd.grad(total, inputs, allow_unused=True)


@pytest.mark.parametrize("row", [row for row in SPECS.values() if "float64" in row.dtypes], ids=lambda row: row.name)
def test_gradients_through_vmap(row):
    if row.result is None or row.mutates or row.name in REFUSED | NOT_COMPARED | UNDEFINED:
        pytest.skip("see the test above")
    for sample, which in itertools.islice(calls(row), 8):
        stacked, build = examples(row, sample, which)
        inputs = [x.requires_grad_() for x in stacked if x.is_floating_point() or x.is_complex()]

        def run(*xs, build=build):
            return row.run(build(xs))

        try:
            want = gradients(looped(run, stacked, row.name in IN_MEMORY), inputs)
        except Exception:
            continue  # not a call this op takes, or one without gradient
        if want is None:
            continue
        try:
            got = gradients(fb.func.vmap(run)(*stacked), inputs)
        except (fb.errors.StateError, fb.errors.ArgumentError):
            assert row.name in PARTLY
            continue
        what = f"gradient of {row.name}{sample} batched at {sorted(which)}"
        for g, w, x in zip(got or [None] * len(want), want, inputs, strict=True):
            zeros = fb.zeros_like(x.detach())
            compare(zeros if g is None else g, zeros if w is None else w, what)


def test_every_elementwise_op_says_so():
    """The rule of vmap is derived from a flag: an op of the row tables that lacks it would have none."""
    flag = fb._C.op_flags["ELEMENTWISE"]
    registered = {name: sum({f & flag for _, f, _ in entry[0]}) for name, entry in fb._C.registry().items()}
    flagged = {name for name, has in registered.items() if has}
    rows = {"exp", "isnan", "add", "atan2", "erfinv", "special.zeta", "special.hermite_polynomial_h", "_nn.gelu", "clamp"}
    assert rows <= flagged
    for name in flagged:
        assert name in RULES, name
    assert not flagged & {"sum", "sort", "where", "cumsum", "mm"}


def test_tests_of_elements_have_no_form_in_place():
    for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit"):
        assert hasattr(fb.Tensor, name) and not hasattr(fb.Tensor, name + "_"), name
    x = fb.tensor([0, 2])
    assert x.logical_not_() is x and x.tolist() == [1, 0]
