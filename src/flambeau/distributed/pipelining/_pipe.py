"""pipeline(): splits a model whose forward is a chain of modules into stages.

Note [Cutting models]
The model runs once on an example, and calls of modules are recorded. A module whose forward only passes the result of
one module to the next is a chain, and equivalent to its parts in sequence; a cut inside replaces it by those parts.
Other computations between two modules cannot be detected by recording modules, so they are an error, and never dropped.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import flambeau as fb
from flambeau import Tensor
from flambeau.distributed.pipelining.stage import PipelineStage
from flambeau.errors import ArgumentError
from flambeau.nn.modules.module import Module

__all__ = ["Pipe", "SplitPoint", "build_stage", "pipe_split", "pipeline"]
__dir__ = __all__.copy


class SplitPoint(enum.Enum):
    """Where a cut is: before or after a module.

    Example:
        >>> fb.distributed.pipelining.SplitPoint.BEGINNING.name
        'BEGINNING'
    """

    BEGINNING = 1
    END = 2


class _Call:
    """A call of a module while the example runs."""

    def __init__(self, path: str, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.path, self.module, self.args, self.kwargs = path, module, args, kwargs
        self.result: Any = None
        self.inside: list[_Call | None] = []  # None: pipe_split()


_open: list[_Call] = []  # active calls while an example runs


def pipe_split() -> None:
    """In a forward, between two modules: pipeline() cuts here. Does nothing otherwise.

    Example:
        >>> fb.distributed.pipelining.pipe_split()
    """
    if _open:
        _open[-1].inside.append(None)


def _recorded(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
    """The call of a model on an example, with all calls inside."""
    root = _Call("", module, args, kwargs)

    def begin(path: str) -> Callable[..., None]:
        def hook(called: Module, given: Any, named: Any) -> None:
            call = _Call(path, called, given, named)
            _open[-1].inside.append(call)
            _open.append(call)

        return hook

    def end(called: Module, given: Any, result: Any) -> None:
        _open.pop().result = result

    handles = []
    for path, part in module.named_modules():
        if path:
            handles.append(part.register_forward_pre_hook(begin(path), with_kwargs=True))
            handles.append(part.register_forward_hook(end))
    _open.append(root)
    try:
        with fb.no_grad():
            root.result = module(*args, **kwargs)
    finally:
        _open.clear()
        for handle in handles:
            handle.remove()
    return root


def _values(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _parts(call: _Call) -> list[_Call | None]:
    """The calls inside a chain, with None for cuts."""
    calls = [inner for inner in call.inside if inner is not None]
    name = f"{type(call.module).__name__}{f' at {call.path!r}' if call.path else ''}"
    if not calls:
        raise ArgumentError(f"pipeline: cannot cut inside {name}, which calls no modules")
    given = list(call.args)
    for inner in calls:
        named = call.kwargs if inner is calls[0] else {}
        if list(inner.kwargs) != list(named) or not _same(list(inner.kwargs.values()), list(named.values())):
            raise ArgumentError(f"pipeline: cannot cut inside {name}: {inner.path!r} does not get the model's arguments by name")
        if not _same(list(inner.args), given):
            raise ArgumentError(
                f"pipeline: cannot cut inside {name}: {inner.path!r} does not get just what the module before it gives. Put what happens "
                "between them into a module, cut elsewhere, or make PipelineStages of your own modules"
            )
        given = _values(inner.result)
    if not _same(_values(call.result), given):
        raise ArgumentError(f"pipeline: cannot cut inside {name}, whose result is not that of the last module, {calls[-1].path!r}")
    return list(call.inside)


def _cut(call: _Call, spec: dict[str, SplitPoint]) -> list[_Call | None]:
    """The modules to call in sequence, with None at cuts."""
    below = [path for path in spec if path != call.path and (not call.path or path.startswith(f"{call.path}."))]
    marked = any(inner is None or _has_marks(inner) for inner in call.inside)
    found: list[_Call | None] = [call]
    if below or marked:
        found = []
        for inner in _parts(call):
            found += [None] if inner is None else _cut(inner, spec)
    where = spec.get(call.path) if call.path else None
    return [None, *found] if where == SplitPoint.BEGINNING else [*found, None] if where == SplitPoint.END else found


def _has_marks(call: _Call) -> bool:
    return any(inner is None or _has_marks(inner) for inner in call.inside)


class _Chain(Module):
    """A sequence of modules, under the names they have in the model."""

    def __init__(self, calls: list[_Call]) -> None:
        super().__init__()
        self._order = [call.path for call in calls]
        for call in calls:
            owner: Module = self
            *above, last = call.path.split(".")
            for name in above:
                if name not in owner._modules:
                    owner.add_module(name, Module())
                owner = owner._modules[name]  # type: ignore[assignment]  # added just before, or by another path
            owner.add_module(last, call.module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        values: Any = args
        for number, path in enumerate(self._order):
            result = self.get_submodule(path)(*values, **(kwargs if number == 0 else {}))
            values = tuple(_values(result))
        return result


class Pipe:
    """A model in stages, made by pipeline().

    Args:
        stages: a module for each stage.

    Example:
        >>> from flambeau.distributed.pipelining import SplitPoint, pipeline
        >>> model = fb.nn.Sequential(fb.nn.Linear(4, 8), fb.nn.ReLU(), fb.nn.Linear(8, 2))
        >>> pipe = pipeline(model, (fb.ones(1, 4),), split_spec={"2": SplitPoint.BEGINNING})
        >>> pipe.num_stages, list(pipe.get_stage_module(1).state_dict())
        (2, ['2.weight', '2.bias'])
    """

    def __init__(self, stages: list[Module]) -> None:
        self._stages, self.num_stages = stages, len(stages)
        self.has_loss_and_backward = False

    def get_stage_module(self, stage_idx: int) -> Module:
        """The module of a stage.

        Args:
            stage_idx: its number.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ArgumentError(f"get_stage_module: Invalid stage index {stage_idx}; there are {self.num_stages} stages")
        return self._stages[stage_idx]

    def info(self) -> Pipe:
        """The argument of build_stage() besides a stage's module."""
        return self

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """The stage for a schedule to run.

        Args:
            stage_index: its number.
            device: where its layers are.
            group: the processes; the default group if not given.
        """
        return build_stage(self.get_stage_module(stage_index), stage_index, self, device, group)

    def __repr__(self) -> str:
        return "\n".join(f"stage {i}: {stage}" for i, stage in enumerate(self._stages))


def build_stage(stage_module: Module, stage_index: int, pipe_info: Pipe, device: Any, group: Any = None) -> PipelineStage:
    """The stage of a module, which may have been changed since the model was cut.

    Args:
        stage_module: the module.
        stage_index: its number.
        pipe_info: what Pipe.info() gave.
        device: where its layers are.
        group: the processes; the default group if not given.

    Example:
        >>> from flambeau.distributed.pipelining import build_stage, pipeline
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> pipe = pipeline(fb.nn.Sequential(fb.nn.Linear(4, 8)), (fb.ones(1, 4),))
        >>> build_stage(pipe.get_stage_module(0), 0, pipe.info(), "cpu").is_last
        True
        >>> fb.distributed.destroy_process_group()
    """
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)


def pipeline(
    module: Module, mb_args: tuple[Any, ...], mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None, split_policy: Any = None,
) -> Pipe:  # fmt: skip
    """Cuts a model into stages at modules, or where its forward calls pipe_split().

    The modules on both sides of a cut must be parts of a chain: each gets just what the one before it gives, as in
    nn.Sequential or a loop over layers. The model runs once on the example, to see that.

    Args:
        module: the model; stages share its parameters.
        mb_args: positional arguments, an example of one part of a batch.
        mb_kwargs: arguments by name.
        split_spec: for the names of modules, whether to cut before or after them.
        split_policy: must be None: what it gets in PyTorch is a traced graph.

    Example:
        >>> from flambeau.distributed.pipelining import SplitPoint, pipeline
        >>> model = fb.nn.Sequential(fb.nn.Linear(4, 8), fb.nn.ReLU(), fb.nn.Linear(8, 2))
        >>> pipeline(model, (fb.ones(1, 4),), split_spec={"1": SplitPoint.END}).num_stages
        2
    """
    if split_policy is not None:
        raise ArgumentError("pipeline: split_policy is not supported, as no graph is traced; pass split_spec")
    spec = dict(split_spec or {})
    known = dict(module.named_modules())
    for path, where in spec.items():
        if path not in known or not path:
            raise ArgumentError(f"pipeline: split_spec names {path!r}, which the model does not have")
        if not isinstance(where, SplitPoint):
            raise TypeError(f"pipeline: expected SplitPoint.BEGINNING or END for {path!r}, got {where!r}")
    root = _recorded(module, tuple(mb_args), dict(mb_kwargs or {}))
    called = {call.path for call in _all(root)}
    for path in spec:
        if path not in called:
            raise ArgumentError(f"pipeline: split_spec names {path!r}, which forward does not call")
    stages: list[list[_Call]] = [[]]
    for part in _cut(root, spec):
        if part is None:
            stages.append([])
        else:
            stages[-1].append(part)
    if not all(stages):
        raise ArgumentError(f"pipeline: stage {next(i for i, calls in enumerate(stages) if not calls)} would be empty; move a cut")
    shared = _shared_between([{id(p): p for call in calls for p in call.module.parameters()} for calls in stages])
    if shared is not None:
        raise ArgumentError(f"pipeline: a parameter of shape {tuple(shared.shape)} is used in two stages; cut so that one has all its uses")
    return Pipe([calls[0].module if calls[0] is root else _Chain(calls) for calls in stages])


def _all(call: _Call) -> list[_Call]:
    return [call] + [deeper for inner in call.inside if inner is not None for deeper in _all(inner)]


def _shared_between(stages: list[dict[int, Tensor]]) -> Tensor | None:
    seen: dict[int, Tensor] = {}
    for own in stages:
        for key, p in own.items():
            if key in seen:
                return p
        seen |= own
    return None
