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


# Script, arguments, and the last loss that PyTorch 2.13 prints from the same weights and data.
SMALL = [
    ("mlp.py", ["--steps", 31], 0.085131),
    ("char_rnn.py", ["--steps", 11, "--hidden", 24], 2.703671),
    ("gpt.py", ["--steps", 11, "--batch", 8, "--compile"], 2.212092),
    ("vae.py", ["--epochs", 2, "--samples", 512], 42.14975),
    ("resnet.py", ["--steps", 4, "--batch", 4, "--width", 4], 1.172976),
    ("digits_cnn.py", ["--epochs", 1, "--samples", 640, "--log-interval", 2], 1.837012),
    ("custom_function.py", ["--epochs", 2, "--samples", 128], 0.254409),
    ("autoencoder.py", ["--steps", 12], 0.09963969),
]


@pytest.mark.parametrize("script, arguments, last", SMALL, ids=[row[0] for row in SMALL])
def test_script_ends_with_the_loss_of_pytorch(script, arguments, last):
    if "sklearn" in (SCRIPTS / script).read_text():
        pytest.importorskip("sklearn")
    assert losses(run(script, *arguments))[-1] == pytest.approx(last, rel=1e-3)


def test_gan_takes_turns():
    text = run("gan.py", "--steps", 21, "--batch", 16)
    assert (losses(text, "lossD")[-1], losses(text, "lossG")[-1]) == pytest.approx((1.475367, 0.629445), rel=1e-3)


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
