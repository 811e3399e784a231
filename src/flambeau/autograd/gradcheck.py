"""Comparison of gradients with finite differences."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
__dir__ = __all__.copy


class GradcheckError(RuntimeError):
    """A gradient that does not agree with the function, or a check that cannot be made.

    Example:
        >>> from flambeau.autograd.gradcheck import GradcheckError
        >>> issubclass(GradcheckError, RuntimeError)
        True
    """


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False, check_forward_ad: bool = False, check_backward_ad: bool = True,
    fast_mode: bool = False, masked: bool | None = None,
) -> bool:  # fmt: skip
    """Whether the gradients of func agree with central finite differences.

    Each element of each input that requires gradients is moved by eps both ways. For complex inputs both parts are
    moved; for complex outputs the real and the imaginary part are compared separately. Use float64 or complex128.

    Args:
        func: takes the inputs, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple; those that require gradients are checked.
        eps: the step.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: whether a difference raises, with both Jacobians in the text; otherwise False is returned.
        nondet_tol: how much two backward passes may differ.
        check_undefined_grad: whether backward must cope with gradients that are not there.
        check_grad_dtypes: whether gradients must have the dtype of their inputs.
        check_batched_grad: whether autograd.grad(is_grads_batched=True) must agree with one gradient at a time.
        check_batched_forward_grad: the same as check_forward_ad, with several directions.
        check_forward_ad: whether tangents of forward_ad must agree with differences along random directions.
        check_backward_ad: whether gradients are checked; False needs check_forward_ad.
        fast_mode: compares one random product with the Jacobian instead of every entry.
        masked: whether only the elements that sparse inputs keep are checked, rather than all of them.

    Example:
        >>> x = fb.tensor([0.5, 1.0], dtype=fb.float64, requires_grad=True)
        >>> fb.autograd.gradcheck(fb.sin, (x,))
        True
    """
    if not (check_backward_ad or check_forward_ad):
        raise AssertionError(
            "gradcheck: Expected at least one of check_forward_ad or check_backward_ad to be True; with neither it checks nothing"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise ArgumentError("gradcheck: check_batched_forward_grad=True needs check_forward_ad=True")
    try:
        func, given = _of_kept(func, (inputs,) if isinstance(inputs, Tensor) else tuple(inputs), masked)
        _check_inputs(given)
        if not _outputs(func, given):
            return _check_constant(func, given, eps)
        if check_backward_ad:
            check = _check_fast if fast_mode else _check_slow
            check(func, given, eps, atol, rtol, nondet_tol)
            outputs = _outputs(func, given)
            _check_zero_seed(outputs, given, check_grad_dtypes)
            if check_batched_grad:
                _check_batched(outputs, given)
            if check_undefined_grad:
                _check_undefined(func, given)
        if check_forward_ad:
            _check_forward(func, given, eps, atol, rtol, 3 if check_batched_forward_grad else 2)
        return True
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _of_kept(func: Callable[..., Any], given: tuple[Any, ...], masked: bool | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function in terms of the elements of its sparse arguments, and these elements: the stored ones, or all."""
    places: Any = [x if isinstance(x, Tensor) and x.layout is not fb.strided else None for x in given]
    if all(x is None for x in places):
        return func, given
    full: Any = [None if x is None or masked else _full(x) for x in places]

    def of_kept(*args: Any) -> Any:
        made = []
        for arg, x, every in zip(args, places, full, strict=True):
            if every is None:
                made.append(arg if x is None else x._with(arg))
            else:
                structure, order = every
                made.append(structure._with(arg.reshape(-1)[order]))
        return func(*made)

    def elements(x: Any) -> Tensor:
        kept = x._values() if masked else x.to_dense()
        return kept.detach().requires_grad_(x.requires_grad)

    return of_kept, tuple(v if x is None else elements(x) for x, v in zip(places, given, strict=True))


def _full(x: Any) -> tuple[Any, Tensor]:
    """A tensor of the same layout that stores every element, and the position of each of its values."""
    numbers: Any = fb.arange(1, x.numel() + 1, dtype=fb.float64).reshape(x.shape)
    if x.layout is fb.sparse_coo:
        numbers = numbers.to_sparse(x.sparse_dim())
    else:
        blocks = tuple(x._values().shape[1:])
        numbers = numbers.to_sparse(layout=x.layout, blocksize=blocks or None)
    return numbers, numbers._values().long() - 1


# ---- inputs and outputs --------------------------------------------------------------------------------------------------


def _check_inputs(inputs: Sequence[Any]) -> None:
    checked = [(i, x) for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ArgumentError("gradcheck expects at least one input tensor to require gradient, but none has requires_grad=True")
    for i, x in checked:
        if x.dtype not in (fb.float64, fb.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex: gradcheck got {x.dtype}, and "
                "finite differences need float64 or complex128",
                stacklevel=3,
            )
        if x.numel() and any(step == 0 and size > 1 for step, size in zip(x.stride(), x.shape, strict=True)):
            raise ArgumentError(
                f"The {i}th input has a dimension with stride 0: gradcheck cannot change its elements one by one; pass a clone()"
            )
        if not x.is_leaf:
            x.retain_grad()


def _differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _checked(inputs: Sequence[Any]) -> list[Tensor]:
    return [x for x in inputs if _differentiable(x)]


def _number(inputs: Sequence[Any], x: Tensor) -> int:
    return next(i for i, other in enumerate(inputs) if other is x)


def _called(func: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    result = func(*inputs)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    """Differentiable outputs."""
    return [out for out in _called(func, inputs) if _differentiable(out)]


def _floating(outputs: Sequence[Any]) -> list[Tensor]:
    """Outputs of a dtype that could have gradients, as copies: an output may be an input that will be changed."""
    return [out.detach().clone() for out in outputs if isinstance(out, Tensor) and (out.is_floating_point() or out.is_complex())]


def _tracked(outputs: Sequence[Any]) -> list[Tensor]:
    """The same for those that require gradients."""
    return _floating([out for out in outputs if _differentiable(out)])


def _moved(func: Callable[..., Any], inputs: Sequence[Any], which: Callable[[tuple[Any, ...]], list[Tensor]]):
    """A function of (input, change): the outputs with the input's memory changed for the duration of the call."""

    def run(x: Tensor, change: Callable[[Tensor], None]) -> list[Tensor]:
        memory = x.data
        kept = memory.clone()
        with fb.no_grad():
            change(memory)
        try:
            return which(_called(func, inputs))
        finally:
            with fb.no_grad():
                memory.copy_(kept)

    return run


# ---- every entry ---------------------------------------------------------------------------------------------------------


def _numerical(func, inputs, x: Tensor, eps: float, which) -> list[list[Tensor]]:
    """For each output the derivatives of its real (and imaginary) part by x: [output][part] of shape (x, out)."""
    run = _moved(func, inputs, which)
    columns: list[list[list[Tensor]]] = []
    sample = which(_called(func, inputs))
    for place in itertools.product(*(range(n) for n in x.shape)):
        by_step = []
        for step in (eps, 1j * eps) if x.is_complex() else (eps,):
            plus = run(x, _adder(place, step))
            minus = run(x, _adder(place, -step))
            _check_alike(sample, plus, minus)
            by_step.append([((a - b) / (2 * eps)).reshape(-1) for a, b in zip(plus, minus, strict=True)])
        columns.append(by_step)
    return [[_assembled(columns, k, part, x, out) for part in _parts(out)] for k, out in enumerate(sample)]


def _check_alike(sample: list[Tensor], *moved: list[Tensor]) -> None:
    """Differences need outputs with the same shape and dtype for all inputs."""
    for outputs in moved:
        for k, (there, here) in enumerate(zip(outputs, sample, strict=True)):
            for what in ("shape", "dtype"):
                before, after = getattr(here, what), getattr(there, what)
                if before != after:
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed on the order of eps, but "
                        f"gradcheck got output {k} of {what} {_shown(before)} at the inputs and {_shown(after)} next to them"
                    )


def _shown(value: Any) -> str:
    return str(tuple(value) if isinstance(value, fb.Size) else value)


def _adder(place: tuple[int, ...], step: complex) -> Callable[[Tensor], None]:
    def add(memory: Tensor) -> None:
        memory[place] = memory[place] + step

    return add


def _parts(out: Tensor) -> tuple[str, ...]:
    return ("imag", "real") if out.is_complex() else ("real",)


def _part(x: Tensor, part: str) -> Tensor:
    return getattr(x, part) if x.is_complex() else x


def _assembled(columns, k: int, part: str, x: Tensor, out: Tensor) -> Tensor:
    """Rows of derivatives; for a complex input d/dre + i d/dim, the form gradients have."""
    rows = []
    for by_step in columns:
        real = _part(by_step[0][k], part)
        rows.append(fb.complex(real, _part(by_step[1][k], part)) if x.is_complex() else real)
    return fb.stack(rows) if rows else fb.zeros((0, out.numel()), dtype=x.dtype, device=out.device)


def _analytical(out: Tensor, wanted: list[Tensor], part: str) -> list[Tensor]:
    """The same matrix from backward, for every input."""
    rows: list[list[Tensor]] = [[] for _ in wanted]
    for i in range(out.numel()):
        seed = fb.zeros(out.numel(), dtype=out.dtype, device=out.device)
        seed[i] = 1j if part == "imag" else 1
        found = fb.autograd.grad(out, wanted, seed.reshape(out.shape), retain_graph=True, allow_unused=True)
        for row, g, x in zip(rows, found, wanted, strict=True):
            row.append((fb.zeros_like(x) if g is None else g).detach().reshape(-1))
    return [
        fb.stack(row, 1) if row else fb.zeros((x.numel(), 0), dtype=x.dtype, device=x.device)
        for row, x in zip(rows, wanted, strict=True)
    ]


def _check_slow(func, inputs, eps, atol, rtol, nondet_tol) -> None:
    wanted = _checked(inputs)
    numerical = [_numerical(func, inputs, x, eps, _tracked) for x in wanted]
    for k, out in enumerate(_outputs(func, inputs)):
        for p, part in enumerate(_parts(out)):
            analytical = _analytical(out, wanted, part)
            again = _analytical(out, wanted, part)
            for x, first, second, tables in zip(wanted, analytical, again, numerical, strict=True):
                where = f"output {k} with respect to input {_number(inputs, x)}"
                if not fb.allclose(first, second, rtol=0.0, atol=nondet_tol, equal_nan=True):
                    raise GradcheckError(
                        f"Backward is not reentrant: in gradcheck two backward passes differ for {where}: that of some op is not "
                        "deterministic; "
                        f"largest difference {_largest(first, second)[0]:g}, nondet_tol is {nondet_tol:g}"
                    )
                expected = tables[k][p].to(first.device, first.dtype)
                if not fb.allclose(first, expected, rtol=rtol, atol=atol):
                    raise GradcheckError(_considering(part, out) + _mismatch(where, expected, first))


def _considering(part: str, out: Tensor) -> str:
    whole = "imaginary" if part == "imag" else "real"
    return f"While considering the {whole} part of complex outputs only, " if out.is_complex() else ""


def _largest(a: Tensor, b: Tensor) -> tuple[float, tuple[int, int]]:
    difference = (a - b).abs()
    flat = int(difference.nan_to_num(nan=float("inf")).argmax())
    return float(difference.reshape(-1)[flat]), (flat // a.shape[1], flat % a.shape[1])


def _mismatch(where: str, numerical: Tensor, analytical: Tensor) -> str:
    size, (row, column) = _largest(analytical, numerical)
    return (
        f"gradcheck: Jacobian mismatch for {where}; rows are elements of the input, columns of the output.\n"
        f"largest difference {size:g} at [{row}, {column}]\nnumerical:\n{numerical}\nanalytical:\n{analytical}\n"
    )


# ---- one random product --------------------------------------------------------------------------------------------------


def _check_fast(func, inputs, eps, atol, rtol, nondet_tol) -> None:
    generator = fb.Generator()
    generator.manual_seed(0)
    wanted = _checked(inputs)
    directions = [_unit(x, generator) for x in wanted]
    run = _moved(func, inputs, _tracked)
    moved = [(run(x, _mover(u, eps)), run(x, _mover(u, -eps))) for x, u in zip(wanted, directions, strict=True)]
    outputs = _outputs(func, inputs)
    for pair in moved:
        _check_alike(outputs, *pair)
    seeds = [_unit(out, generator) for out in outputs]
    for x, direction, (plus, minus) in zip(wanted, directions, moved, strict=True):
        for k, (out, seed, a, b) in enumerate(zip(outputs, seeds, plus, minus, strict=True)):
            found = [fb.autograd.grad(out, x, seed, retain_graph=True, allow_unused=True)[0] for _ in range(2)]
            first, second = (0.0 if g is None else _inner(g.detach(), direction) for g in found)
            where = f"output {k} with respect to input {_number(inputs, x)}"
            if abs(first - second) > nondet_tol:
                raise GradcheckError(
                    f"Backward is not reentrant: in gradcheck two backward passes differ for {where}: {first:g} and {second:g}"
                )
            numerical = _inner((a - b) / (2 * eps), seed)
            # Errors of the entries add up in the product: the tolerance grows with the weights.
            slack = atol * float(direction.abs().sum()) * float(seed.abs().sum()) + rtol * abs(numerical)
            if not abs(first - numerical) <= slack:
                _check_slow(func, inputs, eps, atol, rtol, nondet_tol)
                raise GradcheckError(
                    f"gradcheck: a random product with the Jacobian differs for {where}: numerical {numerical:g}, analytical {first:g}; "
                    "entry by entry the Jacobians agree within the tolerances"
                )


def _unit(x: Tensor, generator: Any) -> Tensor:
    """A random vector of length one in the shape and dtype of x."""
    real = fb.rand(tuple(x.shape), generator=generator, dtype=fb.float64) + 0.1
    if x.is_complex():
        real = fb.complex(real, fb.rand(tuple(x.shape), generator=generator, dtype=fb.float64) + 0.1)
    length = float((real.abs() ** 2).sum()) ** 0.5
    return (real / length if length else real).to(x.device, x.dtype)


def _mover(direction: Tensor, step: float) -> Callable[[Tensor], None]:
    def move(memory: Tensor) -> None:
        memory += direction * step

    return move


def _inner(a: Tensor, b: Tensor) -> float:
    """The real inner product, of complex numbers as pairs."""
    product = a * b.conj() if a.is_complex() or b.is_complex() else a * b
    total = product.sum()
    return float(total.real if total.is_complex() else total)


# ---- other checks --------------------------------------------------------------------------------------------------------


def _check_constant(func, inputs, eps) -> bool:
    """If no output requires gradients, none may depend on the inputs."""
    for x in _checked(inputs):
        for k, parts in enumerate(_numerical(func, inputs, x, eps, _floating)):
            if any(bool((table != 0).any()) for table in parts):
                raise GradcheckError(
                    f"Numerical gradient for function expected to be zero: in gradcheck output {k} requires no gradient, but changes with "
                    f"input {_number(inputs, x)}: the function lost track of it (detach, no_grad, item), or its gradient is missing"
                )
    return True


def _check_zero_seed(outputs, inputs, check_dtypes: bool) -> None:
    """Gradients are linear: zeros in, zeros out; and they have the shape and dtype of their inputs."""
    wanted = _checked(inputs)
    found = fb.autograd.grad(outputs, wanted, [fb.zeros_like(out) for out in outputs], retain_graph=True, allow_unused=True)
    for x, g in zip(wanted, found, strict=True):
        if g is None:
            continue
        name = f"the gradient of input {_number(inputs, x)}"
        if bool((g != 0).any()):
            raise GradcheckError(
                f"backward not multiplied by grad_output: in gradcheck {name} is not zero for zero gradients of the outputs"
            )
        if g.shape != x.shape:
            raise GradcheckError(f"gradcheck: {name} has shape {tuple(g.shape)}, expected {tuple(x.shape)}")
        if check_dtypes and g.dtype != x.dtype:
            raise GradcheckError(f"gradcheck: {name} has dtype {g.dtype}, expected {x.dtype}")
        if g.device != x.device:
            raise GradcheckError(f"gradcheck: {name} is on {g.device}, expected {x.device}")


def _check_batched(outputs, inputs) -> None:
    wanted = _checked(inputs)
    for k, out in enumerate(outputs):
        seeds = [fb.randn(tuple(out.shape), dtype=fb.float64).to(out.device, out.dtype) for _ in range(2)]
        single = [fb.autograd.grad(out, wanted, seed, retain_graph=True, allow_unused=True) for seed in seeds]
        batched = fb.autograd.grad(out, wanted, fb.stack(seeds), retain_graph=True, allow_unused=True, is_grads_batched=True)
        for x, g, *rows in zip(wanted, batched, *single, strict=True):
            if g is None:
                continue
            expected = fb.stack([fb.zeros_like(x) if row is None else row for row in rows])
            if not fb.allclose(g, expected):
                raise GradcheckError(
                    "gradcheck or gradgradcheck failed while testing batched gradient computation: "
                    f"batched gradients of output {k} with respect to input {_number(inputs, x)} differ from single ones:\n"
                    f"batched:\n{g}\nsingle:\n{expected}"
                )


_forgetful: Any = None


def _forget(x: Tensor) -> Tensor:
    """x, without a gradient."""
    global _forgetful
    if _forgetful is None:

        class Forget(fb.autograd.Function):
            """Forward is the identity, backward returns None."""

            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return None

        _forgetful = Forget
    return _forgetful.apply(x)


def _check_undefined(func, inputs) -> None:
    """Backward with unused outputs must give only zeros."""
    wanted = _checked(inputs)
    count = len(_outputs(func, inputs))
    for missing in [set(range(count))] + ([{k} for k in range(count)] if count > 1 else []):
        outputs = _outputs(func, inputs)
        ends = [_forget(out) if k in missing else out for k, out in enumerate(outputs)]
        try:
            found = fb.autograd.grad(ends, wanted, [fb.zeros_like(out) for out in ends], allow_unused=True)
        except Exception as error:
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. "
                f"gradcheck: backward fails when the gradient of output {_said(missing)} is not there ({error}); a Function must "
                "accept None, or materialize its gradients (ctx.set_materialize_grads)"
            ) from error
        for x, g in zip(wanted, found, strict=True):
            if g is not None and bool((g != 0).any()):
                raise GradcheckError(
                    f"gradcheck: without a gradient of output {_said(missing)}, that of input {_number(inputs, x)} must be None or zero"
                )


def _said(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


# ---- second order --------------------------------------------------------------------------------------------------------


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True, nondet_tol: float = 0.0,
    check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True, fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """Whether the gradients of the gradients of func agree with finite differences of the gradients.

    Args:
        func: takes the inputs, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple; those that require gradients are checked.
        grad_outputs: the vectors that multiply the Jacobian; random by default. They are checked as inputs, too.
        eps: the step.
        atol: absolute tolerance.
        rtol: relative tolerance.
        gen_non_contig_grad_outputs: whether the random grad_outputs are not contiguous.
        raise_exception: whether a difference raises; otherwise False is returned.
        nondet_tol: how much two backward passes may differ.
        check_undefined_grad: whether backward must cope with gradients that are not there.
        check_grad_dtypes: whether gradients must have the dtype of their inputs.
        check_batched_grad: whether batched gradients must agree with single ones.
        check_fwd_over_rev: whether tangents of the gradient are checked.
        check_rev_over_rev: whether gradients of the gradient are checked; False needs check_fwd_over_rev.
        fast_mode: compares one random product with the Jacobian instead of every entry.
        masked: whether only the elements that sparse inputs keep are checked, rather than all of them.

    Example:
        >>> x = fb.tensor([0.5, 1.0], dtype=fb.float64, requires_grad=True)
        >>> fb.autograd.gradgradcheck(fb.sin, (x,))
        True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "gradgradcheck: Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True; with neither it checks nothing"
        )
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func, given)
    if grad_outputs is None:
        seeds = [_random_seed(out, gen_non_contig_grad_outputs) for out in outputs]
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
        if len(seeds) != len(outputs):
            raise ArgumentError(f"gradgradcheck: got {len(seeds)} grad_outputs for {len(outputs)} outputs that require gradients")
    count = len(seeds)
    if not count:
        raise ArgumentError("gradgradcheck: no output of the function requires gradients")

    def gradient(*args):
        points = args[:-count]
        found = fb.autograd.grad(_outputs(func, points), _checked(points), args[-count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient, (*given, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _check_forward(func: Callable[..., Any], inputs: Sequence[Any], eps: float, atol: float, rtol: float, directions: int) -> None:
    """Tangents along random directions, for one input at a time, against central differences."""
    forward_ad = fb.autograd.forward_ad
    points = [x.detach().clone() if _differentiable(x) else x for x in inputs]
    moving = [i for i, x in enumerate(inputs) if _differentiable(x)]
    for i in moving * directions:
        direction = _random_seed(points[i], False).detach()
        with forward_ad.dual_level():
            # The others are dual too, with zero tangents: a function that differentiates by them needs them tracked.
            tangents = {j: direction.clone() if j == i else fb.zeros_like(points[j]) for j in moving}
            duals = [forward_ad.make_dual(x, tangents[j]) if j in tangents else x for j, x in enumerate(points)]
            outputs = [out for out in _called(func, duals) if isinstance(out, Tensor)]
            found = [forward_ad.unpack_dual(out).tangent for out in outputs]
        ends = []
        for sign in (1, -1):
            there = [x.detach().requires_grad_() if j in tangents else x for j, x in enumerate(points)]
            there[i] = (points[i] + sign * eps * direction).requires_grad_()
            ends.append([out for out in _called(func, there) if isinstance(out, Tensor)])
        _check_alike(outputs, *ends)
        for number, (tangent, after, before) in enumerate(zip(found, *ends, strict=True)):
            if not (after.is_floating_point() or after.is_complex()):
                continue
            measured = (after.detach() - before.detach()) / (2 * eps)
            analytical = fb.zeros_like(measured) if tangent is None else tangent.detach()
            if not fb.allclose(analytical, measured.to(analytical.dtype), rtol=rtol, atol=atol, equal_nan=True):
                raise GradcheckError(
                    f"gradcheck: Jacobian computed with forward mode mismatch for output {number} with respect to input {i}, along a "
                    f"random direction,\nmeasured:\n{measured}\nfrom tangents:\n{analytical}"
                )


def _random_seed(out: Tensor, strided: bool) -> Tensor:
    shape = tuple(out.shape)
    wide = fb.rand((*shape, 2) if strided else shape, dtype=fb.float64)
    if out.is_complex():
        wide = fb.complex(wide, fb.rand(tuple(wide.shape), dtype=fb.float64))
    wide = wide.to(out.device, out.dtype)
    return (wide[..., 0] if strided else wide).detach().requires_grad_()
