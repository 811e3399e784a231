"""Switches of the libraries that PyTorch runs on, for the scripts that set them; there, and none of them needed.

Each module reports whether its library is used here. Switches store their value without effect:
results are deterministic and in full precision in any case. The only one with an effect is `winograd.enabled`.

Example:
    >>> fb.backends.cudnn.benchmark = True
    >>> fb.backends.cudnn.is_available(), fb.backends.openmp.is_available()
    (False, False)
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum, winograd

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "winograd"]
__dir__ = _package_dir(__name__)
