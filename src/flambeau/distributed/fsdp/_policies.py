"""Options of fully_shard."""

from __future__ import annotations

import dataclasses

import flambeau as fb

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclasses.dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module that fully_shard distributes computes and communicates.

    Args:
        param_dtype: dtype of the gathered parameters, and so of the computation; their own if None.
        reduce_dtype: dtype in which gradients are summed; that of the computation if None.
        output_dtype: dtype that floating outputs of forward are cast to.
        cast_forward_inputs: whether floating inputs of forward are cast to param_dtype.

    Example:
        >>> fb.distributed.fsdp.MixedPrecisionPolicy(param_dtype=fb.bfloat16, reduce_dtype=fb.float32).output_dtype is None
        True
    """

    param_dtype: fb.dtype | None = None
    reduce_dtype: fb.dtype | None = None
    output_dtype: fb.dtype | None = None
    cast_forward_inputs: bool = True


@dataclasses.dataclass
class OffloadPolicy:
    """Where parts stay between uses: on the mesh's device.

    Example:
        >>> fb.distributed.fsdp.OffloadPolicy()
        OffloadPolicy()
    """


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts stay on the CPU, where those of a mesh of CPU processes are anyway.

    Args:
        pin_memory: whether memory is page-locked for copies to accelerators.

    Example:
        >>> fb.distributed.fsdp.CPUOffloadPolicy(pin_memory=False)
        CPUOffloadPolicy(pin_memory=False)
    """

    pin_memory: bool = True
