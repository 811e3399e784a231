"""ModuleTracker: which modules the code that runs is in."""

from __future__ import annotations

import pytest

import flambeau as fb
from flambeau.utils.module_tracker import ModuleTracker


class Squaring(fb.nn.Module):
    def __init__(self, seen: list[tuple[list[str], bool]]) -> None:
        super().__init__()
        self.seen = seen
        self.tracker: ModuleTracker | None = None

    def forward(self, inputs):
        def note(*_):
            self.seen.append((sorted(self.tracker.parents), self.tracker.is_bw))

        note()
        x = inputs["x"].relu_()
        x.register_hook(note)
        return {"x": x @ x}


def test_parents_forward_and_backward():
    seen: list[tuple[list[str], bool]] = []
    model = fb.nn.Sequential(Squaring(seen), fb.nn.Sequential(Squaring(seen)))
    first, second = ["Global", "Sequential", "Sequential.0"], ["Global", "Sequential", "Sequential.1", "Sequential.1.0"]
    with ModuleTracker() as tracker:
        model[0].tracker = model[1][0].tracker = tracker
        for _ in range(2):
            model({"x": fb.ones(2, 2, requires_grad=True).clone()})["x"].sum().backward()
            assert tracker.parents == {"Global"} and not tracker.is_bw
    assert seen == [(first, False), (second, False), (second, True), (first, True)] * 2


def test_arguments_without_gradients_and_errors_leave_no_module_behind():
    layer = fb.nn.Linear(2, 2)
    with ModuleTracker() as tracker:
        layer(fb.ones(2)).sum().backward()
        assert tracker.parents == {"Global"}
        with pytest.raises(RuntimeError):
            layer(fb.ones(3))
        assert tracker.parents == {"Global"}
        y = layer(fb.ones(2))
        y.register_hook(lambda grad: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        layer(fb.ones(2)).sum().backward()
        assert tracker.parents == {"Global"}
