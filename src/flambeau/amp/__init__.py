"""Automatic mixed precision: `autocast` runs fitting ops in bfloat16, `GradScaler` keeps small gradients from vanishing.

Example:
    >>> x = fb.ones(2, 3)
    >>> with fb.amp.autocast("cpu"):
    ...     y = x @ x.T
    >>> y.dtype
    flambeau.bfloat16
"""

from flambeau.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
