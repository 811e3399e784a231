"""Options of FullyShardedDataParallel."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import flambeau as fb
from flambeau.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip
__dir__ = __all__.copy


class ShardingStrategy(enum.Enum):
    """What is in pieces: parameters, gradients and optimizer state; all but the parameters; nothing; or all within a host.

    The hybrid strategies keep replicas, one per host or per row of a mesh of two dimensions.

    Example:
        >>> fb.distributed.fsdp.ShardingStrategy.FULL_SHARD.name
        'FULL_SHARD'
    """

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """When backward gathers the next parameters: before or after it has used the present ones. Here always before.

    Example:
        >>> fb.distributed.fsdp.BackwardPrefetch.BACKWARD_PRE.name
        'BACKWARD_PRE'
    """

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


@dataclasses.dataclass
class MixedPrecision:
    """In which dtypes a FullyShardedDataParallel computes and communicates.

    Args:
        param_dtype: dtype of the gathered parameters, and so of the computation; their own if None.
        reduce_dtype: dtype in which gradients are summed; that of the computation if None.
        buffer_dtype: dtype of floating buffers; their own if None.
        keep_low_precision_grads: must be False: gradients have the dtype of the parameters.
        cast_forward_inputs: whether each wrapped module casts the floating inputs of its forward.
        cast_root_forward_inputs: whether the outermost one does.
        _module_classes_to_ignore: classes whose modules stay in full precision where an auto_wrap_policy is given.

    Example:
        >>> fb.distributed.fsdp.MixedPrecision(param_dtype=fb.bfloat16).cast_root_forward_inputs
        True
    """

    param_dtype: fb.dtype | None = None
    reduce_dtype: fb.dtype | None = None
    buffer_dtype: fb.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclasses.dataclass
class CPUOffload:
    """Whether pieces stay on the CPU between uses, where those of CPU processes are anyway.

    Args:
        offload_params: whether they do.

    Example:
        >>> fb.distributed.fsdp.CPUOffload(offload_params=True)
        CPUOffload(offload_params=True)
    """

    offload_params: bool = False


class StateDictType(enum.Enum):
    """What state_dict() of a FullyShardedDataParallel holds: whole tensors, what is stored here, or DTensors.

    Example:
        >>> fb.distributed.fsdp.StateDictType.SHARDED_STATE_DICT.name
        'SHARDED_STATE_DICT'
    """

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclasses.dataclass
class StateDictConfig:
    """How a model's state is taken.

    Args:
        offload_to_cpu: whether tensors are moved to the CPU.

    Example:
        >>> fb.distributed.fsdp.StateDictConfig().offload_to_cpu
        False
    """

    offload_to_cpu: bool = False


@dataclasses.dataclass
class FullStateDictConfig(StateDictConfig):
    """How whole tensors are taken.

    Args:
        offload_to_cpu: whether tensors are moved to the CPU.
        rank0_only: whether only rank 0 gets them; the others' dictionaries are empty.

    Example:
        >>> fb.distributed.fsdp.FullStateDictConfig(rank0_only=True).rank0_only
        True
    """

    rank0_only: bool = False


@dataclasses.dataclass
class LocalStateDictConfig(StateDictConfig):
    """A name for the state that is stored in a process, which is not supported; see StateDictType.

    Example:
        >>> fb.distributed.fsdp.LocalStateDictConfig().offload_to_cpu
        False
    """


@dataclasses.dataclass
class ShardedStateDictConfig(StateDictConfig):
    """How pieces are taken: as DTensors.

    Args:
        offload_to_cpu: whether tensors are moved to the CPU.
        _use_dtensor: accepted; they always are DTensors.

    Example:
        >>> fb.distributed.fsdp.ShardedStateDictConfig().offload_to_cpu
        False
    """

    _use_dtensor: bool = False


@dataclasses.dataclass
class OptimStateDictConfig:
    """How an optimizer's state is taken.

    Args:
        offload_to_cpu: whether tensors are moved to the CPU.

    Example:
        >>> fb.distributed.fsdp.OptimStateDictConfig().offload_to_cpu
        True
    """

    offload_to_cpu: bool = True


@dataclasses.dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """How whole tensors of an optimizer's state are taken.

    Args:
        offload_to_cpu: whether tensors are moved to the CPU.
        rank0_only: whether only rank 0 gets them; the others' dictionaries are empty.

    Example:
        >>> fb.distributed.fsdp.FullOptimStateDictConfig().rank0_only
        False
    """

    rank0_only: bool = False


@dataclasses.dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """A name for the state that is stored in a process, which is not supported; see StateDictType.

    Args:
        offload_to_cpu: must be False.

    Example:
        >>> fb.distributed.fsdp.LocalOptimStateDictConfig().offload_to_cpu
        False
    """

    offload_to_cpu: bool = False


@dataclasses.dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """How pieces of an optimizer's state are taken: as DTensors.

    Args:
        offload_to_cpu: whether tensors are moved to the CPU.
        _use_dtensor: accepted; they always are DTensors.

    Example:
        >>> fb.distributed.fsdp.ShardedOptimStateDictConfig().offload_to_cpu
        True
    """

    _use_dtensor: bool = False


@dataclasses.dataclass
class StateDictSettings:
    """What FullyShardedDataParallel.get_state_dict_type() returns.

    Args:
        state_dict_type: what state_dict() holds.
        state_dict_config: how.
        optim_state_dict_config: how the optimizer's state is taken.

    Example:
        >>> from flambeau.distributed import fsdp
        >>> kind = fsdp.StateDictType.FULL_STATE_DICT
        >>> fsdp.StateDictSettings(kind, fsdp.FullStateDictConfig(), fsdp.FullOptimStateDictConfig()).state_dict_type.name
        'FULL_STATE_DICT'
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
