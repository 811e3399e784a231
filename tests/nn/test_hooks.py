"""Hooks around forward and backward."""

import copy
import warnings

import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn.modules import module as M


class Double(nn.Module):
    def forward(self, x, *, add=0.0):
        return 2 * x + add


def test_forward_hooks_see_and_replace():
    m, seen = Double(), []
    handle = m.register_forward_hook(lambda mod, args, out: seen.append((mod is m, args[0].item(), out.item())))
    m(fb.tensor(3.0))
    assert seen == [(True, 3.0, 6.0)]
    handle.remove()
    handle.remove()
    m(fb.tensor(3.0))
    assert len(seen) == 1
    with m.register_forward_hook(lambda mod, args, out: out + 1):
        assert m(fb.tensor(3.0)).item() == 7.0
    assert m(fb.tensor(3.0)).item() == 6.0


def test_forward_pre_hooks_replace_arguments():
    m = Double()
    with m.register_forward_pre_hook(lambda mod, args: args[0] + 1):
        assert m(fb.tensor(1.0)).item() == 4.0
    with m.register_forward_pre_hook(lambda mod, args: (args[0] + 2,)):
        assert m(fb.tensor(1.0)).item() == 6.0
    with m.register_forward_pre_hook(lambda mod, args, kw: (args, {"add": kw["add"] * 10}), with_kwargs=True):
        assert m(fb.tensor(1.0), add=1.0).item() == 12.0
    with (
        m.register_forward_pre_hook(lambda mod, args, kw: 3, with_kwargs=True),
        pytest.raises(RuntimeError, match="pair"),
    ):
        m(fb.tensor(1.0))


def test_hooks_run_in_order_and_can_go_first():
    m, order = Double(), []
    m.register_forward_hook(lambda *a: order.append("a"))
    m.register_forward_hook(lambda *a: order.append("b"), prepend=True)
    m.register_forward_hook(lambda mod, args, kw, out: order.append(kw["add"]), with_kwargs=True)
    with M.register_module_forward_hook(lambda *a: order.append("global")):
        m(fb.tensor(1.0), add=5.0)
    assert order == ["global", "b", "a", 5.0]
    order.clear()
    with M.register_module_forward_pre_hook(lambda mod, args: order.append(type(mod).__name__)):
        nn.Sequential(nn.ReLU())(fb.zeros(1))
    assert order == ["Sequential", "ReLU"]


def test_always_called_hooks_run_after_a_failure():
    class Fails(nn.Module):
        def forward(self):
            raise ValueError("mine")

    m, seen = Fails(), []
    m.register_forward_hook(lambda mod, args, out: seen.append(out), always_call=True)
    m.register_forward_hook(lambda mod, args, out: seen.append("not me"))
    with pytest.raises(ValueError, match="mine"):
        m()
    assert seen == [None]
    m.register_forward_hook(lambda mod, args, out: 1 / 0, always_call=True)
    with warnings.catch_warnings(record=True) as caught, pytest.raises(ValueError, match="mine"):
        warnings.simplefilter("always")
        m()
    assert any("always_call" in str(w.message) for w in caught)


def test_full_backward_hooks():
    m, seen = Double(), []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi[0].item(), go[0].item())))
    x = fb.tensor(3.0, requires_grad=True)
    (m(x) * 5).backward()
    assert seen == [(10.0, 5.0)] and x.grad.item() == 10.0

    m = Double()
    m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 3,))
    m.register_full_backward_hook(lambda mod, gi, go: (gi[0] + 1,))
    x = fb.tensor(3.0, requires_grad=True)
    m(x).backward()
    assert x.grad.item() == 7.0


def test_backward_hooks_of_inputs_without_gradient():
    m, seen = nn.Linear(2, 1), []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, tuple(go[0].shape))))
    m(fb.ones(3, 2)).sum().backward()
    assert seen == [((None,), (3, 1))]
    assert m.weight.grad.tolist() == [[3.0, 3.0]]


def test_backward_hooks_with_several_inputs_and_outputs():
    class Pair(nn.Module):
        def forward(self, x, n, y):
            return x * n, x + y

    m, seen = Pair(), []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append([None if g is None else g.item() for g in gi + go]))
    x, y = fb.tensor(3.0, requires_grad=True), fb.tensor(4.0, requires_grad=True)
    a, b = m(x, 2, y)
    (a * 10 + b).backward()
    assert seen == [[21.0, None, 1.0, 10.0, 1.0]]
    wrong = Pair()
    wrong.register_full_backward_hook(lambda mod, gi, go: (gi[0],))
    with pytest.raises(RuntimeError, match="expected 3"):
        wrong(x, 2, y)[0].backward()


def test_global_backward_hooks():
    seen = []
    with (
        M.register_module_full_backward_hook(lambda mod, gi, go: seen.append("after")),
        M.register_module_full_backward_pre_hook(lambda mod, go: seen.append("before")),
    ):
        x = fb.tensor(1.0, requires_grad=True)
        Double()(x).backward()
    assert seen == ["before", "after"]


def test_registration_hooks():
    seen = []
    with (
        M.register_module_parameter_registration_hook(lambda mod, name, p: seen.append(name)),
        M.register_module_buffer_registration_hook(lambda mod, name, b: seen.append(name)),
        M.register_module_module_registration_hook(lambda mod, name, child: seen.append(name)),
    ):
        nn.Sequential(nn.BatchNorm1d(2))
    assert seen == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked", "0"]


def test_hooks_are_copied():
    m = Double()
    m.register_forward_hook(lambda mod, args, out: out + 1)
    assert copy.deepcopy(m)(fb.tensor(1.0)).item() == 3.0


def test_older_backward_hooks_leave_the_output_as_it_is():
    m, seen = fb.nn.Linear(2, 3), []
    handle = m.register_backward_hook(lambda module, grad_input, grad_output: seen.append((module, grad_output[0].tolist())))
    m(fb.ones(1, 2)).mul_(2).sum().backward()  # in place: an output behind a gate would refuse it
    assert seen == [(m, [[2.0, 2.0, 2.0]])]
    with fb.no_grad():
        m(fb.ones(1, 2))
    handle.remove()
    m(fb.ones(1, 2)).sum().backward()
    assert len(seen) == 1 and not m._forward_hooks

    class Pair(fb.nn.Module):
        def forward(self, x):
            return {"name": "pair", "y": x * 2, "z": x * 3}

    pair, x = Pair(), fb.ones(2, requires_grad=True)
    pair.register_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10, *grad_input[1:]))
    sum(v.sum() for v in pair(x).values() if isinstance(v, fb.Tensor)).backward()
    assert x.grad.tolist() == [23.0, 23.0]


def test_handles_tell_their_tables_and_remove_every_mark():
    m = fb.nn.ReLU()
    handle = m.register_forward_hook(lambda *args: None, with_kwargs=True, always_call=True)
    assert handle.hooks_dict_ref() is m._forward_hooks and len(handle.extra_dict_ref) == 2
    handle.remove()
    assert not m._forward_hooks and not m._forward_hooks_with_kwargs and not m._forward_hooks_always_called


def test_older_backward_hooks_run_for_all_modules_first():
    m, order = fb.nn.Sigmoid(), []
    with fb.nn.modules.module.register_module_backward_hook(lambda *args: order.append("all")):
        m.register_backward_hook(lambda *args: order.append("own"))
        m(fb.ones(2, requires_grad=True)).sum().backward()
    assert order == ["all", "own"]


def test_backward_hooks_warn_of_outputs_without_a_place_for_them():
    class Named(fb.nn.Module):
        def forward(self, x):
            return {"x": x * 2}

    m = Named()
    m.register_full_backward_hook(lambda *args: pytest.fail("called"))
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple of Tensors, got dict"):
        m(fb.ones(2, requires_grad=True))["x"].sum().backward()


def test_hook_tables_can_be_reset_by_name():
    seen = []
    M.register_module_forward_pre_hook(lambda mod, args: seen.append("pre"))
    M.register_module_forward_hook(lambda *a: seen.append("post"), always_call=True)
    assert len(M._global_forward_hooks_always_called) == 1
    M._global_forward_pre_hooks = {}
    M._global_forward_hooks = {}
    M._global_forward_hooks_always_called = {}
    nn.ReLU()(fb.ones(1))
    assert seen == [] and len(M._global_forward_hooks) == 0


def test_backward_hooks_of_a_module_whose_inputs_need_no_gradient():
    m = nn.Linear(2, 3)
    answer = None
    m.register_full_backward_hook(lambda mod, gi, go: answer)
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients are computed with respect to module outputs"):
        m(fb.ones(1, 2)).sum().backward()
    answer = (fb.ones(1, 2),)
    with pytest.raises(RuntimeError, match="where no input requires gradient"), pytest.warns(UserWarning):
        m(fb.ones(1, 2)).sum().backward()


def test_hooks_that_return_too_few_gradients_are_named():
    x = fb.ones(2, requires_grad=True)

    def fewer(mod, grad_input, grad_output):
        return grad_input[:-1]

    with nn.Sigmoid().register_backward_hook(fewer):
        y = x.sigmoid()
        y.grad_fn.register_hook(lambda gi, go: ())
        with pytest.raises(RuntimeError, match=r"hook '<lambda>' has returned an incorrect number of values \(got 0, but expected 1\)"):
            y.sum().backward()
    m = nn.Sigmoid()
    m.register_full_backward_pre_hook(lambda mod, go: ())
    with pytest.raises(RuntimeError, match="got 0, but expected 1"):
        m(x).sum().backward()


class Several(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.forward = forward


@pytest.mark.parametrize(
    ("forward", "args", "message"),
    [
        (lambda v: (v[0].clone(), v[1].clone()), "list", "does not take as input a single Tensor or a tuple of Tensors"),
        (lambda a, b: [a.clone(), b.clone()], "two", "does not return a single Tensor or a tuple of Tensors"),
        (lambda a, b: (a.clone(), b.clone()), "two", "outputs are generated by different autograd Nodes"),
        (lambda a, b: a.clone().clone(), "two", "the forward contains multiple autograd Nodes"),
    ],
)
def test_older_backward_hooks_say_when_they_see_only_the_last_op(forward, args, message):
    a, b = fb.ones(2, requires_grad=True), fb.ones(2, requires_grad=True)
    m = Several(forward)
    m.register_backward_hook(lambda *grads: None)
    with pytest.warns(FutureWarning, match=message):
        m(*([[a, b]] if args == "list" else (a, b)))


def test_a_public_state_dict_hook_is_not_registered_as_a_private_one():
    m = nn.Linear(2, 3)

    def hook(module, state, prefix, meta):
        return {}

    m.register_state_dict_post_hook(hook)
    with pytest.raises(RuntimeError, match="previously registered via register_state_dict_post_hook"):
        m._register_state_dict_hook(hook)


def test_changing_the_input_behind_a_backward_hook_names_the_function():
    m = Several(lambda x: x.add_(1))
    m.register_full_backward_hook(lambda *grads: None)
    with pytest.raises(RuntimeError, match="Output 0 of BackwardHookFunction is a view and is being modified inplace"):
        m(fb.ones(2, requires_grad=True).clone())
