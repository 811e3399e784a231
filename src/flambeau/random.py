"""The state of the default random generator, and a way to leave it untouched."""

import contextlib

from flambeau._settings.system import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
__dir__ = __all__.copy


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, device_type=None):
    """Puts the default generator back where it was when the block ends.

    Args:
        devices: other devices whose state is kept as well; the CPU's always is.
        enabled: with False the block changes the state as usual.
        device_type: kind of the devices.

    Example:
        >>> g = fb.manual_seed(0)
        >>> with fb.random.fork_rng():
        ...     x = fb.rand(3)
        >>> bool((x == fb.rand(3)).all())
        True
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
