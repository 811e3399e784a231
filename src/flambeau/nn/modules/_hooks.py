"""Hooks: functions called by a module, or by every module, in forward or backward."""

from __future__ import annotations

import types
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau.utils.hooks import RemovableHandle

# Hooks for all modules, by kind. Each value of a table is a Hook.
global_hooks: dict[str, OrderedDict[int, Any]] = {
    kind: OrderedDict() for kind in ("forward_pre", "forward", "backward_pre", "backward")
}
registration_hooks: dict[str, OrderedDict[int, Any]] = {
    kind: OrderedDict() for kind in ("parameter", "buffer", "module")
}


def add_hook(
    table: OrderedDict[Any, Any], hook: Any, prepend: bool = False, flags: list[tuple[bool, OrderedDict[int, bool]]] | None = None
) -> RemovableHandle:
    """Adds a hook to a table; the tables of set flags hold the hook's ID until it is removed."""
    marked = [marks for flag, marks in flags or () if flag]
    handle = RemovableHandle(table, extra_dict=marked)
    table[handle.id] = hook
    for marks in marked:
        marks[handle.id] = True
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


global_with_kwargs: OrderedDict[int, bool] = OrderedDict()
global_always_called: OrderedDict[int, bool] = OrderedDict()
# All of them, under their names in PyTorch's nn.modules.module.
GLOBAL_TABLES: dict[str, OrderedDict[int, Any]] = {
    **{f"_global_{kind}_hooks": table for kind, table in global_hooks.items()},
    **{f"_global_{kind}_registration_hooks": table for kind, table in registration_hooks.items()},
    "_global_forward_hooks_with_kwargs": global_with_kwargs,
    "_global_forward_hooks_always_called": global_always_called,
}


class HoldsTables(types.ModuleType):
    """A module whose GLOBAL_TABLES can be read and assigned: programs do `module._global_forward_hooks = {}`."""

    def __setattr__(self, name: str, value: Any) -> None:
        table = GLOBAL_TABLES.get(name)
        if table is None:
            return super().__setattr__(name, value)
        entries = dict(value)
        table.clear()
        table.update(entries)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, args) before the forward of every module; what it returns, unless None, replaces args.

    Example:
        >>> with fb.nn.modules.module.register_module_forward_pre_hook(lambda m, args: print(type(m).__name__)):
        ...     fb.nn.ReLU()(fb.zeros(1))
        ReLU
        tensor([0.])
    """
    return add_hook(global_hooks["forward_pre"], hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls hook(module, args, output) after the forward of every module; what it returns, unless None, is the output.

    Args:
        hook: the function; hook(module, args, kwargs, output) with with_kwargs.
        with_kwargs: whether keyword arguments are passed to it.
        always_call: whether it is called when forward raises, too.

    Example:
        >>> with fb.nn.modules.module.register_module_forward_hook(lambda m, args, output: output + 1):
        ...     fb.nn.ReLU()(fb.zeros(1))
        tensor([1.])
    """
    flags = [(with_kwargs, global_with_kwargs), (always_call, global_always_called)]
    return add_hook(global_hooks["forward"], hook, flags=flags)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, grad_output) when the gradients of any module's outputs are known.

    Example:
        >>> handle = fb.nn.modules.module.register_module_full_backward_pre_hook(lambda module, grads: None)
        >>> handle.remove()
    """
    return add_hook(global_hooks["backward_pre"], hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, grad_input, grad_output) when the gradients of any module's inputs are known.

    Example:
        >>> handle = fb.nn.modules.module.register_module_full_backward_hook(lambda module, inputs, outputs: None)
        >>> handle.remove()
    """
    return add_hook(global_hooks["backward"], hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, grad_input, grad_output) when the op that made any module's output has run backward.

    The older form of register_module_full_backward_hook(), as Module.register_backward_hook() is for one module.

    Example:
        >>> handle = fb.nn.modules.module.register_module_backward_hook(lambda module, inputs, outputs: None)
        >>> handle.remove()
    """
    return add_hook(global_hooks["forward"], LastOpHook(hook))


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, name, param) when a parameter is registered; what it returns, unless None, is registered.

    Example:
        >>> handle = fb.nn.modules.module.register_module_parameter_registration_hook(lambda m, name, p: None)
        >>> handle.remove()
    """
    return add_hook(registration_hooks["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, name, buffer) when a buffer is registered; what it returns, unless None, is registered.

    Example:
        >>> handle = fb.nn.modules.module.register_module_buffer_registration_hook(lambda m, name, b: None)
        >>> handle.remove()
    """
    return add_hook(registration_hooks["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, name, submodule) when a submodule is registered; what it returns, unless None, is registered.

    Example:
        >>> handle = fb.nn.modules.module.register_module_module_registration_hook(lambda m, name, sub: None)
        >>> handle.remove()
    """
    return add_hook(registration_hooks["module"], hook)


# ---- gradients passing a module
# ----------------------------------------------------------------------------------------


class LastOpHook:
    """A forward hook that adds a backward hook to the op that produced the output."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        whole = output
        while isinstance(output, (tuple, list, dict)) and output:
            output = next((v for v in output.values() if isinstance(v, Tensor)), None) if isinstance(output, dict) else output[0]
        node = output.grad_fn if isinstance(output, Tensor) else None
        if node is not None:
            _warn_of_last_op(args, whole, node)
            node.register_hook(lambda grad_input, grad_output: self.hook(module, grad_input, grad_output))


def _warn_of_last_op(args: Any, output: Any, node: Any) -> None:
    """Warns if the gradients of the last op are not those of the module."""
    outputs, inputs = ((v,) if isinstance(v, Tensor) else v for v in (output, args))

    def tensors_only(values: Any) -> bool:
        return isinstance(values, tuple) and all(isinstance(v, Tensor) for v in values)

    if not tensors_only(outputs):
        what = "on a Module that does not return a single Tensor or a tuple of Tensors"
    elif not tensors_only(inputs):
        what = "on a Module that does not take as input a single Tensor or a tuple of Tensors"
    elif len({v.grad_fn for v in outputs if v.grad_fn is not None}) > 1:
        what = "when outputs are generated by different autograd Nodes"
    elif {v.grad_fn for v in inputs if v.grad_fn is not None} != {n for n, _ in node.next_functions}:
        what = "when the forward contains multiple autograd Nodes"
    else:
        return
    warnings.warn(
        f"Using a non-full backward hook {what} is deprecated: it gets the gradients of the last op, not of the module; use "
        "register_full_backward_hook()",
        FutureWarning,
        stacklevel=6,
    )


class BackwardGates:
    """The two gates of one call: gradients of the outputs pass the first, gradients of the inputs the second."""

    def __init__(self, module: Any, pre_hooks: list[Any], hooks: list[Any]) -> None:
        self.module, self.pre_hooks, self.hooks = module, pre_hooks, hooks
        self.grad_output: tuple[Any, ...] | None = None
        self.has_input_gate = False
        self.inputs = 0

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, after the gate that their gradients will pass."""
        self.inputs = len(args)
        passed, self.has_input_gate = _behind_gate(args, self._input_gradients)
        return passed

    def leave(self, output: Any) -> Any:
        """The output, before the gate that its gradients will pass."""
        single = isinstance(output, Tensor)
        values = (output,) if single else output
        if not isinstance(values, (tuple, list)):
            warnings.warn(
                f"backward hooks of {type(self.module).__name__} are not called: the output of forward() should be a Tensor or a "
                f"tuple of Tensors, got {type(output).__name__}",
                stacklevel=5,
            )
            return output
        passed, _ = _behind_gate(tuple(values), self._output_gradients)
        if single:
            return passed[0]
        return type(output)(*passed) if hasattr(output, "_fields") else type(output)(passed)

    def _output_gradients(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            answer = hook(self.module, grads)
            if answer is not None:
                grads = _as_many("backward pre", answer, grads)
        self.grad_output = grads
        if not self.has_input_gate and self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require "
                "gradients: grad_input has no gradients",
                stacklevel=2,
            )
            if any(g is not None for g in self._run_hooks((None,) * self.inputs)):
                raise RuntimeError(
                    "backward hook: for Modules where no input requires gradient it should always return None or None for all "
                    "gradients"
                )
        return grads

    def _input_gradients(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._run_hooks(grads) if self.grad_output is not None else grads

    def _run_hooks(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.hooks:
            answer = hook(self.module, grads, self.grad_output)
            if answer is not None:
                grads = _as_many("backward", answer, grads)
        self.grad_output = None  # with create_graph=True its history refers to this object
        return grads


def _as_many(kind: str, answer: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    answer = answer if isinstance(answer, tuple) else (answer,)
    if len(answer) != len(grads):
        raise RuntimeError(f"{kind} hook: returned an invalid number of gradients, got {len(answer)}, but expected {len(grads)}")
    return answer


def _behind_gate(
    values: tuple[Any, ...], callback: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> tuple[tuple[Any, ...], bool]:
    """Passes the tensors that require gradients through a gate that calls back with the gradients."""
    import flambeau as fb

    where = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
    if not where or not fb.is_grad_enabled():
        return values, False

    def gate(grads: tuple[Any, ...]) -> tuple[Any, ...]:
        full: list[Any] = [None] * len(values)
        for i, grad in zip(where, grads, strict=True):
            full[i] = grad
        answer = callback(tuple(full))
        return tuple(answer[i] for i in where)

    passed = list(values)
    for i, tensor in zip(where, _gate_function().apply(gate, *(values[i] for i in where)), strict=True):
        passed[i] = tensor
    return tuple(passed), True


_gate: Any = None


def _gate_function() -> Any:
    """An autograd Function that is the identity forward and passes all gradients to a function backward."""
    global _gate
    if _gate is None:
        from flambeau.autograd import Function

        class BackwardHookFunction(Function):
            @staticmethod
            def forward(ctx, gate, *tensors):
                ctx.set_materialize_grads(False)
                ctx.gate = gate
                return tuple(t.view_as(t) for t in tensors)

            @staticmethod
            def backward(ctx, *grads):
                return (None, *ctx.gate(grads))

        _gate = BackwardHookFunction
    return _gate
