"""The functions behind the modules of flambeau.nn: nothing here keeps state.

One flat namespace; each file of this folder holds one family, and the core's own ops are added to them.
"""

import types as _types
import typing as _typing

from flambeau import channel_shuffle as channel_shuffle
from flambeau import pdist as pdist
from flambeau import pixel_shuffle as pixel_shuffle
from flambeau import pixel_unshuffle as pixel_unshuffle
from flambeau.amp._casting import with_autocast as _with_autocast
from flambeau.nn.functional import (
    _activation,
    _attention,
    _classification,
    _ctc,
    _dropout,
    _linear,
    _loss,
    _margin,
    _normalization,
    _ops,
    _pooling,
    _resample,
    _spatial,
)
from flambeau.nn.functional._activation import *
from flambeau.nn.functional._attention import *
from flambeau.nn.functional._classification import *
from flambeau.nn.functional._ctc import *
from flambeau.nn.functional._dropout import *
from flambeau.nn.functional._linear import *
from flambeau.nn.functional._loss import *
from flambeau.nn.functional._margin import *
from flambeau.nn.functional._normalization import *
from flambeau.nn.functional._ops import *
from flambeau.nn.functional._overriding import overridable as _overridable
from flambeau.nn.functional._pooling import *
from flambeau.nn.functional._resample import *
from flambeau.nn.functional._spatial import *

if not _typing.TYPE_CHECKING:  # type checkers treat star imports as exported, but cannot compute this list
    __all__ = ["channel_shuffle", "pdist", "pixel_shuffle", "pixel_unshuffle"]
    for _family in (
        _activation,
        _attention,
        _classification,
        _ctc,
        _dropout,
        _linear,
        _loss,
        _margin,
        _normalization,
        _ops,
        _pooling,
        _resample,
        _spatial,
    ):
        __all__ += _family.__all__
    __dir__ = __all__.copy
    # Functions written in Python handle autocast, classes and modes here; ops of the core do so by themselves, also for
    # thin wrappers of one op (see flambeau.overrides).
    _thin = ("batch_norm", "linear", "sigmoid", "silu", "tanh")
    for _name in __all__:
        if isinstance(globals()[_name], _types.FunctionType):
            globals()[_name] = _with_autocast(_name, globals()[_name])
            if _name not in _thin:
                globals()[_name] = _overridable(globals()[_name])
