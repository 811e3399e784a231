"""Module: attributes, traversal, conversion, text, errors."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as fb
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4))
        self.head = nn.Linear(4, 2, bias=False)
        self.register_buffer("count", fb.tensor(0))
        self.register_buffer("scratch", fb.zeros(2), persistent=False)

    def forward(self, x):
        return self.head(self.encoder(x))


# ---- attributes --------------------------------------------------------------------------------------------------------


def test_members_are_found_under_their_names():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "encoder.0.weight", "encoder.0.bias", "encoder.2.weight", "encoder.2.bias", "head.weight",
    ]  # fmt: skip
    assert [n for n, _ in net.named_modules()] == ["", "encoder", "encoder.0", "encoder.1", "encoder.2", "head"]
    assert [n for n, _ in net.named_children()] == ["encoder", "head"]
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert len(list(net.parameters(recurse=False))) == 0
    assert {"encoder", "head", "count"} <= set(dir(net))


def test_assignment_before_init_is_an_error():
    class Early(nn.Module):
        def __init__(self, value):
            self.member = value

    for value in (nn.Parameter(fb.zeros(1)), nn.ReLU(), nn.Buffer(fb.zeros(1))):
        with pytest.raises(AttributeError, match="before Module.__init__"):
            Early(value)


def test_registered_names_take_only_their_kind_or_none():
    net = Net()
    with pytest.raises(TypeError, match="registered Parameter"):
        net.head.weight = fb.zeros(2, 4)
    with pytest.raises(TypeError, match="registered Module"):
        net.head = 3
    with pytest.raises(TypeError, match="registered buffer"):
        net.count = 3
    net.head.weight = None
    assert net.head.weight is None and "head.weight" not in net.state_dict()
    net.count = fb.tensor(5)
    assert net.count.item() == 5 and "count" in net.state_dict()


def test_a_name_moves_between_the_tables():
    m = nn.Module()
    m.x = 3
    m.x = nn.Parameter(fb.zeros(1))
    assert list(m._parameters) == ["x"] and "x" not in m.__dict__
    m.x = nn.ReLU()
    assert list(m._modules) == ["x"] and not m._parameters
    del m.x
    assert not hasattr(m, "x")
    with pytest.raises(AttributeError, match="no attribute 'x'"):
        m.x  # noqa: B018


@pytest.mark.parametrize("register", ["register_buffer", "register_parameter", "add_module"])
def test_bad_names_are_refused(register):
    m = nn.Module()
    m.taken = 1
    for name, error in (("a.b", KeyError), ("", KeyError), ("taken", KeyError), (3, TypeError)):
        with pytest.raises(error):
            getattr(m, register)(name, None)


def test_wrong_kinds_are_refused():
    m = nn.Module()
    with pytest.raises(TypeError, match="wrap it in nn.Parameter"):
        m.register_parameter("w", fb.zeros(1))
    with pytest.raises(TypeError):
        m.register_buffer("w", 3)
    with pytest.raises(TypeError):
        m.add_module("w", fb.zeros(1))
    with pytest.raises(TypeError, match="takes no arguments"):
        nn.Module(3)


def test_buffers_persist_or_not():
    m = nn.Module()
    m.a = nn.Buffer(fb.zeros(1))
    m.b = nn.Buffer(fb.ones(1), persistent=False)
    assert list(m.state_dict()) == ["a"]
    m.b = fb.zeros(1)
    assert list(m.state_dict()) == ["a"] and [n for n, _ in m.named_buffers()] == ["a", "b"]


def test_shared_members_come_once_unless_asked():
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, shared)
    assert len(list(net.parameters())) == 2 and len(list(net.modules())) == 2
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert len(list(net.modules(remove_duplicate=False))) == 3
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_finding_by_path():
    net = Net()
    assert net.get_submodule("encoder.2") is net.encoder[2] and net.get_submodule("") is net
    assert net.get_parameter("head.weight") is net.head.weight
    assert net.get_buffer("count") is net.count
    for call in (
        lambda: net.get_submodule("encoder.9"),
        lambda: net.get_submodule("head.weight"),
        lambda: net.get_parameter("count"),
        lambda: net.get_parameter("head.bias"),
        lambda: net.get_buffer("head.weight"),
    ):
        with pytest.raises(AttributeError):
            call()
    net.set_submodule("encoder.1", nn.Tanh())
    assert isinstance(net.encoder[1], nn.Tanh)
    with pytest.raises(AttributeError):
        net.set_submodule("encoder.7", nn.Tanh(), strict=True)
    with pytest.raises(ValueError):
        net.set_submodule("", nn.Tanh())


# ---- conversion and mode -----------------------------------------------------------------------------------------------


def test_conversion_keeps_identity_and_integers():
    net = Net()
    weight = net.head.weight
    assert net.to(fb.float64) is net and net.head.weight is weight and weight.dtype == fb.float64
    assert net.count.dtype == fb.int64
    for name, dtype in (("half", fb.float16), ("bfloat16", fb.bfloat16), ("float", fb.float32), ("double", fb.float64)):
        assert getattr(net, name)().head.weight.dtype == dtype
    assert net.type(fb.float32).count.dtype == fb.float32
    assert net.to("cpu", fb.float64).head.weight.dtype == fb.float64
    assert net.to(fb.zeros(1)).head.weight.dtype == fb.float32
    with pytest.raises(TypeError, match="floating"):
        net.to(fb.int64)
    with pytest.raises(RuntimeError, match="CUDA"):
        net.cuda()


def test_conversion_takes_gradients_along():
    m = nn.Linear(2, 1)
    m(fb.ones(2)).sum().backward()
    m.double()
    assert m.weight.grad.dtype == fb.float64 and m.weight.is_leaf
    m.zero_grad(set_to_none=False)
    assert m.weight.grad.tolist() == [[0.0, 0.0]]
    m.zero_grad()
    assert m.weight.grad is None


def test_training_mode_reaches_all():
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    assert net.train().encoder[0].training
    with pytest.raises(ValueError):
        net.train("yes")


def test_requires_grad_and_apply():
    net = Net().requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    names = []
    net.apply(lambda m: names.append(type(m).__name__))
    assert names == ["Linear", "ReLU", "Linear", "Sequential", "Linear", "Net"]
    assert net.to_empty(device="cpu").head.weight.shape == (2, 4)


# ---- copying and text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
)
def test_copies_are_independent(duplicate):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.1)).eval()
    net[0].weight.requires_grad_(False)
    net.shared = net[0].weight
    twin = duplicate(net)
    assert repr(twin) == repr(net) and not twin[1].training
    assert twin.shared is twin[0].weight and not twin[0].weight.requires_grad and twin[0].bias.requires_grad
    assert isinstance(twin[0].weight, nn.Parameter)
    with fb.no_grad():
        twin[0].weight.fill_(7)
    assert net[0].weight.max().item() < 7
    np.testing.assert_array_equal(twin[1].running_var.numpy(), net[1].running_var.numpy())


def test_text():
    assert repr(nn.Module()) == "Module()"
    assert repr(Net()) == (
        "Net(\n"
        "  (encoder): Sequential(\n"
        "    (0): Linear(in_features=3, out_features=4, bias=True)\n"
        "    (1): ReLU()\n"
        "    (2): Linear(in_features=4, out_features=4, bias=True)\n"
        "  )\n"
        "  (head): Linear(in_features=4, out_features=2, bias=False)\n"
        ")"
    )


# ---- calling -----------------------------------------------------------------------------------------------------------


def test_forward_must_be_defined():
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward"'):
        nn.Module()(1)


def test_errors_name_the_module():
    net = Net()
    with pytest.raises(ValueError, match="linear: .*input of shape") as caught:
        nn.Sequential(net, nn.ReLU())(fb.zeros(1, 5))
    assert caught.value.__notes__ == ["raised in forward() of 0.encoder.0 (Linear)"]

    class Wrong(nn.Module):
        def forward(self):
            raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        Wrong()()
    assert caught.value.args == ("mine",) and caught.value.__notes__ == ["raised in forward() of Wrong"]


def test_error_notes_leave_other_notes_alone():
    class Wrong(nn.Module):
        def forward(self):
            error = ValueError("mine")
            error.add_note("before")
            raise error

    with pytest.raises(ValueError) as caught:
        outer = nn.Module()
        outer.inner = Wrong()
        outer.forward = lambda: outer.inner()
        outer()
    assert caught.value.__notes__ == ["before", "raised in forward() of inner (Wrong)"]


def test_a_module_dies_by_reference_counting():
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        net = Net()
        net(fb.zeros(1, 3))
        ghost = weakref.ref(net.encoder[0])
        del net
        assert ghost() is None
    finally:
        gc.enable()


def test_compile_changes_nothing():
    net = Net()
    assert net.compile() is None
    assert net(fb.zeros(1, 3)).shape == (1, 2)


# ---- parameters --------------------------------------------------------------------------------------------------------


def test_parameter():
    data = fb.zeros(2)
    p = nn.Parameter(data)
    assert isinstance(p, fb.Tensor) and p.requires_grad and p.is_leaf
    assert repr(p) == str(p) == "Parameter containing:\ntensor([0., 0.], requires_grad=True)"
    data.fill_(3)
    assert p.tolist() == [3.0, 3.0]
    assert type(p + 1) is fb.Tensor and not isinstance(p + 1, nn.Parameter)
    assert not nn.Parameter(fb.zeros(1), requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)
    assert nn.Parameter(p * 2).grad_fn is None
    with pytest.raises(TypeError):
        nn.Parameter([1.0])


def test_parameter_keeps_a_class_of_its_own():
    class Tagged(fb.Tensor):
        pass

    p = nn.Parameter(fb.zeros(2).as_subclass(Tagged))
    assert type(p) is Tagged and isinstance(p, nn.Parameter) and p.requires_grad
    m = nn.Module()
    m.p = p
    assert list(m._parameters) == ["p"]


def test_uninitialized_parameter():
    p = nn.UninitializedParameter(dtype=fb.float64)
    with pytest.raises(RuntimeError, match="materialize"):
        p.shape  # noqa: B018
    assert nn.parameter.is_lazy(p) and repr(p) == "<UninitializedParameter>"
    p.materialize((2, 3))
    assert type(p) is nn.Parameter and p.shape == (2, 3) and p.dtype == fb.float64 and p.requires_grad


def test_lazy_modules_take_sizes_from_their_first_input():
    lazy = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.LazyLinear(2, bias=False))
    assert lazy[0].has_uninitialized_params()
    lazy(fb.randn(5, 3))
    assert [type(m) for m in lazy] == [nn.Linear, nn.BatchNorm1d, nn.Linear]
    assert lazy[0].weight.shape == (4, 3) and lazy[1].running_mean.shape == (4,) and lazy[2].weight.shape == (2, 4)
    assert not lazy[0]._forward_pre_hooks
    fresh = nn.LazyLinear(4)
    fresh.load_state_dict(lazy[0].state_dict())
    np.testing.assert_array_equal(fresh.weight.detach().numpy(), lazy[0].weight.detach().numpy())


def test_plain_attributes_past_module():
    class Scorer(nn.Module):
        def __setattr__(self, name, value):
            if name == "activation":
                return super(nn.Module, self).__setattr__(name, value)
            return super().__setattr__(name, value)

    m = Scorer()
    m.activation, m.layer = nn.Sigmoid(), nn.Linear(1, 1)
    assert list(m._modules) == ["layer"] and isinstance(m.__dict__["activation"], nn.Sigmoid)
    super(nn.Module, m).__delattr__("activation")
    assert not hasattr(m, "activation") and not hasattr(super(nn.Module, m), "__getattr__")


def test_conversion_keeps_the_identity_of_gradients():
    net = nn.Linear(2, 2)
    net(fb.ones(1, 2)).sum().backward()
    p, grad = net.weight, net.weight.grad
    net.double()
    assert net.weight is p and p.grad is grad and grad.dtype is fb.float64 and grad.tolist() == [[1, 1], [1, 1]]
    table = nn.Embedding(3, 2, sparse=True)
    table(fb.tensor([1])).sum().backward()
    table.double()
    assert table.weight.grad.dtype is fb.float64 and table.weight.grad.to_dense().tolist() == [[0, 0], [1, 1], [0, 0]]
