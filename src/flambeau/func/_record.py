"""Shared by the transformations of fb.func: fresh inputs, gradients below vmap, results without unnecessary history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.errors import ArgumentError
from flambeau.func._batching import Level, at_all_levels, levels, levels_of, raw, rewrap
from flambeau.utils._pytree import tree_flatten, tree_unflatten


def is_differentiable(x: Any) -> bool:
    """Whether x is a tensor that can have a gradient."""
    return isinstance(x, Tensor) and (x.dtype.is_floating_point or x.dtype.is_complex)


def fresh(x: Tensor, track: bool) -> Tensor:
    """A tensor to differentiate with respect to: a view of x if its history matters (track), else a new leaf.

    Inside vmap it is batched at every level, so that unbatched inputs still get a gradient for each example.
    """
    x = at_all_levels(x)
    base = raw(x)
    base = base.view_as(base) if track and base.requires_grad else base.detach().requires_grad_()
    return rewrap(base, levels())


def fresh_tree(op: str, tree: Any, track: bool, what: str) -> tuple[list[Tensor], Any]:
    """The leaves of an argument, each made fresh, and the argument rebuilt from them."""
    leaves, spec = tree_flatten(tree)
    for leaf in leaves:
        if not is_differentiable(leaf):
            got = f"dtype {leaf.dtype}" if isinstance(leaf, Tensor) else type(leaf).__name__
            raise ArgumentError(f"{op}: {what} must hold tensors of floating or complex dtype to differentiate, got {got}")
    inputs = [fresh(leaf, track) for leaf in leaves]
    return inputs, tree_unflatten(inputs, spec)


class History:
    """Finds out whether tensors depend on anything that requires gradients besides the fresh inputs."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.own = {id(raw(x)) for x in inputs}

    def outside(self, tensors: Sequence[Tensor | None]) -> bool:
        """Walks the graph until it finds a leaf that is not an input."""
        stack = []
        for x in tensors:
            base = None if x is None else raw(x)
            if base is None or not base.requires_grad:
                continue
            if base.grad_fn is None:
                if id(base) not in self.own:
                    return True
                continue
            stack.append(base.grad_fn)
        seen = set(stack)
        while stack:
            node = stack.pop()
            variable = getattr(node, "variable", None)
            if variable is not None and id(variable) not in self.own:
                return True
            for below, _ in node.next_functions:
                if below is not None and below not in seen:
                    seen.add(below)
                    stack.append(below)
        return False

    def strip(self, x: Any) -> Any:
        """A result for the caller: with history only if it leads outside."""
        if isinstance(x, Tensor) and x.requires_grad and not self.outside([x]):
            return x.detach()
        return x

    def strip_tree(self, tree: Any) -> Any:
        """The same for a nested container."""
        leaves, spec = tree_flatten(tree)
        return tree_unflatten([self.strip(leaf) for leaf in leaves], spec)


def gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor | None], *, create: bool, retain: bool = False
) -> list[Tensor | None]:
    """Gradients through the physical tensors below vmap; None where an input has no influence."""
    wanted = [(out, cot) for out, cot in zip(outputs, cotangents, strict=True) if raw(out).requires_grad]
    if not wanted:
        return [None] * len(inputs)
    seeds = [_underneath(cot, out) for out, cot in wanted]
    found = fb.autograd.grad(
        [raw(out) for out, _ in wanted], [raw(x) for x in inputs], seeds,
        retain_graph=retain or create, create_graph=create, allow_unused=True,
    )  # fmt: skip
    return [None if g is None else rewrap(g, levels_of(x)) for g, x in zip(found, inputs, strict=True)]


def _underneath(cotangent: Tensor | None, output: Tensor) -> Tensor:
    """The cotangent in the layout of the output's physical tensor; ones without one."""
    base = raw(output)
    if cotangent is None:
        return fb.ones_like(base)
    have = levels_of(cotangent)
    target = raw(cotangent)
    for place, level in enumerate(levels_of(output)):
        if level not in have:
            target = target.unsqueeze(place)
    return target.expand(base.shape)


def zeros_for(x: Tensor) -> Tensor:
    """Zeros in the shape and at the levels of x."""
    return rewrap(fb.zeros_like(raw(x)), levels_of(x))


def new_levels(tensors: Sequence[Tensor], known: Sequence[Level]) -> bool:
    """Whether a tensor is batched by a vmap that began after the known ones."""
    return any(level not in known for x in tensors for level in levels_of(x))
