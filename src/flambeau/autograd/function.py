"""Custom functions: an arbitrary forward with its backward."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from typing import Any

from flambeau import _C, Tensor
from flambeau._settings.strict import strict_or_warn
from flambeau.autograd.grad_mode import no_grad
from flambeau.errors import DTypeError, StateError

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]
__dir__ = __all__.copy


def _expect_tuple(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise DTypeError(f"ctx.{name} is expected to be a tuple of tensors but is {type(value).__name__}")
    return value


class FunctionCtx:
    """Passes information from forward to backward. Other attributes may be set on it."""

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self, name: str = "Function") -> None:
        self._name = name
        self._saved: tuple[Any, ...] | None = ()
        self._to_save: tuple[Any, ...] = ()
        self._forward_saved: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._materialize = True
        self._materialize_non_diff_grads = True  # zeros also for outputs that mark_non_differentiable named
        self._freed = False
        self._node: Any = None
        self._inputs: tuple[bool, ...] = ()
        self._outputs: tuple[Any, ...] = ()
        self._backward: Any = None
        self._boxed = False
        self._clears_saved = False
        self._own_tangents = False  # whether jvp has run in the open dual level
        self._in_jvp = False

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves inputs and outputs for backward, which checks that they were not modified; None is allowed."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but an argument is of type {type(t).__name__}; "
                    "set it as an attribute of ctx instead"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for jvp."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise DTypeError(
                    f"save_for_forward expects all arguments to be tensors, but argument {i} is of type {type(t).__name__}; "
                    "set it as an attribute of ctx instead"
                )
        self._forward_saved = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declares which inputs forward modified in place; they must be returned."""
        for i, t in enumerate(tensors):
            if not isinstance(t, Tensor):
                raise DTypeError(
                    f"mark_dirty can only accept variables, but argument {i} is of type {type(t).__name__}; "
                    "give it the input tensors that forward changes in place"
                )
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declares which outputs have no gradient."""
        for i, t in enumerate(tensors):
            if not isinstance(t, Tensor):
                raise DTypeError(
                    f"mark_non_differentiable only accepts variable arguments, but got {type(t).__name__} as argument {i}; "
                    "give it the output tensors that have no gradient"
                )
        self._non_differentiable = tensors

    @property
    def dirty_tensors(self) -> tuple[Any, ...]:
        """What mark_dirty was given; setting it does the same as mark_dirty."""
        return self._dirty

    @dirty_tensors.setter
    def dirty_tensors(self, tensors: tuple[Any, ...]) -> None:
        self.mark_dirty(*_expect_tuple("dirty_tensors", tensors))

    @property
    def non_differentiable(self) -> tuple[Any, ...]:
        """What mark_non_differentiable was given; setting it does the same as mark_non_differentiable."""
        return self._non_differentiable

    @non_differentiable.setter
    def non_differentiable(self, tensors: tuple[Any, ...]) -> None:
        self.mark_non_differentiable(*_expect_tuple("non_differentiable", tensors))

    @property
    def to_save(self) -> tuple[Any, ...]:
        """What save_for_backward was given; setting it does the same as save_for_backward."""
        return self._to_save

    @to_save.setter
    def to_save(self, tensors: tuple[Any, ...]) -> None:
        self.save_for_backward(*_expect_tuple("to_save", tensors))

    @property
    def saved_for_forward(self) -> tuple[Any, ...]:
        """What save_for_forward was given; setting it does the same as save_for_forward."""
        return self._forward_saved

    @saved_for_forward.setter
    def saved_for_forward(self, tensors: tuple[Any, ...]) -> None:
        self.save_for_forward(*_expect_tuple("saved_for_forward", tensors))

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None instead of zeros for outputs without a gradient."""
        self._materialize = bool(value)

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to save_for_backward as SavedTensor objects, which take hooks."""
        if self._freed:
            return self.saved_tensors  # raises
        return tuple(_C.saved_none() if s is None else s[0] for s in self._saved or ())

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to save_for_backward; in jvp, those given to save_for_forward."""
        if self._in_jvp:
            return self._forward_saved
        if self._freed:
            raise RuntimeError(
                f"{self._name}: Trying to backward through the graph a second time (or directly access saved tensors after they "
                "have already been freed): its saved values were freed by the first backward. Specify retain_graph=True there, or compute "
                "the graph again"
            )
        once = self._clears_saved
        if once and self._saved is None:
            raise RuntimeError(
                f"{self._name}: saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
                "autograd.Function. Read it once, or drop that attribute"
            )
        # A kept output's history is this function's own node, known while backward runs.
        tensors = tuple(
            None if s is None else s[0].unpack(self._node, s[1]) if s[1] is not None else s[0].unpack()
            for s in self._saved or ()
        )
        if once:
            self._saved = None
        return tensors

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of saved_tensors."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def apply(self, *gradients: Any) -> Any:
        """Runs backward on gradients of the outputs, as the engine does: of a node, `node.apply(g)`."""
        # A boxed backward gets one list, which it may empty to let gradients go early.
        return self._backward(self, list(gradients)) if self._boxed else self._backward(self, *gradients)

    # ---- called by the engine ----

    def _run_backward(self, gradients: tuple[Any, ...], node: Any) -> tuple[Any, ...]:
        if self._own_tangents and sys.modules["flambeau.autograd.forward_ad"]._state.pushing:
            return (None,) * len(self._inputs)  # jvp said what the tangents are
        self._node = node
        try:
            return self._checked_backward(gradients)
        finally:
            self._node = None

    def _checked_backward(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        outputs, inputs = self._outputs, self._inputs
        if self._materialize:
            gradients = tuple(
                _zeros(meta) if g is None and meta is not None else g for g, meta in zip(gradients, outputs, strict=True)
            )
        name = self._name
        result = self.apply(*gradients)
        if not isinstance(result, tuple):
            result = (result,)
        if len(result) > len(inputs) and all(g is None for g in result[len(inputs) :]):
            result = result[: len(inputs)]
        if len(result) != len(inputs):
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {len(inputs)}, got {len(result)})"
            )
        for i, (g, is_tensor) in enumerate(zip(result, inputs, strict=True)):
            if g is not None and not isinstance(g, Tensor):
                raise TypeError(f"function {name} returned {type(g).__name__} as gradient {i}, expected a tensor or None")
            if g is not None and not is_tensor:
                raise RuntimeError(
                    f"function {name} returned a gradient different from None at position {i}, but the corresponding "
                    "forward input was not a Variable"
                )
        return result

    def _release_saved(self) -> None:
        self._freed = bool(self._saved)
        self._saved = ()


def _zeros(meta) -> Tensor:
    shape, dtype, device = meta
    return _C.namespaces[""]["zeros"](shape, dtype=dtype, device=device)


class Function(FunctionCtx):
    """An operation with a custom gradient. Subclass it, define forward and backward, and call it through apply.

    Forward is written either as ``forward(ctx, *args)`` or as ``forward(*args)`` with ``setup_context(ctx, inputs,
    output)``. Backward gets the gradients of the outputs and returns one gradient (or None) per argument of forward.

    Example:
        >>> class Cube(fb.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x**3
        ...
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (x,) = ctx.saved_tensors
        ...         return g * 3 * x**2
        >>> x = fb.tensor(2.0, requires_grad=True)
        >>> Cube.apply(x).backward()
        >>> x.grad
        tensor(12.)
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so invoke them "
            f"on the class itself: {type(self).__name__}.apply(...)",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Write static methods and call "
            f"{type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """forward(ctx, ...), or forward(...) with setup_context: the computation; to be written by the subclass."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """What backward needs, when forward has no ctx; to be written by the subclass."""
        raise NotImplementedError("setup_context is not implemented for this autograd.Function.")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        """backward(ctx, *grad_outputs): gradients of the inputs; to be written by the subclass (vjp is another name for it)."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward."
        )

    @staticmethod
    def jvp(*args: Any, **kwargs: Any) -> Any:
        """jvp(ctx, *grad_inputs): tangents of the outputs; to be written by the subclass."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(*args: Any, **kwargs: Any) -> Any:
        """vmap(info, in_dims, *args): the function over a batch; to be written by the subclass."""
        raise NotImplementedError("To use autograd.Function with vmap, implement the vmap static method or set generate_vmap_rule=True.")

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and records backward."""
        values = (*args, *kwargs.values()) if kwargs else args
        batched = next((a for a in values if hasattr(type(a), "__flambeau_function__")), None)
        if batched is not None:
            return type(batched).__flambeau_function__(cls, _all_positional(cls, args, kwargs) if kwargs else args)
        return _apply(cls, args, kwargs)


def _apply(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    separate = cls.setup_context is not Function.setup_context
    # setup_context gets the defaults of omitted arguments.
    places: Any = _places
    if kwargs or separate and len(args) < places(cls):
        args, kwargs = _as_positional(cls, separate, args, kwargs)
    make: Any = _context_type
    ctx = make(cls)(cls.__name__ + "Backward")
    tensors = tuple(a if isinstance(a, Tensor) else None for a in args)
    ctx.needs_input_grad = tuple(t is not None and t.requires_grad for t in tensors)
    record = _C.is_grad_enabled() and any(ctx.needs_input_grad)
    ctx._inputs = tuple(t is not None for t in tensors)
    if cls.vjp is Function.vjp:
        ctx._backward = cls.backward
    else:
        ctx._backward = cls.vjp if cls.backward is Function.backward else _two_backwards
    ctx._boxed = bool(getattr(cls, "boxed_grads_call", False))
    ctx._clears_saved = bool(getattr(cls, "clear_saved_tensors_on_access", False))
    own_tangents = _own_tangents_of(cls, tensors) if cls.jvp is not Function.jvp and record else None
    with no_grad():
        output = cls.forward(*args, **kwargs) if separate else cls.forward(ctx, *args, **kwargs)
        if separate:
            cls.setup_context(ctx, args, output)
    outputs = output if isinstance(output, tuple) else (output,)
    dirty = {id(t) for t in ctx._dirty}
    results = _record_outputs(ctx, cls, tensors, outputs, record, separate)
    if own_tangents is not None:
        own_tangents(ctx, outputs, results, dirty)
    return results if isinstance(output, tuple) else results[0]


def _own_tangents_of(cls: type[Function], tensors: tuple[Tensor | None, ...]) -> Any:
    """A function to run cls.jvp after forward; None if no input has a tangent. Called before forward changes inputs."""
    forward_ad = sys.modules.get("flambeau.autograd.forward_ad")
    if forward_ad is None or not forward_ad._state.duals:
        return None
    tangents = [None if x is None else forward_ad.unpack_dual(x).tangent for x in tensors]
    if all(t is None for t in tangents):
        return None
    from flambeau.autograd._own_tangents import run_jvp

    # jvp may change tangents in place. The tangent of a copy, for example, may be that of the original itself.
    given = {dual.tangent.untyped_storage().data_ptr() for dual in forward_ad._state.duals}
    duals = {id(dual.tensor) for dual in forward_ad._state.duals}
    tangents = [
        t.clone() if t is not None and id(x) not in duals and t.untyped_storage().data_ptr() in given else t
        for x, t in zip(tensors, tangents, strict=True)
    ]

    return functools.partial(run_jvp, cls, tensors, tangents)


def _two_backwards(ctx: Any, *gradients: Any) -> Any:
    raise RuntimeError(
        f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed: they are names of the same thing, and {ctx._name} "
        "cannot know which one to run; keep one"
    )


def _as_positional(cls: Any, separate: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Keyword arguments as positional ones, as backward returns a gradient for each; keyword-only ones stay."""
    signature = inspect.signature(cls.forward)
    bound = signature.bind(*(() if separate else (None,)), *args, **kwargs)
    bound.apply_defaults()
    return bound.args if separate else bound.args[1:], bound.kwargs


def _all_positional(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments for a batching rule, which has no keyword-only ones."""
    args, rest = _as_positional(cls, cls.setup_context is not Function.setup_context, args, kwargs)
    left = sorted(rest.keys() & kwargs.keys())
    if left:
        raise NotImplementedError(
            f"vmap: {cls.__name__}.forward got {', '.join(left)}, but kwarg-only Tensor args and other keyword-only arguments have no "
            "place in in_dims; let forward take them by position"
        )
    return args


@functools.lru_cache(4096)
def _places(cls: type[Function]) -> int:
    """How many arguments forward takes by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds for p in inspect.signature(cls.forward).parameters.values())


@functools.lru_cache(4096)  # keeps the classes alive
def _context_type(cls: type[Function]) -> type[FunctionCtx]:
    """A context type with the static helpers and constants of the Function, as in ctx.scale."""
    names = {
        k: v for base in reversed(cls.__mro__[: cls.__mro__.index(Function)]) for k, v in vars(base).items()
        if not k.startswith("__") and k not in ("forward", "backward", "vjp", "jvp", "vmap", "setup_context", "apply")
    }  # fmt: skip
    return type(cls.__name__ + "Backward", (FunctionCtx,), names)


def _record_outputs(
    ctx: Any, cls: type[Any], tensors: tuple[Any, ...], outputs: tuple[Any, ...], record: bool, separate: bool
) -> tuple[Any, ...]:
    """Sets the history of the outputs and saves the requested tensors."""
    dirty = {id(t) for t in ctx._dirty}
    constant = {id(t) for t in ctx._non_differentiable}
    given = {id(t): t for t in tensors if t is not None}
    for t in ctx._dirty:
        if id(t) not in given:
            message = (
                f"{cls.__name__}: mark_dirty received a tensor that was not an input. Only tensors that were passed to forward can be "
                "changed in place for the caller"
            )
            if t._is_view():  # the history of its base, which no one sees, would have to change
                raise StateError(message)
            strict_or_warn(message, StateError)
            continue
        if not any(t is o for o in outputs):
            raise RuntimeError(f"{cls.__name__}: Some elements marked as dirty during the forward method were not returned as output.")
        if record:
            _C.check_inplace(t)
            if t._is_view() and len(outputs) > 1:
                raise StateError(
                    f"{cls.__name__}: if your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                    "return more than one Tensor: return that view alone, or give the Function a clone()"
                )
        _C.mark_written(t)
    saved = {id(t) for t in (*ctx._to_save, *ctx._forward_saved)} if separate else ()
    results = []
    for o in outputs:
        if saved and id(o) in saved and id(o) in given and id(o) not in dirty:
            raise StateError(
                f"{cls.__name__} input that has been returned as-is as output is being saved for backward or jvp, which does not work with "
                "setup_context: return and save x.view_as(x)"
            )
        # An input returned unchanged becomes a new tensor on the same memory: its history is the function's.
        if isinstance(o, Tensor) and id(o) in given and id(o) not in dirty and record:
            with no_grad():
                o = o.view_as(o)
        results.append(o)
    if not record:
        ctx._to_save = ()
        return tuple(results)
    node = _C.function_node(ctx, cls.__name__ + "Backward", tensors)
    metas: list[Any] = []
    places: dict[int, int] = {}
    for i, (o, original) in enumerate(zip(results, outputs, strict=True)):
        if not isinstance(o, Tensor):
            _C.set_output(node, None, False, False)
            metas.append(None)
            continue
        smooth = id(original) not in constant and (o.is_floating_point() or o.is_complex())
        metas.append((tuple(o.shape), o.dtype, o.device) if smooth or ctx._materialize_non_diff_grads else None)
        # An input returned unchanged stays an input for save_for_backward: it has its own history.
        places[id(o)] = i
        _C.set_output(node, o, id(original) in dirty, smooth)
    ctx._outputs = tuple(metas)
    # first: packing a result may raise, and a reference back to ctx would remain
    to_save, ctx._to_save = ctx._to_save, ()
    ctx._dirty = ctx._non_differentiable = ()
    ctx._saved = tuple(
        None if t is None
        else (_Kept(t), None) if hasattr(t, "__flambeau_dispatch__")
        else (_C.save_tensor(t, id(t) in places, cls.__name__), places.get(id(t)))
        for t in to_save
    )  # fmt: skip
    return tuple(results)


class _Kept:
    """Saves a composite tensor, such as a sparse one: the object itself, since it has no memory to save."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def unpack(self) -> Tensor:
        """The saved tensor."""
        return self.tensor


def once_differentiable(function: Any) -> Any:
    """Marks a backward that cannot be differentiated itself: doing so raises an error instead of giving a wrong result.

    Example:
        >>> from flambeau.autograd.function import once_differentiable
        >>> once_differentiable.__name__
        'once_differentiable'
    """

    @functools.wraps(function)
    def wrapper(ctx, *args):
        with no_grad():
            outputs = function(ctx, *args)
        if not _C.is_grad_enabled() or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        single = not isinstance(outputs, tuple)
        wrapped = _OnceOnly.apply(*((outputs,) if single else outputs), *args)
        count = 1 if single else len(outputs)
        parts = wrapped if isinstance(wrapped, tuple) else (wrapped,)
        return parts[0] if single else parts[:count]

    return wrapper


class _OnceOnly(Function):
    """Passes values through; its backward raises an error."""

    @staticmethod
    def forward(ctx: Any, *values: Any) -> Any:
        return tuple(v.clone() if isinstance(v, Tensor) else v for v in values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


class InplaceFunction(Function):
    """An old name of Function, for functions that change their inputs. Kept for old code: a plain Function.

    Args:
        inplace: kept as an attribute, for the function's own use.

    Example:
        >>> from flambeau.autograd.function import InplaceFunction
        >>> InplaceFunction(inplace=True).inplace
        True
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """The old name of Function for nested arguments. Kept for old code: a plain Function.

    Example:
        >>> issubclass(fb.autograd.NestedIOFunction, fb.autograd.Function)
        True
    """
