"""Every optimizer's steps against its rule in NumPy."""

import numpy as np
import pytest

import flambeau as fb

from . import references
from .cases import CASES, REAL_ONLY, case_name

SHAPES = [(4, 3), (5,), (2, 3, 2), ()]
STEPS = 7


def arrays(rng, dtype, shapes=SHAPES):
    if np.issubdtype(dtype, np.complexfloating):
        return [np.asarray(rng.standard_normal(s) + 1j * rng.standard_normal(s), dtype) for s in shapes]
    return [np.asarray(rng.standard_normal(s), dtype) for s in shapes]


def run_both(name, options, dtype, extra=(), steps=STEPS, shapes=SHAPES):
    """Parameters after each step, ours and the reference's."""
    rng = np.random.default_rng(0)
    start = arrays(rng, dtype, shapes)
    params = [fb.tensor(value) for value in start]
    optimizer = getattr(fb.optim, name)(params, **options, **dict(extra))
    rules = [getattr(references, name)(**options) for _ in start]
    if name == "Adafactor":
        for rule in rules:
            rule.machine_epsilon = np.finfo(dtype).eps
    wide = np.result_type(dtype, np.float64)
    expected = [value.astype(wide) for value in start]
    for t in range(steps):
        grads = arrays(rng, dtype, shapes)
        for i, (p, g) in enumerate(zip(params, grads, strict=True)):
            # The first parameter has no gradient once, as happens to parts of a model that a batch does not reach.
            absent = t == 3 and i == 0
            p.grad = None if absent else fb.tensor(g)
            if not absent:
                expected[i] = rules[i].step(expected[i], g.astype(wide))
        optimizer.step()
        yield params, expected, optimizer


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(case, dtype, id=f"{case_name(case)}-{dtype}")
        for case in CASES
        for dtype in ("float32", "float64", "complex64")
        if dtype != "complex64" or case[0] not in REAL_ONLY
    ],
)
def test_steps_follow_the_rule(case, dtype):
    name, options = case
    if dtype == "float64":
        fb.set_default_dtype(fb.float64)  # so that scalars of the state are kept in float64 too
    tolerance = 1e-10 if dtype == "float64" else 2e-5
    for params, expected, _ in run_both(name, options, np.dtype(dtype)):
        for p, e in zip(params, expected, strict=True):
            np.testing.assert_allclose(p.numpy(), e, rtol=tolerance, atol=tolerance)


PATHS = [
    (name, path)
    for name in (
        "SGD",
        "Adam",
        "AdamW",
        "NAdam",
        "RAdam",
        "Adamax",
        "Adagrad",
        "Adadelta",
        "RMSprop",
        "Rprop",
        "ASGD",
        "Adafactor",
    )
    for path in ("foreach", "fused")
    if path == "foreach" or name in ("SGD", "Adam", "AdamW", "Adagrad")
]


@pytest.mark.parametrize(("name", "path"), PATHS)
def test_foreach_and_fused_give_the_same(name, path):
    options = {"lr": 0.1, "weight_decay": 0.1} if name != "Rprop" else {"lr": 0.1}
    for params, expected, _ in run_both(name, options, np.dtype("float32"), extra={path: True}.items()):
        for p, e in zip(params, expected, strict=True):
            np.testing.assert_allclose(p.numpy(), e, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_learning_rate_as_a_tensor(case):
    name, options = case
    lr = options.get("lr", 1e-3 if name != "Adadelta" else 1.0)
    rng = np.random.default_rng(0)
    value, grads = rng.standard_normal(4), rng.standard_normal((3, 4))
    results = []
    for rate in (lr, fb.tensor(lr, dtype=fb.float64), fb.tensor([lr], dtype=fb.float64)):
        p = fb.tensor(value)
        optimizer = getattr(fb.optim, name)([p], **(options | {"lr": rate}))
        for g in grads:
            p.grad = fb.tensor(g)
            optimizer.step()
        results.append(p.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-7)
    np.testing.assert_allclose(results[2], results[0], rtol=1e-7)


def test_betas_as_tensors():
    rng = np.random.default_rng(0)
    value, grad = rng.standard_normal(4), rng.standard_normal(4)
    results = []
    for betas in ((0.5, 0.7), tuple(fb.tensor(b, dtype=fb.float64) for b in (0.5, 0.7))):
        p = fb.tensor(value)
        p.grad = fb.tensor(grad)
        optimizer = fb.optim.Adam([p], lr=0.1, betas=betas)
        for _ in range(3):
            optimizer.step()
        results.append(p.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-7)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_half_precision_stays_near(name):
    p, q = fb.linspace(-1, 1, 9).bfloat16(), fb.linspace(-1, 1, 9)
    for x in (p, q):
        optimizer = getattr(fb.optim, name)([x], lr=0.1)
        for _ in range(3):
            x.grad = fb.linspace(1, -1, 9).to(x.dtype)
            optimizer.step()
    assert p.dtype == fb.bfloat16
    np.testing.assert_allclose(p.float().numpy(), q.numpy(), atol=0.02)


def test_strided_parameters_and_gradients():
    values, grads = np.arange(12.0).reshape(3, 4), np.linspace(-1, 1, 12).reshape(4, 3)
    base = fb.tensor(values)
    p = base.T
    p.grad = fb.tensor(np.ascontiguousarray(grads.T)).T
    optimizer = fb.optim.Adam([p], lr=0.1)
    optimizer.step()
    np.testing.assert_allclose(base.numpy().T, references.Adam(lr=0.1).step(values.T, grads), rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize(
    "name", ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]
)
def test_empty_parameter(name, shape):
    p, q = fb.zeros(shape), fb.ones(2, 2)
    p.grad, q.grad = fb.zeros(shape), fb.ones(2, 2)
    getattr(fb.optim, name)([p, q], lr=0.1).step()
    assert p.shape == shape and not q.equal(fb.ones(2, 2)) and bool(q.isfinite().all())


def test_asgd_keeps_the_average():
    options = {"lr": 0.1, "lambd": 0.1, "t0": 2}
    rng = np.random.default_rng(0)
    p, rule, value = fb.tensor(np.ones(3)), references.ASGD(**options), np.ones(3)
    optimizer = fb.optim.ASGD([p], **options)
    for _ in range(6):
        g = rng.standard_normal(3)
        p.grad, value = fb.tensor(g), rule.step(value, g)
        optimizer.step()
    np.testing.assert_allclose(optimizer.state[p]["ax"].numpy(), rule.average, rtol=1e-6)


def test_sparse_adam_leaves_rows_without_gradient_alone():
    rng = np.random.default_rng(0)
    for shape in ((6, 3), (6,)):
        value = rng.standard_normal(shape)
        p, rule = fb.tensor(value), references.SparseAdam(lr=0.1)
        optimizer = fb.optim.SparseAdam([p], lr=0.1)
        for _ in range(5):
            g = rng.standard_normal(shape)
            g[rng.random(6) < 0.5] = 0
            p.grad, value = fb.tensor(g), rule.step(value, g)
            optimizer.step()
            np.testing.assert_allclose(p.numpy(), value, rtol=1e-6)


def test_sparse_adam_refuses_what_has_no_rows():
    p = fb.tensor(1.0)
    p.grad = fb.tensor(1.0)
    with pytest.raises(ValueError, match="without dimensions"):
        fb.optim.SparseAdam([p]).step()
    with pytest.raises(ValueError, match="complex"):
        fb.optim.SparseAdam([fb.zeros(2, dtype=fb.complex64)])
    for options in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.5)}):
        with pytest.raises(ValueError, match="SparseAdam"):
            fb.optim.SparseAdam([fb.zeros(2)], **options)


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
@pytest.mark.parametrize("nesterov", [False, True])
def test_muon_moves_along_an_orthogonal_matrix(shape, nesterov):
    rng = np.random.default_rng(0)
    value, g = rng.standard_normal(shape), rng.standard_normal(shape)
    p = fb.tensor(value, dtype=fb.float32)
    p.grad = fb.tensor(g, dtype=fb.float32)
    # With these coefficients and enough iterations the singular values come near to one.
    optimizer = fb.optim.Muon(
        [p], lr=0.1, weight_decay=0.2, nesterov=nesterov, ns_coefficients=(1.5, -0.5, 0.0), ns_steps=30
    )
    optimizer.step()
    u, _, v = np.linalg.svd(g, full_matrices=False)
    expected = value * (1 - 0.1 * 0.2) - 0.1 * np.sqrt(max(1, shape[0] / shape[1])) * (u @ v)
    np.testing.assert_allclose(p.numpy(), expected, atol=5e-3)
    np.testing.assert_allclose(optimizer.state[p]["momentum_buffer"].numpy(), 0.05 * g, rtol=1e-4)


def test_muon_scales_by_shape():
    g = np.random.default_rng(0).standard_normal((6, 3))
    moved = []
    for how in (None, "original", "match_rms_adamw", "spectral_unclamped"):
        p = fb.zeros(6, 3)
        p.grad = fb.tensor(g, dtype=fb.float32)
        fb.optim.Muon([p], lr=1.0, adjust_lr_fn=how).step()
        moved.append(p.numpy())
    np.testing.assert_array_equal(moved[0], moved[1])
    np.testing.assert_allclose(moved[2] / moved[0], 0.2 * np.sqrt(6) / np.sqrt(2), rtol=1e-5)
    np.testing.assert_array_equal(moved[3], moved[0])


def test_muon_can_scale_wide_matrices_down():
    moved = []
    for how in (None, "spectral_unclamped"):
        p = fb.zeros(2, 8)
        p.grad = fb.arange(16.0).view(2, 8).sin()
        fb.optim.Muon([p], lr=1.0, adjust_lr_fn=how).step()
        moved.append(p.numpy())
    np.testing.assert_allclose(moved[1], 0.5 * moved[0], rtol=1e-5)


def test_muon_refuses():
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        fb.optim.Muon([fb.zeros(3)])
    with pytest.raises(ValueError, match="Adjust learning rate function other is not supported"):
        fb.optim.Muon([fb.zeros(3, 3)], adjust_lr_fn="other")
    p = fb.zeros(3, 3)
    p.grad = fb.ones(3, 3)
    with pytest.raises(ValueError, match="ns_steps"):
        fb.optim.Muon([p], ns_steps=100).step()
    with pytest.raises(ValueError, match="ns_coefficients"):
        fb.optim.Muon([p], ns_coefficients=(1.0, 2.0)).step()
    p = fb.zeros(3, 3, dtype=fb.complex64)
    p.grad = fb.ones(3, 3, dtype=fb.complex64)
    for name in ("Muon", "Adafactor"):
        with pytest.raises(RuntimeError, match="complex"):
            getattr(fb.optim, name)([p]).step()


@pytest.mark.parametrize(("kind", "options"), [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adagrad", {}), ("SparseAdam", {})])
def test_sparse_gradients_step_like_dense_ones(kind, options):
    ends = []
    for is_sparse in (False, True):
        p = fb.ones(4, 2, requires_grad=True)
        optimizer = getattr(fb.optim, kind)([p], lr=0.1, **options)
        for i in range(3):
            grad = fb.zeros(4, 2)
            grad[i] = 1.0 + i
            p.grad = grad.to_sparse(1) if is_sparse else grad
            optimizer.step()
        ends.append(p.detach())
    assert fb.allclose(*ends) and not fb.allclose(ends[0], fb.ones(4, 2))


def test_other_optimizers_refuse_sparse_gradients():
    p = fb.ones(4, 2, requires_grad=True)
    p.grad = fb.ones(4, 2).to_sparse(1)
    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients, please consider SparseAdam instead"):
        fb.optim.Adam([p]).step()
