"""The base class: groups, state, checkpoints, hooks, errors."""

import copy
import gc
import inspect
import pickle
import sys
import weakref

import numpy as np
import pytest

import flambeau as fb
from flambeau.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook, required

from .cases import CASES, case_name

ALL = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Adagrad": {},
    "Adadelta": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {},
    "ASGD": {},
    "Adafactor": {},
    "SparseAdam": {},
    "Muon": {},
}


def make(name, params, **options):
    return getattr(fb.optim, name)(params, **(ALL[name] | options))


def with_grad(*shape, seed=0, dtype=None):
    rng = np.random.default_rng(seed)
    p = fb.tensor(rng.standard_normal(shape), dtype=dtype or fb.float32)
    p.grad = fb.tensor(rng.standard_normal(shape), dtype=p.dtype)
    return p


def twin(p):
    """Another parameter with the same value and gradient."""
    q = p.detach().clone()
    q.grad = p.grad.clone()
    return q


# ----- groups -----


def test_options_of_groups_and_defaults():
    a, b, c = fb.zeros(1), fb.zeros(2), fb.zeros(3)
    optimizer = fb.optim.SGD([{"params": [a]}, {"params": b, "lr": 5.0}], lr=0.5, momentum=0.9)
    optimizer.add_param_group({"params": (p for p in [c]), "momentum": 0.0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 5.0, 0.5]
    assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9, 0.0]
    assert all(g["params"][0] is p for g, p in zip(optimizer.param_groups, (a, b, c), strict=True))


def test_groups_move_by_their_own_options():
    a, b = with_grad(3), with_grad(3)
    before, g = a.clone(), a.grad.clone()
    fb.optim.SGD([{"params": [a], "lr": 1.0}, {"params": [b], "lr": 2.0}], lr=0.1).step()
    np.testing.assert_allclose(a.numpy(), (before - g).numpy(), rtol=1e-6)
    np.testing.assert_allclose(b.numpy(), (before - 2 * g).numpy(), rtol=1e-6)


def test_named_parameters():
    optimizer = fb.optim.SGD([("w", fb.zeros(1)), ("b", fb.zeros(2))])
    assert optimizer.param_groups[0]["param_names"] == ["w", "b"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["w", "b"]
    with pytest.raises(ValueError, match="names"):
        optimizer.add_param_group({"params": [fb.zeros(1)]})
    with pytest.raises(ValueError, match="name all or none"):
        fb.optim.SGD([("w", fb.zeros(1)), fb.zeros(2)])


def test_parameter_lists_that_are_refused():
    p = fb.zeros(2)
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        fb.optim.SGD(p)
    with pytest.raises(ValueError, match="empty"):
        fb.optim.SGD([])
    with pytest.raises(TypeError, match="tensors"):
        fb.optim.SGD([1.0])
    with pytest.raises(TypeError, match="set"):
        fb.optim.SGD([{"params": {p}}])
    with pytest.raises(TypeError, match="dict"):
        fb.optim.SGD([p]).add_param_group([p])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        fb.optim.SGD([{"params": [p]}, {"params": [p]}])
    with pytest.raises(ValueError, match="lr"):
        fb.optim.Optimizer([p], {"lr": required})
    with pytest.warns(UserWarning, match="a parameter group with duplicate parameters"):
        fb.optim.SGD([p, p])
    with pytest.raises(NotImplementedError, match="step"):
        fb.optim.Optimizer([p], {}).step()


def test_results_of_operations_are_refused():
    p = fb.zeros(2, requires_grad=True)
    with pytest.raises(ValueError, match="leaf"):
        fb.optim.SGD([p * 2])
    fb.optim.SGD([p * 2], differentiable=True)


def test_repr_lists_options():
    text = repr(fb.optim.SGD([fb.zeros(1)], lr=0.5))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.5\n" in text
    assert text.endswith("\n)")
    groups = repr(fb.optim.SGD([{"params": [fb.zeros(1)]}, {"params": [fb.zeros(1)]}]))
    assert "\n\nParameter Group 1\n" in groups


@pytest.mark.parametrize(
    ("name", "options", "phrase"),
    [
        ("SGD", {"lr": -0.5}, "Invalid learning rate: -0.5"),
        ("SGD", {"momentum": -0.5}, "Invalid momentum value: -0.5"),
        ("Adam", {"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ("Adam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
        ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
        ("Adafactor", {"eps": (-1.0, 0.0)}, "epsilon1 should be >= 0"),
        ("ASGD", {"lambd": -0.5}, "Invalid lambd value: -0.5"),
        ("ASGD", {"alpha": -0.5}, "Invalid alpha value: -0.5"),
        ("Muon", {"adjust_lr_fn": "arbitrary"}, "Adjust learning rate function arbitrary is not supported"),
    ],
)
def test_refusals_say_what_scripts_look_for(name, options, phrase):
    with pytest.raises(ValueError, match=phrase):
        getattr(fb.optim, name)([fb.zeros(2, 2)], **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (name, {option: value})
        for name, bad in {
            "SGD": {"lr": -1.0, "momentum": -1.0, "weight_decay": -1.0},
            "Adam": {"lr": -1.0, "eps": -1.0, "betas": (1.0, 0.9), "weight_decay": -1.0},
            "AdamW": {"lr": -1.0, "betas": (0.0, 1.0)},
            "NAdam": {"lr": -1.0, "momentum_decay": -1.0, "eps": -1.0},
            "RAdam": {"lr": -1.0, "betas": (-0.1, 0.9), "weight_decay": -1.0},
            "Adamax": {"lr": -1.0, "eps": -1.0, "betas": (0.0, 1.0)},
            "Adagrad": {"lr": -1.0, "lr_decay": -0.5, "initial_accumulator_value": -1.0, "eps": -1.0},
            "Adadelta": {"lr": -1.0, "rho": 1.1, "eps": -1.0},
            "RMSprop": {"lr": -1.0, "alpha": -1.0, "momentum": -1.0},
            "Rprop": {"lr": -1.0, "etas": (1.0, 0.5)},
            "ASGD": {"lr": -1.0, "weight_decay": -0.5},
            "Adafactor": {"lr": -1.0, "beta2_decay": 0.8, "d": 0.0, "eps": (-1e-30, 1e-3), "weight_decay": -1.0},
            "LBFGS": {"lr": -1.0},
            "Muon": {"lr": -1.0, "momentum": -0.5},
        }.items()
        for option, value in bad.items()
    ],
)
def test_options_that_are_refused(name, options):
    with pytest.raises(ValueError, match=name):
        getattr(fb.optim, name)([fb.zeros(2, 2)], **options)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        getattr(fb.optim, name)([fb.zeros(2, 2)], lr=fb.tensor([0.1, 0.2]))


def test_combinations_that_are_refused():
    p = with_grad(3)
    with pytest.raises(ValueError, match="Nesterov momentum requires"):
        fb.optim.SGD([p], nesterov=True)
    with pytest.raises(ValueError, match="betas must be either both floats or both Tensors"):
        fb.optim.Adam([p], betas=(0.9, fb.tensor(0.99)))
    with pytest.raises(ValueError, match="foreach"):
        fb.optim.Adam([p], lr=fb.tensor(0.1), foreach=True)
    for name in ("SGD", "Adam", "AdamW", "Adagrad"):
        for other, why in (("foreach", "cannot be `True` together"), ("differentiable", "does not support")):
            with pytest.raises(RuntimeError, match=f"`fused`.*{why}"):
                make(name, [p], fused=True, **{other: True})
        q = with_grad(3, dtype=fb.complex64)
        with pytest.raises(RuntimeError, match="fused"):
            make(name, [q], fused=True).step()
    for name in ("Adam", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Rprop", "ASGD"):
        before = p.clone()
        with pytest.raises(AssertionError, match="capturable"):
            make(name, [p], capturable=True).step()
        with pytest.raises(AssertionError, match="differentiable"):
            make(name, [p], foreach=True, differentiable=True).step()
        assert fb.equal(p, before)


# ----- steps -----


@pytest.mark.parametrize("name", ALL)
def test_closure_runs_with_gradients_and_its_result_is_returned(name):
    p = fb.ones(2, 2, requires_grad=True)
    optimizer = make(name, [p])

    def closure():
        assert fb.is_grad_enabled()
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    assert (p.detach() < 1).all()
    assert fb.is_grad_enabled()


@pytest.mark.parametrize("name", ALL)
def test_parameters_without_gradient_are_left_alone(name):
    p = fb.ones(2, 2)
    optimizer = make(name, [p])
    optimizer.step()
    assert fb.equal(p, fb.ones(2, 2))
    if name != "Adagrad":
        assert not optimizer.state


def test_steps_change_parameters_in_place():
    p = with_grad(3)
    alias = p.detach()
    before = alias.clone()
    fb.optim.Adam([p], lr=0.1).step()
    assert not fb.equal(alias, before)
    assert fb.equal(alias, p.detach())


def test_gradients_are_not_changed_by_a_step():
    for name, options in CASES:
        p = with_grad(3, 2)
        before = p.grad.clone()
        getattr(fb.optim, name)([p], **options).step()
        assert fb.equal(p.grad, before), name


def test_zero_grad():
    p = with_grad(3)
    g = p.grad
    optimizer = fb.optim.SGD([p])
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is g
    assert fb.equal(g, fb.zeros(3))
    optimizer.zero_grad()
    assert p.grad is None


def test_an_optimizer_dies_when_unused():
    optimizer = fb.optim.Adam([with_grad(3)])
    fb.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    gone = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer
        assert gone() is None
    finally:
        gc.enable()


# ----- checkpoints -----


@pytest.mark.parametrize("case", [*CASES, ("SparseAdam", {}), ("Muon", {})], ids=case_name)
def test_state_dict_continues_a_run(case):
    name, options = case
    p = with_grad(4, 3)
    optimizer = getattr(fb.optim, name)([p], **options)
    for _ in range(3):
        optimizer.step()
    q = twin(p)
    other = getattr(fb.optim, name)([q])
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(3):
        optimizer.step()
        other.step()
    assert fb.equal(p, q)
    assert other.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]


@pytest.mark.parametrize("name", ALL)
def test_layout_of_state_dict(name):
    params = [with_grad(2, 2, seed=i) for i in range(3)]
    optimizer = make(name, [{"params": params[:1]}, {"params": params[1:], "lr": 0.5}])
    optimizer.step()
    saved = optimizer.state_dict()
    assert list(saved) == ["state", "param_groups"]
    assert [g["params"] for g in saved["param_groups"]] == [[0], [1, 2]]
    assert [g["lr"] for g in saved["param_groups"]][1] == 0.5
    assert sorted(saved["state"]) == [0, 1, 2]
    assert saved["state"][1] is optimizer.state[params[1]]


STATE_KEYS = {
    "SGD": {"momentum_buffer"},
    "Adam": {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    "AdamW": {"step", "exp_avg", "exp_avg_sq"},
    "NAdam": {"step", "exp_avg", "exp_avg_sq", "mu_product"},
    "RAdam": {"step", "exp_avg", "exp_avg_sq"},
    "Adamax": {"step", "exp_avg", "exp_inf"},
    "Adagrad": {"step", "sum"},
    "Adadelta": {"step", "square_avg", "acc_delta"},
    "RMSprop": {"step", "square_avg", "momentum_buffer", "grad_avg"},
    "Rprop": {"step", "prev", "step_size"},
    "ASGD": {"step", "eta", "mu", "ax"},
    "Adafactor": {"step", "row_var", "col_var"},
    "SparseAdam": {"step", "exp_avg", "exp_avg_sq"},
    "Muon": {"momentum_buffer"},
}


@pytest.mark.parametrize("name", STATE_KEYS)
def test_names_in_the_state(name):
    p = with_grad(2, 3)
    optimizer = make(name, [p])
    optimizer.step()
    assert set(optimizer.state[p]) == STATE_KEYS[name]
    if name not in ("SGD", "Muon", "SparseAdam"):
        step = optimizer.state[p]["step"]
        assert step.shape == ()
        assert step.dtype == fb.float32
        assert step.item() == 1


def test_loaded_state_takes_dtype_of_parameter():
    p = with_grad(3)
    optimizer = fb.optim.Adam([p])
    optimizer.step()
    q = p.double()
    other = fb.optim.Adam([q])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[q]["exp_avg"].dtype == fb.float64
    assert other.state[q]["step"].dtype == fb.float32


def test_state_that_does_not_fit_is_refused():
    saved = fb.optim.SGD([fb.zeros(1), fb.zeros(2)]).state_dict()
    with pytest.raises(ValueError, match="sizes"):
        fb.optim.SGD([fb.zeros(1)]).load_state_dict(saved)
    with pytest.raises(ValueError, match="sizes"):
        fb.optim.SGD([{"params": fb.zeros(1)}, {"params": fb.zeros(1)}]).load_state_dict(saved)


def test_loading_leaves_the_checkpoint_alone():
    saved = fb.optim.SGD([fb.zeros(1)], lr=0.5).state_dict()
    optimizer = fb.optim.SGD([fb.zeros(1)])
    optimizer.load_state_dict(saved)
    optimizer.param_groups[0]["lr"] = 7.0
    assert saved["param_groups"][0]["lr"] == 0.5
    assert saved["param_groups"][0]["params"] == [0]


def test_checkpoints_of_older_versions():
    """Options that came later are filled in, step counts may be numbers."""
    p = with_grad(3)
    optimizer = fb.optim.Adam([p], lr=0.1)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    for option in ("maximize", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay", "amsgrad"):
        del saved["param_groups"][0][option]
    saved["state"][0]["step"] = 1
    q = twin(p)
    other = fb.optim.Adam([q])
    other.load_state_dict(saved)
    optimizer.step()
    other.step()
    assert fb.equal(p, q)
    assert other.state[q]["step"].item() == 2


def test_adamw_stays_decoupled_whatever_it_loads():
    optimizer = fb.optim.AdamW([fb.zeros(1)])
    optimizer.load_state_dict(fb.optim.Adam([fb.zeros(1)]).state_dict())
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True


@pytest.mark.parametrize("name", ALL)
def test_pickle_and_deepcopy(name):
    p = with_grad(4, 3)
    optimizer = make(name, [p])
    optimizer.step()
    for other in (pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        q = other.param_groups[0]["params"][0]
        assert fb.equal(q, p)
        q.grad = p.grad.clone()
        mine = twin(p)
        again = make(name, [mine])
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        again.step()
        other.step()
        assert fb.equal(q, mine)


# ----- hooks -----


def test_step_hooks_run_in_order():
    seen = []
    optimizer = fb.optim.SGD([with_grad(2)])
    handles = [
        register_optimizer_step_pre_hook(lambda o, a, k: seen.append("global before")),
        register_optimizer_step_post_hook(lambda o, a, k: seen.append("global after")),
        optimizer.register_step_pre_hook(lambda o, a, k: seen.append("before")),
        optimizer.register_step_post_hook(lambda o, a, k: seen.append("after")),
    ]
    optimizer.step()
    assert seen == ["global before", "before", "after", "global after"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4


def test_step_pre_hook_may_change_the_arguments():
    optimizer = fb.optim.SGD([with_grad(2)])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: "changed"), {}))
    assert optimizer.step() == "changed"
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 5)
    with pytest.raises(RuntimeError, match="pre-hook"):
        optimizer.step()


def test_hooks_of_checkpoints():
    seen = []
    optimizer = fb.optim.SGD([fb.zeros(1)], lr=0.5)
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, saved: saved | {"extra": 1})
    saved = optimizer.state_dict()
    assert seen == ["first", "second"]
    assert saved["extra"] == 1

    def halve(o, loaded):
        loaded = copy.deepcopy(loaded)
        loaded["param_groups"][0]["lr"] /= 2
        return loaded

    optimizer.register_load_state_dict_pre_hook(halve)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(saved)
    assert seen[-1] == 0.25
    assert saved["param_groups"][0]["lr"] == 0.5


def test_hooks_of_a_class_of_ones_own():
    class Mine(fb.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None):
            return "stepped"

    seen = []
    optimizer = Mine([fb.zeros(1)])
    with optimizer.register_step_post_hook(lambda o, a, k: seen.append(1)):
        assert optimizer.step() == "stepped"
    optimizer.step()
    assert seen == [1]


# ----- the same tensors under another name -----


def test_swap_in_other_parameters():
    p = with_grad(3)
    q = twin(p)
    optimizer = fb.optim.Adam([p], lr=0.1)
    optimizer.step()
    kept, saved = p.clone(), copy.deepcopy(optimizer.state_dict())
    state = optimizer.state
    with fb.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, saved):
        optimizer.step()
    assert fb.equal(p, kept)
    assert optimizer.state is state
    assert optimizer.param_groups[0]["params"][0] is p
    assert saved["state"][0]["step"].item() == 2
    reference = twin(q)
    assert not fb.equal(reference, kept)


def test_swap_in_refuses_what_does_not_fit():
    p = with_grad(3)
    optimizer = fb.optim.Adam([p])
    swap = fb.optim.swap_in_optimizer_params_and_state
    with pytest.raises(RuntimeError, match="no state"), swap(optimizer, {"p": p}, optimizer.state_dict()):
        pass
    optimizer.step()
    good = optimizer.state_dict()
    bad = [
        ({}, good),
        ({"p": p}, {"state": []}),
        ({"p": p}, good | {"param_groups": []}),
        ({"p": p}, good | {"param_groups": [{"params": [0]}]}),
        ({"p": p}, good | {"state": {7: {}}}),
    ]
    for params, state in bad:
        with pytest.raises(RuntimeError, match="swap_in"), swap(optimizer, params, state):
            pass


def test_errors_name_the_optimizer_and_the_option():
    def p():
        return fb.ones(2, requires_grad=True)

    for error, words, call in (
        (TypeError, "SGD: weight_decay must be a number, got 'a'", lambda: fb.optim.SGD([p()], weight_decay="a")),
        (TypeError, "Adam: betas must be a pair of numbers, got 0.9", lambda: fb.optim.Adam([p()], betas=0.9)),
        (TypeError, "AdamW: betas must be a pair of numbers, got (0.9,)", lambda: fb.optim.AdamW([p()], betas=(0.9,))),
        (TypeError, "NAdam: betas must be a pair of numbers", lambda: fb.optim.NAdam([p()], betas=("a", "b"))),
        (TypeError, "SGD.step: closure must be a function, got str", lambda: fb.optim.SGD([p()]).step("a")),
        (TypeError, "SGD.load_state_dict: expected what state_dict() returns", lambda: fb.optim.SGD([p()]).load_state_dict(None)),
        (KeyError, "SGD.load_state_dict: the state has no 'param_groups'", lambda: fb.optim.SGD([p()]).load_state_dict({})),
        (KeyError, "SGD: a parameter group needs the key 'params', got ['parms']", lambda: fb.optim.SGD([{"parms": [p()]}])),
    ):
        with pytest.raises(error) as caught:
            call()
        assert words in str(caught.value).replace("\\'", "'")


@pytest.mark.parametrize("name", [n for n in fb.optim.__all__ if getattr(getattr(fb.optim, n), "_options", ())])
def test_the_table_of_options_is_the_constructor_and_the_functional_form(name):
    """Every option is an argument of the constructor, and the functional form takes it under the names of the table."""
    cls = getattr(fb.optim, name)
    constructor = set(inspect.signature(cls.__init__).parameters) - {"self", "params"}
    table = {option.name for option in cls._options}
    assert constructor == table - ({"decoupled_weight_decay"} if name == "AdamW" else set())
    functional = inspect.signature(getattr(sys.modules[cls.__module__], cls.__module__.rpartition(".")[2].strip("_")))
    if not any(p.kind is p.VAR_KEYWORD for p in functional.parameters.values()):
        passed = {key for option in cls._options for key in ((option.name,) if option.passed is None else option.passed)}
        assert passed <= set(functional.parameters)
        needed = {p.name for p in functional.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
        assert needed - {"has_complex"} <= passed
