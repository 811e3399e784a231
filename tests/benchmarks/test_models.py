"""The models of the benchmark: both libraries get the same work, and the suite reads what it measures."""

import importlib.util
import math
from pathlib import Path

import pytest

import compare
import flambeau as fb
import models
from harness.report import Result
from models.training import Training, fill

np = pytest.importorskip("numpy")
SCRIPT = Path(compare.__file__).with_name("models.py")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("benchmark_models", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", models.NAMES)
def test_a_model_learns_its_batch_and_answers(name):
    task = Training(fb, name, small=True, dropout=False)
    losses = task.losses(5)
    assert all(math.isfinite(loss) for loss in losses) and min(losses[1:]) < losses[0]
    output = task.infer()
    assert not output.requires_grad and not task.net.training
    assert output.shape[0] == task.inputs[0].shape[0] and np.isfinite(output.numpy()).all()


def test_weights_depend_on_the_name_alone():
    first, second = (fb.nn.Sequential(fb.nn.Linear(5, 4), fb.nn.LayerNorm(4)) for _ in range(2))
    fill(fb, first)
    fill(fb, second)
    for (name, a), b in zip(first.named_parameters(), second.parameters(), strict=True):
        assert fb.equal(a, b), name
    assert first[0].weight.std() > 0
    assert (first[0].bias == 0).all() and (first[1].weight == 1).all() and (first[1].bias == 0).all()


@pytest.mark.parametrize("name", ["alexnet", "vgg", "resnet", "mobilenet"])
def test_multiplications_are_those_of_the_layers(name):
    """Counted by hooks during one forward pass."""
    model = models.load(name)
    size = {**model.FULL, "images": 1}
    net, counted = model.build(fb, **size), 0

    def count(module, inputs, output):
        nonlocal counted
        counted += output.numel() * math.prod(module.weight.shape[1:])

    for module in net.modules():
        if isinstance(module, (fb.nn.Conv2d, fb.nn.Linear)):
            module.register_forward_hook(count)
    with fb.no_grad():
        net.eval()(fb.zeros(1, 3, size["side"], size["side"]))
    assert counted == model.MULTIPLICATIONS


def measured(script, group, ours, theirs, small=False):
    return [
        Result(group, script.title(name, small), rounds={"flambeau": [ours], **{s: [t] for s, t in theirs.items()}})
        for name in models.NAMES
    ]


def test_budgets_take_the_best_of_pytorch_and_need_every_model(script):
    results = measured(script, "training step", 1.0, {"torch": 3.0, "torch-compile": 2.0, "torch-jemalloc": 1.5})
    values = {budget.text: budget.value(results) for budget in script.suite.budgets}
    worst = values["training, every model against PyTorch's best default mode, worst"]
    mean = values["training, the paper's six against PyTorch's best default mode, geometric mean"]
    assert worst == pytest.approx(2.0) and mean == pytest.approx(2.0)
    assert values["training, every model against PyTorch on jemalloc, worst"] == pytest.approx(1.5)
    assert script.suite.budgets[0].value(results[1:]) is None
    small = measured(script, "training step", 1.0, {"torch": 3.0}, small=True)
    assert all(budget.value(small) is None for budget in script.suite.budgets)


def test_memory_budget_is_a_share_of_pytorch(script):
    results = measured(script, "peak memory of two training steps", 50.0, {"torch": 100.0})
    assert script.memory_share(results) == pytest.approx(0.5) and script.memory_share([]) is None


def test_time_over_the_arithmetic(script):
    product = Result("arithmetic", "product", rounds={"flambeau": [1.0]})
    model = models.load("vgg")
    arithmetic = 3 * model.MULTIPLICATIONS * model.FULL["images"] / script.MATRIX**3
    step = Result("training step", script.title("vgg", False), rounds={"flambeau": [1.25 * arithmetic]})
    share = script.above_arithmetic("vgg")
    assert share([product, step]) == pytest.approx(1.25)
    assert share([step]) is None and script.above_arithmetic("resnet")([product, step]) is None


def test_throughput_is_items_per_second(script):
    results = measured(script, "training step", 0.5, {"torch": 1.0})
    line = next(line for line in script.throughput(results) if "AlexNet" in line)
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells == ["AlexNet, images/s", "64.0", "32.0", "2.00 ×"]


def test_chart_is_drawn(script, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(script, "CHART", tmp_path / "chart.png")
    line = script.chart(measured(script, "training step", 0.5, {"torch": 1.0, "torch-compile": 2.0}))
    assert line.endswith("(chart.png)") and (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_small_rows_run_only_when_asked_for(script):
    for arguments, small in (([], False), (["--small"], True)):
        rows = compare.select(script.suite, compare.parse(script.suite, arguments))
        assert len(rows) == 4 * len(models.NAMES) + 1 and all(row.small is small for row in rows)


def test_channels_last_has_rows_for_pictures_only(script):
    has = {row.name.split(",")[0]: row.source("torch-channels-last") for row in script.suite.rows if row.kind == "time"}
    assert {name for name, source in has.items() if source} == {
        "AlexNet",
        "VGG-19",
        "ResNet-50",
        "MobileNet",
        "ViT-S/16",
    }


def test_small_figures_are_not_recorded(script, capsys):
    with pytest.raises(SystemExit):
        compare.parse(script.suite, ["--write", "--small"])
    assert "cannot go with --small" in capsys.readouterr().err
