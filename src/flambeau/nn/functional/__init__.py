"""The functions behind the modules of flambeau.nn: nothing here keeps state.

One flat namespace; the files of this folder hold one family each, and the core's own ops stand beside them.
"""

import flambeau as _fb
from flambeau import (
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
)
from flambeau.amp._casting import with_autocast as _with_autocast
from flambeau.nn.functional import (
    _activation,
    _attention,
    _ctc,
    _dropout,
    _linear,
    _loss,
    _margin,
    _normalization,
    _pooling,
    _resample,
    _spatial,
)
from flambeau.nn.functional._activation import *
from flambeau.nn.functional._attention import *
from flambeau.nn.functional._ctc import *
from flambeau.nn.functional._dropout import *
from flambeau.nn.functional._linear import *
from flambeau.nn.functional._loss import *
from flambeau.nn.functional._margin import *
from flambeau.nn.functional._normalization import *
from flambeau.nn.functional._pooling import *
from flambeau.nn.functional._resample import *
from flambeau.nn.functional._spatial import *

_FAMILIES = (
    _activation,
    _attention,
    _ctc,
    _dropout,
    _linear,
    _loss,
    _margin,
    _normalization,
    _pooling,
    _resample,
    _spatial,
)
_CORE = (
    channel_shuffle, conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d, pdist, pixel_shuffle,
    pixel_unshuffle,
)  # fmt: skip
# Ops that the core registers under nn.functional take the place of those written here.
_registered = dict(_fb._C.namespaces.get("nn.functional", {}))
globals().update(_registered)

__all__ = sorted(
    {name for family in _FAMILIES for name in family.__all__} | {op.__name__ for op in _CORE} | set(_registered)
)

# Functions written in Python follow autocast here; ops of the core do so by themselves.
for _family in _FAMILIES:
    for _name in _family.__all__:
        if _name not in _registered:
            globals()[_name] = _with_autocast(_name, globals()[_name])
