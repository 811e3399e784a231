"""Tensors exchanged with other libraries by DLPack, without a copy.

Example:
    >>> fb.utils.dlpack.from_dlpack(fb.utils.dlpack.to_dlpack(fb.ones(2)))
    tensor([1., 1.])
"""

from flambeau import from_dlpack, to_dlpack
from flambeau._tensor.dlpack import DLDeviceType

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
__dir__ = __all__.copy
