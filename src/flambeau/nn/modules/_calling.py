"""How a Module is called: forward, the hooks around it, and the module's path in errors."""

from __future__ import annotations

import inspect
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

from flambeau import Tensor
from flambeau.autograd.anomaly_mode import inside, watching
from flambeau.nn.modules._hooks import (
    BackwardGates,
    LastOpHook,
    RemovableHandle,
    add_hook,
    global_always_called,
    global_hooks,
    global_with_kwargs,
)

_pre, _post, _back_pre, _back = (global_hooks[k] for k in ("forward_pre", "forward", "backward_pre", "backward"))


# Hooks by their arguments: the module, its inputs (keywords separately, if requested), its output.
Hook2: TypeAlias = Callable[[Any, Any], Any]
Hook3: TypeAlias = Callable[[Any, Any, Any], Any]
Hook4: TypeAlias = Callable[[Any, Any, Any, Any], Any]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class HasForward(Protocol[P, R_co]):
    """Gives a call the type of the module's own forward()."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Calling:
    """The part of Module that runs forward() and its hooks."""

    forward: Callable[..., Any]
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]

    def __call__(self: HasForward[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Runs forward() with the arguments, and the hooks around it."""
        own = self.__dict__  # faster than attributes, which a class with __getattr__ looks up slowly
        try:
            if (
                own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
                or _pre or _post or _back_pre or _back or watching
            ):  # fmt: skip
                return self._call_with_hooks(args, kwargs)  # type: ignore[attr-defined]  # self is a Calling
            return self.forward(*args, **kwargs)
        except Exception as error:
            clearer = _not_a_tensor(self, error, args, kwargs)
            if clearer is not None:
                _note_path(self, clearer)
                raise clearer from error
            _note_path(self, error)
            raise

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return Calling.__call__(self, *args, **kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Any:
        called: set[int] = set()
        try:
            if watching:
                with inside(self):
                    return self._forward_between_hooks(args, kwargs, called)
            return self._forward_between_hooks(args, kwargs, called)
        except Exception:
            self._call_after_failure(args, kwargs, called)
            raise

    def _forward_between_hooks(self, args: tuple[Any, ...], kwargs: dict[Any, Any], called: set[int]) -> Any:
        for number, hook in (*_pre.items(), *self._forward_pre_hooks.items()):
            if number in self._forward_pre_hooks_with_kwargs:
                answer = hook(self, args, kwargs)
                if answer is not None:
                    if not (isinstance(answer, tuple) and len(answer) == 2):
                        raise RuntimeError(
                            f"forward pre-hook: with_kwargs=True expects None or a pair (args, kwargs), got {answer!r}"
                        )
                    args, kwargs = answer
            else:
                answer = hook(self, args)
                if answer is not None:
                    args = answer if isinstance(answer, tuple) else (answer,)
        gates = None
        if self._backward_pre_hooks or self._backward_hooks or _back_pre or _back:
            gates = BackwardGates(
                self,
                [*_back_pre.values(), *self._backward_pre_hooks.values()],
                [*_back.values(), *self._backward_hooks.values()],
            )
            args = gates.enter(args)
        output = self.forward(*args, **kwargs)
        for number, hook in (*_post.items(), *self._forward_hooks.items()):
            called.add(number)
            if number in self._forward_hooks_with_kwargs or number in global_with_kwargs:
                answer = hook(self, args, kwargs, output)
            else:
                answer = hook(self, args, output)
            if answer is not None:
                output = answer
        return output if gates is None else gates.leave(output)

    def _call_after_failure(self, args: tuple[Any, ...], kwargs: dict[Any, Any], called: set[int]) -> None:
        """Runs hooks with always_call although forward raised; that error is reported."""
        for number, hook in (*_post.items(), *self._forward_hooks.items()):
            always = number in self._forward_hooks_always_called or number in global_always_called
            if not always or number in called:
                continue
            try:
                if number in self._forward_hooks_with_kwargs or number in global_with_kwargs:
                    hook(self, args, kwargs, None)
                else:
                    hook(self, args, None)
            except Exception as error:
                warnings.warn(f"forward hook with always_call=True raised after forward did: {error}", stacklevel=2)

    # ---- registering hooks ---------------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Hook2 | Hook3, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls hook(module, args) before forward(); what it returns, unless None, replaces the arguments.

        Args:
            hook: the function; hook(module, args, kwargs) with with_kwargs, which returns None or (args, kwargs).
            prepend: whether it runs before the hooks there are.
            with_kwargs: whether keyword arguments are passed to it.

        Example:
            >>> m = fb.nn.ReLU()
            >>> handle = m.register_forward_pre_hook(lambda module, args: args[0] + 1)
            >>> m(fb.zeros(1))
            tensor([1.])
        """
        return add_hook(self._forward_pre_hooks, hook, prepend, [(with_kwargs, self._forward_pre_hooks_with_kwargs)])

    def register_forward_hook(
        self, hook: Hook3 | Hook4, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls hook(module, args, output) after forward(); what it returns, unless None, is the output.

        Args:
            hook: the function; hook(module, args, kwargs, output) with with_kwargs.
            prepend: whether it runs before the hooks there are.
            with_kwargs: whether keyword arguments are passed to it.
            always_call: whether it is called when forward raises, too, with None as output.

        Example:
            >>> m = fb.nn.ReLU()
            >>> handle = m.register_forward_hook(lambda module, args, output: output + 1)
            >>> m(fb.zeros(1))
            tensor([1.])
        """
        flags = [(with_kwargs, self._forward_hooks_with_kwargs), (always_call, self._forward_hooks_always_called)]
        return add_hook(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Hook2, prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_output) when the gradients of the outputs are known.

        What it returns, unless None, takes the place of these gradients.

        Example:
            >>> m = fb.nn.ReLU()
            >>> handle = m.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 2,))
            >>> x = fb.ones(1, requires_grad=True)
            >>> m(x).sum().backward()
            >>> x.grad
            tensor([2.])
        """
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook3, prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_input, grad_output) when the gradients of the inputs are known.

        What it returns, unless None, takes the place of grad_input. Entries are None for non-tensor arguments
        or need no gradient.

        Example:
            >>> m = fb.nn.ReLU()
            >>> handle = m.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,))
            >>> x = fb.ones(1, requires_grad=True)
            >>> m(x).sum().backward()
            >>> x.grad
            tensor([3.])
        """
        return add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook3) -> RemovableHandle:
        """Calls hook(module, grad_input, grad_output) when the op that made the output has run backward.

        The older form of register_full_backward_hook(): grad_input are the gradients of that last op, not of the
        module. The
        output is unchanged, so it may be modified in place.

        Example:
            >>> m = fb.nn.Linear(2, 1)
            >>> handle = m.register_backward_hook(lambda module, inputs, outputs: None)
        """
        return self.register_forward_hook(LastOpHook(hook))


def _not_a_tensor(module: Any, error: Exception, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> TypeError | None:
    """For an error inside a library module that was given None, a list, …: names the wrong argument."""
    if type(error) not in (AttributeError, TypeError) or not type(module).__module__.startswith("flambeau.nn.modules."):
        return None
    if isinstance(error, TypeError) and re.match(r"[\w.]+: ", str(error)):
        return None  # the op's own message
    try:
        signature = inspect.signature(module.forward)
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    culprit = error.obj if isinstance(error, AttributeError) and error.name is not None else module
    for name, value in given.items():
        declared = signature.parameters[name].annotation in ("Tensor", Tensor)
        if not isinstance(value, Tensor) and (value is culprit or declared):
            way = "" if value is None else "; use fb.as_tensor()"
            return TypeError(f"{type(module).__name__}: {name} must be a Tensor, got {type(value).__name__}{way}")
    return None


def unobserved(module: Any) -> bool:
    """Whether a call of the module is a call of its class's forward() and nothing else."""
    own = module.__dict__
    return not (
        own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
        or _pre or _post or _back_pre or _back or watching or "forward" in own
    )  # fmt: skip


def _note_path(module: Any, error: Exception) -> None:
    """Adds a note to the exception that says which module raised it; each enclosing module extends the path."""
    trail = error.__dict__.get("_flambeau_trail")
    if trail is None:
        # The index of the note, the class that raised, the path so far and the module it starts from.
        trail = [len(getattr(error, "__notes__", ())), type(module).__name__, "", module]
        error.add_note("")
        error.__dict__["_flambeau_trail"] = trail
    elif trail[3] is not module:
        name = next((path for path, m in module.named_modules() if m is trail[3]), None)
        if name is None:
            return
        trail[2] = f"{name}.{trail[2]}" if trail[2] and name else name or trail[2]
        trail[3] = module
    place, kind, path, _ = trail
    notes = getattr(error, "__notes__", [])
    if place < len(notes):
        notes[place] = f"raised in forward() of {path} ({kind})" if path else f"raised in forward() of {kind}"
