"""Messages about NaN name the module."""

import pytest

import flambeau as fb


class Root(fb.nn.Module):
    def forward(self, x):
        return x.sqrt() * 0


def test_backward_names_the_module_that_recorded():
    net = fb.nn.Sequential(fb.nn.Linear(2, 2), fb.nn.Sequential(fb.nn.ReLU(), Root()))
    with fb.autograd.detect_anomaly():
        loss = net[1](fb.zeros(1, 2, requires_grad=True) * 1).sum()
        with pytest.raises(RuntimeError, match=r"SqrtBackward0.* in Sequential\.1 "):
            loss.backward()


def test_forward_names_the_module():
    net = fb.nn.Sequential(fb.nn.Identity(), Root())
    with fb.autograd.detect_anomaly(forward=True), pytest.raises(RuntimeError, match=r"first NaN.* in Sequential\.1 "):
        net(fb.full((2,), -1.0))
    assert net(fb.ones(2)).tolist() == [0.0, 0.0]
