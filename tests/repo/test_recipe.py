"""The recipe for a new op in CONTRIBUTING.md: its files exist and hold what it says, and following it gives a working op."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "CONTRIBUTING.md").read_text().partition("## Adding an op")[2].partition("\n## ")[0]
STEPS = re.findall(r"^\| (\d\..*?) \|(.*)\|$", RECIPE, re.M)
PLACES = [(step, *place) for step, cells in STEPS for place in re.findall(r"`([^`]+/[^`]+)`: `([^`]+)`", cells)]


def test_the_recipe_names_every_step():
    named = " ".join(step for step, _ in STEPS)
    for word in ("op", "docstring", "gradient", "batching rule", "test row", "stub", "CHANGELOG"):
        assert word in named, f"CONTRIBUTING.md: the table of a new op's files has no step for its {word}"
    assert len(PLACES) == 12, "each form of an op has its files in the table of CONTRIBUTING.md"


@pytest.mark.parametrize(("step", "path", "text"), PLACES)
def test_the_files_of_the_recipe_hold_what_it_says(step, path, text):
    assert (ROOT / path).is_file(), f"CONTRIBUTING.md, step {step}: there is no {path}"
    end = r"(?!\w)" if text[-1].isalnum() else ""
    found = re.search(rf"(?<!\w){re.escape(text)}{end}", (ROOT / path).read_text())
    assert found, f"CONTRIBUTING.md, step {step}: {path} does not contain {text}"


FOLLOWED = '''
import inspect
import numpy as np
import flambeau as fb
{imports}

{op}

x = fb.arange(6.0).reshape(2, 3).requires_grad_()
assert rot180.signatures == ("rot180(Tensor input, int[] dims=[0, 1]) -> Tensor",)
np.testing.assert_array_equal(rot180(x).detach().numpy(), np.rot90(np.arange(6.0).reshape(2, 3), 2))
assert x.rot180([0]).tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
assert rot180(x, axis=0).tolist() == x.rot180(0).tolist()  # NumPy's spelling, and one number for a list
assert "docstring with an example" in inspect.getdoc(rot180)
(rot180(x) * fb.arange(6.0).reshape(2, 3)).sum().backward()
assert x.grad.tolist() == [[5.0, 4.0, 3.0], [2.0, 1.0, 0.0]]
batch = fb.stack([x.detach(), 2 * x.detach()])
assert fb.func.vmap(rot180)(batch).tolist() == fb.stack([rot180(b) for b in batch]).tolist()
try:
    rot180(x, dims=[7])
except IndexError as error:
    assert "out of range" in str(error)
else:
    raise AssertionError("no error")
'''


def test_the_example_of_the_recipe_works():
    """In a process of its own: an op stays registered."""
    op = textwrap.dedent(re.search(r'^( *@composite\("rot180.*?\n) *```', RECIPE, re.M | re.S).group(1))
    imports = "from flambeau._registry.composite import composite"
    program = FOLLOWED.format(imports=imports, op=op)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
