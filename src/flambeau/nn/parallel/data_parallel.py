"""One batch on several devices of a process: with the CPU as the only device, on that one."""

from __future__ import annotations

from typing import Any

from flambeau.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]
__dir__ = __all__.copy


def _check_devices(op: str, device_ids: Any) -> None:
    if device_ids:
        raise RuntimeError(
            f"{op}: device_ids {list(device_ids)} name accelerators, and there are none; leave it at None"
        )


class DataParallel(Module):
    """A module whose batches would be shared among accelerators; without any, it simply calls the module.

    Scripts that wrap their model run unchanged, and the names in the state_dict begin with "module." as they expect.

    Args:
        module: the module.
        device_ids: accelerators; there are none, so None or empty.
        output_device: where results go; not used without accelerators.
        dim: the dimension that would be shared out.

    Example:
        >>> m = fb.nn.DataParallel(fb.nn.Linear(2, 3))
        >>> list(m.state_dict()), m(fb.zeros(4, 2)).shape
        (['module.weight', 'module.bias'], flambeau.Size([4, 3]))
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        _check_devices("DataParallel", device_ids)
        self.module, self.dim = module, dim
        self.device_ids: list[Any] = []
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Calls a module as DataParallel does.

    Args:
        module: the module.
        inputs: a tuple of arguments, or a single one.
        device_ids: accelerators; there are none, so None or empty.
        output_device: where results go; not used without accelerators.
        dim: the dimension that would be shared out.
        module_kwargs: keyword arguments.

    Example:
        >>> fb.nn.parallel.data_parallel(fb.nn.ReLU(), fb.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    _check_devices("data_parallel", device_ids)
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*arguments, **(module_kwargs or {}))
