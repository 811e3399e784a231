"""One model in several processes, each with its share of the data: in a group of one process, in that one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau import distributed
from flambeau.errors import ArgumentError, StateError
from flambeau.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]
__dir__ = __all__.copy


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group during backward.

    Groups of this version have one process, whose average is its own gradient; the script around it runs unchanged,
    and the
    names in the state_dict begin with "module." as it expects.

    Args:
        module: the module; some parameter must require gradients.
        device_ids: accelerators; there are none, so None.
        output_device: where results go; None.
        dim: the dimension that would be shared out among devices.
        broadcast_buffers: whether buffers follow those of rank 0; here they are.
        init_sync: whether parameters follow those of rank 0 at the start; here they are.
        process_group: the default group if not given.
        bucket_cap_mb: how many megabytes of gradients are averaged at a time; of no effect with one process.
        find_unused_parameters: whether to look for parameters without gradients; of no effect with one process.
        check_reduction: deprecated, of no effect.
        gradient_as_bucket_view: whether gradients may live in the buckets; of no effect with one process.
        static_graph: whether every step uses the same graph; of no effect with one process.

    Example:
        >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
        >>> list(m.state_dict()), m(fb.zeros(4, 2)).shape
        (['module.weight', 'module.bias'], flambeau.Size([4, 3]))
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        name = "DistributedDataParallel"
        if distributed.get_rank(process_group) < 0:
            raise StateError(f"{name}: this process is not in process_group")
        if not any(p.requires_grad for p in module.parameters()):
            raise StateError(f"{name}: no parameter of the module requires gradients, so there is nothing to average")
        if device_ids or output_device is not None:
            raise ArgumentError(
                f"{name}: device_ids {device_ids} and output_device {output_device} name accelerators, and the module is on "
                "the cpu; leave them at None"
            )
        if bucket_cap_mb is not None and not bucket_cap_mb > 0:
            raise ArgumentError(f"{name}: bucket_cap_mb must be positive, got {bucket_cap_mb}")
        self.module, self.dim, self.broadcast_buffers = module, dim, broadcast_buffers
        self.device_ids, self.output_device = None, None
        self.process_group = distributed.group.WORLD if process_group is None else process_group
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are summed up without being averaged over processes.

        Example:
            >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
            >>> with m.no_sync():
            ...     m(fb.zeros(4, 2)).sum().backward()
            >>> fb.distributed.destroy_process_group()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Inside, processes may have different numbers of batches; a single process never waits.

        Args:
            divide_by_initial_world_size: whether averages count processes that are done.
            enable: whether it has any effect.
            throw_on_early_termination: whether all stop when the first is done.

        Example:
            >>> fb.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
            >>> with m.join():
            ...     m(fb.zeros(4, 2)).sum().backward()
            >>> fb.distributed.destroy_process_group()
        """
        yield
