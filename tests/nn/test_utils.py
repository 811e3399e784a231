"""Clipping, vectors, norms of weights, parametrizations, pruning, fusion, functional calls."""

import copy
import math

import numpy as np
import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn import utils
from flambeau.nn.utils import parametrizations, parametrize, prune
from flambeau.nn.utils.stateless import functional_call


def with_gradients(*gradients):
    parameters = [nn.Parameter(fb.zeros(len(g))) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = fb.tensor(g)
    return parameters


def close(result, expected, tolerance=1e-6):
    np.testing.assert_allclose(result.detach().double().numpy(), expected, rtol=tolerance, atol=tolerance)


# ---- gradients and vectors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, total", [(2.0, 13.0), (1.0, 19.0), (math.inf, 12.0)])
def test_clip_grad_norm(kind, total):
    parameters = [*with_gradients([3.0, 4.0], [12.0]), nn.Parameter(fb.zeros(1))]
    assert utils.clip_grad_norm_(parameters, 1.0, kind).item() == pytest.approx(total)
    close(parameters[0].grad, np.array([3, 4]) / total, 1e-5)
    assert utils.clip_grad_norm_((p for p in parameters), 100.0, kind).item() == pytest.approx(1, rel=1e-4)
    close(parameters[1].grad, [12 / total], 1e-5)


def test_clip_grad_errors_and_values():
    (p,) = with_gradients([math.nan, 1.0])
    with pytest.raises(RuntimeError, match="nan"):
        utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert utils.clip_grad_norm_([], 1.0).item() == 0
    with pytest.warns(UserWarning, match="empty"):
        utils.clip_grad_norm_((x for x in ()), 1.0)
    (p,) = with_gradients([3.0, -0.5, -7.0])
    utils.clip_grad_value_(p, 1)
    assert p.grad.tolist() == [1, -0.5, -1]


def test_parameters_and_vectors():
    m = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(m.parameters())
    assert vector.shape == (9,) and vector[:2].tolist() == m.weight[0].tolist()
    utils.vector_to_parameters(fb.arange(9.0), m.parameters())
    assert m.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and m.bias.tolist() == [6, 7, 8]
    with pytest.raises(ValueError):
        utils.vector_to_parameters(fb.zeros(3), m.parameters())
    with pytest.raises(TypeError):
        utils.vector_to_parameters([1.0], m.parameters())


# ---- norms of weights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("apply", [utils.weight_norm, parametrizations.weight_norm])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(apply, dim):
    m = nn.Linear(3, 2)
    before, x = m.weight.detach().clone(), fb.randn(4, 3)
    expected = m(x)
    apply(m, "weight", dim)
    close(m(x), expected.detach().numpy())
    close(m.weight, before.numpy())
    length, direction = (p for n, p in m.named_parameters() if n != "bias")
    with fb.no_grad():
        length.mul_(2)
        direction.mul_(7)
    m(x)
    close(m.weight, 2 * before.numpy(), 1e-5)
    m(x).sum().backward()
    assert length.grad is not None and abs((direction.grad * direction).sum().item()) < 1e-3


def test_weight_norm_can_be_removed():
    m = utils.remove_weight_norm(utils.weight_norm(nn.Linear(3, 2)))
    assert isinstance(m.weight, nn.Parameter) and not m._forward_pre_hooks
    with pytest.raises(ValueError, match="not found"):
        utils.remove_weight_norm(m)
    old, new = utils.weight_norm(nn.Linear(3, 2)), parametrizations.weight_norm(nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    close(new.weight, old.weight.detach().numpy())
    with pytest.raises(RuntimeError, match="already"):
        utils.weight_norm(old)


@pytest.mark.parametrize("apply", [utils.spectral_norm, parametrizations.spectral_norm])
def test_spectral_norm(apply):
    m = apply(nn.Linear(5, 4), n_power_iterations=5)
    x = fb.randn(2, 5)
    for _ in range(20):
        m(x)
    assert np.linalg.norm(m.weight.detach().numpy(), 2) == pytest.approx(1, rel=1e-3)
    m(x).sum().backward()
    frozen = m.eval()(x)
    assert fb.equal(m(x), frozen)
    assert sum("_u" in k or "_v" in k for k in m.state_dict()) == 2


def test_spectral_norm_can_be_removed():
    m = utils.spectral_norm(nn.Linear(5, 4))
    m(fb.randn(2, 5))
    weight = m.eval().weight.detach().clone()
    utils.remove_spectral_norm(m)
    assert list(m.state_dict()) == ["bias", "weight"] and isinstance(m.weight, nn.Parameter)
    m(fb.randn(2, 5))
    assert m.weight.shape == weight.shape


# ---- parametrizations --------------------------------------------------------------------------------------------------


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, a):
        return a.triu()


class Scale(nn.Module):
    def forward(self, x):
        return x * 2


def test_register_and_remove():
    m = nn.Linear(3, 3)
    original = m.weight
    parametrize.register_parametrization(m, "weight", Symmetric())
    assert parametrize.is_parametrized(m, "weight") and not parametrize.is_parametrized(m, "bias")
    assert type(m).__name__ == "ParametrizedLinear" and isinstance(m, nn.Linear)
    assert m.parametrizations.weight.original is original
    assert fb.equal(m.weight, m.weight.t()) and "weight" not in dict(m.named_parameters())
    m(fb.randn(2, 3)).sum().backward()
    assert original.grad is not None
    m.weight = fb.ones(3, 3)
    assert m.weight.tolist() == [[1, 1, 1]] * 3
    parametrize.register_parametrization(m, "weight", Scale())
    assert m.weight.tolist() == [[2, 2, 2]] * 3
    with pytest.raises(RuntimeError, match="right_inverse"):
        m.weight = fb.ones(3, 3)
    with parametrize.cached():
        assert m.weight is m.weight
    assert m.weight is not m.weight
    twin = copy.deepcopy(m)
    assert fb.equal(twin.weight, m.weight) and twin.parametrizations.weight.original is not original
    parametrize.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and m.weight is original and m.weight.tolist() == [[2, 2, 2]] * 3
    assert parametrize.is_parametrized(twin)


def test_parametrization_errors():
    class Grow(nn.Module):
        def forward(self, x):
            return fb.cat([x, x])

    m = nn.Linear(3, 3)
    with pytest.raises(ValueError, match="unsafe"):
        parametrize.register_parametrization(m, "weight", Grow())
    assert type(m) is nn.Linear and isinstance(m.weight, nn.Parameter)
    parametrize.register_parametrization(m, "weight", Grow(), unsafe=True)
    assert m.weight.shape == (6, 3)
    with pytest.raises(ValueError, match="does not have"):
        parametrize.register_parametrization(m, "nothing", Scale())
    with pytest.raises(ValueError):
        parametrize.remove_parametrizations(m, "bias")
    with pytest.raises(RuntimeError, match="state_dict"):
        import pickle

        pickle.dumps(m)


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal_without_trivialization(kind, shape):
    m = parametrizations.orthogonal(
        nn.Linear(shape[1], shape[0]).double(), orthogonal_map=kind, use_trivialization=False
    )
    w = m.weight.detach()
    close(w @ w.t() if shape[0] <= shape[1] else w.t() @ w, np.eye(min(shape)), 1e-10)
    m.weight.sum().backward()
    assert m.parametrizations.weight.original.grad is not None


def test_spectral_norm_moves_u_first():
    m = parametrizations.spectral_norm(nn.Linear(4, 3).double())
    part, w = m.parametrizations.weight[0], m.parametrizations.weight.original.detach().numpy()
    v = np.array([1.0, 0, 0, 0])
    with fb.no_grad():
        part._v.copy_(fb.from_numpy(v))
    u = w @ v / np.linalg.norm(w @ v)
    v = w.T @ u / np.linalg.norm(w.T @ u)
    close(m.weight, w / (u @ w @ v), 1e-12)
    close(part._u, u, 1e-12)
    close(part._v, v, 1e-12)


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal(kind, shape):
    m = parametrizations.orthogonal(nn.Linear(shape[1], shape[0]).double(), orthogonal_map=kind)

    def check():
        w = m.weight.detach()
        product = w @ w.t() if shape[0] <= shape[1] else w.t() @ w
        close(product, np.eye(min(shape)), 1e-10)

    check()
    start = m.weight.detach().clone()
    m(fb.randn(2, shape[1], dtype=fb.float64)).square().sum().backward()
    with fb.no_grad():
        m.parametrizations.weight.original.sub_(0.1 * m.parametrizations.weight.original.grad)
    check()
    m.weight = start
    close(m.weight, start.numpy(), 1e-10)
    with pytest.raises(ValueError):
        parametrizations.orthogonal(nn.Linear(3, 3), "bias")
    with pytest.raises(ValueError):
        parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="qr")


# ---- pruning -----------------------------------------------------------------------------------------------------------


def test_pruning_and_removal():
    m = nn.Linear(4, 3)
    prune.l1_unstructured(m, "weight", 4)
    magnitude = m.weight_orig.abs().detach()
    assert (m.weight_mask == 0).sum().item() == 4
    assert magnitude[m.weight_mask == 0].max().item() <= magnitude[m.weight_mask == 1].min().item()
    m(fb.randn(2, 4)).sum().backward()
    assert bool((m.weight_orig.grad[m.weight_mask == 0] == 0).all())
    prune.random_unstructured(m, "weight", 0.5)
    assert (m.weight_mask == 0).sum().item() == 8 and prune.is_pruned(m)
    pruned = m.weight.detach().clone()
    prune.remove(m, "weight")
    assert sorted(m.state_dict()) == ["bias", "weight"] and fb.equal(m.weight, pruned) and not prune.is_pruned(m)
    with pytest.raises(ValueError):
        prune.remove(m, "weight")


def test_structured_and_global_pruning():
    m = nn.Linear(2, 4)
    with fb.no_grad():
        m.weight.copy_(fb.tensor([[1.0, 1], [4, 4], [2, 2], [3, 3]]))
    prune.ln_structured(m, "weight", 1, n=2, dim=0)
    assert m.weight[:, 0].tolist() == [0, 4, 2, 3]
    prune.ln_structured(m, "weight", 1, n=2, dim=0)
    assert m.weight[:, 0].tolist() == [0, 4, 0, 3]
    prune.random_structured(m, "weight", 1, dim=1)
    assert (m.weight.abs().sum(0) == 0).sum().item() == 1
    a, b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    with fb.no_grad():
        a.weight.fill_(1)
        b.weight.fill_(2)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=0.5)
    assert a.weight.abs().sum().item() == 0 and b.weight.tolist() == [[2, 2], [2, 2]]
    for bad in (
        lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", 9),
        lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", 1.5),
        lambda: prune.ln_structured(nn.Linear(2, 2), "bias", 1, n=1, dim=0),
    ):
        with pytest.raises(ValueError):
            bad()
    m = nn.Linear(2, 2)
    with pytest.raises(ValueError):
        prune.l1_unstructured(m, "weight", 9)
    assert sorted(m.state_dict()) == ["bias", "weight"]


# ---- fusion and the rest -----------------------------------------------------------------------------------------------


def trained(bn, x):
    with fb.no_grad():
        bn.weight.normal_()
        bn.bias.normal_()
    bn(x)
    return bn.eval()


def test_fusion():
    x = fb.randn(2, 3, 6, 6)
    for conv, transpose in ((nn.Conv2d(3, 4, 3, bias=False), False), (nn.ConvTranspose2d(3, 4, 3), True)):
        bn = trained(nn.BatchNorm2d(4), conv(x).detach())
        fused = utils.fuse_conv_bn_eval(conv.eval(), bn, transpose)
        close(fused(x), bn(conv(x)).detach().numpy(), 1e-4)
    linear = nn.Linear(3, 4)
    rows = fb.randn(5, 3)
    bn = trained(nn.BatchNorm1d(4), linear(rows).detach())
    with pytest.raises(RuntimeError, match="eval"):
        utils.fuse_linear_bn_eval(linear, bn)
    close(utils.fuse_linear_bn_eval(linear.eval(), bn)(rows), bn(linear(rows)).detach().numpy(), 1e-5)


def test_skip_init():
    m = utils.skip_init(nn.Linear, 3, 2, dtype=fb.float64)
    assert type(m) is nn.Linear and m.weight.shape == (2, 3) and m.weight.dtype == fb.float64
    m.reset_parameters()
    with pytest.raises(RuntimeError, match="device"):
        utils.skip_init(nn.ReLU)


@pytest.mark.filterwarnings("ignore:torch.nn.utils.stateless:FutureWarning")
def test_functional_call():
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    m[1].weight = m[0].weight
    ones = fb.ones(2, 2)
    zeros = {"0.bias": fb.zeros(2), "1.bias": fb.zeros(2)}
    result = functional_call(m, {"0.weight": ones, **zeros}, fb.ones(2))
    assert result.tolist() == [4, 4] and m[0].weight is m[1].weight and isinstance(m[0].weight, nn.Parameter)
    with pytest.raises(AttributeError, match="no attribute `9`"):
        functional_call(m, {"9.weight": ones}, fb.ones(2))
    with pytest.raises(RuntimeError, match="Missing key"):
        functional_call(m, {"0.weight": ones}, fb.ones(2), strict=True)
    with pytest.raises(ValueError, match="one shared tensor"):
        functional_call(m, {"0.weight": ones, "1.weight": ones * 2}, fb.ones(2))
    w = fb.ones(2, 2, requires_grad=True)
    functional_call(m, {"0.weight": w}, fb.ones(2)).sum().backward()
    assert w.grad is not None and m[0].weight.grad is None


def test_data_parallel():
    m = nn.DataParallel(nn.Linear(2, 3))
    assert m(fb.zeros(4, 2)).shape == (4, 3) and list(m.state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(RuntimeError, match="accelerators"):
        nn.DataParallel(nn.Linear(2, 3), device_ids=[0, 1])


def test_memory_format():
    m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(2, 2))
    utils.convert_conv2d_weight_memory_format(m, fb.channels_last)
    assert m[0].weight.is_contiguous(memory_format=fb.channels_last) and isinstance(m[0].weight, nn.Parameter)


def test_a_mask_in_a_container_has_the_dtype_of_the_tensor():
    container = prune.PruningContainer()
    container._tensor_name = "weight"
    method = prune.L1Unstructured(amount=2)
    method._tensor_name = "weight"
    container.add_pruning_method(method)
    mask = container.compute_mask(fb.tensor([1.0, 2.0, 3.0, 4.0]), fb.tensor([1, 1, 1, 0]))
    assert mask.dtype == fb.float32 and mask.tolist() == [0, 0, 1, 0]


def test_spectral_norm_of_a_complex_weight():
    m = nn.Linear(2, 2, dtype=fb.complex64)
    with fb.no_grad():
        m.weight.copy_(fb.diag(fb.tensor([1 - 2j, 0.5j])))
    parametrizations.spectral_norm(m, n_power_iterations=20)
    assert fb.allclose(m.weight, fb.diag(fb.tensor([1 - 2j, 0.5j])) / 5**0.5, atol=1e-5)


class Mapping(nn.Module):
    def __init__(self, forward=lambda x: x, inverse=None):
        super().__init__()
        self.forward = forward
        if inverse is not None:
            self.right_inverse = inverse


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (Mapping(lambda x: 2), "A parametrization must return a tensor"),
        (Mapping(lambda x: x.bool()), "may not change the dtype of the tensor"),
        (Mapping(lambda x: x[:-1]), "may not change the shape of the tensor"),
        (Mapping(inverse=lambda w: None), "must return a Tensor or a Sequence of tensors"),
        (Mapping(lambda x, y: x, lambda w: (None, w)), "element 0 of the sequence with type NoneType"),
        (Mapping(inverse=lambda w: w.bool()), "outputs one tensor, it may not change the dtype"),
        (Mapping(inverse=lambda w: w.to("meta")), "outputs one tensor, it may not change the device"),
    ],
)
def test_bad_parametrizations_leave_the_module_as_it_is(mapping, message):
    m = nn.Linear(3, 4)
    before = m.weight.clone()
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(m, "weight", mapping)
    assert not parametrize.is_parametrized(m) and fb.equal(m.weight, before)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (Mapping(lambda x: (x, x)), "A parametrization must return a tensor"),
        (Mapping(lambda x: x[:-1]), "may not change the shape of the tensor"),
        (Mapping(inverse=lambda w: (w, w)), "right_inverse must return a tensor"),
        (Mapping(inverse=lambda w: w.bool()), "must have the same dtype"),
        (Mapping(inverse=lambda w: w[:-1]), "must have the same shape"),
    ],
)
def test_a_bad_second_parametrization_is_refused(mapping, message):
    m = nn.Linear(3, 4)
    parametrize.register_parametrization(m, "weight", Mapping())
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(m, "weight", mapping)
    assert len(m.parametrizations.weight) == 1


def test_the_older_functional_call_says_where_it_is_now():
    m = nn.Linear(2, 1)
    with pytest.warns(FutureWarning, match="Please use `torch.func.functional_call`"):
        functional_call(m, dict(m.named_parameters()), fb.ones(2))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4)])
def test_orthogonal_by_reflections_starts_from_the_weight(shape):
    """The last column of a square matrix needs no reflection in LAPACK's form, and has one in ours."""
    w = fb.randn(*shape)
    m = nn.Module()
    m.weight = nn.Parameter(w.clone())
    fb.nn.utils.parametrizations.orthogonal(m, "weight", "householder", use_trivialization=False)
    tall = w if shape[-2] >= shape[-1] else w.mT
    q, r = fb.linalg.qr(tall)
    q = q * r.diagonal(0, -2, -1).sign().unsqueeze(-2)
    fb.testing.assert_close(m.weight, q if shape[-2] >= shape[-1] else q.mT, atol=1e-5, rtol=0)
    m.weight = q if shape[-2] >= shape[-1] else q.mT
    fb.testing.assert_close(m.weight, q if shape[-2] >= shape[-1] else q.mT, atol=1e-5, rtol=0)
