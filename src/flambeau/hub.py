"""Models from folders on this machine that have a `hubconf.py`; nothing is ever downloaded.

Files that PyTorch has fetched before are found, since the folder is the same (`$TORCH_HOME/hub`, by default
`~/.cache/torch/hub`).

Example:
    >>> import pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> code = "def net(width):\\n    'A linear layer.'\\n    import flambeau\\n    return flambeau.nn.Linear(width, 1)\\n"
    >>> _ = pathlib.Path(folder, "hubconf.py").write_text(code)
    >>> fb.hub.list(folder, source="local")
    ['net']
    >>> fb.hub.load(folder, "net", 3, source="local")
    Linear(in_features=3, out_features=1, bias=True)
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import types
import urllib.parse
from typing import Any

from flambeau.errors import ArgumentError, StateError

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]
__dir__ = __all__.copy

_folder: str | None = None


def get_dir() -> str:
    """The folder where models and weights are looked for: set_dir(), `$TORCH_HOME/hub` or `~/.cache/torch/hub`.

    Example:
        >>> fb.hub.get_dir().endswith("hub")
        True
    """
    if _folder is not None:
        return _folder
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))), "hub")


def set_dir(d: Any) -> None:
    """Sets the folder where models and weights are looked for; None takes the setting back.

    Example:
        >>> fb.hub.set_dir(None)
    """
    global _folder
    _folder = None if d is None else os.path.expanduser(os.fspath(d))


def _find(op: str, repo_or_dir: Any, source: str) -> str:
    """The folder of a repository: the one given, or the copy that an earlier download left in get_dir()."""
    if source not in ("local", "github"):
        raise ArgumentError(f"{op}: source must be 'local' or 'github', got {source!r}")
    if source == "local":
        folder = os.path.expanduser(os.fspath(repo_or_dir))
    else:
        match = re.fullmatch(r"([\w.-]+)/([\w.-]+?)(?::([\w./-]+))?", str(repo_or_dir))
        if match is None:
            raise ArgumentError(f"{op}: expected 'owner/name' or 'owner/name:branch', got {repo_or_dir!r}")
        owner, name, branch = match.groups()
        branches = [branch.replace("/", "_")] if branch else ["main", "master"]
        folders = [os.path.join(get_dir(), f"{owner}_{name}_{b}") for b in branches]
        folder = next(filter(os.path.isdir, folders), folders[0])
        if not os.path.isdir(folder):
            raise StateError(
                f"{op}: {repo_or_dir} is not on this machine (looked for {' and '.join(folders)}), and nothing is downloaded; "
                "put a copy there, or give a folder with source='local'"
            )
    if not os.path.isfile(os.path.join(folder, "hubconf.py")):
        raise StateError(f"{op}: there is no hubconf.py in {folder!r}")
    return folder


def _config(folder: str) -> types.ModuleType:
    """The module hubconf of a folder, freshly imported; it may import its neighbours."""
    spec = importlib.util.spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _entry(op: str, folder: str, name: str) -> Any:
    module = _config(folder)
    needed = [one for one in getattr(module, "dependencies", []) if importlib.util.find_spec(one) is None]
    if needed:
        raise StateError(f"{op}: {folder} needs packages that are missing: {', '.join(needed)}")
    entry = getattr(module, name, None)
    if not callable(entry):
        raise StateError(f"{op}: no entry {name!r} in {folder}/hubconf.py; there are {', '.join(_entries(module)) or 'none'}")
    return entry


def _entries(module: types.ModuleType) -> builtins.list[str]:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def list(
    github: Any, force_reload: bool = False, skip_validation: bool = False, *, source: str = "github", **options: Any
) -> Any:
    """The names that a repository's `hubconf.py` offers.

    Args:
        github: a folder with source="local"; "owner/name[:branch]" looks for an earlier download in get_dir().
        force_reload: must be False, as nothing is downloaded.
        source: "local" or "github".

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "hubconf.py").write_text("def two(x=1):\\n    'Twice.'\\n    return 2 * x\\n")
        >>> fb.hub.list(folder, source="local")
        ['two']
    """
    _refuse_download("list", force_reload)
    return _entries(_config(_find("list", github, source)))


def help(
    github: Any,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    *,
    source: str = "github",
    **options: Any,
) -> Any:
    """The docstring of an entry of a repository's `hubconf.py`; arguments as in list().

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "hubconf.py").write_text("def two(x=1):\\n    'Twice.'\\n    return 2 * x\\n")
        >>> fb.hub.help(folder, "two", source="local")
        'Twice.'
    """
    _refuse_download("help", force_reload)
    return _entry("help", _find("help", github, source), model).__doc__


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls an entry of a repository's `hubconf.py` and returns its result, usually a model.

    Args:
        repo_or_dir: a folder with source="local"; "owner/name[:branch]" looks for an earlier download in get_dir().
        model: the name of the entry.
        args, kwargs: arguments of the entry.
        source: "local" or "github".
        force_reload: must be False, as nothing is downloaded.
        trust_repo, verbose, skip_validation: questions of a download; without effect.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "hubconf.py").write_text("def two(x=1):\\n    'Twice.'\\n    return 2 * x\\n")
        >>> fb.hub.load(folder, "two", x=4, source="local")
        8
    """
    _refuse_download("load", force_reload)
    return _entry("load", _find("load", repo_or_dir, source), model)(*args, **kwargs)


def _refuse_download(op: str, force_reload: bool) -> None:
    if force_reload:
        raise ArgumentError(f"{op}: force_reload=True asks for a download, and nothing is downloaded")


def _local(url: str) -> str | None:
    parts = urllib.parse.urlparse(str(url))
    if parts.scheme == "file":
        return urllib.parse.unquote(parts.path)
    return str(url) if parts.scheme == "" else None


def download_url_to_file(url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Copies a `file:` address or a path; other addresses are refused, as nothing is downloaded.

    Args:
        url: where the file is.
        dst: destination.
        hash_prefix: how the SHA-256 of the content must begin.
        progress: without effect.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "a")
        >>> _ = file.write_text("x")
        >>> fb.hub.download_url_to_file(file.as_uri(), file.with_name("b"))
        >>> file.with_name("b").read_text()
        'x'
    """
    source = _local(url)
    if source is None:
        raise StateError(f"download_url_to_file: nothing is downloaded; fetch {url} by hand and put it at {os.fspath(dst)}")
    if hash_prefix is not None:
        with open(source, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        if not digest.startswith(hash_prefix):
            raise StateError(f"download_url_to_file: the hash of {source} is {digest}, expected it to begin with {hash_prefix}")
    shutil.copyfile(source, dst)


def load_state_dict_from_url(
    url: str,
    model_dir: Any = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Loads the weights that an address names, if the file is on this machine already.

    Args:
        url: its last part is the file's name; a `file:` address is read where it is.
        model_dir: folder of the file; `checkpoints` in get_dir() if not given.
        map_location, weights_only: as in load().
        check_hash: the name ends in `-` and the first digits of the SHA-256, which must fit.
        file_name: name of the file, if not that of the address.
        progress: without effect.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "weights.pt")
        >>> fb.save({"w": fb.ones(1)}, file)
        >>> fb.hub.load_state_dict_from_url("https://host/weights.pt", model_dir=file.parent)
        {'w': tensor([1.])}
    """
    from flambeau.serialization import load as load_file

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    name = file_name or os.path.basename(urllib.parse.urlparse(str(url)).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        path = _local(url) or path
    if not os.path.exists(path):
        raise StateError(f"load_state_dict_from_url: nothing is downloaded; fetch {url} by hand and put it at {path}")
    if check_hash:
        wanted = re.search(r"-([a-f0-9]{6,})\.", name)
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        if wanted is None or not digest.startswith(wanted.group(1)):
            raise StateError(f"load_state_dict_from_url: the hash of {path} is {digest}, which does not fit its name")
    return load_file(path, map_location=map_location, weights_only=weights_only)
