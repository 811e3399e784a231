"""Trading time for memory: intermediate results are dropped in forward and recomputed in backward."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import flambeau as fb
from flambeau import _C, Tensor
from flambeau.amp import _state as _amp
from flambeau.errors import ArgumentError, StateError
from flambeau.utils._selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

__all__ = ["CheckpointError", "CheckpointPolicy", "SelectiveCheckpointContext", "checkpoint", "checkpoint_sequential",
           "create_selective_checkpoint_contexts", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
           "set_checkpoint_early_stop", "set_device_states"]  # fmt: skip
__dir__ = __all__.copy


class CheckpointError(StateError):
    """The second run of a checkpointed function did not do what the first one did.

    Example:
        >>> issubclass(fb.utils.checkpoint.CheckpointError, RuntimeError)
        True
    """


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing; the default of checkpoint's context_fn.

    Example:
        >>> first, second = fb.utils.checkpoint.noop_context_fn()
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


_settings: dict[str, Any] = {"early_stop": None, "debug": None}


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The accelerators among the devices of tensors, and the states of their generators: none, the CPU has its own.

    Args:
        args: tensors, or nested containers of them.

    Example:
        >>> from flambeau.utils.checkpoint import get_device_states
        >>> get_device_states(fb.ones(2))
        ([], [])
    """
    return [], []


def set_device_states(devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None) -> None:
    """Sets the generators of accelerators to states that get_device_states() returned.

    Args:
        devices: numbers of accelerators; there are none.
        states: a state for each.
        device_type: the kind of accelerator.

    Example:
        >>> from flambeau.utils.checkpoint import get_device_states, set_device_states
        >>> set_device_states(*get_device_states(fb.ones(2)))
    """
    wanted = list(devices)
    if wanted:
        raise StateError(f"set_device_states: there are no accelerators, got devices {wanted}; for the CPU use fb.set_rng_state()")


class _Surroundings:
    """The state of the first run besides its arguments: the random state, if it is to be preserved, and autocast."""

    def __init__(self, preserve: bool) -> None:
        self.random = fb.get_rng_state() if preserve else None
        self.autocast = {
            "enabled": _amp.is_autocast_enabled("cpu"), "dtype": _amp.get_autocast_dtype("cpu"),
            "cache_enabled": _amp.is_autocast_cache_enabled(),
        }  # fmt: skip

    @contextlib.contextmanager
    def again(self):
        """Restores the state for the second run."""
        with contextlib.ExitStack() as stack:
            if self.random is not None:
                stack.enter_context(fb.random.fork_rng())
                fb.set_rng_state(self.random)
            stack.enter_context(fb.autocast("cpu", **self.autocast))
            yield


class _Setting:
    """A context that sets something and restores it."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def __enter__(self) -> None:
        self.before = _settings[self.name]
        _settings[self.name] = self.value

    def __exit__(self, *exception: Any) -> None:
        _settings[self.name] = self.before


def set_checkpoint_early_stop(enable: bool) -> Any:
    """A context that says for all checkpoints in it whether the second run ends as soon as all that is needed is there.

    Args:
        enable: whether to stop early; it is read when the forward pass runs.

    Example:
        >>> with fb.utils.checkpoint.set_checkpoint_early_stop(False):
        ...     y = fb.utils.checkpoint.checkpoint(fb.exp, fb.zeros(1), use_reentrant=False)
    """
    return _Setting("early_stop", bool(enable))


def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """A context that overrides the debug argument of all checkpoints in it; None leaves it to them.

    Args:
        enabled: True, False or None.

    Example:
        >>> with fb.utils.checkpoint.set_checkpoint_debug_enabled(True):
        ...     y = fb.utils.checkpoint.checkpoint(fb.exp, fb.zeros(1), use_reentrant=False)
    """
    return _Setting("debug", enabled)


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn, determinism_check: str = "default", debug: bool = False,
    early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Runs function without keeping its intermediate results; backward runs it a second time to get them.

    Args:
        function: what to run; it must do the same both times.
        args: its arguments.
        use_reentrant: False keeps the graph and recomputes what backward needs, and stops there; True runs forward
            without a graph and backward inside backward. Say which: without it True is taken, with a warning, as
            PyTorch does.
        context_fn: returns two contexts, for the first and the second run. Only with use_reentrant=False.
        determinism_check: 'default' compares shape, dtype and device of what both runs save; 'none' does not.
        debug: whether an error lists what the first run saved. Only with use_reentrant=False.
        early_stop: whether the second run ends once all that is needed is there. Only with use_reentrant=False.
        kwargs: keyword arguments of function (with use_reentrant=False), and `preserve_rng_state` (True): whether the
            second
            run sees the random state of the first.

    Example:
        >>> x = fb.tensor([1.0, 2.0], requires_grad=True)
        >>> y = fb.utils.checkpoint.checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False)
        >>> y.sum().backward()
        >>> x.grad
        tensor([ 1.2534, -1.0331])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: the use_reentrant parameter should be passed explicitly; True is taken. Pass use_reentrant=False, which is "
            "recommended, or True",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ArgumentError(f"checkpoint: unexpected keyword arguments with use_reentrant=True: {', '.join(kwargs)}")
        if context_fn is not noop_context_fn or debug is not False:
            raise ArgumentError("checkpoint: context_fn and debug need use_reentrant=False")
        _warn_without_gradient(args)
        return _reentrant().apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ArgumentError(f"checkpoint: determinism_check is 'default' or 'none', got {determinism_check!r}")
    stop = early_stop if _settings["early_stop"] is None else _settings["early_stop"]
    tell = debug if _settings["debug"] is None else _settings["debug"]
    first, second = context_fn()
    if not fb.is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    frame = _Frame(function, args, kwargs, preserve, second, determinism_check == "default", stop, tell)
    done = False
    with fb.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack), first:
        result = function(*args, **kwargs)
        done = True
    if not done:
        raise StateError("checkpoint: context_fn suppressed an exception of the function; its contexts must let exceptions pass")
    frame.forward_done = True
    return result


def _warn_without_gradient(args: Iterable[Any]) -> None:
    if not any(isinstance(x, Tensor) and x.requires_grad for x in args):
        warnings.warn(
            "checkpoint: None of the inputs have requires_grad=True. Gradients will be None: the result requires none either", stacklevel=3
        )


# ---- without reentry: saved tensors are placeholders ---------------------------------------------------------------------


class _StopRecomputation(Exception):
    """Ends the second run: all values are available."""


class _Holder:
    """A placeholder for one saved tensor; has its number and, after the second run, the tensor."""

    def __init__(self, number: int, about: tuple[Any, ...]) -> None:
        self.number, self.about = number, about
        self.tensor: Tensor | None = None
        self.filled = False


def _about(x: Tensor) -> tuple[Any, ...]:
    return tuple(x.shape), x.dtype, x.device


class _Frame:
    """One checkpointed call: its placeholders and how to fill them."""

    def __init__(self, function, args, kwargs, preserve, context, check, stop, debug) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.surroundings = _Surroundings(preserve)
        self.context, self.check, self.stop, self.debug = context, check, stop, debug
        self.holders: list[weakref.ref[_Holder]] = []  # weak: a tensor that backward no longer needs is not kept
        self.forward_done = False

    def pack(self, x: Tensor) -> _Holder:
        holder = _Holder(len(self.holders), _about(x))
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        if not holder.filled:
            self._recompute()
        if not holder.filled:
            raise self._different(f"saved tensor {holder.number} of the first run was not computed in the second")
        tensor, holder.tensor = holder.tensor, None
        # Saved once more only by the graph of the second run; requested again (retain_graph), it is recomputed.
        holder.filled = False
        assert tensor is not None
        return tensor

    def _recompute(self) -> None:
        # A backward inside the function itself needs what was saved so far.
        count, known = 0, len(self.holders)

        def pack(x: Tensor) -> Tensor:
            nonlocal count
            if count < known or self.forward_done:
                self._fill(count, x)
            count += 1
            if self.stop and count == known:
                raise _StopRecomputation
            return x.detach()

        with contextlib.ExitStack() as stack:
            stack.enter_context(self.surroundings.again())
            stack.enter_context(self.context)
            stack.enter_context(fb.enable_grad())
            stack.enter_context(fb.autograd.graph.saved_tensors_hooks(pack, lambda x: x))
            with contextlib.suppress(_StopRecomputation):
                self.function(*self.args, **self.kwargs)
        if count != known and self.forward_done:
            raise self._different(
                "A different number of tensors was saved during the original forward and recomputation: the first run saved "
                f"{len(self.holders)} tensors, the second {count}"
            )

    def _fill(self, number: int, x: Tensor) -> None:
        if number >= len(self.holders):
            raise self._different(
                "trying to save more tensors during recomputation than during the original forward pass: the first run saved "
                f"{len(self.holders)} tensors"
            )
        holder = self.holders[number]()
        if holder is None:
            return
        if self.check and _about(x) != holder.about:
            raise self._different(
                "Recomputed values for the following tensors have different metadata than during the forward pass: saved tensor "
                f"{number} was {_told(holder.about)} in the first run, {_told(_about(x))} in the second"
            )
        holder.tensor, holder.filled = x.detach(), True

    def _different(self, what: str) -> CheckpointError:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        text = f"checkpoint: {what}; {name} must do the same each time it runs (look for changed globals, conditions, modes)"
        if self.debug:
            alive = [holder for ref in self.holders if (holder := ref()) is not None]
            text += "\nYou are seeing this error because you passed `debug=True` to checkpoint. What the first run saved:"
            text += "".join(f"\n  {h.number}: {_told(h.about)}" for h in alive)
        return CheckpointError(text)


def _told(about: tuple[Any, ...]) -> str:
    shape, dtype, device = about
    return f"{dtype} of shape {shape} on {device}"


# ---- with reentry: backward inside backward ------------------------------------------------------------------------------


def _detached(args: Iterable[Any]) -> list[Any]:
    """Tensors cut off from their history, requiring gradients as before."""
    fresh = []
    for x in args:
        if isinstance(x, Tensor):
            wanted = x.requires_grad
            x = x.detach()
            x.requires_grad_(wanted)
        fresh.append(x)
    return fresh


_function_class: Any = None


def _reentrant() -> Any:
    """The Function of the reentrant form, created on first use, because autograd is imported late."""
    global _function_class
    if _function_class is None:

        class CheckpointFunction(fb.autograd.Function):
            """Forward without a graph; backward runs the function again, with one."""

            @staticmethod
            def forward(ctx, function, preserve, *args):
                ctx.function = function
                ctx.surroundings = _Surroundings(preserve)
                ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
                ctx.others = [None if isinstance(x, Tensor) else x for x in args]
                ctx.save_for_backward(*(x for x in args if isinstance(x, Tensor)))
                with fb.no_grad():
                    return function(*args)

            @staticmethod
            def backward(ctx, *grads):
                if _C.in_partial_backward():
                    raise StateError(
                        "checkpoint: torch.utils.checkpoint is incompatible with .grad() or passing inputs to .backward() when "
                        "use_reentrant=True: the backward inside would add to every .grad; pass use_reentrant=False"
                    )
                args = list(ctx.others)
                with fb.enable_grad():  # tensors packed by hooks only then know whether they require gradients
                    kept = ctx.saved_tensors
                for place, x in zip(ctx.places, kept, strict=True):
                    args[place] = x
                args = _detached(args)
                with contextlib.ExitStack() as stack:
                    stack.enter_context(ctx.surroundings.again())
                    stack.enter_context(fb.enable_grad())
                    outputs = ctx.function(*args)
                outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
                pairs = [
                    (out, g) for out, g in zip(outputs, grads, strict=True)
                    if isinstance(out, Tensor) and out.requires_grad and g is not None
                ]  # fmt: skip
                if not pairs:
                    raise StateError(
                        "checkpoint: none of output has requires_grad=True, this checkpoint() is not necessary: no output requires "
                        "gradients in the second run, though one did in the first"
                    )
                fb.autograd.backward([out for out, _ in pairs], [g for _, g in pairs])
                return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in args))

        _function_class = CheckpointFunction
    return _function_class


# ---- sequences -----------------------------------------------------------------------------------------------------------


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """Runs functions one after the other, cut into segments that are checkpointed, except the last.

    Args:
        functions: a Sequential or a list of functions or modules.
        segments: how many parts to make.
        input: the argument of the first function.
        use_reentrant: as for checkpoint.
        kwargs: `preserve_rng_state`.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> y = fb.utils.checkpoint.checkpoint_sequential([fb.sin, fb.cos, fb.exp, fb.tanh], 2, x, use_reentrant=False)
        >>> y.sum().backward()
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: the use_reentrant parameter should be passed explicitly; True is taken. Pass use_reentrant=False, "
            "which is recommended",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ArgumentError(f"checkpoint_sequential: unexpected keyword arguments: {', '.join(kwargs)}")
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= max(len(steps), 1):
        raise ArgumentError(f"checkpoint_sequential: segments must be in 1..{len(steps)}, got {segments}")
    size = len(steps) // segments

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    for k in range(segments - 1):
        run = part(k * size, (k + 1) * size)
        input = checkpoint(run, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part((segments - 1) * size, len(steps))(input)
