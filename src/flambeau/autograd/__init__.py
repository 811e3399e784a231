"""Gradients: backward, grad, custom functions, hooks and checks.

Example:
    >>> x = fb.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
"""

from __future__ import annotations

import sys as _sys
import typing as _typing
import warnings
from collections.abc import Iterable
from typing import Any, Self, TypeAlias

from flambeau import _C, Tensor
from flambeau._registry.lazy import load as _load
from flambeau._registry.names import package_dir as _package_dir
from flambeau.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from flambeau.autograd.function import Function, NestedIOFunction
from flambeau.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from flambeau.autograd.gradcheck import gradcheck, gradgradcheck
from flambeau.errors import ArgumentError

__all__ = [
    "Function", "NestedIOFunction", "Variable", "backward", "detect_anomaly", "enable_grad", "grad", "grad_mode",
    "gradcheck", "gradgradcheck", "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled",
]  # fmt: skip

Tensors: TypeAlias = Tensor | Iterable[Any]  # one, or several: tensors, gradient edges, None where allowed

_LAZY = ("forward_ad", "functional", "graph", "profiler")


def _tuple(value: Any) -> tuple[Any, ...]:
    """One tensor or gradient edge, or any iterable of them (list, generator, ParameterList); of a dict the values."""
    if value is None or isinstance(value, (Tensor, _edge_type())) or isinstance(value, str) or not isinstance(value, Iterable):
        return (value,)
    return tuple(value.values() if isinstance(value, dict) else value)


def _edge_type():
    from flambeau.autograd.graph import GradientEdge

    return GradientEdge


def _start(outputs: tuple[Any, ...], gradients: tuple[Any, ...], op: str, batched: bool = False) -> tuple[Any, ...]:
    """The initial gradients: ones for scalars, otherwise those given, checked against the outputs."""
    if len(gradients) != len(outputs):
        raise RuntimeError(f"{op}: got {len(outputs)} tensors and {len(gradients)} gradients")
    result = []
    for i, (out, g) in enumerate(zip(outputs, gradients, strict=True)):
        if isinstance(out, _edge_type()):
            shape, dtype = out.node._outputs[out.output_nr]
        else:
            shape, dtype = out.shape, out.dtype
        if g is None:
            if len(shape) and shape.numel() != 1:
                raise RuntimeError(
                    f"{op}: grad can be implicitly created only for scalar outputs, got shape {tuple(shape)} for tensor {i}; "
                    "give the gradient, or reduce the tensor first, say by sum()"
                )
            if dtype.is_complex:
                raise RuntimeError(
                    f"{op}: grad can be implicitly created only for real scalar outputs but got {dtype} for tensor {i}"
                )
            g = _ones(shape, dtype)
        elif not isinstance(g, Tensor):
            raise TypeError(f"{op}: gradients can be either Tensors or None, but got {type(g).__name__}")
        expected = tuple(shape)
        if tuple(g.shape[1:] if batched else g.shape) != expected:
            if batched:
                raise RuntimeError(
                    f"If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension: "
                    f"grad_output[{i}] of {op} has a shape of {g.shape}, expected a batch of {expected}"
                )
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {shape}."
            )
        if g.dtype.is_complex != dtype.is_complex:
            raise RuntimeError(
                f"{op}: For complex Tensors, both the gradient and the output are required to have the same dtype; "
                f"gradient {i} is {g.dtype}, the tensor {dtype}"
            )
        result.append(g)
    return tuple(result)


def _ones(shape, dtype):
    return _C.namespaces[""]["ones"](tuple(shape), dtype=dtype)


def _with_tangents() -> bool:
    """Whether gradients need tangents, because some tensor is dual."""
    forward_ad = _sys.modules.get("flambeau.autograd.forward_ad")
    return forward_ad is not None and bool(forward_ad._state.duals)


def backward(
    tensors: Tensors,
    grad_tensors: Tensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensors | None = None,
    inputs: Tensors | None = None,
) -> None:
    """Accumulates the gradients of the given tensors into the .grad of the leaves they depend on.

    Args:
        tensors: a tensor, or several, to start from.
        grad_tensors: their gradients; optional for tensors with one element.
        retain_graph: keep the saved tensors for another backward; the value of create_graph by default.
        create_graph: record the backward itself, for higher-order gradients.
        grad_variables: the old name of grad_tensors.
        inputs: accumulate gradients into these only; into all leaves by default.

    Example:
        >>> x = fb.tensor(3.0, requires_grad=True)
        >>> fb.autograd.backward(x * x)
        >>> x.grad
        tensor(6.)
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("backward: give grad_tensors or grad_variables, not both")
        grad_tensors = grad_variables
    outputs = _tuple(tensors)
    gradients = (None,) * len(outputs) if grad_tensors is None else _tuple(grad_tensors)
    inputs = inputs if inputs is None else _tuple(inputs)  # once: it may be a generator
    sparse = _of_sparse(outputs, inputs)
    if sparse is not None:
        outputs, gradients, inputs = sparse.outputs, sparse.gradients("backward", gradients), sparse.inputs
    if _inside_vmap((*outputs, *gradients)):
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use func.grad or func.vjp instead or "
            "call backward() outside of functorch transforms"
        )
    gradients = _start(outputs, gradients, "backward")
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient: neither is "
            "freed until .grad is set to None. Use autograd.grad, or reset the .grad of the parameters afterwards",
            stacklevel=2,
        )
    if inputs is None:
        _C.run_backward(_edges(outputs), gradients, bool(keep), bool(create_graph), None)
        return
    wanted = _tuple(inputs)
    if not wanted:
        raise RuntimeError("backward: `inputs` argument to `backward` cannot be empty; leave it out for all leaves")
    _C.run_backward(_edges(outputs), gradients, bool(keep), bool(create_graph), _edges(wanted), True)


def _inside_vmap(values: tuple[Any, ...]) -> bool:
    """Whether one of the tensors is batched by vmap."""
    return any(hasattr(type(v), "__flambeau_function__") for v in values)


def _of_sparse(outputs: tuple[Any, ...], inputs: tuple[Any, ...] | None) -> Any:
    """The stored parts of sparse tensors among them, which carry the history; None without sparse tensors."""
    if not any(hasattr(type(v), "_with_grad") for v in (*outputs, *(inputs or ()))):
        return None
    from flambeau.sparse._gradients import Kept

    return Kept(outputs, inputs)


def _edges(values: tuple[Any, ...]) -> tuple[Any, ...]:
    kind = _edge_type()
    return tuple((v.node, v.output_nr) if isinstance(v, kind) else v for v in values)


def grad(
    outputs: Tensors, inputs: Tensors, grad_outputs: Tensors | None = None, retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients of outputs with respect to inputs, returned instead of accumulated into .grad.

    Args:
        outputs: a tensor, or several.
        inputs: what to differentiate by.
        grad_outputs: gradients of the outputs; optional for tensors with one element.
        retain_graph: keep the saved tensors for another backward; the value of create_graph by default.
        create_graph: record the backward itself, for higher-order gradients.
        only_inputs: must be True: nothing is added to any .grad; any other value gives a warning and is ignored.
        allow_unused: None instead of an error for inputs that the outputs do not depend on.
        is_grads_batched: grad_outputs have a leading batch dimension; backward runs once for each,
            and the results have that dimension too.
        materialize_grads: zeros instead of None for inputs that are not used.

    Returns:
        A tuple, one gradient per input; for a dict of inputs a dict.

    Example:
        >>> x = fb.tensor(3.0, requires_grad=True)
        >>> fb.autograd.grad(x**3, x)
        (tensor(27.),)
    """
    if not only_inputs:
        warnings.warn("grad: only_inputs is deprecated and ignored; use backward() to fill .grad", FutureWarning, stacklevel=2)
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: Expected allow_unused to be True or not passed when materialize_grads=True")
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    found: Any
    if isinstance(inputs, dict):
        found = grad(
            outputs, tuple(inputs.values()), grad_outputs, retain_graph, create_graph, allow_unused=allow_unused,
            is_grads_batched=is_grads_batched, materialize_grads=materialize_grads,
        )  # fmt: skip
        return dict(zip(inputs, found, strict=True))  # type: ignore[return-value]
    outs, wanted = _tuple(outputs), _tuple(inputs)
    if not wanted:
        raise ArgumentError("grad requires non-empty inputs. Give the tensors to differentiate with respect to")
    given = (None,) * len(outs) if grad_outputs is None else _tuple(grad_outputs)
    sparse = _of_sparse(outs, wanted)
    if sparse is not None:
        found = grad(
            sparse.outputs, sparse.inputs, sparse.gradients("grad", given, is_grads_batched), retain_graph, create_graph,
            allow_unused=allow_unused, is_grads_batched=is_grads_batched, materialize_grads=materialize_grads,
        )  # fmt: skip
        return sparse.results(found)
    if _with_tangents():
        create_graph = retain_graph = True
    options: dict[str, Any] = {"create_graph": create_graph, "allow_unused": allow_unused, "materialize_grads": materialize_grads}
    if not is_grads_batched and _inside_vmap((*outs, *wanted, *given)):
        from flambeau.func._batching.function import grad_of_examples

        return grad_of_examples(outs, wanted, given, {**options, "retain_graph": retain_graph})
    gradients: Any = _start(outs, given, "grad", is_grads_batched)
    keep = bool(create_graph if retain_graph is None else retain_graph)
    if is_grads_batched:
        rows = [
            grad(outs, wanted, tuple(g[i] for g in gradients), True, create_graph, allow_unused=True)
            for i in range(len(gradients[0]))
        ]
        found = tuple(_stack(column) for column in zip(*rows, strict=True)) if rows else (None,) * len(wanted)
    else:
        found = _C.run_backward(_edges(outs), gradients, keep, bool(create_graph), _edges(wanted))
    if materialize_grads:
        if any(g is None and not isinstance(x, Tensor) for g, x in zip(found, wanted, strict=True)):
            raise RuntimeError(
                "materialize_grads cannot be used when the given input is a GradientEdge: grad does not know what zeros to make; "
                "give the tensor, or use allow_unused=True"
            )
        shape = (len(gradients[0]),) if is_grads_batched else ()
        return tuple(
            g if g is not None else _C.namespaces[""]["zeros"](shape + tuple(x.shape), dtype=x.dtype, requires_grad=bool(create_graph))
            for g, x in zip(found, wanted, strict=True)
        )
    if not allow_unused and any(g is None for g in found):
        missing = [i for i, g in enumerate(found) if g is None]
        raise RuntimeError(
            f"The differentiated Tensor at index {missing[0]} appears to not have been used in the graph. Set allow_unused=True if "
            f"this is the desired behavior. grad: no output depends on {'input' if len(missing) == 1 else 'inputs'} "
            f"{', '.join(map(str, missing))}"
        )
    return found


def _stack(column):
    if all(g is None for g in column):
        return None
    some = next(g for g in column if g is not None)
    return _C.namespaces[""]["stack"]([some.new_zeros(some.shape) if g is None else g for g in column])


class _VariableType(type):
    """Old code checks isinstance(x, Variable): true for every tensor."""

    def __instancecheck__(cls, obj: Any) -> bool:
        return isinstance(obj, Tensor)

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind, Tensor)


class Variable(metaclass=_VariableType):
    """A tensor: variables and tensors have been one for long. Kept for old code, which makes them and asks for the type.

    Example:
        >>> x = fb.autograd.Variable(fb.ones(2), requires_grad=True)
        >>> x
        tensor([1., 1.], requires_grad=True)
        >>> isinstance(x, fb.autograd.Variable)
        True
    """

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Self:
        return data.detach().requires_grad_(requires_grad)

    class _execution_engine:
        """Used by libraries: queues a callback for the end of the running backward."""

        queue_callback = staticmethod(_C.queue_callback)


if _typing.TYPE_CHECKING:
    from flambeau.autograd import forward_ad as forward_ad
    from flambeau.autograd import functional as functional
    from flambeau.autograd import graph as graph
    from flambeau.autograd import profiler as profiler
else:

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            return _load(f"flambeau.autograd.{name}")
        raise AttributeError(f"module 'flambeau.autograd' has no attribute '{name}'", name=name, obj=_sys.modules[__name__])

    __dir__ = _package_dir(__name__, _LAZY)
