"""Rules that PyTorch does not have: errors under `import flambeau`, warnings in programs written for PyTorch."""

import io
import warnings

import numpy as np
import pytest

import flambeau as fb
from flambeau._settings.strict import StrictnessWarning, is_lenient
from flambeau.nn import functional as F

LOSSES = {
    "mse_loss": lambda a, b: (a - b) ** 2,
    "l1_loss": lambda a, b: (a - b).abs(),
    "smooth_l1_loss": lambda a, b: fb.where((a - b).abs() < 1, (a - b) ** 2 / 2, (a - b).abs() - 0.5),
    "huber_loss": lambda a, b: fb.where((a - b).abs() < 1, (a - b) ** 2 / 2, (a - b).abs() - 0.5),
    "poisson_nll_loss": lambda a, b: a.exp() - b * a,
    "soft_margin_loss": lambda a, b: (1 + (-b * a).exp()).log(),
    "hinge_embedding_loss": lambda a, b: fb.where(b == -1, (1 - a).clamp(min=0), 0) + fb.where(b == 1, a, 0),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_that_broadcast_by_accident(name):
    a, b = fb.tensor([[0.5], [2.0], [-3.0]]), fb.tensor([1.0, -1.0])
    with pytest.raises(ValueError, match=f"{name}: Using a target size"):
        getattr(F, name)(a, b)
    with fb.compat.torch():
        with pytest.warns(StrictnessWarning, match=f"{name}: Using a target size .*an error under `import flambeau`"):
            loss = getattr(F, name)(a, b)
    assert fb.allclose(loss, LOSSES[name](a, b).mean())
    with pytest.raises(ValueError):
        getattr(F, name)(a, b)


def test_leniency_ends_with_the_block():
    assert not is_lenient()
    with fb.compat.torch():
        assert is_lenient()
        with fb.compat.torch():
            pass
        assert is_lenient()
    assert not is_lenient()


def test_the_warning_names_the_line_of_the_call():
    with fb.compat.torch(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        F.mse_loss(fb.ones(3, 1), fb.ones(3))
    assert caught[0].filename == __file__


def test_options_without_effect_only_warn():
    import json

    for options in ({"with_flops": True}, {"with_modules": True}):
        with pytest.raises(ValueError, match="not supported"):
            fb.profiler.profile(**options)
        with fb.compat.torch(), pytest.warns(StrictnessWarning, match="has no effect"):
            fb.profiler.profile(**options)
    with pytest.raises(ValueError, match="pickle_module"):
        fb.save([1], io.BytesIO(), json)
    with fb.compat.torch(), pytest.warns(StrictnessWarning, match="pickle_module"):
        fb.save([1], io.BytesIO(), json)


def test_read_only_memory_warns_in_programs_for_pytorch():
    array = np.zeros(2)
    array.flags.writeable = False
    with fb.compat.torch() as torch:
        ways = {"NumPy array": lambda: torch.from_numpy(array), "buffer": lambda: torch.frombuffer(b"ab", dtype=torch.uint8)}
        for what, make in ways.items():
            with pytest.warns(UserWarning, match=f"The given {what} is not writable.*non-writable"):
                made = make()
            with pytest.raises(RuntimeError):
                made.zero_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fb.from_numpy(array)
        fb.frombuffer(b"ab", dtype=fb.uint8)
