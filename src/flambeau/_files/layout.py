"""Which tensors share memory, and which bytes of it a file needs."""

from __future__ import annotations

import dataclasses
from typing import Any

import flambeau as fb
from flambeau import _C


def extent(t: fb.Tensor) -> tuple[int, int]:
    """Addresses of a tensor's first byte and one past its last; (0, 0) if it is empty."""
    if t.numel() == 0:
        return 0, 0
    low = high = 0
    for size, step in zip(t.shape, t.stride(), strict=True):
        reach = (size - 1) * step
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    first = t.data_ptr()
    return first + low * t.itemsize, first + (high + 1) * t.itemsize


def memory(start: int, end: int, owner: Any) -> memoryview:
    """Bytes of memory owned by `owner`; a separate storage, so that reading does not pin the tensor's."""
    if start == end:
        return memoryview(b"")
    return memoryview(_C.from_address("save", start, fb.uint8, (end - start,), (1,), owner, True))


def row_major_bytes(t: fb.Tensor) -> memoryview:
    """The elements' bytes in row-major order, copied only if necessary."""
    dense = t.detach().contiguous().cpu()
    start, end = extent(dense)
    return memory(start, end, dense)


@dataclasses.dataclass
class Block:
    """Tensors (by their number) whose bytes overlap, and the memory from the lowest to the highest."""

    start: int
    end: int
    members: list[int]
    tensors: list[fb.Tensor]
    pad: int = 0  # zero bytes in front, so that every member begins at a whole element of its dtype

    @property
    def nbytes(self) -> int:
        """Size in the file."""
        return self.pad + self.end - self.start

    @property
    def alone(self) -> bool:
        """Whether this is one tensor that does not overlap itself (unlike expanded ones): only its elements matter."""
        t = self.tensors[0]
        return len(self.tensors) == 1 and t.numel() * t.itemsize <= self.end - self.start

    def offset(self, t: fb.Tensor) -> int:
        """Where a member's first element is, in elements of its dtype."""
        return 0 if t.numel() == 0 else (t.data_ptr() - self.start + self.pad) // t.itemsize

    def parts(self) -> list[memoryview]:
        """The bytes to write; those of an accelerator are copied to the host."""
        first = self.tensors[0]
        if first.device.type == "cpu" or self.start == self.end:
            return [memoryview(bytes(self.pad)), memory(self.start, self.end, self.tensors)]
        whole = _C.storage_bytes(first.detach())
        begin = self.start - whole.data_ptr()
        return [memoryview(bytes(self.pad)), row_major_bytes(whole[begin : begin + self.end - self.start])]


def blocks(tensors: list[fb.Tensor]) -> list[Block]:
    """Groups tensors by overlapping memory, in the order of each block's first tensor."""
    spans = [(*extent(t), i) for i, t in enumerate(tensors)]
    made: list[Block] = []
    for start, end, i in sorted(spans):
        last = made[-1] if made else None
        if last is not None and start < last.end and start != end:
            last.end = max(last.end, end)
            last.members.append(i)
        else:
            made.append(Block(start, end, [i], []))
    for block in made:
        block.members.sort()
        block.tensors = [tensors[i] for i in block.members]
        widest = max(block.tensors, key=lambda t: t.itemsize)
        if block.start != block.end:
            block.pad = (block.start - widest.data_ptr()) % widest.itemsize
    return sorted(made, key=lambda block: block.members[0])


def memory_order(t: fb.Tensor) -> tuple[int, ...] | None:
    """The dimensions from the slowest to the fastest in memory; None if row-major or with gaps."""
    steps = t.stride()
    order = tuple(sorted(range(t.ndim), key=lambda d: (-steps[d], d)))
    if t.numel() == 0 or t.is_contiguous() or not t.detach().permute(order).is_contiguous():
        return None
    return order


def in_order(t: fb.Tensor, order: tuple[int, ...]) -> fb.Tensor:
    """A copy with the same elements whose dimensions have the memory order given by memory_order()."""
    if sorted(order) != list(range(t.ndim)):
        raise ValueError(f"the order {order} does not fit {t.ndim} dimensions")
    back = [order.index(d) for d in range(t.ndim)]
    return t.permute(order).contiguous().permute(back)
