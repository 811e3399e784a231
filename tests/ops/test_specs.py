"""The generic tests: each row of the specs is run through every check that applies to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import flambeau as fb

from . import spec as lib
from .catalogue import SPECS
from .registry import INPLACE, OUT, overloads
from .samples import elementwise, make
from .spec import ALL, CATEGORY, COMPLEX, FLOATS, INEXACT, OpSpec, S, T, dtype_of, name_of, to_numpy

ROWS = list(SPECS.values())
NOT_COMPLEX = tuple(d for d in ALL if d not in COMPLEX)
SIMPLE = ("float32", "int64", "complex64", "bool")  # the dtypes of checks that are about form, not about values


FLAGS = {name: [o.flags for o in found] for name, found in overloads().items()}


def has_form(row: OpSpec, bit: int) -> bool:
    """Whether the op table gives every overload of the row's op this form."""
    return all(flags & bit for flags in FLAGS.get(row.name) or FLAGS.get(row.canonical) or [0])


def has_inplace(row: OpSpec) -> bool:
    """PyTorch's in-place forms, and those that the op table adds."""
    return row.inplace or (has_form(row, INPLACE) and row.method)


def has_out(row: OpSpec) -> bool:
    return row.out or (has_form(row, OUT) and row.function and row.check is None)


def rows(condition=lambda row: True):
    """Parametrize over the rows a check applies to."""
    chosen = [row for row in ROWS if condition(row)]
    return pytest.mark.parametrize("row", chosen, ids=[row.name for row in chosen])


def dtypes(row: OpSpec, wanted: frozenset[str], among=None):
    """The row's dtypes, narrowed by the command line and by the check."""
    return [d for d in row.dtypes if (not wanted or d in wanted) and (among is None or d in among)]


def form_dtypes(row: OpSpec, wanted: frozenset[str]):
    """One or two representative dtypes."""
    return dtypes(row, wanted, SIMPLE)[:2] or dtypes(row, wanted)[:1]


def judge(row: OpSpec, got, sample: S, dtype: str, what: str) -> None:
    """Compare a result with the row's reference or hand it to the row's own check."""
    names = lib.expected_dtype(row.result, sample, dtype)
    if row.check is not None:
        plain = sample.map(lambda t: t.wide()).with_dtypes(lambda d: d.name)
        try:
            row.check(got, *plain.args, **plain.kwargs)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error
        leaves = [leaf for leaf in lib.flat_results(got) if lib.is_tensor(leaf)]
        if names is not None:
            flat = (names,) * len(leaves) if isinstance(names, str) else names
            have = tuple(name_of(leaf.dtype) for leaf in leaves)
            assert have == tuple(flat), f"{what}: result dtypes {have}, expected {flat}"
        return
    want = lib.flat_results(row.expected(sample))
    have = lib.flat_results(got)
    assert len(have) == len(want), f"{what}: {len(have)} results, expected {len(want)}"
    flat = names if isinstance(names, tuple) else (names,) * len(want)
    for g, w, d in zip(have, want, flat, strict=True):
        lib.assert_close(g, w, d, what, row.tolerance, row.exact)


def run_all(row: OpSpec, maker, wanted, layout="contiguous", among=None) -> int:
    """Run every sample of `maker` in every dtype; returns how many calls were judged."""
    count = 0
    for dtype in dtypes(row, wanted, among):
        for sample in maker(dtype):
            ready = sample.map(lambda t: t.tensor(layout))
            what = f"{row.name}{sample}" + ("" if layout == "contiguous" else f" with {layout} inputs")
            try:
                got = row.run(ready)
            except Exception as error:
                raise AssertionError(f"{what} [{dtype}] raised {type(error).__name__}: {error}") from error
            judge(row, got, sample, dtype, what)
            if not row.mutates:
                unchanged(ready, sample, what)
            count += 1
    return count


def unchanged(ready: S, sample: S, what: str) -> None:
    """No op writes to its inputs."""
    after: list = []

    def collect(value):
        if lib.is_tensor(value):
            after.append(value)
        elif isinstance(value, (list, tuple)):
            for v in value:
                collect(v)

    collect(ready.args)
    collect(tuple(ready.kwargs.values()))
    for tensor, original in zip(after, sample.tensors(), strict=True):
        kept = np.array_equal(to_numpy(tensor), original.values, equal_nan=original.dtype in INEXACT)
        assert kept, f"{what}: an input was modified"


@rows()
def test_forward(row, only_dtypes):
    count = run_all(row, row.samples, only_dtypes)
    assert count or only_dtypes, f"{row.name}: the row has no samples"


@rows(lambda row: row.edge)
def test_empty_and_0d(row, only_dtypes):
    run_all(row, row.edge, only_dtypes)


@rows(lambda row: row.broadcast)
def test_broadcasting(row, only_dtypes):
    run_all(row, row.broadcast, only_dtypes, among=SIMPLE + ("bfloat16",))


@rows(lambda row: row.special)
def test_special_values(row, only_dtypes):
    among = row.special_dtypes if row.special_dtypes is not None else NOT_COMPLEX
    run_all(row, row.special, only_dtypes, among=among)


@rows(lambda row: row.layouts)
def test_layouts(row, only_dtypes):
    for layout in ("transposed", "strided"):
        run_all(row, row.samples, only_dtypes, layout, among=("float32", "bfloat16", "int64"))
    if row.expand:
        run_all(
            row,
            lambda d: (s.map(T.repeated) for s in row.samples(d)),
            only_dtypes,
            "expanded",
            among=("float32", "int64"),
        )


@rows(lambda row: row.layouts)
def test_negative_strides(row, only_dtypes):
    run_all(row, row.samples, only_dtypes, "negative", among=("float32", "bfloat16", "int64"))


# ---- forms ---------------------------------------------------------------------------------------------------------


def agree(row: OpSpec, got, want) -> bool:
    """Forms of one op agree to the bit; only where a row has its own tolerance may the order of summation differ."""
    if lib.same_bits(got, want):
        return True
    if row.tolerance is None or not lib.is_tensor(want) or got.dtype != want.dtype or got.shape != want.shape:
        return False
    return bool(lib.close_mask(to_numpy(got), to_numpy(want), name_of(want.dtype), row.tolerance).all())


def fresh(sample: S) -> S:
    return sample.map(lambda t: t.tensor())


@rows(lambda row: row.function and row.method)
def test_method_equals_function(row, only_dtypes):
    name = row.name.rpartition(".")[2]
    for dtype in form_dtypes(row, only_dtypes):
        for sample in row.samples(dtype):
            if not isinstance(sample.args[0], T):
                continue
            ready = fresh(sample)
            got = getattr(ready.args[0], name)(*ready.args[1:], **ready.kwargs)
            assert lib.same_bits(got, row.run(ready)), f"Tensor.{name}{sample} differs from {row.name}"


@rows(has_inplace)
def test_in_place(row, only_dtypes):
    name = row.name.rpartition(".")[2] + "_"
    done = 0
    for dtype in form_dtypes(row, only_dtypes):
        for sample in row.samples(dtype):
            if not isinstance(sample.args[0], T):
                continue
            ready = fresh(sample)
            want = row.run(ready)
            if tuple(want.shape) != tuple(ready.args[0].shape):
                continue
            for layout in ("contiguous", "strided", "transposed"):
                target = sample.args[0].tensor(layout)
                if CATEGORY[name_of(want.dtype)] > CATEGORY[dtype]:
                    with pytest.raises(RuntimeError):
                        getattr(target, name)(*ready.args[1:], **ready.kwargs)
                    assert np.array_equal(to_numpy(target), sample.args[0].values), f"{name}: failed, yet wrote"
                    done += 1
                    continue
                returned = getattr(target, name)(*ready.args[1:], **ready.kwargs)
                assert returned is target, f"Tensor.{name} does not return the tensor itself"
                same = agree(row, target, want.to(dtype_of(dtype)))
                assert same, f"Tensor.{name}{sample} on a {layout} tensor differs from {row.name}"
                done += 1
    assert done, f"{row.name}: no sample fits the in-place form"


@rows(lambda row: has_inplace(row) and row.expand)
def test_in_place_refuses_overlap(row, only_dtypes):
    """Elements that share memory cannot be written one by one."""
    name = row.name.rpartition(".")[2] + "_"
    for dtype in sorted(dtypes(row, only_dtypes, ("complex64", "float32", "int64")))[:1]:
        sample = next(iter(row.samples(dtype))).map(T.repeated)
        ready = fresh(sample)
        target = sample.args[0].tensor("expanded")
        with pytest.raises(RuntimeError):
            getattr(target, name)(*ready.args[1:], **ready.kwargs)


def empty_results(want):
    if lib.is_tensor(want):
        return fb.empty(tuple(want.shape), dtype=want.dtype)
    return tuple(empty_results(w) for w in want)


@rows(has_out)
def test_out(row, only_dtypes):
    for dtype in form_dtypes(row, only_dtypes):
        for sample in row.samples(dtype):
            ready = fresh(sample)
            want = row.run(ready)
            out = empty_results(want)
            returned = row.run(ready, out=out)
            assert agree(row, out, want), f"{row.name}{sample}: out= holds something else than the result"
            if lib.is_tensor(out):
                assert returned is out, f"{row.name}{sample}: out= is not what is returned"
            else:
                assert all(a is b for a, b in zip(returned, out, strict=True)), f"{row.name}: out= is not returned"
            if lib.is_tensor(want):
                grown = row.run(ready, out=fb.empty(0, dtype=want.dtype))
                assert agree(row, grown, want), f"{row.name}{sample}: an empty out= was not resized"


@rows(lambda row: has_out(row) and not isinstance(row.result, tuple) and row.result is not None)
def test_out_strided_and_wrong(row, only_dtypes):
    """A strided `out` is filled in place; one of a lower category, or one that overlaps itself, is refused."""
    for dtype in form_dtypes(row, only_dtypes)[:1]:
        sample = next(iter(row.samples(dtype)))
        ready = fresh(sample)
        want = row.run(ready)
        if want.ndim:
            base = fb.zeros((*want.shape[:-1], 2 * want.shape[-1]), dtype=want.dtype)
            out = base[..., ::2]
            row.run(ready, out=out)
            assert agree(row, out, want), f"{row.name}{sample}: a strided out= was not filled"
            assert not to_numpy(base[..., 1::2]).any(), f"{row.name}{sample}: wrote beside a strided out="
        if CATEGORY[name_of(want.dtype)] >= 2:
            wrong = fb.zeros(tuple(want.shape), dtype=fb.int64)
            with pytest.raises(RuntimeError):
                row.run(ready, out=wrong)


@rows(lambda row: has_out(row) and row.domains)
def test_out_that_overlaps_an_input(row, only_dtypes):
    """Writing over the inputs is refused, or gives what separate memory would give; nothing in between."""
    for dtype in dtypes(row, only_dtypes, ("float32", "int64"))[:1]:
        for n in (5, 5000):
            base = [make(dtype, (n + 1,), *domain, salt=i) for i, domain in enumerate(row.domains)]
            parts = S(*(T(t.values[:-1], dtype) for t in base))
            want = row.run(fresh(parts))
            if want.dtype != dtype_of(dtype):
                continue
            for shift in (slice(1, None), slice(None, -1), slice(-2, None, -1)):
                memory = [t.tensor() for t in base]
                ready = S(*(m[:-1] for m in memory))
                before = to_numpy(memory[0])
                try:
                    row.run(ready, out=memory[0][shift])
                except RuntimeError:
                    assert lib.same_bits(memory[0], fb.from_numpy(before)), f"{row.name}: refused, yet wrote"
                else:
                    right = lib.same_bits(memory[0][shift], want)
                    assert right, f"{row.name}: wrong result in an out= that overlaps the input ({shift}, {n} elements)"


@rows(lambda row: has_out(row) and not isinstance(row.result, tuple))
def test_out_is_an_input(row, only_dtypes):
    """An `out` that is one of the inputs, even one of another shape, is refused or right; never a read past its end."""
    for dtype in form_dtypes(row, only_dtypes):
        for sample in (*row.samples(dtype), *(row.edge(dtype) if row.edge else ())):
            tensors = [i for i, a in enumerate(sample.args) if isinstance(a, T)]
            ready = fresh(sample)
            want = row.run(ready)
            for i in tensors:
                ready = fresh(sample)
                if not lib.is_tensor(want) or want.dtype != ready.args[i].dtype:
                    continue
                try:
                    got = row.run(ready, out=ready.args[i])
                except RuntimeError:
                    continue
                assert agree(row, got, want), f"{row.name}{sample}: wrong result when argument {i} is also out="


@rows(lambda row: row.view)
def test_view_shares_memory(row, only_dtypes):
    """What is written to the input afterwards shows in the result."""
    for dtype in form_dtypes(row, only_dtypes)[:1]:
        for sample in row.samples(dtype):
            blank = T(np.zeros(sample.args[0].shape), dtype)
            ready = S(blank, *sample.args[1:], **sample.kwargs).map(lambda t: t.tensor())
            parts = lib.flat_results(row.run(ready))
            ready.args[0].fill_(1 + 1j if dtype in COMPLEX else 1)
            seen = all(to_numpy(part).all() for part in parts)
            assert seen, f"{row.name}{sample}: the result does not share the input's memory"


# ---- dtypes --------------------------------------------------------------------------------------------------------

PROMOTED = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
HALVES = ("float16", "bfloat16")
NUMBERS = {"bool": True, "int64": 2, "float64": 1.5, "complex128": 1 + 2j}


@rows(lambda row: row.promotes)
def test_promotion(row):
    """Result dtypes of mixed operands: tensors with dimensions, 0-d tensors and Python numbers."""
    known = [d for d in PROMOTED if d in row.dtypes]
    for a in known:
        for b in known:
            if {a, b} & set(HALVES) and {a, b} & set(COMPLEX):
                continue  # there is no half-precision complex dtype
            for rank in ("dim", "zero"):
                check_promotion(row, a, T(np.ones(2 if rank == "dim" else ()), b).tensor(), (rank, b))
        for b, number in NUMBERS.items():
            if b == "bool" and row.name in ("sub", "subtract"):
                continue
            if b == "complex128" and (a in HALVES or not set(COMPLEX) & set(row.dtypes)):
                continue
            if row.name in SCALAR_OPERAND:
                check_promotion(row, a, number, ("number", b))


SCALAR_OPERAND = frozenset(
    "add sub mul div true_divide floor_divide remainder fmod pow eq ne lt le gt ge bitwise_and bitwise_or "
    "bitwise_xor subtract multiply divide float_power".split()
)


def check_promotion(row: OpSpec, a: str, other, operand: tuple[str, str]) -> None:
    common = lib.result_type(("dim", a), operand)
    if common not in row.dtypes:
        return
    if operand[0] == "number" and row.name in ("bitwise_and", "bitwise_or", "bitwise_xor") and CATEGORY[common] > 1:
        return
    try:
        got = row.run(S(T(np.ones(2), a).tensor(), other))
    except Exception as error:
        raise AssertionError(f"{row.name}({a}, {operand}) raised {type(error).__name__}: {error}") from error
    want = lib.RESULT_RULES[row.result](common)
    assert name_of(got.dtype) == want, f"{row.name}({a}, {operand}): result dtype {name_of(got.dtype)}, expected {want}"


# ---- NumPy's keywords ----------------------------------------------------------------------------------------------


@rows(lambda row: row.keywords and any("dim" in s.kwargs for d in row.dtypes[:1] for s in row.samples(d)))
def test_numpy_keywords(row, only_dtypes):
    """`axis` and `keepdims` say the same as `dim` and `keepdim`."""
    spelled = {"dim": "axis", "keepdim": "keepdims"}
    for dtype in form_dtypes(row, only_dtypes)[:1]:
        for sample in row.samples(dtype):
            ready = fresh(sample)
            renamed = S(*ready.args, **{spelled.get(k, k): v for k, v in ready.kwargs.items()})
            assert lib.same_bits(row.run(renamed), row.run(ready)), f"{row.name}{sample}: axis= differs from dim="


# ---- size, threads and errors ------------------------------------------------------------------------------------


LONG_SUMS = {"float32": (1e-4, 1e-3), "bfloat16": (2e-2, 2e-2), "float16": (4e-3, 4e-3)}


@rows(lambda row: row.large)
def test_large(row, only_dtypes):
    """Sizes at which loops are vectorised, tiled and split over threads; sums of many terms lose some digits."""
    loose = row if row.domains else replace(row, tolerance=LONG_SUMS)
    run_all(loose, row.large, only_dtypes, among=("float32", "int64"))
    if not row.domains:  # pointwise ops see other layouts in test_tiles
        for layout in ("transposed", "strided", "negative"):
            run_all(loose, row.large, only_dtypes, layout, among=("float32",))


@rows(lambda row: row.domains)
def test_tiles(row, only_dtypes):
    """Rows longer than a tile and no multiple of a vector, packed from every layout, in every dtype."""
    for layout in ("contiguous", "transposed", "strided", "negative"):
        run_all(row, elementwise(*row.domains, shapes=((5, 2057),)), only_dtypes, layout, among=TILED)


TILED = ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


@rows(lambda row: row.large)
def test_threads_do_not_change_bits(row, only_dtypes):
    for dtype in dtypes(row, only_dtypes, ("float32", "int64"))[:1] or dtypes(row, only_dtypes)[:1]:
        for sample in row.large(dtype):
            ready = fresh(sample)
            fb.set_num_threads(1)
            one = row.run(ready)
            fb.set_num_threads(2)
            two = row.run(ready)
            assert lib.same_bits(one, two), f"{row.name}: 1 and 2 threads differ on shape {sample.tensors()[0].shape}"


@rows(lambda row: row.errors)
def test_errors(row):
    for case in row.errors:
        ready = fresh(case.sample())
        if case.method:
            lib.assert_error(
                lambda r=ready, c=case: getattr(r.args[0], c.method)(*r.args[1:], **r.kwargs),
                case.error, row, case.label, case.words,
            )
        else:
            lib.assert_error(lambda r=ready: row.run(r), case.error, row, case.label, case.words)


def test_half_precision_rows_exist():
    """The list of dtypes cannot silently shrink: most rows cover half precision."""
    covered = sum(1 for row in ROWS if set(FLOATS) <= set(row.dtypes))
    assert covered > len(ROWS) // 2
