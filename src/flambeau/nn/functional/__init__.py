"""The functions behind the modules of flambeau.nn: nothing here keeps state.

One flat namespace; the files of this folder hold one family each.
"""

import flambeau as _fb
from flambeau.nn.functional import (
    _activation,
    _attention,
    _convolution,
    _dropout,
    _linear,
    _loss,
    _margin,
    _normalization,
    _resample,
    _spatial,
)
from flambeau.nn.functional._activation import *  # noqa: F403
from flambeau.nn.functional._attention import *  # noqa: F403
from flambeau.nn.functional._convolution import *  # noqa: F403
from flambeau.nn.functional._dropout import *  # noqa: F403
from flambeau.nn.functional._linear import *  # noqa: F403
from flambeau.nn.functional._loss import *  # noqa: F403
from flambeau.nn.functional._margin import *  # noqa: F403
from flambeau.nn.functional._normalization import *  # noqa: F403
from flambeau.nn.functional._resample import *  # noqa: F403
from flambeau.nn.functional._spatial import *  # noqa: F403

# Ops of the core that belong here by name.
_core = dict(_fb._C.namespaces.get("nn.functional", {}))
globals().update(_core)

_FAMILIES = (
    _activation,
    _attention,
    _convolution,
    _dropout,
    _linear,
    _loss,
    _margin,
    _normalization,
    _resample,
    _spatial,
)
__all__ = sorted({name for family in _FAMILIES for name in family.__all__} | set(_core))  # noqa: PLE0605
