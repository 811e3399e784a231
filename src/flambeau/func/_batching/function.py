"""autograd.Function under vmap: by its `vmap` static method, or by a rule generated from forward and backward."""

from __future__ import annotations

from typing import Any, NamedTuple

import flambeau as fb
from flambeau._C import Tensor
from flambeau.errors import ArgumentError, StateError
from flambeau.func._batching import Batched, Level, enter, leave, levels, wrap
from flambeau.utils._pytree import broadcast_prefix, tree_flatten, tree_unflatten


class VmapInfo(NamedTuple):
    """Passed to a Function's vmap."""

    batch_size: int
    randomness: str


def apply_batched(function: Any, args: tuple[Any, ...]) -> Any:
    """Function.apply for arguments of which some are batched."""
    level = max((x.level for x in args if isinstance(x, Batched)), key=lambda level: level.depth)
    if not level.active:
        raise StateError(f"{function.__name__}: a tensor from inside a vmap is used after that vmap ended")
    custom = function.vmap is not fb.autograd.Function.vmap
    if function.generate_vmap_rule and custom:
        raise ArgumentError(f"{function.__name__}: has both generate_vmap_rule=True and a vmap method; keep one")
    if custom:
        return _by_its_rule(function, args, level)
    if function.setup_context is fb.autograd.Function.setup_context:
        raise StateError(
            f"vmap: In order to use an autograd.Function with vmap, it must override the setup_context staticmethod; give "
            f"{function.__name__} a setup_context and a forward without ctx, or a vmap static method"
        )
    if not function.generate_vmap_rule:
        raise StateError(
            f"vmap: You tried to vmap over {function.__name__}, but it does not have vmap support; give it a vmap static method, or set "
            "generate_vmap_rule=True if its forward and backward are made of ops"
        )
    mine = [isinstance(x, Batched) and x.level is level for x in args]
    plain = tuple(x.physical if own else x for x, own in zip(args, mine, strict=True))
    output = _generated(function, mine, level).apply(*plain)
    return tuple(wrap(x, level) for x in output) if isinstance(output, tuple) else wrap(output, level)


def _by_its_rule(function: Any, args: tuple[Any, ...], level: Level) -> Any:
    """Calls the Function's own vmap; arguments may be nested containers, and in_dims has their structure."""
    leaves, spec = tree_flatten(args)
    mine = [isinstance(x, Batched) and x.level is level for x in leaves]
    plain = tree_unflatten([x.physical if own else x for x, own in zip(leaves, mine, strict=True)], spec)
    in_dims = tree_unflatten([0 if own else None for own in mine], spec)
    returned = function.vmap(VmapInfo(level.size, level.randomness), in_dims, *plain)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ArgumentError(
            f"{function.__name__}: Expected the vmap staticmethod to have two returns, an output and out_dims in the structure of the "
            f"output, got {type(returned).__name__}"
        )
    outputs, out_spec = tree_flatten(returned[0])
    dims = broadcast_prefix(returned[1], out_spec)
    if dims is None:
        raise ArgumentError(
            f"{function.__name__}: The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple: out_dims="
            f"{returned[1]} for an output with the structure {out_spec}"
        )
    results = [
        x if dim is None or not isinstance(x, Tensor) else wrap(x.movedim(dim, 0), level)
        for x, dim in zip(outputs, dims, strict=True)
    ]
    return tree_unflatten(results, out_spec)


def grad_of_examples(outputs: tuple, inputs: tuple, gradients: tuple, options: dict[str, Any]) -> tuple:
    """autograd.grad inside vmap.

    For a graph recorded outside, with batched gradients: one backward for each. For batched outputs: one backward for
    all, since examples share nothing, with respect to inputs that are batched too.
    """
    level = max((x.level for x in (*outputs, *inputs, *gradients) if isinstance(x, Batched)), key=lambda level: level.depth)

    def mine(x: Any) -> bool:
        return isinstance(x, Batched) and x.level is level

    def physical(x: Any) -> Any:
        return x.physical if mine(x) else x

    if any(mine(x) for x in outputs):
        if not all(mine(x) for x in (*outputs, *inputs)):
            raise StateError(
                "grad: inside vmap the outputs differ per example, and an output or input that is the same for all would get the "
                "sum over the examples; use fb.func.grad or fb.func.vjp inside vmap"
            )
        for out, g in zip(outputs, gradients, strict=True):
            if g is None and out.numel() != 1:
                raise RuntimeError(f"grad: grad can be implicitly created only for scalar outputs, got shape {tuple(out.shape)}")
        seeds = tuple(
            fb.ones_like(out.physical) if g is None
            else g.physical if mine(g)
            else g.unsqueeze(0).expand((level.size, *g.shape))
            for out, g in zip(outputs, gradients, strict=True)
        )  # fmt: skip
        found = fb.autograd.grad(tuple(map(physical, outputs)), tuple(map(physical, inputs)), seeds, **options)
    else:
        if any(mine(x) for x in inputs):
            raise StateError("grad: One of the differentiated Tensors appears to not have been used in the graph: the outputs were made "
                             "outside of vmap, an input inside")  # fmt: skip
        seeds = tuple(
            g.physical if mine(g)
            else (fb.ones_like(out) if g is None else g).unsqueeze(0).expand((level.size, *out.shape))
            for out, g in zip(outputs, gradients, strict=True)
        )  # fmt: skip
        found = fb.autograd.grad(outputs, inputs, seeds, is_grads_batched=True, **options)
    return tuple(None if g is None else wrap(g, level) for g in found)


class _Running:
    """A level for the duration of a forward or backward that vmap did not start."""

    def __init__(self, size: int, randomness: str) -> None:
        self.level = Level(len(levels()) + 1, size, randomness)

    def __enter__(self) -> Level:
        enter(self.level)
        return self.level

    def __exit__(self, *exception: Any) -> None:
        leave(self.level)
        self.level.active = False


class _Context:
    """The context for a generated rule: saved tensors are unwrapped, and batched again in backward."""

    def __init__(self, ctx: Any) -> None:
        object.__setattr__(self, "_ctx", ctx)

    def save_for_backward(self, *tensors: Any) -> None:
        self._ctx._batched = [isinstance(x, Batched) for x in tensors]
        self._ctx.save_for_backward(*(x.physical if isinstance(x, Batched) else x for x in tensors))

    def mark_non_differentiable(self, *tensors: Any) -> None:
        raise StateError("vmap: mark_non_differentiable is not available with generate_vmap_rule=True; write a vmap static method")

    mark_dirty = mark_non_differentiable

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        pairs = zip(self._ctx.saved_tensors, self._ctx._batched, strict=True)
        return tuple(wrap(x, self._ctx._level) if batched else x for x, batched in pairs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


def _generated(function: Any, mine: list[bool], level: Level) -> Any:
    """A Function on physical tensors that runs the given one's forward and backward on examples."""
    size, randomness = level.size, level.randomness

    def examples(values, at, own):
        return [wrap(x, at) if batched else x for x, batched in zip(values, own, strict=True)]

    def physical(x, at):
        if isinstance(x, Batched) and x.level is at:
            return x.physical
        return x.unsqueeze(0).expand((size, *x.shape))

    class Generated(fb.autograd.Function):
        """All examples at once."""

        @staticmethod
        def forward(*args):
            with _Running(size, randomness) as at:
                output = function.forward(*examples(args, at, mine))
                if isinstance(output, tuple):
                    return tuple(physical(x, at) for x in output)
                return physical(output, at)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx._batched = []
            several = isinstance(output, tuple)
            with _Running(size, randomness) as at:
                outs = tuple(wrap(x, at) for x in output) if several else wrap(output, at)
                function.setup_context(_Context(ctx), tuple(examples(inputs, at, mine)), outs)

        @staticmethod
        def backward(ctx, *gradients):
            with _Running(size, randomness) as at:
                ctx._level = at
                found = function.backward(_Context(ctx), *(None if g is None else wrap(g, at) for g in gradients))
                found = found if isinstance(found, tuple) else (found,)
                results = []
                for g, own in zip(found, mine, strict=True):
                    if g is None:
                        results.append(None)
                    elif own:
                        results.append(physical(g, at))
                    else:
                        # An unbatched input accumulates the gradients of all examples.
                        results.append(physical(g, at).sum(0))
                return tuple(results)

    Generated.__name__ = function.__name__
    return Generated
