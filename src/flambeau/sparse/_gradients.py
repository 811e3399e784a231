"""autograd.grad and backward of sparse tensors: the history belongs to the stored elements."""

from __future__ import annotations

from typing import Any

from flambeau.errors import ArgumentError
from flambeau.sparse._tensor import SparseTensor


class Kept:
    """The kept elements in the place of sparse tensors.

    Args:
        outputs: what is differentiated.
        inputs: what to differentiate by, or None.
    """

    def __init__(self, outputs: tuple[Any, ...], inputs: tuple[Any, ...] | None) -> None:
        self._given, self._wanted = outputs, inputs
        self.outputs = tuple(map(_kept, outputs))
        self.inputs = None if inputs is None else tuple(map(_kept, inputs))

    def gradients(self, op: str, given: tuple[Any, ...], batched: bool = False) -> tuple[Any, ...]:
        """Gradients of the outputs, converted to those of their stored elements."""
        if len(given) != len(self._given):
            return given  # the caller raises the error
        if batched and any(isinstance(out, SparseTensor) for out in self._given):
            raise ArgumentError(f"{op}: is_grads_batched is not available for sparse outputs; call it for each gradient")
        return tuple(
            out._with_grad(op, g) if isinstance(out, SparseTensor) else g for out, g in zip(self._given, given, strict=True)
        )

    def results(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gradients of sparse inputs' stored elements, converted to sparse tensors."""
        return tuple(
            x._with(g) if isinstance(x, SparseTensor) and g is not None and g.shape == x._value.shape else g
            for x, g in zip(self._wanted or (), found, strict=True)
        )


def _kept(x: Any) -> Any:
    return x._value if isinstance(x, SparseTensor) else x
