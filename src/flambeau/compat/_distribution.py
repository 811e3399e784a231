"""`python -m flambeau install-torch`: a distribution named torch whose package is flambeau.

Packages that require torch are satisfied by it, and a plain `import torch` gives flambeau without the launcher: in
console scripts, pytest and processes they start. The distribution is one folder with one file and the metadata that pip
writes too, so `pip check` passes and `pip uninstall torch` removes it.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from flambeau import __version__ as flambeau_version
from flambeau.compat.version import __version__ as torch_version
from flambeau.errors import StateError

_PACKAGE = '''\
"""flambeau under PyTorch's name; `python -m flambeau uninstall-torch` removes this package."""

import importlib
import sys

try:
    from flambeau import compat
except ModuleNotFoundError as error:
    if error.name != "flambeau":
        raise
    raise ModuleNotFoundError(
        "torch: this package hands out flambeau, which is not installed here; run `pip install flambeau`, "
        "or `pip uninstall torch` to make room for PyTorch",
        name="flambeau",
    ) from None

# The import hook makes the module that `import torch` returns; what is half imported here must not be in its way.
del sys.modules["torch"]
compat.install()
importlib.import_module("torch")
'''


def install_torch(break_system_packages: bool = False) -> Path:
    """Installs a distribution named torch, which hands out flambeau, into the environment of this Python.

    Installing twice updates it. An environment with another torch is not changed.

    Args:
        break_system_packages: also install into a Python that the operating system manages; pip's option of that name.

    Returns:
        The folder of the package.
    """
    site = _site_packages()
    _refuse_other("install-torch", site)
    if not break_system_packages and _is_managed():
        raise StateError(
            f"install-torch: {sys.prefix} belongs to the operating system (PEP 668); use a virtual environment, "
            "or pass --break-system-packages"
        )
    info = f"torch-{torch_version}.dist-info"
    files = {  # the metadata first, so that a partial installation can be removed
        f"{info}/METADATA": _metadata(),
        f"{info}/INSTALLER": "flambeau\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: flambeau\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/top_level.txt": "torch\n",
        "torch/__init__.py": _PACKAGE,
    }
    record = "".join(f"{name},{_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    try:
        _remove(site)
        for name, text in files.items():
            (site / name).parent.mkdir(exist_ok=True)
            (site / name).write_text(text, encoding="utf-8")
    except OSError as error:
        _remove(site, ignore_errors=True)
        raise StateError(
            f"install-torch: cannot write to {site}: {error.strerror}; use a virtual environment"
        ) from error
    return site / "torch"


def uninstall_torch() -> Path:
    """Removes what install_torch installed.

    Returns:
        The folder that is gone.
    """
    site = _site_packages()
    _refuse_other("uninstall-torch", site)
    if not _ours(site):
        raise StateError(f"uninstall-torch: no torch from flambeau in {site}; nothing was removed")
    try:
        _remove(site)
    except OSError as error:
        raise StateError(f"uninstall-torch: cannot remove it from {site}: {error.strerror}") from error
    return site / "torch"


def _site_packages() -> Path:
    return Path(sysconfig.get_paths()["purelib"])


def _ours(site: Path) -> list[Path]:
    """Our metadata folders: of this version, or an older one."""
    return [
        path
        for path in site.glob("torch-*.dist-info")
        if re.search(r"\+flambeau$", path.name.removesuffix(".dist-info"))
    ]


def _refuse_other(command: str, site: Path) -> None:
    """Raises an error if a torch other than ours is installed in this Python."""
    for folder in dict.fromkeys([str(site), *sys.path]):
        for found in importlib.metadata.distributions(name="torch", path=[folder]):
            # The import hook's own distribution, in a process where it is installed, is not on disk.
            if not found.version.endswith("+flambeau"):
                raise StateError(
                    f"{command}: torch {found.version} is installed in {folder} and stays as it is; "
                    "use another virtual environment, or run `pip uninstall torch` first"
                )
        package = Path(folder or os.curdir, "torch", "__init__.py")
        if package.exists() and not (Path(folder) == site and _ours(site)):
            raise StateError(f"{command}: {package.parent} is a torch that flambeau did not install; it stays as it is")


def _is_managed() -> bool:
    """Whether the operating system's package manager owns this Python."""
    in_environment = sys.prefix != sys.base_prefix
    return not in_environment and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()


def _metadata() -> str:
    lines = ["Metadata-Version: 2.1", "Name: torch", f"Version: {torch_version}"]
    lines += [f"Summary: flambeau {flambeau_version} under PyTorch's name", "Requires-Python: >=3.11"]
    try:
        importlib.metadata.version("flambeau")
    except importlib.metadata.PackageNotFoundError:
        # A source tree that is not installed cannot be required.
        return "\n".join(lines) + "\n"
    return "\n".join([*lines, "Requires-Dist: flambeau"]) + "\n"


def _digest(text: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _remove(site: Path, ignore_errors: bool = False) -> None:
    infos = _ours(site)
    if infos and (site / "torch").is_dir():
        shutil.rmtree(site / "torch", ignore_errors=ignore_errors)
    for info in infos:
        shutil.rmtree(info, ignore_errors=ignore_errors)
