# Written by `python tools/stubgen.py` from the op table; changes made here are lost.

from typing import Any

from . import Tensor, _bool, _DeviceLike, _dtype, _float, _memory_format

def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: _bool = True,
    rtol: _float | None = None,
    atol: _float | None = None,
    equal_nan: _bool = False,
    check_device: _bool = True,
    check_dtype: _bool = True,
    check_layout: _bool = True,
    check_stride: _bool = False,
    msg: Any = None,
) -> None: ...
def make_tensor(
    *shape: Any,
    dtype: _dtype | None,
    device: _DeviceLike | None = "cpu",
    low: Any = None,
    high: Any = None,
    requires_grad: _bool = False,
    noncontiguous: _bool = False,
    exclude_zero: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor: ...
