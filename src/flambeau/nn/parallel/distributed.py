"""One model in several processes: with groups of one process, the model itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.distributed._group import _need
from flambeau.errors import StateError
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.data_parallel import _check_devices

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group; a group has one process in this version.

    Args:
        module: the module; at least one parameter must require gradients.
        device_ids: accelerators; there are none, so None or empty.
        output_device: where results go; not used without accelerators.
        dim: the dimension that would be shared out among accelerators.
        broadcast_buffers: whether buffers are taken from the first process before each forward.
        init_sync: whether parameters are taken from the first process now.
        process_group: the group, that of all processes by default.
        bucket_cap_mb: how much is sent at once; with one process, nothing is.
        find_unused_parameters: parameters that take no part in a step are no problem, whatever this says.
        gradient_as_bucket_view: how gradients would be stored for sending; without effect.
        static_graph: a promise about the model that speeds up sending; without effect.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> m = fb.nn.parallel.DistributedDataParallel(fb.nn.Linear(2, 3))
        >>> list(m.state_dict()), m(fb.zeros(4, 2)).shape
        (['module.weight', 'module.bias'], flambeau.Size([4, 3]))
        >>> fb.distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0, broadcast_buffers: bool = True,
        init_sync: bool = True, process_group: Any = None, bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False, check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.process_group = _need("DistributedDataParallel", process_group)
        _check_devices("DistributedDataParallel", device_ids)
        if not any(p.requires_grad for p in module.parameters()):
            raise StateError("DistributedDataParallel: no parameter of the module requires gradients; there is nothing to average")
        self.module, self.dim, self.device_ids, self.output_device = module, dim, device_ids, output_device
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block gradients are added up without averaging over the processes."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """A block in which processes may have inputs of different number: one process has what it has."""
        yield
