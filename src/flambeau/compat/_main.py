"""`python -m flambeau`: runs a script, module or command as Python itself would, with flambeau as torch."""

from __future__ import annotations

import builtins
import functools
import io
import multiprocessing
import multiprocessing.spawn
import os
import runpy
import sys
import types
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any, NoReturn

from flambeau import __version__ as flambeau_version
from flambeau import compat
from flambeau.compat.version import __version__ as torch_version
from flambeau.errors import StateError

USAGE = """\
usage: python -m flambeau script.py [arguments ...]
       python -m flambeau -m module [arguments ...]
       python -m flambeau -c command [arguments ...]
       python -m flambeau install-torch [--break-system-packages]
       python -m flambeau uninstall-torch

Runs code written for PyTorch: in it, `import torch` gives flambeau. install-torch installs a small package named torch into this
environment, so that packages that require torch are satisfied and a plain `import torch` gives flambeau; uninstall-torch removes it.

  -h, --help     this text
  -V, --version  the version of flambeau, and of the PyTorch it stands for
"""


def _stop(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(code)


def _fail(message: str) -> NoReturn:
    _stop(f"{sys.executable}: {message}", 1)


def main(arguments: list[str]) -> None:
    """Runs what the arguments of the command line name; ends as that ends.

    Args:
        arguments: sys.argv without the program.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    first, rest = arguments[0], arguments[1:]
    if first in ("-V", "--version"):
        print(f"flambeau {flambeau_version} (torch {torch_version})")
        return
    if first in ("install-torch", "uninstall-torch"):
        return _change_environment(first, rest)
    if first in ("-m", "-c") and not rest:
        _stop(f"python -m flambeau: argument expected for the {first} option\n{USAGE}", 2)
    compat.install()
    tell_children()
    sys.excepthook = functools.partial(_report, sys.excepthook)
    if first == "-m":
        _run_module(rest)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        _set_path("")
        _run(compile(rest[0] + "\n", "<string>", "exec", dont_inherit=True))
    elif first.startswith("-"):
        _stop(f"python -m flambeau: unknown option {first}\n{USAGE}", 2)
    else:
        _run_script(first, rest)


def _change_environment(command: str, options: list[str]) -> None:
    """install-torch and uninstall-torch."""
    allowed = ["--break-system-packages"] if command == "install-torch" else []
    for option in options:
        if option not in allowed:
            _stop(f"python -m flambeau: {command} does not take {option}\n{USAGE}", 2)
    from flambeau.compat._distribution import install_torch, uninstall_torch  # rare, and slow to load

    try:
        if command == "install-torch":
            folder = install_torch(break_system_packages=bool(options))
            print(f"installed torch {torch_version} in {folder}: it hands out flambeau {flambeau_version}")
        else:
            print(f"removed {uninstall_torch()}")
    except StateError as error:
        _fail(str(error))


def _run_script(script: str, rest: list[str]) -> None:
    sys.argv = [script, *rest]
    if os.path.isdir(script) or runpy_can_enter(script):
        _set_path(script)
        _, spec, code = runpy._get_main_module_details(_NotRunnable)  # type: ignore[attr-defined]  # not in the stub
        _run(code, spec, os.path.join(script, "__main__.py"))
        return
    path = os.path.abspath(script)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        _stop(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", 2)
    _set_path(os.path.dirname(os.path.realpath(path)))
    # For pdb, inspect and tracebacks __main__ has a loader, as with plain Python.
    _run(compile(source, path, "exec", dont_inherit=True), None, path, SourceFileLoader("__main__", path))


def _run_module(rest: list[str]) -> None:
    sys.argv = ["-m", *rest[1:]]
    try:
        _, spec, code = runpy._get_module_details(rest[0], _NotRunnable)  # type: ignore[attr-defined]  # not in the stub
    except _NotRunnable as error:
        _fail(str(error))
    sys.argv[0] = spec.origin
    _run(code, spec, spec.origin)


class _NotRunnable(Exception):
    """Raised by runpy for a module that cannot be run."""


def runpy_can_enter(path: str) -> bool:
    """Whether a path is an archive with Python code in it."""
    from pkgutil import get_importer

    importer: Any = get_importer(path)
    return importer is not None and type(importer).__name__ == "zipimporter"


def _set_path(first: str) -> None:
    """Python puts the script's folder first, unless in safe mode; `-m flambeau` has put the current one there."""
    if not sys.flags.safe_path:
        sys.path[0] = first


def _run(code: types.CodeType, spec: ModuleSpec | None = None, file: str | None = None, loader: Any = None) -> None:
    """Runs code as the module __main__."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __spec__=spec, __loader__=spec.loader if spec else loader)
    module.__package__ = spec.parent if spec else None
    if file is not None:
        module.__dict__.update(__file__=file, __cached__=spec.cached if spec else None)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _report(before: Any, kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None) -> None:
    """Shows an error as plain Python would: without the frames before the script, and with hints at missing names."""
    ours = (__file__, runpy.__file__, os.path.join(os.path.dirname(os.path.dirname(__file__)), "__main__.py"))
    while traceback is not None and traceback.tb_frame.f_code.co_filename in (*ours, "<frozen runpy>"):
        traceback = traceback.tb_next
    compat.explain(error)
    before(kind, error.with_traceback(traceback), traceback)


def tell_children() -> None:
    """Processes started by multiprocessing's spawn import the script again, so they need the import hook too."""
    original = multiprocessing.spawn.get_command_line

    def get_command_line(**keywords: Any) -> list[str]:
        command = original(**keywords)
        at = command.index("-c") + 1 if "-c" in command else None
        if at is not None:
            command[at] = "import flambeau.compat._installed; " + command[at]
        return command

    multiprocessing.spawn.get_command_line = get_command_line
    multiprocessing.set_forkserver_preload(["flambeau.compat._installed"])
