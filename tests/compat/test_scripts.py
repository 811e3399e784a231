"""The scripts in examples/scripts_for_pytorch run unmodified through `python -m flambeau`, and learn."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as fb

SCRIPTS = Path(__file__).parents[2] / "examples" / "scripts_for_pytorch"
SOURCE = str(Path(fb.__file__).parents[1])


def run(script, *arguments):
    command = [sys.executable, "-m", "flambeau", str(SCRIPTS / script), *map(str, arguments)]
    # One thread: the sizes are tiny and other tests run beside this one.
    env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, env=env)
    assert result.returncode == 0, result.stderr
    return result.stdout


def losses(text, name="loss"):
    return [float(number) for number in re.findall(rf"\b{name} (-?\d+\.\d+)", text)]


# script, arguments, first loss (that of PyTorch 2.13 with the same weights), and how far the last one falls below it
SMALL = [
    ("mlp.py", ["--steps", 31], 1.1, 0.8),
    ("char_rnn.py", ["--steps", 11, "--hidden", 24], 3.0, 0.99),
    ("gpt.py", ["--steps", 11, "--batch", 8, "--compile"], 2.5, 0.99),
    ("vae.py", ["--epochs", 2, "--samples", 512], 45.0, 0.95),
    ("resnet.py", ["--steps", 4, "--batch", 4, "--width", 4], None, None),
    ("digits_cnn.py", ["--epochs", 1, "--samples", 640, "--log-interval", 2], None, 0.8),
    ("custom_function.py", ["--epochs", 2, "--samples", 128], None, 0.9),
]


def needs(script):
    """Skips a script whose library part this build does not have."""
    text = (SCRIPTS / script).read_text()
    for word, path in (("max_pool2d", "nn.functional.max_pool2d"), ("AdaptiveAvgPool2d", "nn.AdaptiveAvgPool2d")):
        if word in text:
            value = fb
            for part in path.split("."):
                value = getattr(value, part, None)
            if value is None:
                pytest.skip(f"{script} needs {path}")
    if "sklearn" in text:
        pytest.importorskip("sklearn")


@pytest.mark.parametrize("script, arguments, start, fall", SMALL, ids=[row[0] for row in SMALL])
def test_script_learns(script, arguments, start, fall):
    needs(script)
    found = losses(run(script, *arguments))
    assert len(found) >= 3
    if start is not None:
        assert found[0] == pytest.approx(start, rel=0.2)
    if fall is not None:
        assert found[-1] < fall * found[0]


def test_gan_takes_turns():
    text = run("gan.py", "--steps", 21, "--batch", 16)
    assert len(losses(text, "lossD")) == len(losses(text, "lossG")) == 3


def test_policy_earns_rewards():
    assert len(losses(run("policy_gradient.py", "--episodes", 4, "--length", 10), "reward")) == 4


def test_resumed_training_repeats_the_losses_to_the_last_digit(tmp_path):
    checkpoint = ["--checkpoint", tmp_path / "a.pt"]
    whole = run("autoencoder.py", "--steps", 12)
    first = run("autoencoder.py", "--steps", 12, "--stop-after", 5, *checkpoint)
    second = run("autoencoder.py", "--steps", 12, "--resume", *checkpoint)
    assert first + second == whole


def test_tensorboard_folder_is_written(tmp_path):
    run("vae.py", "--epochs", 1, "--samples", 128, "--logdir", tmp_path)
    (file,) = tmp_path.glob("events.out.tfevents.*")
    assert b"loss/train" in file.read_bytes() and b"samples" in file.read_bytes()
