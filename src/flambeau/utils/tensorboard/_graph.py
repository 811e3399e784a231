"""A module as a graph for TensorBoard: a node per call of a layer, edges where results flow."""

from __future__ import annotations

import contextlib
from typing import Any

import flambeau as fb
from flambeau.utils.tensorboard._records import integer, message


def _tensors(value: Any) -> list[fb.Tensor]:
    if isinstance(value, fb.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for part in value for t in _tensors(part)] if isinstance(value, (list, tuple)) else []


class _Recorder:
    """Forward hooks on leaf layers; ops between them are followed through autograd."""

    def __init__(self) -> None:
        self.nodes: list[tuple[str, str, list[str], list[tuple[int, ...]], str]] = []
        self._makers: dict[Any, str] = {}  # node of autograd -> the name of the tensor's producer
        self._by_id: dict[int, str] = {}
        self._alive: list[Any] = []  # an id must not be reused for another tensor
        self._calls: dict[str, int] = {}

    def source(self, name: str, tensors: list[fb.Tensor]) -> None:
        """Registers the results of `name`, to be found as arguments of others."""
        for t in tensors:
            self._alive.append(t)
            self._by_id[id(t)] = name
            if t.grad_fn is not None:
                self._makers[t.grad_fn] = name

    def inputs(self, tensors: list[fb.Tensor]) -> list[str]:
        """Names of the producers of these tensors."""
        found: dict[str, None] = {}
        seen = set()
        for t in tensors:
            if id(t) in self._by_id:
                found[self._by_id[id(t)]] = None
                continue
            todo = [t.grad_fn]
            while todo:
                node = todo.pop()
                if node is None or node in seen:
                    continue
                seen.add(node)
                variable = getattr(node, "variable", None)
                if node in self._makers:
                    found[self._makers[node]] = None
                elif variable is not None and id(variable) in self._by_id:
                    found[self._by_id[id(variable)]] = None
                else:
                    todo += [before for before, _ in node.next_functions]
        return list(found)

    def add(self, name: str, kind: str, arguments: Any, results: Any, detail: str) -> None:
        """A node."""
        self._calls[name] = self._calls.get(name, 0) + 1
        label = name if self._calls[name] == 1 else f"{name}_{self._calls[name] - 1}"
        tensors = _tensors(results)
        self.nodes.append((label, kind, self.inputs(_tensors(arguments)), [tuple(t.shape) for t in tensors], detail))
        self.source(label, tensors)


def _encoded(nodes: list[Any]) -> bytes:
    """A GraphDef."""
    out = b""
    for name, kind, inputs, shapes, detail in nodes:
        body = message(1, name) + message(2, kind) + b"".join(message(3, one) for one in inputs)
        sizes = b"".join(
            message(7, b"".join(message(2, integer(1, size)) for size in shape)) for shape in shapes
        )
        body += message(5, message(1, "_output_shapes") + message(2, message(1, sizes)))
        if detail:
            body += message(5, message(1, "attr") + message(2, message(2, detail)))
        out += message(1, body)
    return out + message(4, integer(1, 22))


def graph(model: Any, inputs: Any) -> tuple[bytes, list[str]]:
    """Runs the model on the inputs; the GraphDef of what ran, and a line per node.

    Args:
        model: the module.
        inputs: its arguments: a tensor, or a tuple of them.
    """
    recorder = _Recorder()
    arguments = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    # Copies that require gradients: then everything computed from them can be followed.
    arguments = tuple(
        a.detach().clone().requires_grad_() if isinstance(a, fb.Tensor) and a.is_floating_point() else a for a in arguments
    )
    root = type(model).__name__
    for i, argument in enumerate(arguments):
        recorder.add(f"{root}/input/{i}", "IO Node", None, argument, "")

    def hook(name: str) -> Any:
        def record(module: Any, given: Any, results: Any) -> None:
            path = "/".join([root, *name.split(".")]) if name else root
            recorder.add(f"{path}/{type(module).__name__}", type(module).__name__, given, results, module.extra_repr())

        return record

    with contextlib.ExitStack() as hooks, fb.enable_grad():
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                hooks.callback(module.register_forward_hook(hook(name)).remove)
        results = model(*arguments)
    recorder.add(f"{root}/output", "IO Node", results, None, "")
    lines = [f"{name}: {kind}({', '.join(given)})" for name, kind, given, _, _ in recorder.nodes]
    return _encoded(recorder.nodes), lines
