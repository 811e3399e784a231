"""The modules of flambeau.nn, one file for each family."""

import typing as _typing

from flambeau._registry.names import package_dir as _package_dir
from flambeau.nn.modules.activation import *
from flambeau.nn.modules.adaptive import *
from flambeau.nn.modules.batchnorm import *
from flambeau.nn.modules.channelshuffle import *
from flambeau.nn.modules.container import *
from flambeau.nn.modules.conv import *
from flambeau.nn.modules.ctc import *
from flambeau.nn.modules.distance import *
from flambeau.nn.modules.dropout import *
from flambeau.nn.modules.flatten import *
from flambeau.nn.modules.fold import *
from flambeau.nn.modules.instancenorm import *
from flambeau.nn.modules.linear import *
from flambeau.nn.modules.loss import *
from flambeau.nn.modules.module import Module as Module
from flambeau.nn.modules.normalization import *
from flambeau.nn.modules.padding import *
from flambeau.nn.modules.pixelshuffle import *
from flambeau.nn.modules.pooling import *
from flambeau.nn.modules.quantized import *
from flambeau.nn.modules.rnn import *
from flambeau.nn.modules.sparse import *
from flambeau.nn.modules.transformer import *
from flambeau.nn.modules.upsampling import *

if not _typing.TYPE_CHECKING:  # type checkers treat star imports as exported, but cannot compute this list
    __dir__ = _package_dir(__name__)
    __all__ = sorted(name for name, value in globals().items() if isinstance(value, type) and not name.startswith("_"))
