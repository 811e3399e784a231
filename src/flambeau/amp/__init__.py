"""Automatic mixed precision: `autocast` runs suitable ops in bfloat16, `GradScaler` prevents underflow of small gradients.

Example:
    >>> p = fb.ones(2)
    >>> p.grad = fb.full((2,), 8.0)
    >>> scaler, optimizer = fb.amp.GradScaler("cpu", init_scale=8.0), fb.optim.SGD([p], lr=0.5)
    >>> loss = scaler.scale(fb.tensor(1.0))
    >>> scaler.step(optimizer)
    >>> p
    tensor([0.5000, 0.5000])
"""

from flambeau._registry.names import package_dir as _package_dir
from flambeau.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__dir__ = _package_dir(__name__)
