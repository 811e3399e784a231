"""Switches for how modules convert their parameters.

Example:
    >>> fb.__future__.get_swap_module_params_on_conversion()
    False
"""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip
__dir__ = __all__.copy

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether conversions of modules, such as module.double(), put new parameters in place of the old ones.

    Args:
        value: True for new parameters; False, the default, keeps the objects and gives them other data.

    Example:
        >>> fb.__future__.set_overwrite_module_params_on_conversion(True)
        >>> m = fb.nn.Linear(1, 1)
        >>> before = m.weight
        >>> m.double().weight is before
        False
        >>> fb.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What set_overwrite_module_params_on_conversion() was last told; False at first.

    Example:
        >>> fb.__future__.get_overwrite_module_params_on_conversion()
        False
    """
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether conversions of modules and load_state_dict() exchange parameters by utils.swap_tensors().

    The objects stay, and become what the conversion returns, class and attributes included: what tensor subclasses
    need.

    Args:
        value: True to exchange; False, the default, gives parameters other data.

    Example:
        >>> fb.__future__.set_swap_module_params_on_conversion(True)
        >>> m = fb.nn.Linear(1, 1)
        >>> before = m.weight
        >>> m.double().weight is before, before.dtype
        (True, flambeau.float64)
        >>> fb.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """What set_swap_module_params_on_conversion() was last told; False at first.

    Example:
        >>> fb.__future__.get_swap_module_params_on_conversion()
        False
    """
    return _swap
