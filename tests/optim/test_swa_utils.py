"""Averages of weights."""

import copy

import numpy as np
import pytest

import flambeau as fb
from flambeau.optim import swa_utils

VALUES = (1.0, 2.0, 6.0, 3.0)


class Model(fb.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = fb.nn.Parameter(fb.zeros(2, 3))
        self.bias = fb.nn.Parameter(fb.zeros(3, dtype=fb.float64))
        self.register_buffer("seen", fb.zeros(1))
        self.register_buffer("count", fb.zeros(1, dtype=fb.int64))

    def forward(self, x):
        return x @ self.weight


def fill(model, value):
    with fb.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(value)


def averages(values=VALUES, **options):
    """Values of weight, bias and buffers of the average after each update."""
    model = Model()
    average = swa_utils.AveragedModel(model, **options)
    result = []
    for value in values:
        fill(model, value)
        average.update_parameters(model)
        module = average.module
        result.append([module.weight[0, 0].item(), module.bias[0].item(), module.seen.item(), module.count.item()])
    assert average.n_averaged.item() == len(values)
    return np.array(result)


MEANS = np.cumsum(VALUES) / np.arange(1, 5)
MOVING = np.array([1.0, 1.5, 3.75, 3.375])


def test_mean_of_parameters():
    for options in ({}, {"avg_fn": swa_utils.get_swa_avg_fn()}, {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}):
        weight, bias, seen, count = averages(**options).T
        np.testing.assert_allclose(weight, MEANS, rtol=1e-6)
        np.testing.assert_allclose(bias, MEANS, rtol=1e-12)
        np.testing.assert_array_equal(seen, VALUES)
        np.testing.assert_array_equal(count, VALUES)


def test_moving_average_of_parameters_and_buffers():
    for options in ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)}):
        weight, bias, seen, count = averages(**options, use_buffers=True).T
        for column in (weight, bias, seen):
            np.testing.assert_allclose(column, MOVING, rtol=1e-6)
        np.testing.assert_array_equal(count, [1, 1, 3, 3])  # integers are rounded down at every update


def test_averages_of_integers():
    average = [fb.tensor([4])]
    swa_utils.get_swa_multi_avg_fn()(average, [fb.tensor([10])], 1)
    assert average[0].item() == 7


def test_the_model_itself_is_not_touched():
    model = Model()
    average = swa_utils.AveragedModel(model)
    fill(model, 1.0)
    average.update_parameters(model)
    fill(model, 3.0)
    average.update_parameters(model)
    assert model.weight[0, 0].item() == 3.0
    assert average(fb.ones(1, 2)).tolist() == [[4.0, 4.0, 4.0]]


def test_checkpoint():
    model = Model()
    average = swa_utils.AveragedModel(model)
    for value in VALUES[:2]:
        fill(model, value)
        average.update_parameters(model)
    other = swa_utils.AveragedModel(Model())
    other.load_state_dict(copy.deepcopy(average.state_dict()))
    assert other.n_averaged.item() == 2
    fill(model, VALUES[2])
    other.update_parameters(model)
    assert other.module.weight[0, 0].item() == pytest.approx(3.0)


def test_refused():
    with pytest.raises(AssertionError, match="not both"):
        swa_utils.AveragedModel(Model(), avg_fn=abs, multi_avg_fn=abs)
    for make in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        for decay in (-0.1, 1.1):
            with pytest.raises(ValueError, match="decay"):
                make(decay)
    optimizer = fb.optim.SGD([fb.zeros(1)])
    for options in ({"anneal_strategy": "square"}, {"anneal_epochs": -1}, {"anneal_epochs": 1.5}):
        with pytest.raises(ValueError, match="SWALR"):
            swa_utils.SWALR(optimizer, 0.1, **options)
    with pytest.raises(ValueError, match="one value per parameter group"):
        swa_utils.SWALR(optimizer, [0.1, 0.2])


def test_statistics_of_batch_norm():
    batches = [fb.tensor([[1.0, 2.0], [3.0, 6.0]]), fb.tensor([[5.0, 0.0], [7.0, 4.0]])]
    model = fb.nn.Sequential(fb.nn.BatchNorm1d(2, momentum=0.25)).eval()
    model[0].running_mean.fill_(99.0)
    swa_utils.update_bn([(batch, "label") for batch in batches], model)
    np.testing.assert_allclose(model[0].running_mean.numpy(), [4.0, 3.0])
    np.testing.assert_allclose(model[0].running_var.numpy(), [2.0, 8.0])
    assert model[0].momentum == 0.25
    assert not model.training
    swa_utils.update_bn(batches, model, device="cpu")
    np.testing.assert_allclose(model[0].running_mean.numpy(), [4.0, 3.0])


def test_update_bn_without_batch_norm_reads_no_data():
    swa_utils.update_bn(iter([1]), fb.nn.Sequential())


@pytest.mark.parametrize("strategy", ["linear", "cos"])
@pytest.mark.parametrize("epochs", [0, 1, 5])
def test_learning_rate_goes_to_its_value(strategy, epochs):
    optimizer = fb.optim.SGD([{"params": [fb.zeros(1)], "lr": 1.0}, {"params": [fb.zeros(1)], "lr": 0.1}])
    scheduler = swa_utils.SWALR(optimizer, [0.2, 0.5], anneal_epochs=epochs, anneal_strategy=strategy)
    other = None
    for t in range(9):
        done = 1.0 if epochs == 0 else min(1.0, t / epochs)
        share = done if strategy == "linear" else (1 - np.cos(np.pi * done)) / 2
        expected = [1.0 + (0.2 - 1.0) * share, 0.1 + (0.5 - 0.1) * share]
        assert (other or scheduler).get_last_lr() == pytest.approx(expected)
        if t == 3:
            other = swa_utils.SWALR(optimizer, [0.2, 0.5])
            other.load_state_dict(scheduler.state_dict())
            for group, lr in zip(optimizer.param_groups, expected, strict=True):
                group["lr"] = lr
        optimizer.step()
        (other or scheduler).step()
