"""How a layer is cut: its weights, and the placements of what goes in and comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flambeau import Tensor
from flambeau.distributed.tensor._api import distribute_tensor
from flambeau.distributed.tensor._dtensor import DTensor
from flambeau.distributed.tensor.placement_types import Placement, Replicate, Shard
from flambeau.errors import ArgumentError
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.sparse import Embedding

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel",
]  # fmt: skip
__dir__ = __all__.copy


class ParallelStyle(ABC):
    """The base class of styles: `_apply(module, device_mesh)` changes a module and returns it.

    Example:
        >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, ParallelStyle
        >>> isinstance(ColwiseParallel(), ParallelStyle)
        True
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: Any) -> Module: ...

    def _place(self, module: Module, mesh: Any, placements: dict[str, Placement]) -> None:
        """Distributes the parameters of one module; unnamed ones are replicated."""
        for key, p in list(module._parameters.items()):
            if p is None or isinstance(p, DTensor):
                continue
            placed: Any = distribute_tensor(p, mesh, [placements.get(key, Replicate())], src_data_rank=self.src_data_rank)
            module.register_parameter(key, placed)


def _taken(value: Any, mesh: Any, layout: Placement | None, wanted: Placement | None) -> Any:
    """Converts a tensor to a DTensor of one layout and redistributes it to another; other values are unchanged."""
    if not isinstance(value, Tensor) or layout is None:
        return value
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [layout])
    return value if wanted is None else value.redistribute(placements=[wanted])


def _given(value: Any, wanted: Placement, local: bool) -> Any:
    if not isinstance(value, DTensor):
        return value
    value = value.redistribute(placements=[wanted])
    return value.to_local() if local else value


class ColwiseParallel(ParallelStyle):
    """Cuts a Linear by its output features, an Embedding by its columns.

    Args:
        input_layouts: how the input is placed; Replicate.
        output_layouts: how the output is to be placed; Shard(-1), as it comes.
        use_local_output: whether the output is this process's part as a plain tensor.

    Example:
        >>> from flambeau.distributed.tensor.parallel import ColwiseParallel
        >>> ColwiseParallel(use_local_output=False).use_local_output
        False
    """

    _weights: dict[type, dict[str, Placement]] = {Linear: {"weight": Shard(0), "bias": Shard(0)}, Embedding: {"weight": Shard(1)}}

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None, use_local_output: bool = True
    ) -> None:
        self.input_layouts, self.output_layouts = input_layouts or Replicate(), output_layouts or Shard(-1)
        self.use_local_output = use_local_output

    def _wanted_input(self, module: Module) -> Placement:
        return Replicate()

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        kind = next((kind for kind in self._weights if isinstance(module, kind)), None)
        if kind is None:
            raise ArgumentError(f"{type(self).__name__}: supports Linear and Embedding, got {type(module).__name__}")
        self._place(module, device_mesh, self._weights[kind])
        wanted = self._wanted_input(module)

        def before(module: Module, inputs: Any) -> Any:
            return (_taken(inputs[0], device_mesh, self.input_layouts, wanted), *inputs[1:])

        def after(module: Module, inputs: Any, output: Any) -> Any:
            return _given(output, self.output_layouts, self.use_local_output)

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


class RowwiseParallel(ColwiseParallel):
    """Cuts a Linear by its input features, an Embedding by its rows; the output is a sum over the processes.

    Args:
        input_layouts: how the input is placed: Shard(-1) for a Linear, as ColwiseParallel leaves it; Replicate for an Embedding.
        output_layouts: how the output is to be placed; Replicate.
        use_local_output: whether the output is this process's part as a plain tensor.

    Example:
        >>> from flambeau.distributed.tensor import Shard
        >>> from flambeau.distributed.tensor.parallel import RowwiseParallel
        >>> RowwiseParallel(output_layouts=Shard(1)).output_layouts
        Shard(dim=1)
    """

    _weights: dict[type, dict[str, Placement]] = {Linear: {"weight": Shard(1), "bias": Replicate()}, Embedding: {"weight": Shard(0)}}

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None, use_local_output: bool = True
    ) -> None:
        super().__init__(input_layouts=input_layouts, output_layouts=output_layouts or Replicate(), use_local_output=use_local_output)
        self._input_given = input_layouts is not None

    def _wanted_input(self, module: Module) -> Placement:
        linear = isinstance(module, Linear)
        if not self._input_given:
            self.input_layouts = Shard(-1) if linear else Replicate()
        return Shard(-1) if linear else Replicate()


class SequenceParallel(ParallelStyle):
    """Runs a module such as LayerNorm or Dropout on inputs cut along the sequence; its parameters are replicated.

    Args:
        sequence_dim: the dimension of the sequence.
        use_local_output: whether the output is this process's part as a plain tensor.

    Example:
        >>> from flambeau.distributed.tensor.parallel import SequenceParallel
        >>> SequenceParallel(sequence_dim=0).sequence_sharding
        Shard(dim=0)
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding, self.use_local_output = Shard(sequence_dim), use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        for part in module.modules():
            self._place(part, device_mesh, {})

        def before(module: Module, inputs: Any) -> Any:
            return (_taken(inputs[0], device_mesh, self.sequence_sharding, self.sequence_sharding), *inputs[1:])

        def after(module: Module, inputs: Any, output: Any) -> Any:
            return output.to_local() if self.use_local_output and isinstance(output, DTensor) else output

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class PrepareModuleInput(ParallelStyle):
    """Moves the inputs of a module from one placement to another.

    Args:
        input_layouts: how the positional inputs are placed; None for those that are unchanged.
        desired_input_layouts: how they are to be placed.
        input_kwarg_layouts: the same for inputs given by name.
        desired_input_kwarg_layouts: the same for inputs given by name.
        use_local_output: whether the module is given its parts as plain tensors.

    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleInput
        >>> PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate()).use_local_output
        False
    """

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: dict[str, Any] | None = None,
        desired_input_kwarg_layouts: dict[str, Any] | None = None, use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.input_layouts = None if input_layouts is None else _tuple(input_layouts)
        self.desired_input_layouts = None if desired_input_layouts is None else _tuple(desired_input_layouts)
        if self.input_layouts is not None and len(self.input_layouts) != len(self.desired_input_layouts or ()):
            raise ArgumentError("PrepareModuleInput: input_layouts and desired_input_layouts should have same length")
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def moved(value: Any, layout: Any, wanted: Any) -> Any:
            value = _taken(value, device_mesh, layout, wanted)
            return value.to_local() if self.use_local_output and isinstance(value, DTensor) else value

        def before(module: Module, inputs: Any, named: Any) -> Any:
            if self.input_layouts is not None:
                if len(inputs) != len(self.input_layouts):
                    raise ArgumentError(
                        f"PrepareModuleInput: module inputs and input_layouts should have same length, got {len(inputs)} and "
                        f"{len(self.input_layouts)}"
                    )
                wanted = self.desired_input_layouts or ()
                inputs = tuple(moved(*three) for three in zip(inputs, self.input_layouts, wanted, strict=True))
            wanted_named = self.desired_input_kwarg_layouts
            named = {k: moved(v, self.input_kwarg_layouts.get(k), wanted_named.get(k)) for k, v in named.items()}
            return inputs, named

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Moves the outputs of a module from one placement to another.

    Args:
        output_layouts: how the outputs are placed; None for those that are unchanged.
        desired_output_layouts: how they are to be placed.
        use_local_output: whether the results are this process's parts as plain tensors.

    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleOutput
        >>> PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate()).use_local_output
        True
    """

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self.output_layouts, self.desired_output_layouts = _tuple(output_layouts), _tuple(desired_output_layouts)
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise ArgumentError("PrepareModuleOutput: output_layouts and desired_output_layouts should have same length")
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def after(module: Module, inputs: Any, output: Any) -> Any:
            outputs = output if isinstance(output, tuple) else (output,)
            if len(outputs) != len(self.output_layouts):
                raise ArgumentError("PrepareModuleOutput: module outputs and output_layouts should have same length")
            moved = []
            for value, layout, wanted in zip(outputs, self.output_layouts, self.desired_output_layouts, strict=True):
                value = _taken(value, device_mesh, layout, wanted)
                moved.append(value.to_local() if self.use_local_output and isinstance(value, DTensor) else value)
            return tuple(moved) if isinstance(output, tuple) else moved[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput in one; their arguments, with use_local_input for the former's.

    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleInputOutput
        >>> style = PrepareModuleInputOutput(input_layouts=Shard(0), desired_input_layouts=Replicate(),
        ...                                  output_layouts=Replicate(), desired_output_layouts=Shard(0))
    """

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: dict[str, Any] | None = None,
        desired_input_kwarg_layouts: dict[str, Any] | None = None, use_local_input: bool = False, output_layouts: Any,
        desired_output_layouts: Any, use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts, input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts, use_local_output=use_local_input,
        )  # fmt: skip
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts, use_local_output=use_local_output
        )

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
