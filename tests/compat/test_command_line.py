"""`python -m flambeau`: arguments, names, tracebacks and exit codes are those of plain Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau

SOURCE = str(Path(flambeau.__file__).parents[1])


def run(*arguments, cwd=None, plain=False, **environment):
    command = [sys.executable, *([] if plain else ["-m", "flambeau"]), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": SOURCE, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env=env)


def write(folder, text, name="script.py"):
    path = folder / name
    path.write_text(text)
    return path


def test_script_sees_what_plain_python_shows(tmp_path):
    (tmp_path / "neighbour.py").write_text("import torch\nx = torch.ones(2)\n")
    show = "import neighbour, sys\nprint(__name__, sys.argv, __file__, __package__, __spec__, sys.path[0], 'x' in dir(neighbour))\n"
    script = write(tmp_path, "import torch\nassert torch.__version__ == '2.13.0+flambeau'\n" + show)
    plain = write(tmp_path, "import sys, flambeau.compat as c\nc.install()\n" + show, "plain.py")
    ours = run(script, "--lr", "0.1")
    theirs = run(plain, "--lr", "0.1", plain=True)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == theirs.stdout.replace("plain.py", "script.py")


def test_module_runs_with_its_package(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    write(package, "", "__init__.py")
    write(package, "import torch\nVALUE = torch.tensor(3)\n", "parts.py")
    write(package, "import sys\nfrom .parts import VALUE\nprint(__name__, __package__, sys.argv[1:], int(VALUE))\n", "train.py")
    result = run("-m", "pkg.train", "a", cwd=tmp_path)
    assert result.stdout == "__main__ pkg ['a'] 3\n", result.stderr


def test_traceback_has_only_the_frames_of_the_script(tmp_path):
    script = write(tmp_path, "import torch\ndef f():\n    raise KeyError('k')\nf()\n")
    ours, theirs = run(script), run(write(tmp_path, "#\ndef f():\n    raise KeyError('k')\nf()\n", "plain.py"), plain=True)
    assert ours.returncode == theirs.returncode == 1
    assert ours.stderr == theirs.stderr.replace("plain.py", "script.py")


def test_syntax_error_looks_the_same(tmp_path):
    script = write(tmp_path, "x = (\n")
    ours, theirs = run(script), run(script, plain=True)
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr)


@pytest.mark.parametrize("code", ["0", "3", "'stopped'", "None"])
def test_exit_codes(tmp_path, code):
    script = write(tmp_path, f"import sys\nsys.exit({code})\n")
    ours, theirs = run(script), run(script, plain=True)
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr)


def test_missing_files_and_modules(tmp_path):
    absent = tmp_path / "absent.py"
    ours, theirs = run(absent), run(absent, plain=True)
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr)
    ours, theirs = run("-m", "no_such_module"), run("-m", "no_such_module", plain=True)
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr)


def test_usage_and_command(tmp_path):
    assert run().returncode == 2
    assert "script.py" in run("--help").stdout
    assert run("--nonsense").returncode == 2
    assert run("-c", "import torch, sys; print(torch.arange(3).sum().item(), sys.argv)", "x").stdout == "3 ['-c', 'x']\n"


def test_missing_names_are_explained_at_the_point_of_use(tmp_path):
    script = write(tmp_path, "import torch\nprint('before')\nx = torch.zeros(2)\nx.no_such_method()\n")
    result = run(script)
    assert result.stdout == "before\n" and result.returncode == 1
    assert 'Tensor.no_such_method: not in flambeau' in result.stderr and "Differences from PyTorch" in result.stderr
    result = run("-c", "from torch.nn import NoSuchLayer")
    assert "torch.nn.NoSuchLayer: not in flambeau" in result.stderr and "Differences from PyTorch" in result.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_started_by_the_script_know_torch(tmp_path, method):
    script = write(
        tmp_path,
        "import multiprocessing as mp\nimport torch\n\n"
        "def work(n):\n    return int(torch.ones(n).sum())\n\n"
        f"if __name__ == '__main__':\n    with mp.get_context('{method}').Pool(1) as pool:\n        print(pool.map(work, [2, 3]))\n",
    )
    result = run(script)
    assert result.stdout == "[2, 3]\n", result.stderr


def test_pytest_plugin(tmp_path):
    write(tmp_path, "import torch\n\ndef test_one():\n    assert torch.__version__.endswith('flambeau')\n\n"
          "def test_two():\n    torch.zeros(2).no_such_method()\n", "test_it.py")
    result = run("-m", "pytest", "-q", "-p", "flambeau.compat.pytest_plugin", "-p", "no:cacheprovider", tmp_path, plain=True)
    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert "Differences from PyTorch" in result.stdout


def test_processes_that_tests_spawn_find_torch_too(tmp_path):
    (tmp_path / "test_spawned.py").write_text(
        "import torch\n"
        "import torch.multiprocessing as mp\n"
        "def fill(index, x):\n"
        "    x[index] = torch.ones(1).item()\n"
        "def test_spawned():\n"
        "    x = torch.zeros(2)\n"
        "    mp.spawn(fill, (x,), nprocs=2)\n"
        "    assert x.tolist() == [1, 1]\n"
    )
    result = run("-m", "pytest", "-q", "-p", "flambeau.compat.pytest_plugin", "-p", "no:cacheprovider", tmp_path, plain=True)
    assert "1 passed" in result.stdout, result.stdout
