"""Describes this machine and installation, for reports about problems: `python -m flambeau.utils.collect_env`.

Example:
    >>> "flambeau" in fb.utils.collect_env.get_pretty_env_info()
    True
"""

from __future__ import annotations

import collections
import os
import platform
import sys
from importlib import metadata

import flambeau as fb

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]
__dir__ = __all__.copy

SystemEnv = collections.namedtuple(
    "SystemEnv",
    "torch_version is_debug_build cuda_compiled_version is_cuda_available os libc_version python_version python_platform "
    "cpu_info memory pip_packages config",
)


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor() or 'unknown'}, {os.cpu_count()} logical processors"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (AttributeError, OSError, ValueError):
        return "unknown"


def _packages() -> str:
    wanted = ("numpy", "flambeau", "torch", "openblas", "safetensors", "scipy", "tensorboard")
    found = {f"{d.metadata['Name']}=={d.version}" for d in metadata.distributions() if d.metadata["Name"]}
    return "\n".join(sorted(one for one in found if any(name in one.lower() for name in wanted)))


def get_env_info() -> SystemEnv:
    """What there is to know, as a named tuple with PyTorch's field names where they apply.

    Example:
        >>> fb.utils.collect_env.get_env_info().is_cuda_available
        'False'
    """
    return SystemEnv(
        torch_version=f"flambeau {fb.__version__}",
        is_debug_build=str(fb.version.debug),
        cuda_compiled_version="None",
        is_cuda_available=str(fb.cuda.is_available()),
        os=platform.platform(),
        libc_version="-".join(platform.libc_ver()),
        python_version=f"{sys.version.splitlines()[0]} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=platform.platform(),
        cpu_info=_cpu(),
        memory=_memory(),
        pip_packages=_packages(),
        config=fb.show_config(),
    )


def get_pretty_env_info() -> str:
    """The same as a text.

    Example:
        >>> print(fb.utils.collect_env.get_pretty_env_info().partition(":")[0])
        version
    """
    info = get_env_info()
    rows = {
        "version": info.torch_version,
        "is CUDA available": info.is_cuda_available,
        "system": info.os,
        "libc": info.libc_version,
        "Python": info.python_version,
        "processor": info.cpu_info,
        "memory": info.memory,
    }
    lines = [f"{name}: {value}" for name, value in rows.items()]
    return "\n".join([*lines, "", "packages:", info.pip_packages, "", "build:", info.config])


def main() -> None:
    """Prints the text."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
