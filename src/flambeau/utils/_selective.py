"""Selective checkpoints: which results of a checkpointed function are saved and which are recomputed, op by op."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from flambeau import _C
from flambeau._C import Tensor
from flambeau.errors import ArgumentError, StateError

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """What a selective checkpoint does with the result of an op: keep it, or compute it again in backward.

    `PREFER_` and `MUST_` mean the same here, and so do saving and moving to the CPU, where everything is.

    Example:
        >>> fb.utils.checkpoint.CheckpointPolicy.MUST_SAVE.name
        'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """Information for a policy besides the op and its arguments.

    Args:
        is_recompute: whether this is the second run, in which policies are called again without effect.
        op_output: the op's result; None in the second run.

    Example:
        >>> fb.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False).op_output is None
        True
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


def _function(name: str, arguments: dict[str, Any]) -> Any:
    """The public function that a policy sees for an op; matrix product layers count as those, as in PyTorch."""
    if name == "_nn.linear":
        name = "mm" if arguments.get("bias") is None else "addmm"
    elif name == "matmul":
        rank = max(x.ndim for x in arguments.values() if isinstance(x, Tensor))
        name = {1: "dot", 2: "mm"}.get(rank, "bmm")
    elif name.startswith("_nn."):
        name = "nn.functional." + name[4:]
    elif name in ("true_divide", "_relu"):
        name = {"true_divide": "div", "_relu": "relu"}[name]
    space, _, short = name.rpartition(".")
    return _C.namespaces.get(space, {}).get(short) or getattr(Tensor, short, None) or name


class _Entry:
    """A saved result with its versions."""

    def __init__(self, result: Any) -> None:
        self.result = result
        tensors = result if isinstance(result, tuple) else (result,)
        self.versions = [t._version for t in tensors if isinstance(t, Tensor)]

    def take(self, name: str, mutable: bool) -> Any:
        """The result, if it was not written to since."""
        tensors = self.result if isinstance(self.result, tuple) else (self.result,)
        if not mutable and self.versions != [t._version for t in tensors if isinstance(t, Tensor)]:
            raise StateError(
                f"checkpoint: Tensor cached during selective activation checkpoint has been mutated: the result of {name} was kept and "
                "then changed in place; let the policy recompute it, or pass allow_cache_entry_mutation=True"
            )
        return self.result


_TAKEN, _NOT_KEPT = object(), object()


class _Run:
    """A context in which ops go through `self.handle`; results by op and number of the call."""

    def __init__(self, policy: Callable[..., Any], results: dict[str, list[Any]]) -> None:
        self.policy, self.results = policy, results

    def ask(self, context: SelectiveCheckpointContext, name: str, arguments: dict[str, Any]) -> CheckpointPolicy:
        """The policy's answer."""
        answer = self.policy(context, _function(name, arguments), *arguments.values())
        if isinstance(answer, bool):
            answer = CheckpointPolicy.MUST_SAVE if answer else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(answer, CheckpointPolicy):
            raise ArgumentError(f"checkpoint: the policy must return a CheckpointPolicy or a bool, got {type(answer).__name__}")
        return answer

    def __enter__(self) -> Self:
        self.counts: dict[str, int] = defaultdict(int)
        self.outer = _C.set_kernel_hook(self.handle)
        return self

    def __exit__(self, *error: Any) -> None:
        _C.set_kernel_hook(self.outer)

    def handle(self, name: str, arguments: dict[str, Any], result: Any) -> Any:
        raise NotImplementedError


class _FirstRun(_Run):
    """Asks the policy and saves results."""

    def handle(self, name: str, arguments: dict[str, Any], result: Any) -> Any:
        if result is None:
            return None
        answer = self.ask(SelectiveCheckpointContext(is_recompute=False, op_output=result), name, arguments)
        self.results[name].append(_NOT_KEPT if answer in _RECOMPUTED else _Entry(result))
        return None


class _SecondRun(_Run):
    """Returns saved results."""

    def __init__(self, policy: Callable[..., Any], results: dict[str, list[Any]], mutable: bool) -> None:
        super().__init__(policy, results)
        self.mutable = mutable

    def handle(self, name: str, arguments: dict[str, Any], result: Any) -> Any:
        if result is not None:
            return None
        self.ask(SelectiveCheckpointContext(is_recompute=True), name, arguments)  # a policy may count its calls
        number = self.counts[name]
        self.counts[name] += 1
        found = self.results.get(name)
        if found is None or number >= len(found):
            what = name if found is None else f"{name} invocation index {number}"
            raise StateError(
                f"checkpoint: {what} encountered during backward but not found in storage: the first run did not get there; the "
                "function must do the same each time it runs"
            )
        entry = found[number]
        if entry is _TAKEN:
            raise StateError(
                "checkpoint: Trying to backward an extra time. What a selective checkpoint keeps serves one backward; compute the "
                "graph again"
            )
        if entry is _NOT_KEPT:
            return None
        found[number] = _TAKEN
        return entry.take(name, self.mutable)


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False) -> tuple[Any, Any]:
    """Two contexts for checkpoint's context_fn: results of the ops that the policy names are kept, the others computed again.

    Args:
        policy_fn_or_list: a function `policy(ctx, op, *args)` that returns a CheckpointPolicy (or a bool: whether to
            keep), or a list of ops to keep. An op is the public function, such as `fb.mm`; a linear layer counts as
            `fb.addmm` or, without bias, `fb.mm`.
        allow_cache_entry_mutation: whether kept results may be changed in place afterwards.

    Example:
        >>> import functools
        >>> from flambeau.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> x = fb.ones(2, 2, requires_grad=True)
        >>> keep_products = functools.partial(create_selective_checkpoint_contexts, [fb.mm])
        >>> y = checkpoint(lambda t: (t @ t).sin(), x, use_reentrant=False, context_fn=keep_products)
        >>> y.sum().backward()
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not callable(op) or isinstance(op, type):
                raise ValueError(
                    f"create_selective_checkpoint_contexts: Expected op in `op_list` to be an OpOverload or a function, got {op!r}"
                )
        kept = policy_fn_or_list

        def policy(ctx: Any, op: Any, *args: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts: policy_fn_or_list must be either a function or a list of ops. Got "
            f"{type(policy_fn_or_list).__name__}"
        )
    results: dict[str, list[Any]] = defaultdict(list)
    return _FirstRun(policy, results), _SecondRun(policy, results, allow_cache_entry_mutation)
