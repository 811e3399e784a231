"""Selects the compiled core for this processor.

A wheel holds two: one for every x86-64 processor with AVX2, next to this file, and one for those with AVX-512, in the
folder ``_avx512``. ``load()`` makes the second one ``flambeau._C`` if the processor supports it, unless
FLAMBEAU_CPU_LEVEL=avx2 is set. A build for one machine has one core, and nothing to choose.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location

__all__ = ["load"]
__dir__ = __all__.copy

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_avx512")
_NEEDED = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}  # x86-64-v4


def _flags() -> set[str]:
    """The processor's features as reported by the system; empty if it reports none."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.split())
    except OSError:
        return set()
    return set()


def load() -> None:
    """Makes ``from flambeau import _C`` load the AVX-512 core, if there is one and the processor can run it."""
    if not os.path.isdir(_FOLDER) or os.environ.get("FLAMBEAU_CPU_LEVEL") in ("baseline", "avx2") or not _flags() >= _NEEDED:
        return
    path = next((p for s in EXTENSION_SUFFIXES if os.path.exists(p := os.path.join(_FOLDER, "_C" + s))), None)
    if path is None:
        return
    name = "flambeau._C"
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
