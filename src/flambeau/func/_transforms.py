"""grad, vjp, jvp, Jacobians and Hessians as functions of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError, OutOfRangeError
from flambeau.func._batching import levels, levels_of, raw, rewrap
from flambeau.func._record import History, fresh_tree, gradients, new_levels, zeros_for
from flambeau.func._vmap import vmap
from flambeau.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]


# ---- arguments and results -----------------------------------------------------------------------------------------------


def _positions(op: str, argnums: Any, count: int) -> tuple[int, ...]:
    if isinstance(argnums, bool) or not isinstance(argnums, (int, tuple)):
        raise ArgumentError(f"{op}: argnum must be int or Tuple, got {argnums!r}")
    wanted = (argnums,) if isinstance(argnums, int) else argnums
    if not wanted:
        raise ArgumentError(f"{op}: argnums must be non-empty")
    for number in wanted:
        if not isinstance(number, int):
            raise ArgumentError(f"{op}: argnum must be int, got {type(number).__name__} in {argnums!r}")
        if not -count <= number < count:
            raise OutOfRangeError(f"{op}: Got argnum={number}, but only {count} positional inputs")
    places = tuple(number % count for number in wanted)
    if len(set(places)) < len(places):
        raise ArgumentError(f"{op}: argnums elements must be unique, got {argnums}")
    return places


def _with_fresh(op: str, argnums: Any, args: tuple[Any, ...], track: bool) -> tuple[list[Tensor], list[Any], tuple[Any, ...]]:
    """The tensors to differentiate, the arguments that contain them, and all arguments for the call."""
    places = _positions(op, argnums, len(args))
    inputs: list[Tensor] = []
    chosen, full = [], list(args)
    for place in places:
        leaves, full[place] = fresh_tree(op, args[place], track, f"argument {place}")
        inputs += leaves
        chosen.append(full[place])
    return inputs, chosen, tuple(full)


# Their names in PyTorch's messages.
_CALLS = {
    "grad": "grad_and_value(f)(*args)", "vjp": "vjp(f, *primals)", "jvp": "jvp(f, primals, tangents)",
    "jacrev": "jacrev: vjp(f, *primals)", "jacfwd": "jacfwd: jvp(f, primals, tangents)",
}  # fmt: skip


def _split_aux(op: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            f"{_CALLS.get(op, op)}: output of function f should be a tuple: (output, aux) if has_aux is True, got {type(result).__name__}"
        )
    for leaf in tree_flatten(result[1])[0]:
        if not isinstance(leaf, Tensor):
            raise ArgumentError(f"{op}: Expected tensors, got unsupported type {type(leaf)} in aux; keep other values outside the function")
    return result


def _check_real(op: str, what: str, tensors: list[Tensor]) -> None:
    """A Jacobian has one number per pair of real numbers; for complex ones there are several conventions."""
    for i, x in enumerate(tensors):
        if x.is_complex():
            raise ArgumentError(
                f"{op}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}; use view_as_real, or vjp "
                "and jvp"
            )


def _checked_outputs(op: str, result: Any) -> tuple[list[Tensor], Any]:
    outputs, spec = tree_flatten(result)
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise ArgumentError(f"{_CALLS.get(op, op)}: Expected f to be a function that has non-empty output, got no tensor")
    for out in outputs:
        if not isinstance(out, Tensor):
            raise ArgumentError(
                f"{_CALLS.get(op, op)}: expected f(*primals) to return only tensors, got unsupported type {type(out).__name__}"
            )
    return outputs, spec


def _filled(found: list[Tensor | None], like: list[Tensor]) -> list[Tensor]:
    return [zeros_for(x) if g is None else g for g, x in zip(found, like, strict=True)]


def _like(values: list[Any], argnums: Any, chosen: list[Any]) -> Any:
    """Values, one per tensor, in the containers of the chosen arguments; a tensor for a single argument number."""
    spec = tree_flatten(tuple(chosen))[1]
    built = tree_unflatten(values, spec)
    return built[0] if isinstance(argnums, int) else built


# ---- gradients -----------------------------------------------------------------------------------------------------------


def grad_and_value(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of func and its value.

    Args:
        func: returns a 0-d tensor, or (0-d tensor, aux) with has_aux.
        argnums: which argument to differentiate, or several; each a tensor or a nested container of tensors.
        has_aux: whether func returns something besides, which is passed on: (gradient, (value, aux)).

    Example:
        >>> fb.func.grad_and_value(lambda x: x**3)(fb.tensor(2.0))
        (tensor(12.), tensor(8.))
    """

    @functools.wraps(func, updated=())
    def wrapper(*args, **kwargs):
        track = fb.is_grad_enabled()
        with fb.enable_grad():
            inputs, chosen, full = _with_fresh("grad", argnums, args, track)
            output, aux = _split_aux("grad", func(*full, **kwargs), has_aux)
            _check_scalar(output)
            history = History(inputs)
            outside = track and history.outside([output])
            found = gradients([output], inputs, [None], create=outside, retain=has_aux)
        result = _like([history.strip(g) for g in _filled(found, inputs)], argnums, chosen)
        value = _seen(output, history, track)
        return (result, (value, _seen(aux, history, track))) if has_aux else (result, value)

    return wrapper


def _seen(tree: Any, history: History, track: bool) -> Any:
    """Results for the caller: under no_grad without any history."""
    if track:
        return history.strip_tree(tree)
    leaves, spec = tree_flatten(tree)
    return tree_unflatten([x.detach() if isinstance(x, Tensor) and x.requires_grad else x for x in leaves], spec)


def _check_scalar(output: Any) -> None:
    if not isinstance(output, Tensor):
        raise ArgumentError(f"grad: the function must return a tensor, got {type(output).__name__}; with has_aux=True (tensor, aux)")
    if output.ndim != 0:
        raise ArgumentError(
            f"grad: the function must return a 0-d tensor, got shape {tuple(output.shape)}; sum it, or use jacrev for all outputs"
        )
    if not output.dtype.is_floating_point:
        raise ArgumentError(f"grad: the function must return a real floating tensor, got {output.dtype}; use vjp for complex outputs")


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of func; grad of grad gives higher derivatives.

    Args:
        func: returns a 0-d tensor, or (0-d tensor, aux) with has_aux.
        argnums: which argument to differentiate, or several; each a tensor or a nested container of tensors.
        has_aux: whether func returns something besides, which is passed on: (gradient, aux).

    Returns:
        the gradient, shaped like the argument; a tuple of them if argnums is a tuple. It carries history only if the
        arguments, or tensors that func captures, require gradients.

    Example:
        >>> fb.func.grad(fb.sin)(fb.tensor(0.0))
        tensor(1.)
        >>> fb.func.grad(fb.func.grad(lambda x: x**3))(fb.tensor(2.0))
        tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def wrapper(*args, **kwargs):
        result, value = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of func and a function that multiplies its Jacobian from the left by a vector.

    Args:
        func: takes the primals, returns tensors or nested containers of them (and aux, with has_aux).
        primals: where to evaluate; tensors or nested containers of them.
        has_aux: whether func returns (output, aux); aux is passed on as a third result.

    Returns:
        (output, vjp_fn) or (output, vjp_fn, aux). vjp_fn takes cotangents in the structure of the output and returns
        with a tuple, one entry per primal. Mapped over cotangents by vmap, it runs func again for all of them at once.

    Example:
        >>> out, pull = fb.func.vjp(lambda x: x**2, fb.tensor([1., 2.]))
        >>> pull(fb.ones(2))
        (tensor([2., 4.]),)
    """
    if not primals:
        raise ArgumentError("vjp: got no primals; pass the arguments of the function after it")
    track, known = fb.is_grad_enabled(), list(levels())
    with fb.enable_grad():
        # Under no_grad the value is plain, but vjp_fn may run outside of it and returns gradients with the history of
        # the primals.
        inputs, chosen, full = _with_fresh("vjp", tuple(range(len(primals))), primals, True)
        result, aux = _split_aux("vjp", func(*full), has_aux)
    outputs, spec = _checked_outputs("vjp", result)
    history = History(inputs)
    outside = history.outside(outputs)

    def vjp_fn(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> tuple[Any, ...]:
        given, given_spec = tree_flatten(cotangents[0] if len(cotangents) == 1 else cotangents)
        if given_spec != spec:
            raise ArgumentError(f"vjp_fn: Expected pytree structure of cotangents to be that of the output, {spec}, got {given_spec}")
        for cot, out in zip(given, outputs, strict=True):
            if not isinstance(cot, Tensor) or tuple(cot.shape) != tuple(out.shape):
                got = f"shape {tuple(cot.shape)}" if isinstance(cot, Tensor) else type(cot).__name__
                raise ArgumentError(f"vjp_fn: a cotangent must have the shape of its output, {tuple(out.shape)}, got {got}")
        if new_levels(given, known):
            return vjp(func, *primals, has_aux=has_aux)[1](*cotangents)
        create = create_graph
        if create is None:
            create = fb.is_grad_enabled() and (outside or any(raw(cot).requires_grad for cot in given))
        found = _filled(gradients(outputs, inputs, given, create=create, retain=retain_graph), inputs)
        return _like([g if create_graph else history.strip(g) for g in found], tuple(range(len(primals))), chosen)

    output = _seen(result, history, track)
    return (output, vjp_fn, _seen(aux, history, track)) if has_aux else (output, vjp_fn)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of func and its Jacobian times a vector.

    Computed by reverse mode twice: the product with the Jacobian's transpose is linear in its vector, and the
    gradient of that with respect to the vector is this product. It therefore costs about two backward passes, and keeps
    the graph.

    Args:
        func: takes the primals, returns tensors or nested containers of them (and aux, with has_aux).
        primals: a tuple, where to evaluate.
        tangents: a tuple of the same structure, the direction.
        strict: whether an output that does not depend on the primals is an error; otherwise its tangent is zero.
        has_aux: whether func returns (output, aux); aux is passed on as a third result.

    Example:
        >>> fb.func.jvp(fb.sin, (fb.tensor(0.0),), (fb.tensor(2.0),))
        (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple):
        raise ArgumentError(f"jvp: Expected primals to be a tuple, got {type(primals).__name__}; for one argument pass (x,)")
    directions, direction_spec = tree_flatten(tangents)
    points, spec = tree_flatten(primals)
    if direction_spec != spec:
        raise ArgumentError(
            f"jvp: Expected primals and tangents to have the same python structure, got primals {spec}, tangents {direction_spec}"
        )
    if not points:
        raise ArgumentError("jvp: Expected primals to contain at least one Tensor, got an empty tuple")
    for name, leaves in (("primals", points), ("tangents", directions)):
        for x in leaves:
            if not isinstance(x, Tensor):
                raise ArgumentError(f"jvp: Expected {name} to only contain Tensors, got {type(x)}")
    track = fb.is_grad_enabled()
    with fb.enable_grad():
        inputs, _, full = _with_fresh("jvp", tuple(range(len(primals))), primals, track)
        for u, x in zip(directions, inputs, strict=True):
            if not isinstance(u, Tensor) or tuple(u.shape) != tuple(x.shape):
                raise ArgumentError(f"jvp: a tangent must have the shape of its primal, {tuple(x.shape)}, got {_shape_of(u)}")
        result, aux = _split_aux("jvp", func(*_changeable(inputs, full)), has_aux)
        outputs, spec = _checked_outputs("jvp", result)
        history = History(inputs)
        create = track and (history.outside(outputs) or any(raw(u).requires_grad for u in directions))
        found = push(inputs, outputs, directions, create=create)
    if strict and any(t is None for t in found):
        raise ArgumentError("jvp: an output does not depend on the primals, and strict=True makes that an error")
    products = [history.strip(t) for t in _filled(found, outputs)]
    answer = (_seen(result, history, track), tree_unflatten(products, spec))
    return (*answer, _seen(aux, history, track)) if has_aux else answer


def _changeable(inputs: list[Tensor], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with aliases of the inputs, on the same memory, that the function may change in place."""
    from flambeau.autograd.forward_ad import alias

    made = {id(x): rewrap(alias(raw(x)), levels_of(x)) for x in inputs}
    leaves, spec = tree_flatten(arguments)
    return tree_unflatten([made.get(id(leaf), leaf) for leaf in leaves], spec)


def _shape_of(x: Any) -> str:
    return f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__


def push(inputs: list[Tensor], outputs: list[Tensor], directions: list[Tensor], *, create: bool) -> list[Tensor | None]:
    """Jacobian times directions by two reverse passes; None for outputs that do not depend on the inputs."""
    moving = [i for i, out in enumerate(outputs) if raw(out).requires_grad]
    dummies = [rewrap(fb.zeros_like(raw(outputs[i])).requires_grad_(), levels_of(outputs[i])) for i in moving]
    pulled = gradients([outputs[i] for i in moving], inputs, dummies, create=True)
    pairs = [(g, u) for g, u in zip(pulled, directions, strict=True) if g is not None and raw(g).requires_grad]
    answer: list[Tensor | None] = [None] * len(outputs)
    if pairs:
        found = gradients([g for g, _ in pairs], dummies, [u for _, u in pairs], create=create, retain=True)
        for i, t in zip(moving, found, strict=True):
            answer[i] = t
    return answer


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of func and a function that multiplies its Jacobian there by vectors, without running func again.

    Like jvp it works by reverse mode twice, on a graph that is recorded once.

    Args:
        func: takes the primals, returns tensors or nested containers of them.
        primals: where to evaluate.

    Example:
        >>> out, push = fb.func.linearize(lambda x: x**2, fb.tensor([1., 2.]))
        >>> push(fb.tensor([1., 0.]))
        tensor([2., 0.])
    """
    if not primals:
        raise ArgumentError("linearize: got no primals; pass the arguments of the function after it")
    track, known = fb.is_grad_enabled(), list(levels())
    with fb.enable_grad():
        inputs, _, full = _with_fresh("linearize", tuple(range(len(primals))), primals, track)
        result = func(*full)
    outputs, spec = _checked_outputs("linearize", result)
    history = History(inputs)
    outside = track and history.outside(outputs)

    def jvp_fn(*tangents: Any) -> Any:
        directions, given_spec = tree_flatten(tangents)
        if given_spec != tree_flatten(primals)[1]:
            raise ArgumentError(f"jvp_fn: Expected the tangents {given_spec} to have the same argspec as the primals")
        for u, x in zip(directions, inputs, strict=True):
            if not isinstance(u, Tensor) or tuple(u.shape) != tuple(x.shape):
                raise ArgumentError(
                    f"jvp_fn: a tangent in flattened pytree doesn't match the shape of its primal, {tuple(x.shape)}: got {_shape_of(u)}"
                )
        if new_levels(directions, known):
            return jvp(func, primals, tangents)[1]
        create = fb.is_grad_enabled() and (outside or any(raw(u).requires_grad for u in directions))
        with fb.enable_grad():
            found = push(inputs, outputs, directions, create=create)
        return tree_unflatten([history.strip(t) for t in _filled(found, outputs)], spec)

    return _seen(result, history, track), jvp_fn


# ---- Jacobians -----------------------------------------------------------------------------------------------------------


def jacrev(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that computes the Jacobian of func by reverse mode: one backward pass per element of the output.

    Args:
        func: returns tensors or nested containers of them (and aux, with has_aux).
        argnums: which argument to differentiate, or several.
        has_aux: whether func returns (output, aux); aux is passed on: (Jacobian, aux).
        chunk_size: None or 1 goes row by row over one recorded graph; a larger number computes that many rows at once
            with vmap, which needs a batching rule for every op of func.
        _preallocate_and_copy: kept for calls written for PyTorch, where it saves memory; the result is the same.

    Returns:
        for each output a tensor of shape output.shape + argument.shape, in the containers of output and argument.

    Example:
        >>> fb.func.jacrev(lambda x: x**2)(fb.tensor([1., 2.]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    _check_chunk_size("jacrev", chunk_size)

    @functools.wraps(func, updated=())
    def wrapper(*args, **kwargs):
        track = fb.is_grad_enabled()
        with fb.enable_grad():
            inputs, chosen, full = _with_fresh("jacrev", argnums, args, track)
            _check_real("jacrev", "inputs", inputs)
            result, aux = _split_aux("jacrev", func(*full, **kwargs), has_aux)
            outputs, spec = _checked_outputs("jacrev", result)
            _check_real("jacrev", "outputs", outputs)
            history = History(inputs)
            create = track and history.outside(outputs)
            if chunk_size is None or chunk_size == 1:
                blocks = [_rows(out, inputs, create) for out in outputs]
            else:
                blocks = _rows_in_chunks(func, argnums, args, kwargs, has_aux, outputs, inputs, chunk_size)
        blocks = [[history.strip(block) for block in row] for row in blocks]
        jacobian = tree_unflatten([_like(row, argnums, chosen) for row in blocks], spec)
        return (jacobian, _seen(aux, history, track)) if has_aux else jacobian

    return wrapper


def _check_chunk_size(op: str, chunk_size: Any) -> None:
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ArgumentError(f"{op}: `chunk_size` should be greater than 0. Expected None or a positive int, got {chunk_size!r}")


def _rows(out: Tensor, inputs: list[Tensor], create: bool) -> list[Tensor]:
    """The Jacobian of one output with respect to every input, a row at a time."""
    base = raw(out)
    lead = base.ndim - out.ndim
    rows: list[list[Tensor]] = [[] for _ in inputs]
    at = levels_of(out)
    for i in range(out.numel()):
        seed = fb.zeros((*base.shape[:lead], out.numel()), dtype=base.dtype)
        seed[..., i] = 1
        found = gradients([out], inputs, [rewrap(seed.reshape(base.shape), at)], create=create, retain=True)
        for row, g in zip(rows, _filled(found, inputs), strict=True):
            row.append(g)
    blocks = []
    for row, x in zip(rows, inputs, strict=True):
        if row:
            blocks.append(fb.stack(row).reshape((*out.shape, *x.shape)))
        else:
            blocks.append(x.new_zeros((*out.shape, *x.shape)))
    return blocks


def _rows_in_chunks(func, argnums, args, kwargs, has_aux, outputs, inputs, chunk_size):
    """Several rows at once: vmap over cotangents, which runs func for all of them."""
    places = _positions("jacrev", argnums, len(args))

    def of_chosen(*chosen):
        full = list(args)
        for place, value in zip(places, chosen, strict=True):
            full[place] = value
        result = _split_aux("jacrev", func(*full, **kwargs), has_aux)[0]
        return tree_flatten(result)[0]

    pull = vjp(of_chosen, *(args[place] for place in places))[1]
    sizes = [out.numel() for out in outputs]
    total = sum(sizes)

    def pull_rows(numbers):
        """Maps a batch of row numbers to gradients: each selects one element of one output."""
        seeds, before = [], 0
        for out, size in zip(outputs, sizes, strict=True):
            one = (fb.arange(size) + before == numbers.unsqueeze(-1)).to(out.dtype)
            seeds.append(one.reshape(tuple(out.shape)))
            before += size
        return tree_flatten(pull(seeds))[0]

    if total == 0:
        return [[x.new_zeros((*out.shape, *x.shape)) for x in inputs] for out in outputs]
    stacked = vmap(pull_rows, chunk_size=chunk_size)(fb.arange(total))
    blocks, before = [], 0
    for out, size in zip(outputs, sizes, strict=True):
        blocks.append([
            g.narrow(0, before, size).reshape((*out.shape, *x.shape)) for g, x in zip(stacked, inputs, strict=True)
        ])  # fmt: skip
        before += size
    return blocks


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that computes the Jacobian of func column by column: the choice when outputs outnumber inputs.

    Columns are products with the Jacobian computed as in jvp, by reverse mode twice on one recorded graph; func must be
    twice differentiable. func runs once, so random numbers need no care and every value of randomness does the same.

    Args:
        func: returns tensors or nested containers of them (and aux, with has_aux).
        argnums: which argument to differentiate, or several.
        has_aux: whether func returns (output, aux); aux is passed on: (Jacobian, aux).
        randomness: 'error', 'different' or 'same'.

    Example:
        >>> fb.func.jacfwd(lambda x: x**2)(fb.tensor([1., 2.]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentError(f"jacfwd: randomness is one of 'error', 'different', 'same', got {randomness!r}")

    @functools.wraps(func, updated=())
    def wrapper(*args, **kwargs):
        track = fb.is_grad_enabled()
        with fb.enable_grad():
            inputs, chosen, full = _with_fresh("jacfwd", argnums, args, track)
            _check_real("jacfwd", "inputs", inputs)
            result, aux = _split_aux("jacfwd", func(*full, **kwargs), has_aux)
            outputs, spec = _checked_outputs("jacfwd", result)
            _check_real("jacfwd", "outputs", outputs)
            history = History(inputs)
            columns = _columns(inputs, outputs, create=track and history.outside(outputs))
        blocks = [[history.strip(block) for block in row] for row in columns]
        jacobian = tree_unflatten([_like(row, argnums, chosen) for row in blocks], spec)
        return (jacobian, _seen(aux, history, track)) if has_aux else jacobian

    return wrapper


def _columns(inputs: list[Tensor], outputs: list[Tensor], create: bool) -> list[list[Tensor]]:
    """blocks[output][input], each built from products with unit vectors."""
    blocks: list[list[Tensor]] = [[] for _ in outputs]
    for k, x in enumerate(inputs):
        columns: list[list[Tensor]] = [[] for _ in outputs]
        base = raw(x)
        lead = base.ndim - x.ndim
        for i in range(x.numel()):
            seed = fb.zeros((*base.shape[:lead], x.numel()), dtype=base.dtype)
            seed[..., i] = 1
            directions = [zeros_for(y) for y in inputs]
            directions[k] = rewrap(seed.reshape(base.shape), levels_of(x))
            found = push(inputs, outputs, directions, create=create)
            for column, t, out in zip(columns, found, outputs, strict=True):
                column.append(zeros_for(out) if t is None else t)
        for row, column, out in zip(blocks, columns, outputs, strict=True):
            shape = (*out.shape, *x.shape)
            row.append(fb.stack(column, -1).reshape(shape) if column else out.new_zeros(shape))
    return blocks


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that computes the matrix of second derivatives of func, the Jacobian of its Jacobian by reverse mode.

    Args:
        func: returns a tensor, of which second derivatives are taken; a 0-d tensor for the usual Hessian.
        argnums: which argument to differentiate, or several (then a tuple of tuples).

    Example:
        >>> fb.func.hessian(lambda x: (x**3).sum())(fb.tensor([1., 2.]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)
