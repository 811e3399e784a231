"""Ops that the core registers under nn.functional; their types are in the generated stub."""

from flambeau import _C

globals().update(_C.namespaces["nn.functional"])
__all__ = sorted(_C.namespaces["nn.functional"])
