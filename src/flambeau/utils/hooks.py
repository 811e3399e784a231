"""The handle that registering a hook returns."""

from flambeau.nn.modules._hooks import RemovableHandle

__all__ = ["RemovableHandle"]
