"""Schedulers against closed forms, resumed, combined, misused."""

import copy
import gc
import math
import warnings
import weakref

import pytest

import flambeau as fb
from flambeau.optim import lr_scheduler as S

EPOCHS = 15


def sgd(*lrs, **options):
    return fb.optim.SGD([{"params": [fb.zeros(1)], "lr": lr} for lr in lrs], **({"momentum": 0.9} | options))


def curve(scheduler, epochs=EPOCHS, group=0):
    """Learning rates of a group, as the optimizer sees them, from the first epoch on."""
    optimizer, seen = scheduler.optimizer, []
    for _ in range(epochs):
        assert [float(lr) for lr in scheduler.get_last_lr()] == [float(g["lr"]) for g in optimizer.param_groups]
        seen.append(float(optimizer.param_groups[group]["lr"]))
        optimizer.step()
        scheduler.step()
    return seen


def cosine(t, length, low, high):
    return low + (high - low) * (1 + math.cos(math.pi * t / length)) / 2


def cyclic(t, up, down, low, high, scale=lambda cycle, t: 1.0):
    cycle, place = divmod(t, up + down)
    height = place / up if place <= up else (up + down - place) / down
    return low + (high - low) * height * scale(cycle + 1, t)


def one_cycle(t, points, how):
    """Between (step, value) points."""
    i = next(i for i in range(1, len(points)) if t <= points[i][0])
    (a, start), (b, end) = points[i - 1], points[i]
    share = (t - a) / (b - a)
    return start + (end - start) * (share if how == "linear" else (1 - math.cos(math.pi * share)) / 2)


# name: (scheduler of an optimizer, learning rate in epoch t when the first is 2)
CURVES = {
    "LambdaLR": (lambda o: S.LambdaLR(o, lambda t: 0.9**t), lambda t: 2 * 0.9**t),
    "MultiplicativeLR": (
        lambda o: S.MultiplicativeLR(o, lambda t: t / (t + 1)),
        lambda t: 2 / (t + 1),
    ),
    "StepLR": (lambda o: S.StepLR(o, 4, 0.5), lambda t: 2 * 0.5 ** (t // 4)),
    "MultiStepLR": (
        lambda o: S.MultiStepLR(o, [3, 7, 7], 0.5),
        lambda t: 2 * 0.5 ** ((t >= 3) + 2 * (t >= 7)),
    ),
    "ConstantLR": (lambda o: S.ConstantLR(o, 0.25, 5), lambda t: 0.5 if t < 5 else 2),
    "ConstantLR zero": (lambda o: S.ConstantLR(o, 0.0, 5), lambda t: 0 if t < 5 else 2),
    "LinearLR": (lambda o: S.LinearLR(o, 0.2, 0.8, 6), lambda t: 2 * (0.2 + 0.6 * min(t, 6) / 6)),
    "ExponentialLR": (lambda o: S.ExponentialLR(o, 0.8), lambda t: 2 * 0.8**t),
    "PolynomialLR": (lambda o: S.PolynomialLR(o, 9, 2.0), lambda t: 2 * (1 - min(t, 9) / 9) ** 2),
    "CosineAnnealingLR": (lambda o: S.CosineAnnealingLR(o, 6, 0.1), lambda t: cosine(t, 6, 0.1, 2)),
    "CosineAnnealingWarmRestarts": (
        lambda o: S.CosineAnnealingWarmRestarts(o, 4, eta_min=0.1),
        lambda t: cosine(t % 4, 4, 0.1, 2),
    ),
    "CosineAnnealingWarmRestarts longer": (
        lambda o: S.CosineAnnealingWarmRestarts(o, 2, 2),
        lambda t: (
            cosine(t, 2, 0, 2)
            if t < 2
            else cosine(t - 2, 4, 0, 2)
            if t < 6
            else cosine(t - 6, 8, 0, 2)
            if t < 14
            else 2
        ),
    ),
    "CyclicLR": (lambda o: S.CyclicLR(o, 0.1, 1.0, 3, 2), lambda t: cyclic(t, 3, 2, 0.1, 1.0)),
    "CyclicLR triangular2": (
        lambda o: S.CyclicLR(o, 0.1, 1.0, 3, mode="triangular2"),
        lambda t: cyclic(t, 3, 3, 0.1, 1.0, lambda cycle, t: 0.5 ** (cycle - 1)),
    ),
    "CyclicLR exp_range": (
        lambda o: S.CyclicLR(o, 0.1, 1.0, 3, mode="exp_range", gamma=0.9),
        lambda t: cyclic(t, 3, 3, 0.1, 1.0, lambda cycle, t: 0.9**t),
    ),
    "CyclicLR scale_fn": (
        lambda o: S.CyclicLR(o, 0.1, 1.0, 3, scale_fn=lambda cycle: 1 / cycle),
        lambda t: cyclic(t, 3, 3, 0.1, 1.0, lambda cycle, t: 1 / cycle),
    ),
    "OneCycleLR": (
        lambda o: S.OneCycleLR(o, 1.0, total_steps=20),
        lambda t: one_cycle(t, [(0, 1 / 25), (5, 1.0), (19, 1 / 25e4)], "cos"),
    ),
    "OneCycleLR three phases": (
        lambda o: S.OneCycleLR(
            o, 1.0, epochs=4, steps_per_epoch=5, three_phase=True, anneal_strategy="linear", div_factor=10.0
        ),
        lambda t: one_cycle(t, [(0, 0.1), (5, 1.0), (10, 0.1), (19, 1e-5)], "linear"),
    ),
    "OneCycleLR without a rise": (
        lambda o: S.OneCycleLR(o, 1.0, total_steps=20, pct_start=0.05, anneal_strategy="linear"),
        lambda t: one_cycle(t, [(0, 1.0), (19, 1 / 25e4)], "linear"),
    ),
    "SequentialLR": (
        lambda o: S.SequentialLR(
            o, [S.LinearLR(o, 0.25, 1.0, 3), S.CosineAnnealingLR(o, 6), S.StepLR(o, 2, 0.5)], [3, 9]
        ),
        lambda t: 2 * (0.25 + 0.25 * t) if t < 3 else cosine(t - 3, 6, 0, 2) if t < 9 else 2 * 0.5 ** ((t - 9) // 2),
    ),
    "ChainedScheduler": (
        lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.5, 4), S.ExponentialLR(o, 0.9)]),
        lambda t: 2 * (0.5 if t < 4 else 1) * 0.9**t,
    ),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("kind", ["number", "tensor"])
def test_curve(name, kind):
    make, expected = CURVES[name]
    lr = 2.0 if kind == "number" else fb.tensor(2.0, dtype=fb.float64)
    optimizer = sgd(lr)
    scheduler = make(optimizer)
    assert curve(scheduler) == pytest.approx([expected(t) for t in range(EPOCHS)], rel=1e-9, abs=1e-12)
    if kind == "tensor":
        assert optimizer.param_groups[0]["lr"] is lr


@pytest.mark.parametrize("name", CURVES)
def test_state_dict_continues_a_run(name):
    make, expected = CURVES[name]
    scheduler = make(sgd(2.0))
    curve(scheduler, 6)
    saved, of_optimizer = copy.deepcopy(scheduler.state_dict()), copy.deepcopy(scheduler.optimizer.state_dict())
    assert "optimizer" not in saved
    optimizer = sgd(2.0)
    other = make(optimizer)
    optimizer.load_state_dict(of_optimizer)
    other.load_state_dict(saved)
    assert curve(other, EPOCHS - 6) == pytest.approx([expected(t) for t in range(6, EPOCHS)], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "name", [n for n in CURVES if not n.startswith(("Sequential", "Chained", "Multiplicative", "One"))]
)
def test_going_to_an_epoch(name):
    make, expected = CURVES[name]
    scheduler = make(sgd(2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in (9, 3, 0, 11):
            scheduler.step(epoch)
            assert scheduler.get_last_lr()[0] == pytest.approx(expected(epoch), rel=1e-9, abs=1e-12)
            assert scheduler.last_epoch == epoch


def test_every_group_has_its_own_rate():
    optimizer = sgd(1.0, 0.1)
    scheduler = S.LambdaLR(optimizer, [lambda t: 0.5**t, lambda t: t + 1])
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([0.5, 0.2])
    optimizer = sgd(1.0, 0.1)
    S.CyclicLR(optimizer, [0.1, 0.2], [1.0, 2.0])
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.2]
    optimizer = sgd(1.0, 0.1)
    S.OneCycleLR(optimizer, [1.0, 2.0], total_steps=10, base_momentum=[0.5, 0.6], max_momentum=[0.8, 0.9])
    assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([0.04, 0.08])
    assert [g["momentum"] for g in optimizer.param_groups] == [0.8, 0.9]


def test_fractions_of_epochs():
    scheduler = S.CosineAnnealingWarmRestarts(sgd(2.0), 2, 2)
    for epoch in (0.5, 1.75, 3.5, 7.25):
        scheduler.step(epoch)
        start, length = (0, 2) if epoch < 2 else (2, 4) if epoch < 6 else (6, 8)
        assert scheduler.get_last_lr()[0] == pytest.approx(cosine(epoch - start, length, 0, 2))
        assert scheduler.last_epoch == int(epoch)


@pytest.mark.parametrize("make_optimizer", [sgd, lambda lr: fb.optim.Adam([fb.zeros(1)], lr=lr)])
def test_momentum_moves_the_other_way(make_optimizer):
    def momentum(optimizer):
        group = optimizer.param_groups[0]
        return group["betas"][0] if "betas" in group else group["momentum"]

    optimizer = make_optimizer(2.0)
    scheduler = S.CyclicLR(optimizer, 0.1, 1.0, 4, base_momentum=0.5, max_momentum=0.9)
    seen = []
    for _ in range(9):
        seen.append(momentum(optimizer))
        optimizer.step()
        scheduler.step()
    assert seen == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5, 0.6, 0.7, 0.8, 0.9])
    optimizer = make_optimizer(2.0)
    scheduler = S.OneCycleLR(optimizer, 1.0, total_steps=10, pct_start=0.5, anneal_strategy="linear")
    assert momentum(optimizer) == 0.95
    for _ in range(4):
        optimizer.step()
        scheduler.step()
    assert momentum(optimizer) == pytest.approx(0.85)
    if "betas" in optimizer.param_groups[0]:
        assert optimizer.param_groups[0]["betas"][1] == 0.999


def test_momentum_is_left_alone_if_asked():
    optimizer = sgd(2.0, momentum=0.3)
    curve(S.CyclicLR(optimizer, 0.1, 1.0, 4, cycle_momentum=False), 3)
    assert optimizer.param_groups[0]["momentum"] == 0.3
    with pytest.raises(ValueError, match="cycle_momentum"):
        S.CyclicLR(fb.optim.Adagrad([fb.zeros(1)]), 0.1, 1.0)


def test_resuming_by_last_epoch():
    optimizer = sgd(2.0)
    scheduler = S.ExponentialLR(optimizer, 0.5)
    curve(scheduler, 3)
    again = S.ExponentialLR(optimizer, 0.5, last_epoch=3)
    assert again.base_lrs == [2.0]
    assert again.last_epoch == 4
    with pytest.raises(KeyError, match="initial_lr"):
        S.ExponentialLR(sgd(2.0), 0.5, last_epoch=3)


def test_a_change_by_hand_is_respected():
    optimizer = sgd(2.0)
    scheduler = S.ExponentialLR(optimizer, 0.5)
    optimizer.param_groups[0]["lr"] = 8.0
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [4.0]


# ----- ReduceLROnPlateau -----


def falls(losses, **options):
    """Epochs after which the learning rate fell."""
    optimizer = sgd(1.0)
    scheduler = S.ReduceLROnPlateau(optimizer, factor=0.5, **options)
    before, result = 1.0, []
    for epoch, loss in enumerate(losses):
        scheduler.step(loss)
        now = optimizer.param_groups[0]["lr"]
        if now < before:
            assert now == before / 2
            result.append(epoch)
        before = now
    return result


def test_plateau():
    assert falls([5, 4, 3, 2, 1], patience=0) == []
    assert falls([1, 1, 1, 1, 1], patience=0) == [1, 2, 3, 4]
    assert falls([1, 1, 1, 1, 1, 1, 1], patience=2) == [3, 6]
    assert falls([1, 1, 1, 1, 1, 1, 1], patience=0, cooldown=2) == [1, 4]
    assert falls([1, 2, 3, 4], patience=0, mode="max") == []
    assert falls([4, 3, 2, 1], patience=0, mode="max") == [1, 2, 3]
    assert falls([1.0, 0.95, 0.9], patience=0, threshold=0.1) == [1, 2]
    assert falls([1.0, 0.95, 0.85], patience=0, threshold=0.1) == [1]
    assert falls([10.0, 9.95, 9.8], patience=0, threshold=0.1, threshold_mode="abs") == [1]
    assert falls([10.0, 10.05, 10.2], patience=0, threshold=0.1, threshold_mode="abs", mode="max") == [1]
    assert falls([float("nan")] * 3, patience=0) == [0, 1, 2]


def test_plateau_has_a_floor():
    optimizer = sgd(1.0, 1.0)
    scheduler = S.ReduceLROnPlateau(optimizer, factor=0.1, patience=0, min_lr=[0.5, 0.05])
    for _ in range(4):
        scheduler.step(fb.tensor(1.0))
    assert scheduler.get_last_lr() == [0.5, 0.05]
    optimizer.add_param_group({"params": [fb.zeros(3)]})
    with pytest.raises(RuntimeError, match="min_lrs"):
        scheduler.step(1.0)
    optimizer = sgd(1.0)
    scheduler = S.ReduceLROnPlateau(optimizer, patience=0)
    optimizer.add_param_group({"params": [fb.zeros(3)], "lr": 2.0})
    for _ in range(2):
        scheduler.step(1.0)
    assert scheduler.get_last_lr() == pytest.approx([0.1, 0.2])


def test_plateau_state():
    one = S.ReduceLROnPlateau(sgd(1.0), patience=1, mode="max")
    for value in (1.0, 2.0, 2.0):
        one.step(value)
    other = S.ReduceLROnPlateau(sgd(1.0))
    other.load_state_dict(one.state_dict())
    assert (other.best, other.num_bad_epochs, other.mode, other.mode_worse) == (2.0, 1, "max", -math.inf)
    other.step(2.0)
    assert other.get_last_lr() == [0.1]


# ----- functions in checkpoints -----


class Power:
    def __init__(self, base):
        self.base = base

    def __call__(self, t):
        return self.base**t


def test_callable_objects_are_saved_and_functions_are_not():
    for make in (
        lambda f: S.LambdaLR(sgd(1.0), f),
        lambda f: S.MultiplicativeLR(sgd(1.0), f),
        lambda f: S.CyclicLR(sgd(1.0), 0.1, 1.0, scale_fn=f),
    ):
        saved, function = make(Power(0.5)).state_dict(), Power(0.9)
        other = make(function)
        other.load_state_dict(saved)
        assert function.base == 0.5
        saved = make(lambda t: 1.0).state_dict()
        assert saved.get("lr_lambdas", [saved.get("_scale_fn_custom")]) == [None]


# ----- misuse -----


def test_warnings():
    optimizer = sgd(1.0)
    scheduler = S.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()
    with pytest.warns(UserWarning, match="epoch"):
        scheduler.step(3)
    with pytest.warns(UserWarning, match="epoch"):
        S.ReduceLROnPlateau(optimizer).step(1.0, 3)
    optimizer = sgd(1.0)
    scheduler = S.StepLR(optimizer, 2)
    optimizer.step = lambda closure=None: None
    with pytest.warns(UserWarning, match="overridden"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve(S.StepLR(sgd(1.0), 2))


def test_a_scheduler_of_ones_own():
    class Halve(S._LRScheduler):
        def get_lr(self):
            return [lr / 2**self.last_epoch for lr in self.base_lrs]

    assert curve(Halve(sgd(2.0)), 3) == [2.0, 1.0, 0.5]
    with pytest.raises(NotImplementedError, match="get_lr"):
        S.LRScheduler(sgd(1.0))


REFUSED = {
    "not an optimizer": (TypeError, lambda o: S.StepLR(3, 1)),
    "not an optimizer (plateau)": (TypeError, lambda o: S.ReduceLROnPlateau(3)),
    "not an optimizer (cyclic)": (TypeError, lambda o: S.CyclicLR(3, 1, 2)),
    "not an optimizer (one cycle)": (TypeError, lambda o: S.OneCycleLR(3, 1, 2)),
    "number of functions": (ValueError, lambda o: S.LambdaLR(o, [abs] * 2)),
    "not a function": (TypeError, lambda o: S.MultiplicativeLR(o, 3)),
    "constant factor": (ValueError, lambda o: S.ConstantLR(o, 2.0)),
    "start factor": (ValueError, lambda o: S.LinearLR(o, 0.0)),
    "end factor": (ValueError, lambda o: S.LinearLR(o, 0.5, 2.0)),
    "plateau factor": (ValueError, lambda o: S.ReduceLROnPlateau(o, factor=1.0)),
    "plateau mode": (ValueError, lambda o: S.ReduceLROnPlateau(o, mode="low")),
    "plateau threshold mode": (ValueError, lambda o: S.ReduceLROnPlateau(o, threshold_mode="none")),
    "plateau min_lr": (ValueError, lambda o: S.ReduceLROnPlateau(o, min_lr=[1, 2])),
    "cyclic mode": (ValueError, lambda o: S.CyclicLR(o, 1, 2, mode="square")),
    "cyclic bases": (ValueError, lambda o: S.CyclicLR(o, [1, 2], 2)),
    "T_0": (ValueError, lambda o: S.CosineAnnealingWarmRestarts(o, 0)),
    "T_mult": (ValueError, lambda o: S.CosineAnnealingWarmRestarts(o, 1, 0)),
    "eta_min": (ValueError, lambda o: S.CosineAnnealingWarmRestarts(o, 1, 1, "low")),
    "negative epoch": (ValueError, lambda o: S.CosineAnnealingWarmRestarts(o, 2).step(-1)),
    "no steps": (ValueError, lambda o: S.OneCycleLR(o, 1)),
    "zero steps": (ValueError, lambda o: S.OneCycleLR(o, 1, 0)),
    "zero epochs": (ValueError, lambda o: S.OneCycleLR(o, 1, epochs=0, steps_per_epoch=1)),
    "zero steps per epoch": (ValueError, lambda o: S.OneCycleLR(o, 1, epochs=1, steps_per_epoch=0)),
    "pct_start": (ValueError, lambda o: S.OneCycleLR(o, 1, 9, pct_start=2.0)),
    "strategy": (ValueError, lambda o: S.OneCycleLR(o, 1, 9, anneal_strategy="square")),
    "too many steps": (ValueError, lambda o: curve(S.OneCycleLR(o, 1, 3), 5)),
    "no schedulers": (ValueError, lambda o: S.SequentialLR(o, [], [])),
    "no chain": (ValueError, lambda o: S.ChainedScheduler([])),
    "milestones": (ValueError, lambda o: S.SequentialLR(o, [S.StepLR(o, 1)], [1])),
    "plateau in sequence": (ValueError, lambda o: S.SequentialLR(o, [S.ReduceLROnPlateau(o)], [])),
    "plateau in chain": (ValueError, lambda o: S.ChainedScheduler([S.ReduceLROnPlateau(o)])),
    "another optimizer": (ValueError, lambda o: S.ChainedScheduler([S.StepLR(o, 1), S.StepLR(sgd(1.0), 1)])),
    "not a scheduler": (TypeError, lambda o: S.SequentialLR(o, [3], [])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    error, call = REFUSED[name]
    with pytest.raises(error):
        call(sgd(1.0))


def test_errors_name_the_scheduler_and_the_argument():
    for error, words, make in (
        (TypeError, "StepLR: step_size must be a number", lambda o: S.StepLR(o, "a")),
        (TypeError, "MultiStepLR: a milestone must be a number", lambda o: S.MultiStepLR(o, "35")),
        (TypeError, "CosineAnnealingLR: T_max must be a number", lambda o: S.CosineAnnealingLR(o, None)),
        (TypeError, "LambdaLR: lr_lambda should be a function", lambda o: S.LambdaLR(o, 3)),
        (TypeError, "MultiplicativeLR: lr_lambda should be a function", lambda o: S.MultiplicativeLR(o, [0.5])),
    ):
        with pytest.raises(error, match=words):
            make(sgd(1.0))
    # a run of no epochs may be set up, but not stepped through
    for make, words in ((lambda o: S.StepLR(o, 0), "StepLR: step_size"), (lambda o: S.CosineAnnealingLR(o, 0), "LR: T_max")):
        optimizer = sgd(1.0)
        scheduler = make(optimizer)
        optimizer.step()
        with pytest.raises(ValueError, match=words):
            scheduler.step()


def test_messages_have_the_words_that_people_search_for():
    optimizer = sgd(1.0)
    scheduler = S.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match=r"call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`.*how-to-adjust"):
        scheduler.step()
    with pytest.warns(UserWarning) as caught:
        scheduler.step(3)
    assert [str(w.message) for w in caught] == [S.EPOCH_DEPRECATION_WARNING]
    scheduler = S.StepLR(optimizer, 2)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"`optimizer.step\(\)` has been overridden"):
        scheduler.step()
    with pytest.raises(KeyError, match=r"param 'initial_lr' is not specified in param_groups\[0\] when resuming"):
        S.StepLR(sgd(1.0), 2, last_epoch=3)
    with pytest.raises(ValueError, match="swa_lr must have one value per parameter group"):
        fb.optim.swa_utils.SWALR(sgd(1.0), swa_lr=[0.1, 0.2])
    optimizer = sgd(1.0)
    plateau = S.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.1])
    optimizer.add_param_group({"params": [fb.zeros(1)]})
    with pytest.raises(RuntimeError, match="The number of param groups in the optimizer is 2"):
        for _ in range(3):
            plateau.step(1.0)


def test_a_scheduler_keeps_no_cycle_alive():
    optimizer = sgd(1.0)
    scheduler = S.StepLR(optimizer, 2)
    gone = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer, scheduler
        assert gone() is None
    finally:
        gc.enable()
