"""Products with Jacobians and Hessians of functions of tensors, and these matrices themselves.

The functions of `fb.func` do the same as transformations; these take the point and return the result directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, StateError

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
__dir__ = __all__.copy


# ---- checks and helpers --------------------------------------------------------------------------------------------------


def _tuple(value: Any, op: str, what: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether value was a tuple, and the tensors in it."""
    several = isinstance(value, (tuple, list))
    tensors = tuple(value) if several else (value,)
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            of = " of the user-provided function" if what == "outputs" else ""
            got = type(x).__name__ + (f" as entry {i} of the {type(value).__name__}" if several else "")
            raise TypeError(f"The {what}{of} given to {op} must be either a Tensor or a tuple of Tensors, got {got}")
    return several, tensors


def _same_form(values: Sequence[Any], several: bool) -> Any:
    return tuple(values) if several else values[0]


def _prepared(inputs: Sequence[Tensor], create_graph: bool) -> tuple[Tensor, ...]:
    """Inputs to differentiate: views connected to the originals with create_graph, new leaves otherwise."""
    fresh = []
    for x in inputs:
        if create_graph and x.requires_grad:
            fresh.append(x.view_as(x))
        else:
            fresh.append(x.detach().requires_grad_())
    return tuple(fresh)


def _released(values: Any, create_graph: bool) -> Any:
    """Results, without history unless requested."""
    if create_graph:
        return values
    if isinstance(values, Tensor):
        return values.detach()
    return tuple(_released(v, create_graph) for v in values)


def _vector(op: str, v: Any, like: Sequence[Tensor], several: bool, what: str) -> tuple[Tensor, ...]:
    """The given vector, checked against its counterpart; ones by default for a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            subject = "the user-provided function returns" if what == "output" else "the input to the user-provided function is"
            raise ArgumentError(
                f"The vector v can only be None if {subject} a single Tensor with a single element; {op} got {len(like)} {what}(s), "
                f"the first of shape {tuple(like[0].shape)}; give v"
            )
        return (fb.ones_like(like[0]),)
    vectors = _tuple(v, op, "v")[1]
    if len(vectors) != len(like):
        count = "a single Tensor" if len(like) == 1 else f"{len(like)} Tensors"
        raise ArgumentError(f"The given v should contain {count}. {op} takes one per {what}, got {len(vectors)}")
    for i, (vector, x) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != x.shape:
            entry = f"Entry {i} in " if len(like) > 1 else ""
            raise ArgumentError(
                f"{entry}v has invalid size: should be {x.shape} but got {vector.shape}; {op} takes v in the shape of the {what}"
            )
    return vectors


def _gradients(outputs, inputs, vectors, create_graph, retain=True) -> tuple[Tensor | None, ...]:
    """Gradients of the outputs that require any; None for an input without influence."""
    kept = [(out, v) for out, v in zip(outputs, vectors, strict=True) if out is not None and out.requires_grad]
    if not kept:
        return (None,) * len(inputs)
    return fb.autograd.grad(
        [out for out, _ in kept], inputs, [v for _, v in kept], retain_graph=retain, create_graph=create_graph, allow_unused=True
    )


def _strict(op: str, create_graph: bool = False) -> str:
    """The end of strict mode's messages."""
    return f". {op}: strict=True{' and create_graph=True make' if create_graph else ' makes'} that an error"


_UNUSED = "The output of the user-provided function is independent of input {i}"


def _check_dependent(op: str, tensors: Sequence[Tensor | None], strict: bool, constant: str, unused: str = _UNUSED) -> None:
    """With strict, raises an error if an input has no gradient (unused), or one without history (constant)."""
    if not strict:
        return
    for i, x in enumerate(tensors):
        if x is None or not x.requires_grad:
            raise StateError((unused if x is None else constant).format(i=i) + _strict(op))


def _check_outputs(op: str, outputs: Sequence[Tensor], strict: bool) -> None:
    _check_dependent(op, outputs, strict, "Output {i} of the user-provided function does not require gradients. It is constant")


_SLOPE = "The jacobian of the user-provided function with respect to input {i} is independent of the input"


def _filled(op: str, found, like, strict: bool, create_graph: bool, what: str) -> tuple[Tensor, ...]:
    """Replaces missing gradients by zeros; raises errors with strict."""
    result = []
    for i, (g, x) in enumerate(zip(found, like, strict=True)):
        if g is None and strict:
            kind = "jacobian" if op in ("vhp", "hvp") else "output"
            words = f"The {kind}" if what == "input" else f"Output {i}"
            of = f"input {i}" if what == "input" else "the inputs"
            raise StateError(f"{words} of the user-provided function is independent of {of}" + _strict(op))
        if g is not None and strict and create_graph and not g.requires_grad:
            kind = "hessian" if op in ("vhp", "hvp") else "jacobian"
            raise StateError(f"The {kind} of the user-provided function is independent of input {i}" + _strict(op, create_graph))
        result.append(fb.zeros_like(x) if g is None else g)
    return tuple(result)


def _scalar(op: str, outputs: tuple[Tensor, ...], several: bool) -> None:
    if several:
        raise ArgumentError(f"The function given to {op} should return a single Tensor, got {len(outputs)} in a tuple")
    if outputs[0].numel() != 1:
        raise ArgumentError(
            f"The Tensor returned by the function given to {op} should contain a single element, got shape {tuple(outputs[0].shape)}"
        )


def _transforms() -> Any:
    """fb.func, imported on demand."""
    import flambeau.func

    return flambeau.func


# ---- products ------------------------------------------------------------------------------------------------------------


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The value of func and a vector times its Jacobian.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: the vector, shaped like the output; optional for an output of a single element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on an input is an error; otherwise zeros are returned.

    Example:
        >>> fb.autograd.functional.vjp(lambda x: x**2, fb.tensor([1., 2.]), fb.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    several_in, given = _tuple(inputs, "vjp", "inputs")
    with fb.enable_grad():
        points = _prepared(given, create_graph)
        several_out, outputs = _tuple(func(*points), "vjp", "outputs")
        _check_outputs("vjp", outputs, strict)
        vectors = _vector("vjp", v, outputs, several_out, "output")
        found = _gradients(outputs, points, vectors, create_graph)
        products = _filled("vjp", found, points, strict, create_graph, "input")
    return _same_form(_released(outputs, create_graph), several_out), _same_form(_released(products, create_graph), several_in)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The value of func and its Jacobian times a vector, by reverse mode twice.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: the vector, shaped like the inputs; optional for an input of a single element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that does not depend on the inputs is an error; otherwise zeros are returned.

    Example:
        >>> fb.autograd.functional.jvp(lambda x: x**2, fb.tensor([1., 2.]), fb.tensor([1., 0.]))
        (tensor([1., 4.]), tensor([2., 0.]))
    """
    several_in, given = _tuple(inputs, "jvp", "inputs")
    with fb.enable_grad():
        vectors = _vector("jvp", v, given, several_in, "input")
        points = _prepared(given, create_graph)
        several_out, outputs = _tuple(func(*points), "jvp", "outputs")
        _check_outputs("jvp", outputs, strict)
        # The product with the transpose is linear in its vector; its derivative with respect to the vector is the
        # wanted product.
        dummies = tuple(fb.zeros_like(out).requires_grad_() for out in outputs)
        pulled = _gradients(outputs, points, dummies, create_graph=True)
        _check_dependent("jvp", pulled, strict, "The gradient with respect to input {i} is independent of the inputs")
        found = _gradients(pulled, dummies, vectors, create_graph)
        products = _filled("jvp", found, outputs, strict, create_graph, "output")
    return _same_form(_released(outputs, create_graph), several_out), _same_form(_released(products, create_graph), several_out)


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The value of func, a scalar, and a vector times its Hessian.

    Args:
        func: takes tensors, returns a tensor with a single element.
        inputs: a tensor or a tuple of tensors.
        v: the vector, shaped like the inputs; optional for an input of a single element.
        create_graph: whether the results can be differentiated.
        strict: whether an input that does not affect the output is an error; otherwise zeros are returned.

    Example:
        >>> fb.autograd.functional.vhp(lambda x: (x**3).sum(), fb.tensor([1., 2.]), fb.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    several, given = _tuple(inputs, "vhp", "inputs")
    with fb.enable_grad():
        vectors = _vector("vhp", v, given, several, "input")
        points = _prepared(given, create_graph)
        several_out, outputs = _tuple(func(*points), "vhp", "outputs")
        _scalar("vhp", outputs, several_out)
        _check_outputs("vhp", outputs, strict)
        first = _gradients(outputs, points, [fb.ones_like(outputs[0])], create_graph=True)
        _check_dependent("vhp", first, strict, _SLOPE)
        found = _gradients(first, points, vectors, create_graph)
        products = _filled("vhp", found, points, strict, create_graph, "input")
    return _released(outputs[0], create_graph), _same_form(_released(products, create_graph), several)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The value of func, a scalar, and its Hessian times a vector; vhp gives the same for less where both exist.

    Args:
        func: takes tensors, returns a tensor with a single element.
        inputs: a tensor or a tuple of tensors.
        v: the vector, shaped like the inputs; optional for an input of a single element.
        create_graph: whether the results can be differentiated.
        strict: whether an input that does not affect the output is an error; otherwise zeros are returned.

    Example:
        >>> fb.autograd.functional.hvp(lambda x: (x**3).sum(), fb.tensor([1., 2.]), fb.tensor([1., 0.]))
        (tensor(9.), tensor([6., 0.]))
    """
    several, given = _tuple(inputs, "hvp", "inputs")
    with fb.enable_grad():
        vectors = _vector("hvp", v, given, several, "input")
        points = _prepared(given, create_graph)
        several_out, outputs = _tuple(func(*points), "hvp", "outputs")
        _scalar("hvp", outputs, several_out)
        _check_outputs("hvp", outputs, strict)
        first = _gradients(outputs, points, [fb.ones_like(outputs[0])], create_graph=True)
        _check_dependent("hvp", first, strict, _SLOPE)
        slopes = [fb.zeros_like(x) if g is None else g for g, x in zip(first, points, strict=True)]
        dummies = tuple(fb.zeros_like(g).requires_grad_() for g in slopes)
        pulled = _gradients(slopes, points, dummies, create_graph=True)
        found = _gradients(pulled, dummies, vectors, create_graph)
        products = _filled("hvp", found, points, strict, create_graph, "input")
    return _released(outputs[0], create_graph), _same_form(_released(products, create_graph), several)


# ---- matrices ------------------------------------------------------------------------------------------------------------


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Jacobian of func: for each output and input a tensor of shape output.shape + input.shape.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        create_graph: whether the Jacobian can be differentiated.
        strict: whether an output that does not depend on an input is an error; otherwise zeros are returned.
        vectorize: whether all rows (or columns) are computed at once with vmap, which runs func for all of them and
            needs a
            batching rule for every op in it; otherwise one after the other.
        strategy: 'reverse-mode' computes rows; 'forward-mode' columns, with vectorize only, by reverse mode twice.

    Returns:
        a tensor; a tuple over inputs if these were a tuple, over outputs if these are; a tuple (outputs) of tuples
        (inputs).

    Example:
        >>> fb.autograd.functional.jacobian(lambda x: x**2, fb.tensor([1., 2.]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ArgumentError(f"jacobian: strategy is 'reverse-mode' or 'forward-mode', got {strategy!r}")
    if strategy == "forward-mode" and create_graph:
        raise ArgumentError("jacobian: create_graph=True needs strategy='reverse-mode'")
    if strategy == "forward-mode" and not vectorize:
        raise ArgumentError("jacobian: strategy='forward-mode' needs vectorize=True")
    if vectorize and strict:
        raise ArgumentError("jacobian: `strict=True` and `vectorize=True` are not supported together; leave one out")
    several_in, given = _tuple(inputs, "jacobian", "inputs")
    with fb.enable_grad():
        points = _prepared(given, create_graph)
        if vectorize:
            several_out, blocks = _all_at_once(func, points, strategy)
        else:
            several_out, outputs = _tuple(func(*points), "jacobian", "outputs")
            _check_outputs("jacobian", outputs, strict)
            blocks = [_rows(i, out, points, strict, create_graph) for i, out in enumerate(outputs)]
    blocks = [_released(tuple(row), create_graph) for row in blocks]
    return _same_form([_same_form(row, several_in) for row in blocks], several_out)


def _rows(number: int, out: Tensor, points: Sequence[Tensor], strict: bool, create_graph: bool) -> list[Tensor]:
    """The Jacobian of one output by every input, one backward pass per element of the output."""
    rows: list[list[Tensor]] = [[] for _ in points]
    for i in range(out.numel()):
        seed = fb.zeros(out.numel(), dtype=out.dtype)
        seed[i] = 1
        found = _gradients([out], points, [seed.reshape(out.shape)], create_graph)
        for k, (row, g, x) in enumerate(zip(rows, found, points, strict=True)):
            if strict and g is None:
                raise StateError(f"Output {number} of the user-provided function is independent of input {k}" + _strict("jacobian"))
            if strict and create_graph and g is not None and not g.requires_grad:
                raise StateError(
                    f"The jacobian of the user-provided function is independent of input {k}" + _strict("jacobian", create_graph)
                )
            row.append(fb.zeros_like(x) if g is None else g)
    return [
        fb.stack(row).reshape((*out.shape, *x.shape)) if row else x.new_zeros((*out.shape, *x.shape))
        for row, x in zip(rows, points, strict=True)
    ]


def _all_at_once(func: Callable[..., Any], points: Sequence[Tensor], strategy: str) -> tuple[bool, list[list[Tensor]]]:
    """The same by vmap: blocks[output][input]."""
    transforms = _transforms()
    with fb.no_grad():
        several_out, outputs = _tuple(func(*points), "jacobian", "outputs")

    def plain(*xs):
        return _tuple(func(*xs), "jacobian", "outputs")[1]

    if strategy == "reverse-mode":
        size = max(2, sum(out.numel() for out in outputs))
        blocks = transforms.jacrev(plain, argnums=tuple(range(len(points))), chunk_size=size)(*points)
        return several_out, [list(row) for row in blocks]
    sizes = [x.numel() for x in points]

    def column(number):
        directions, before = [], 0
        for x, size in zip(points, sizes, strict=True):
            directions.append((fb.arange(size) + before == number).to(x.dtype).reshape(x.shape))
            before += size
        return transforms.jvp(plain, tuple(points), tuple(directions))[1]

    if sum(sizes) == 0:
        return several_out, [[out.new_zeros((*out.shape, *x.shape)) for x in points] for out in outputs]
    columns = transforms.vmap(column, out_dims=-1)(fb.arange(sum(sizes)))
    return several_out, [
        [part.reshape((*out.shape, *x.shape)) for part, x in zip(stacked.split(sizes, -1), points, strict=True)]
        for stacked, out in zip(columns, outputs, strict=True)
    ]


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Hessian of a scalar function: for each pair of inputs a tensor of shape first.shape + second.shape.

    Args:
        func: takes tensors, returns a tensor with a single element.
        inputs: a tensor or a tuple of tensors.
        create_graph: whether the Hessian can be differentiated.
        strict: whether an input that does not affect the output is an error; otherwise zeros are returned.
        vectorize: whether all rows are computed at once with vmap; otherwise one after the other.
        outer_jacobian_strategy: 'reverse-mode' or, with vectorize, 'forward-mode'.

    Example:
        >>> fb.autograd.functional.hessian(lambda x: (x**3).sum(), fb.tensor([1., 2.]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    several, given = _tuple(inputs, "hessian", "inputs")
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise ArgumentError(f"hessian: outer_jacobian_strategy is 'reverse-mode' or 'forward-mode', got {outer_jacobian_strategy!r}")

    def gradient(*xs):
        several_out, outputs = _tuple(func(*xs), "hessian", "outputs")
        _scalar("hessian", outputs, several_out)
        return outputs[0].reshape(())

    def slope(*xs):
        if vectorize:
            return _transforms().grad(gradient, argnums=tuple(range(len(xs))))(*xs)
        out = gradient(*xs)
        _check_outputs("hessian", [out], strict)
        found = _gradients([out], xs, [fb.ones_like(out)], create_graph=True)
        _check_dependent("hessian", found, strict, _SLOPE, _SLOPE)
        return tuple(fb.zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True))

    result = jacobian(slope, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if several else result[0][0]
