"""`torch.jit.annotations`: type names for PyTorch's compiler."""

from typing import Any, Optional, Union

__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Optional", "Tuple", "Union"]

Dict: Any = dict
List: Any = list
Tuple: Any = tuple


class _BroadcastingList:
    """`BroadcastingList2[int]`: one number, or a list of that length."""

    def __getitem__(self, item: Any) -> Any:
        return item | list[item]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
