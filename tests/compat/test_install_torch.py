"""`python -m flambeau install-torch`: what an environment looks like afterwards, and what it refuses."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import flambeau

SOURCE = str(Path(flambeau.__file__).parents[1])


class Environment:
    """A virtual environment that sees flambeau and its dependencies, and a pip that looks into it."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
        self.site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        dependencies = [path for path in sys.path if path.endswith("site-packages")]
        (self.site / "dependencies.pth").write_text("\n".join([SOURCE, *dependencies]) + "\n")

    def run(self, *arguments):
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        command = [str(self.folder / "bin" / "python"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=self.folder)

    def flambeau(self, *arguments):
        return self.run("-m", "flambeau", *arguments)


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "venv")


def contents(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts)


def test_plain_import_gives_flambeau_also_in_children(environment):
    assert environment.run("-c", "import torch").returncode == 1
    result = environment.flambeau("install-torch")
    assert result.returncode == 0, result.stderr
    assert str(environment.site / "torch") in result.stdout
    script = environment.folder / "script.py"
    script.write_text(
        "import json, importlib.metadata, importlib.util, multiprocessing, subprocess, sys\n"
        "import torch.nn.functional as F\n"
        "import torch\n"
        "from torch import nn\n"
        "def square(x):\n"
        "    import torch\n"
        "    return float(torch.tensor(x) ** 2), str(torch.__version__)\n"
        "if __name__ == '__main__':\n"
        "    import flambeau\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        spawned = pool.apply(square, (3.0,))\n"
        "    child = [sys.executable, '-c', 'import torch; print(torch.__version__)']\n"
        "    print(json.dumps({\n"
        "        'version': importlib.metadata.version('torch'),\n"
        "        'same': torch.Tensor is flambeau.Tensor and nn.Linear is flambeau.nn.Linear,\n"
        "        'relu': F.relu(torch.tensor([-1.0, 2.0])).tolist(),\n"
        "        'spec': importlib.util.find_spec('torch') is not None,\n"
        "        'dtype': str(torch.float32),\n"
        "        'spawned': spawned,\n"
        "        'child': subprocess.run(child, capture_output=True, text=True).stdout.strip(),\n"
        "    }))\n"
    )
    result = environment.run(str(script))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "version": "2.13.0+flambeau",
        "same": True,
        "relu": [0.0, 2.0],
        "spec": True,
        "dtype": "torch.float32",
        "spawned": [9.0, "2.13.0+flambeau"],
        "child": "2.13.0+flambeau",
    }


def test_uninstall_leaves_nothing(environment):
    before = contents(environment.site)
    assert environment.flambeau("install-torch").returncode == 0
    installed = contents(environment.site)
    assert installed != before
    assert environment.flambeau("install-torch").returncode == 0  # again: an update
    assert contents(environment.site) == installed
    result = environment.flambeau("uninstall-torch")
    assert result.returncode == 0, result.stderr
    assert contents(environment.site) == before
    again = environment.flambeau("uninstall-torch")
    assert again.returncode == 1
    assert "no torch from flambeau" in again.stderr


def test_record_lists_every_file_so_pip_can_remove_it(environment):
    environment.flambeau("install-torch")
    info = environment.site / "torch-2.13.0+flambeau.dist-info"
    listed = {line.split(",")[0] for line in (info / "RECORD").read_text().splitlines()}
    assert listed == {
        name for name in contents(environment.site) if name.startswith("torch") and (environment.site / name).is_file()
    }
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        str(environment.folder / "bin" / "python"),
    ]
    check = subprocess.run([*pip, "check"], capture_output=True, text=True, timeout=120)
    assert "torch" not in check.stdout, check.stdout
    removed = subprocess.run([*pip, "uninstall", "-y", "torch"], capture_output=True, text=True, timeout=120)
    assert removed.returncode == 0, removed.stderr
    assert not (environment.site / "torch").exists()


@pytest.mark.parametrize("command", ["install-torch", "uninstall-torch"])
def test_another_torch_stays_as_it_is(environment, command):
    info = environment.site / "torch-2.13.0.dist-info"
    (environment.site / "torch").mkdir()
    (environment.site / "torch" / "__init__.py").write_text("__version__ = '2.13.0'\n")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n")
    before = contents(environment.site)
    result = environment.flambeau(command)
    assert result.returncode == 1
    assert f"{command}: torch 2.13.0 is installed" in result.stderr
    assert contents(environment.site) == before
    # A package without metadata, say a source tree, is not ours either.
    (info / "METADATA").unlink()
    info.rmdir()
    assert "flambeau did not install" in environment.flambeau(command).stderr


def test_error_where_flambeau_is_gone(environment):
    environment.flambeau("install-torch")
    (environment.site / "dependencies.pth").unlink()
    result = environment.run("-c", "import torch")
    assert result.returncode == 1
    assert "ModuleNotFoundError: torch: this package hands out flambeau, which is not installed here" in result.stderr


def test_unknown_option_is_an_error(environment):
    result = environment.flambeau("uninstall-torch", "--force")
    assert result.returncode == 2
    assert "does not take --force" in result.stderr
