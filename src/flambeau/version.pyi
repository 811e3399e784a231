# Written by `python -m flambeau._stubgen` from the op table; changes made here are lost.

from . import _bool, _str

cuda: None
debug: _bool
git_version: _str
hip: None
xpu: None
