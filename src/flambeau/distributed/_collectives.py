"""What processes do together: each of these for a single process."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.distributed._group import ProcessGroup, ReduceOp, Work, _need
from flambeau.errors import ArgumentError


def _tensors(op: str, *tensors: Any) -> None:
    for t in tensors:
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}: expected a tensor, got {type(t).__name__}")


def _root(op: str, rank: int | None, group: ProcessGroup | None) -> None:
    _need(op, group)
    if rank not in (None, 0):
        raise ArgumentError(f"{op}: rank {rank} is out of range for 1 process; expected 0")


def _one(op: str, items: Any) -> None:
    if len(items) != 1:
        raise ArgumentError(f"{op}: expected a list with one element per process, 1 in all, got {len(items)}")


def _copy(target: Tensor, source: Tensor) -> None:
    if target is not source:
        target.copy_(source.reshape(target.shape))


def _done(async_op: bool) -> Work | None:
    return Work() if async_op else None


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Combines the tensors of all processes, in place: of one process, it stays as it is.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> x = fb.ones(2)
        >>> fb.distributed.all_reduce(x)
        >>> x
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _need("all_reduce", group)
    _tensors("all_reduce", tensor)
    return _done(async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Combines the tensors of all processes at one of them: of one process, it stays as it is.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.reduce(fb.ones(2), dst=0)
        >>> fb.distributed.destroy_process_group()
    """
    _root("reduce", dst, group)
    _tensors("reduce", tensor)
    return _done(async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Gives the tensor of one process to all.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.broadcast(fb.ones(2), src=0)
        >>> fb.distributed.destroy_process_group()
    """
    _root("broadcast", src, group)
    _tensors("broadcast", tensor)
    return _done(async_op)


def all_gather(tensor_list: Any, tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Copies the tensors of all processes into a list of tensors, one per process.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> parts = [fb.zeros(2)]
        >>> fb.distributed.all_gather(parts, fb.ones(2))
        >>> parts
        [tensor([1., 1.])]
        >>> fb.distributed.destroy_process_group()
    """
    _need("all_gather", group)
    _one("all_gather", tensor_list)
    _tensors("all_gather", tensor, *tensor_list)
    _copy(tensor_list[0], tensor)
    return _done(async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copies the tensors of all processes into one tensor, one after the other.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> out = fb.zeros(2)
        >>> fb.distributed.all_gather_into_tensor(out, fb.ones(2))
        >>> out
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _need("all_gather_into_tensor", group)
    _tensors("all_gather_into_tensor", output_tensor, input_tensor)
    _copy(output_tensor, input_tensor)
    return _done(async_op)


def reduce_scatter(
    output: Tensor, input_list: Any, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combines lists of tensors over the processes; each gets the element of its number.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> out = fb.zeros(2)
        >>> fb.distributed.reduce_scatter(out, [fb.ones(2)])
        >>> out
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _need("reduce_scatter", group)
    _one("reduce_scatter", input_list)
    _tensors("reduce_scatter", output, *input_list)
    _copy(output, input_list[0])
    return _done(async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combines a tensor over the processes; each gets its part.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> out = fb.zeros(2)
        >>> fb.distributed.reduce_scatter_tensor(out, fb.ones(2))
        >>> out
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _need("reduce_scatter_tensor", group)
    _tensors("reduce_scatter_tensor", output, input)
    _copy(output, input)
    return _done(async_op)


def gather(
    tensor: Tensor, gather_list: Any = None, dst: int | None = None, group: ProcessGroup | None = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Copies the tensors of all processes into a list at one of them.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> parts = [fb.zeros(2)]
        >>> fb.distributed.gather(fb.ones(2), parts)
        >>> parts
        [tensor([1., 1.])]
        >>> fb.distributed.destroy_process_group()
    """
    _root("gather", dst, group)
    _one("gather", gather_list or ())
    _tensors("gather", tensor, *gather_list)
    _copy(gather_list[0], tensor)
    return _done(async_op)


def scatter(
    tensor: Tensor, scatter_list: Any = None, src: int | None = None, group: ProcessGroup | None = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Gives each process its element of a list that one of them has.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> x = fb.zeros(2)
        >>> fb.distributed.scatter(x, [fb.ones(2)])
        >>> x
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _root("scatter", src, group)
    _one("scatter", scatter_list or ())
    _tensors("scatter", tensor, *scatter_list)
    _copy(tensor, scatter_list[0])
    return _done(async_op)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Every process gives each other one an element of its list.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> out = [fb.zeros(2)]
        >>> fb.distributed.all_to_all(out, [fb.ones(2)])
        >>> out
        [tensor([1., 1.])]
        >>> fb.distributed.destroy_process_group()
    """
    _need("all_to_all", group)
    _one("all_to_all", output_tensor_list)
    _one("all_to_all", input_tensor_list)
    _tensors("all_to_all", *output_tensor_list, *input_tensor_list)
    _copy(output_tensor_list[0], input_tensor_list[0])
    return _done(async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Every process gives each other one a part of its tensor.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> out = fb.zeros(2)
        >>> fb.distributed.all_to_all_single(out, fb.ones(2))
        >>> out
        tensor([1., 1.])
        >>> fb.distributed.destroy_process_group()
    """
    _need("all_to_all_single", group)
    _tensors("all_to_all_single", output, input)
    _copy(output, input)
    return _done(async_op)


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits until all processes are here: with one, at once.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.barrier()
        >>> fb.distributed.destroy_process_group()
    """
    _need("barrier", group)
    return _done(async_op)


def monitored_barrier(group: ProcessGroup | None = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """The same as barrier(): nobody can be late.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.monitored_barrier()
        >>> fb.distributed.destroy_process_group()
    """
    _need("monitored_barrier", group)


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Puts the objects of all processes into a list.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> found = [None]
        >>> fb.distributed.all_gather_object(found, {"loss": 1})
        >>> found
        [{'loss': 1}]
        >>> fb.distributed.destroy_process_group()
    """
    _need("all_gather_object", group)
    _one("all_gather_object", object_list)
    object_list[0] = obj


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Puts the objects of all processes into a list at one of them.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> found = [None]
        >>> fb.distributed.gather_object("a", found)
        >>> found
        ['a']
        >>> fb.distributed.destroy_process_group()
    """
    _root("gather_object", dst, group)
    if object_gather_list is None:
        raise ArgumentError("gather_object: the process that gathers needs object_gather_list, got None")
    _one("gather_object", object_gather_list)
    object_gather_list[0] = obj


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None, device: Any = None, group_src: int | None = None
) -> None:
    """Gives the objects of one process to all.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> fb.distributed.broadcast_object_list([1, 2], src=0)
        >>> fb.distributed.destroy_process_group()
    """
    _root("broadcast_object_list", src, group)


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: ProcessGroup | None = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Gives each process its element of a list that one of them has.

    Example:
        >>> fb.distributed.init_process_group("gloo", world_size=1, rank=0)
        >>> mine = [None]
        >>> fb.distributed.scatter_object_list(mine, ["a"])
        >>> mine
        ['a']
        >>> fb.distributed.destroy_process_group()
    """
    _root("scatter_object_list", src, group)
    _one("scatter_object_list", scatter_object_input_list or ())
    scatter_object_output_list[0] = (scatter_object_input_list or [None])[0]
