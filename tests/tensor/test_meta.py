"""The meta device: shapes without values."""

import copy
import pickle

import pytest

import flambeau as fb


@pytest.fixture
def x():
    return fb.empty(4, 6, device="meta")


def test_factories_follow_the_device_and_the_block():
    with fb.device("meta"):
        made = [fb.tensor([1.0, 2.0]), fb.arange(5), fb.zeros(3, 4), fb.randn(2), fb.eye(3), fb.full((2,), 3), fb.Tensor(2, 3)[:1]]
        on_cpu = fb.zeros(2, device="cpu")
    assert [t.device.type for t in made[:-1]] == ["meta"] * 6 and on_cpu.device.type == "cpu"
    assert [tuple(t.shape) for t in made[:6]] == [(2,), (5,), (3, 4), (2,), (3, 3), (2,)]
    assert [t.dtype for t in made[:6]] == [fb.float32, fb.int64, fb.float32, fb.float32, fb.float32, fb.int64]
    assert fb.ones(2, device="meta", dtype=fb.int8).is_meta and not fb.ones(2).is_meta and fb.ones(2).is_cpu
    assert fb.zeros(2, 3).to("meta").shape == (2, 3) and fb.zeros_like(fb.ones(2), device="meta").is_meta
    assert fb.zeros(2).device.type == "cpu"


@pytest.mark.parametrize(
    "expression, shape",
    [
        ("x + 1", (4, 6)), ("1.0 / x", (4, 6)), ("x @ x.t()", (4, 4)), ("x.sum(0)", (6,)), ("x[0]", (6,)), ("x[:, None]", (4, 1, 6)),
        ("fb.cat([x, x])", (8, 6)), ("x.view(3, 8)", (3, 8)), ("x.max(1).values", (4,)), ("x.split(2)[1]", (2, 6)),
        ("x.to(fb.float64)", (4, 6)), ("x.clone()", (4, 6)), ("x.detach()", (4, 6)), ("fb.nn.functional.softmax(x, -1)", (4, 6)),
        ("fb.nn.functional.linear(x, fb.ones(2, 6, device='meta'))", (4, 2)), ("x.new_zeros(3)", (3,)), ("fb.where(x > 0, x, 0.0)", (4, 6)),
        ("x.normal_().mul_(2)", (4, 6)), ("fb.einsum('ij,kj->ik', x, x)", (4, 4)), ("copy.deepcopy(x)", (4, 6)), ("2 ** x", (4, 6)),
    ],
)  # fmt: skip
def test_ops_give_shapes(x, expression, shape):
    result = eval(expression)
    assert result.is_meta and tuple(result.shape) == shape


@pytest.mark.parametrize(
    "expression",
    """x.sum().item() | x.numpy() | x.tolist() | x.cpu() | fb.ones(4, 6).copy_(x) | x.nonzero() | fb.equal(x, x) | bool(x.sum() > 0)
    x[x > 0] | float(x.sum()) | fb.ones(4, 6).add_(x) | x.unique()""".replace("\n", " | ").split(" | "),
)
def test_what_needs_values_is_an_error(x, expression):
    with pytest.raises(RuntimeError, match="meta"):
        eval(expression)


def test_save_and_addresses(x, tmp_path):
    with pytest.raises(ValueError, match="meta device"):
        fb.save({"x": x}, tmp_path / "x.safetensors")
    fb.save({"x": x}, tmp_path / "x.pt")
    back = fb.load(tmp_path / "x.pt")["x"]
    assert back.is_meta and back.shape == x.shape and back.dtype == x.dtype
    assert x.data_ptr() == 0 and repr(x) == "tensor(..., device='meta', size=(4, 6))"


def test_modules_take_no_memory_until_they_are_filled():
    before = fb.memory_allocated()
    with fb.device("meta"):
        layer = fb.nn.Linear(200_000, 200_000, bias=False)
    assert type(layer.weight) is fb.nn.Parameter and layer.weight.is_meta and layer.weight.requires_grad
    assert fb.memory_allocated() - before < 1 << 20
    with fb.device("meta"):
        small = fb.nn.Sequential(fb.nn.Linear(3, 2), fb.nn.BatchNorm1d(2))
    assert copy.deepcopy(small)[0].weight.is_meta
    with pytest.raises(RuntimeError, match="meta"):
        small.to("cpu")
    small[0].load_state_dict({"weight": fb.ones(2, 3), "bias": fb.zeros(2)}, assign=True)
    assert small[0](fb.ones(1, 3)).tolist() == [[3.0, 3.0]]
    before = small[0].weight, small[1].weight
    filled = small.to_empty(device="cpu")
    assert small[0].weight is before[0] and small[1].weight is not before[1] and type(small[1].weight) is fb.nn.Parameter
    assert not any(t.is_meta for t in filled.state_dict().values())


def test_values_can_be_put_in_place():
    with fb.device("meta"):
        layer = fb.nn.Linear(3, 2)
    layer.weight = fb.nn.Parameter(fb.ones(2, 3))
    layer.bias.data = fb.ones(2)
    assert layer(fb.ones(1, 3)).tolist() == [[4.0, 4.0]] and not layer.bias.is_meta


def test_columns_of_one_matrix_may_be_added_in_place():
    boxes = fb.arange(8.0).reshape(2, 4)
    boxes[:, 2:] += boxes[:, :2]
    assert boxes.tolist() == [[0.0, 1.0, 2.0, 4.0], [4.0, 5.0, 10.0, 12.0]]
    line = fb.arange(8.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        line[2:6] += line[:4]


def test_layers_that_write_to_their_statistics():
    net = fb.nn.Sequential(fb.nn.BatchNorm1d(6), fb.nn.ReLU()).to("meta")
    assert net(fb.empty(4, 6, device="meta")).shape == (4, 6)
    assert net[0].running_mean.is_meta


def test_strides_are_those_of_the_cpu(x):
    images = fb.empty(2, 3, 8, 8, device="meta").to(memory_format=fb.channels_last)
    layer = fb.nn.Conv2d(3, 5, 3).to("meta", memory_format=fb.channels_last)
    assert layer(images).stride() == (180, 1, 30, 5) and x.t().clone().stride() == (1, 6)
    assert x.expand(2, 4, 6).stride() == (0, 6, 1) and (x.t() + x.t()).stride() == (1, 6)
    assert fb.zeros(3, 4).t().to("meta").stride() == (1, 4)


def test_gradients_have_shapes_too():
    net = fb.nn.Sequential(fb.nn.Conv2d(3, 4, 3), fb.nn.BatchNorm2d(4), fb.nn.ReLU(), fb.nn.Flatten(), fb.nn.Linear(144, 10)).to("meta")
    loss = fb.nn.functional.cross_entropy(net(fb.empty(2, 3, 8, 8, device="meta")), fb.empty(2, dtype=fb.int64, device="meta"))
    loss.backward()
    assert all(p.grad.is_meta and p.grad.shape == p.shape and p.grad.stride() == p.stride() for p in net.parameters())
    fb.optim.SGD(net.parameters(), lr=0.1, momentum=0.9).step()


def test_huge_tensors_take_no_memory():
    before = fb.memory_allocated()
    x = fb.empty(1 << 20, 1 << 20, device="meta")
    y = ((x + 1) @ x).softmax(-1).sum(0, keepdim=True).sort().values
    assert y.shape == (1, 1 << 20) and fb.memory_allocated() - before < 1 << 16


def test_views_and_overlaps_are_known(x):
    assert x[0]._is_view() and x.view(24)._base is x
    with pytest.raises(RuntimeError, match="single memory location"):
        x.view(24)[2:6].add_(x.view(24)[:4])
    with pytest.raises(RuntimeError, match="more than one element"):
        fb.empty(1, device="meta").expand(3).add_(1)
    with pytest.raises(IndexError):
        x[7]
    y = fb.empty(3, device="meta", requires_grad=True).exp()
    z = y.sin()
    y.add_(1)
    with pytest.raises(RuntimeError, match="inplace operation"):
        z.sum().backward()


def test_contiguous_without_arguments():
    x = fb.empty(2, 3, device="meta")
    assert x.t().contiguous().shape == (3, 2) and x.contiguous(memory_format=fb.contiguous_format).is_meta
    y = pickle.loads(pickle.dumps(x))
    assert y.is_meta and y.shape == (2, 3) and pickle.loads(pickle.dumps(x.t())).stride() == (1, 3)
