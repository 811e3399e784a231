"""vmap: arguments, nesting, indexing, in-place ops, randomness, and together with gradients."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import flambeau as fb
from flambeau.func import grad, jacfwd, jacrev, jvp, vjp, vmap

X = fb.arange(24.0, dtype=fb.float64).reshape(2, 3, 4)


def close(a, b):
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


def looped(f, *args):
    return fb.stack([f(*(a[i] for a in args)) for i in range(args[0].shape[0])])


# ---- arguments and results -------------------------------------------------------------------------------------------


def test_in_dims_and_out_dims():
    close(vmap(lambda x: x.sum(0), in_dims=1, out_dims=1)(X), X.sum(0).T)
    close(vmap(lambda x: x * 2, in_dims=-1, out_dims=-1)(X), X * 2)
    close(vmap(fb.mul, in_dims=(0, None))(X, X[0]), X * X[0])
    close(vmap(lambda d: d["a"] + d["b"][0], in_dims=({"a": 0, "b": None},))({"a": X, "b": [X[0]]}), X + X[0])


def test_results_keep_their_container():
    Pair = collections.namedtuple("Pair", "low high")
    out = vmap(lambda x: Pair(x.amin(), {"m": x.amax()}), out_dims=0)(X)
    close(out.low, X.amin((1, 2)))
    close(out.high["m"], X.amax((1, 2)))
    first, second = vmap(lambda x: (x, x.T), out_dims=(0, 2))(X)
    assert first.shape == (2, 3, 4) and second.shape == (4, 3, 2)


def test_a_constant_result_is_repeated_or_passed_on():
    one = fb.ones(3)
    assert vmap(lambda x: one)(X).shape == (2, 3)
    assert vmap(lambda x: one, out_dims=None)(X) is one
    assert vmap(lambda x: (x, "name"), out_dims=(0, None))(X)[1] == "name"
    with pytest.raises(IndexError, match="Dimension out of range"):
        vmap(lambda x: x, out_dims=3)(X)
    with pytest.raises(ValueError, match="out_dims is None"):
        vmap(lambda x: x, out_dims=None)(X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: vmap(fb.sin)(), "no arguments"),
        (lambda: vmap(fb.sin, in_dims=None), None),
        (lambda: vmap(fb.sin, in_dims=(0, 0))(X), "structure"),
        (lambda: vmap(fb.sin, in_dims=3)(X), "Got in_dim=3"),
        (lambda: vmap(fb.mul)(X, X[0]), "differ in size"),
        (lambda: vmap(lambda x, y: x)(X, 3), "only tensors have a batch"),
        (lambda: vmap(lambda x: 3)(X), "must return tensors"),
        (lambda: vmap(fb.sin, randomness="perhaps")(X), "randomness"),
        (lambda: vmap(fb.sin, chunk_size=0)(X), "chunk_size"),
        (lambda: vmap(fb.sin, in_dims=(None,))(X), "at least one"),
        (lambda: vmap(fb.sin)(fb.tensor(1.0)), "0-d"),
    ],
)
def test_wrong_arguments_are_told(call, words):
    if words is None:
        with pytest.raises(ValueError, match="expected `in_dims` to be"):
            call()(X)
        return
    with pytest.raises(ValueError, match=words):
        call()


def test_chunks_give_the_same():
    f = lambda x: (x @ x.T).sum(0)  # noqa: E731
    x = fb.rand(7, 3, 2)
    for size in (1, 2, 3, 7, 20):
        close(vmap(f, chunk_size=size)(x), vmap(f)(x))


def test_an_empty_batch():
    assert vmap(lambda x: x.sum())(fb.zeros(0, 3)).shape == (0,)


def test_every_op_runs_once(monkeypatch):
    """No loop: one call of the product for all examples."""
    calls = []
    real = fb.func._batching.call

    def counting(name, arguments):
        calls.append(name)
        return real(name, arguments)

    from flambeau.func._batching import pointwise

    monkeypatch.setattr(pointwise, "call", counting)
    vmap(lambda x: x.exp() + 1)(fb.zeros(1000, 2))
    assert calls == ["exp", "add"]


# ---- what inside may do ----------------------------------------------------------------------------------------------


def test_looking_at_values_is_refused():
    for look in (bool, float, int, complex, lambda x: x.item(), lambda x: x.tolist(), lambda x: x.numpy(), lambda x: 1 in x):
        with pytest.raises(fb.errors.StateError, match="needs the values of one example"):
            vmap(lambda x, look=look: look(x))(fb.ones(3))


def test_an_op_without_a_rule_is_named():
    with pytest.raises(fb.errors.StateError, match="Batching rule not implemented for histc"):
        vmap(fb.histc)(fb.ones(3, 4))


def test_a_tensor_must_not_escape():
    kept = []
    vmap(lambda x: kept.append(x) or x)(fb.ones(3))
    with pytest.raises(fb.errors.StateError, match="after that vmap ended"):
        kept[0] + 1


def test_shape_of_an_example():
    def f(x):
        assert x.shape == (3, 4) and x.ndim == 2 and x.numel() == 12 and len(x) == 3 and x.size(1) == 4
        assert "Batched" in repr(x)
        a, b, c = x
        return a + b + c

    close(vmap(f)(X), X.sum(1))


def test_in_place():
    def f(x):
        y = x.clone()
        y += 1
        y[0] = 0
        y[1:, ::2].mul_(2)
        y[y > 1e9] = 5 if False else 0
        return y

    def g(x):
        y = x.clone()
        y += 1
        y[0] = 0
        y[1:, ::2].mul_(2)
        return y

    close(vmap(g)(X), looped(g, X))
    with pytest.raises(fb.errors.StateError, match="mask that differs per example"):
        vmap(f)(X)
    shared = fb.zeros(3, 4, dtype=fb.float64)
    with pytest.raises(ValueError, match="same for all examples"):
        vmap(lambda x: shared.add_(x))(X)


def test_numpy_arrays_on_the_left():
    close(vmap(lambda x: np.ones(4) * x)(X), X)


def test_numbers_on_the_left():
    close(vmap(lambda x: 2 - 3 / (x + 1) + 2**x % 3)(X), 2 - 3 / (X + 1) + 2**X % 3)


def test_promotion_goes_by_the_example():
    half = fb.ones(3, dtype=fb.float64)
    assert vmap(lambda s: fb.ones(2, dtype=fb.float32) * s)(half).dtype == fb.float32
    assert vmap(lambda s: fb.tensor(1.0, dtype=fb.float64) * s)(half.float()).dtype == fb.float64
    assert vmap(lambda s: s * 2.5)(fb.arange(3)).dtype == fb.float32


INDICES = {
    "int": lambda x, i: x[1],
    "negative": lambda x, i: x[-1, ..., 0],
    "slice": lambda x, i: x[:, 1:3],
    "none": lambda x, i: x[None, :, None],
    "one": lambda x, i: x[i],
    "column": lambda x, i: x[:, i],
    "one index per example": lambda x, i: x[i[0]],
    "scalar and slice": lambda x, i: x[i[0], :, i],
    "two": lambda x, i: x[i, i],
    "apart": lambda x, i: x[i, :, i],
    "apart with constants": lambda x, i: x[fb.tensor([0, 1]), :, fb.tensor([1, 0])],
    "constants": lambda x, i: x[fb.tensor([0, 1]), fb.tensor([1, 0])],
    "list": lambda x, i: x[[0, 1]],
    "two dims": lambda x, i: x[:, i.reshape(2, 1), i],
    "mask": lambda x, i: x[fb.tensor([True, False, True])],
    "true": lambda x, i: x[True],
    "int and index": lambda x, i: x[1, i],
    "tuple and range": lambda x, i: x[(0, 1), range(2)],
    "empty list": lambda x, i: x[[]],
    "list as a tuple": lambda x, i: x[[i, slice(0, 1)]],
}


@pytest.mark.parametrize("name", INDICES)
def test_getitem(name):
    f = INDICES[name]
    x = fb.arange(2 * 3 * 4 * 5.0, dtype=fb.float64).reshape(2, 3, 4, 5)
    i = fb.tensor([[0, 1], [2, 0]])
    close(vmap(f)(x, i), looped(f, x, i))
    close(vmap(f, in_dims=(0, None))(x, i[0]), fb.stack([f(x[k], i[0]) for k in range(2)]))
    if "i" in f.__code__.co_varnames and name not in ("int", "negative", "slice", "none", "mask", "list", "true") and "const" not in name:
        close(vmap(f, in_dims=(None, 0))(x[0], i), fb.stack([f(x[0], i[k]) for k in range(2)]))


@pytest.mark.parametrize("index", [
    lambda i: 1, lambda i: (slice(None), 2), lambda i: i, lambda i: (slice(None), i), lambda i: (i, i), lambda i: (i, slice(None), i),
    lambda i: i[0], lambda i: (fb.tensor([0, 1]), slice(None), fb.tensor([1, 0])), lambda i: fb.tensor([True, False, True]),
])  # fmt: skip
def test_setitem(index):
    x = fb.arange(2 * 3 * 4 * 5.0, dtype=fb.float64).reshape(2, 3, 4, 5)
    i = fb.tensor([[0, 1], [2, 0]])

    def with_number(x, i):
        y = x.clone()
        y[index(i)] = -1.0
        return y

    def with_tensor(x, i, v):
        y = x.clone()
        y[index(i)] = v
        return y

    close(vmap(with_number)(x, i), looped(with_number, x, i))
    sample = x[0][index(i[0])]
    values = fb.rand((2, *sample.shape), dtype=fb.float64)
    close(vmap(with_tensor)(x, i, values), looped(with_tensor, x, i, values))
    close(vmap(with_tensor, in_dims=(0, 0, None))(x, i, values[0]), looped(lambda x, i: with_tensor(x, i, values[0]), x, i))


# ---- nesting -------------------------------------------------------------------------------------------------------------


def test_nested():
    outer = vmap(vmap(lambda x, y: x * y, in_dims=(0, None)), in_dims=(None, 0))
    close(outer(fb.arange(3.0), fb.arange(4.0)), fb.outer(fb.arange(4.0), fb.arange(3.0)))
    a, b = fb.rand(3, 2, 4), fb.rand(5, 4, 2)
    product = vmap(vmap(fb.mm, in_dims=(None, 0)), in_dims=(0, None))(a, b)
    close(product, fb.stack([fb.stack([x @ y for y in b]) for x in a]))


def test_nested_with_other_dims():
    close(vmap(vmap(fb.sum, in_dims=1), in_dims=2, out_dims=1)(X), X.sum(0).T.T)
    close(vmap(vmap(lambda x: x.cumsum(0), 1, 1), 1, 1)(X), X.cumsum(0))


def test_threads_do_not_share_levels():
    import threading

    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(fb.func._batching.levels()))
        thread.start()
        thread.join()
        return x

    vmap(f)(X)
    assert seen == [[]]


# ---- randomness ----------------------------------------------------------------------------------------------------------


def test_randomness():
    x = fb.zeros(4, 1000)
    for draw in (fb.rand_like, fb.randn_like, lambda t: t.clone().normal_(), lambda t: fb.bernoulli(t + 0.5)):
        with pytest.raises(fb.errors.StateError, match="randomness='error'"):
            vmap(draw)(x)
        rows = vmap(draw, randomness="different")(x)
        assert not fb.equal(rows[0], rows[1])
    for draw in (fb.rand_like, lambda t: t.clone().uniform_()):
        rows = vmap(draw, randomness="same")(x)
        assert rows.shape == (4, 1000) and fb.equal(rows[0], rows[1])
    with pytest.raises(fb.errors.StateError, match="parameters must be the same"):
        vmap(lambda t: fb.bernoulli(t + 0.5), randomness="same")(x)


def test_random_numbers_by_size_alone():
    x = fb.zeros(4, 3)
    with pytest.raises(fb.errors.StateError, match="randomness='error'"):
        vmap(lambda t: t + fb.rand(3))(x)
    rows = vmap(lambda t: t + fb.rand(3), randomness="same")(x)
    assert fb.equal(rows[0], rows[3])


def test_same_in_chunks():
    rows = vmap(lambda t: t + fb.rand(3), randomness="same", chunk_size=2)(fb.zeros(5, 3))
    assert all(fb.equal(rows[0], row) for row in rows)


def test_multinomial():
    rows = vmap(lambda w: fb.multinomial(w, 2), randomness="different")(fb.ones(6, 4))
    assert rows.shape == (6, 2) and bool((rows < 4).all())


# ---- with gradients ------------------------------------------------------------------------------------------------------


def loss(w, x):
    return ((w * x).sin().sum() - 1) ** 2


def test_vmap_of_grad_gives_a_gradient_per_example():
    w, xs = fb.rand(3, dtype=fb.float64), fb.rand(5, 3, dtype=fb.float64)
    got = vmap(grad(loss), in_dims=(None, 0))(w, xs)
    close(got, fb.stack([grad(loss)(w, x) for x in xs]))
    assert not got.requires_grad


def test_grad_of_vmap():
    w, xs = fb.rand(3, dtype=fb.float64), fb.rand(5, 3, dtype=fb.float64)
    got = grad(lambda w: vmap(loss, in_dims=(None, 0))(w, xs).sum())(w)
    close(got, sum(grad(loss)(w, x) for x in xs))


def test_backward_through_vmap():
    x = fb.rand(4, 3, dtype=fb.float64, requires_grad=True)
    vmap(lambda t: (t * t).sum())(x).sum().backward()
    close(x.grad, 2 * x)


def test_vmap_of_second_derivatives_and_jacobians():
    xs = fb.rand(4, 3, dtype=fb.float64)
    f = lambda x: (x**3).sum()  # noqa: E731
    close(vmap(jacrev(grad(f)))(xs), fb.stack([fb.diag(6 * x) for x in xs]))
    close(vmap(jacfwd(lambda x: x**2))(xs), fb.stack([fb.diag(2 * x) for x in xs]))
    close(vmap(grad(grad(lambda x: x**3)))(xs[0]), 6 * xs[0])


def test_vmap_over_vectors_of_vjp_and_jvp():
    x = fb.rand(3, dtype=fb.float64)
    f = lambda x: x.sin() * x.sum()  # noqa: E731
    out, pull = vjp(f, x)
    eye = fb.eye(3, dtype=fb.float64)
    close(vmap(pull)(eye)[0], jacrev(f)(x))
    close(vmap(lambda u: jvp(f, (x,), (u,))[1], out_dims=-1)(eye), jacrev(f)(x))
    close(vmap(fb.func.linearize(f, x)[1], out_dims=-1)(eye), jacrev(f)(x))


def test_jacobian_in_chunks_by_vmap():
    x = fb.rand(5, dtype=fb.float64)
    f = lambda x: (x.outer(x).exp(), x.sum())  # noqa: E731
    plain = jacrev(f)(x)
    for size in (2, 3, 100):
        for a, b in zip(jacrev(f, chunk_size=size)(x), plain, strict=True):
            close(a, b)


# ---- autograd.Function ---------------------------------------------------------------------------------------------------


class Cube(fb.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x**3 * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * 3 * x**2 * w, g * x**3


class ByHand(fb.autograd.Function):
    seen: list = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def vmap(info, in_dims, x):
        ByHand.seen.append((info.batch_size, info.randomness, in_dims))
        return ByHand.apply(x), in_dims[0]


def test_function_with_a_generated_rule():
    x, w = fb.rand(4, dtype=fb.float64, requires_grad=True), fb.tensor(2.0, dtype=fb.float64, requires_grad=True)
    out = vmap(Cube.apply, in_dims=(0, None))(x, w)
    close(out, x**3 * 2)
    out.sum().backward()
    close(x.grad, 6 * x**2)
    close(w.grad, (x**3).sum())


def test_function_with_its_own_rule():
    ByHand.seen.clear()
    close(vmap(ByHand.apply)(X), X * 2)
    assert ByHand.seen == [(2, "error", (0,))]


def test_function_without_a_rule():
    class Plain(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(fb.errors.StateError, match="must override the setup_context.*Plain"):
        vmap(Plain.apply)(X)

    class Separate(Plain):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.scale = 2

    with pytest.raises(fb.errors.StateError, match="tried to vmap over Separate, but it does not have vmap support"):
        vmap(Separate.apply)(X)


class Scale(fb.autograd.Function):
    """x * scale for each x of a list, with its own rule for vmap, which `returns` changes."""

    returns = staticmethod(lambda output, dims: (output, dims))

    @staticmethod
    def forward(xs, scale=2.0):
        return tuple(x * scale for x in xs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]

    @staticmethod
    def vmap(info, in_dims, x, xs, scale):
        assert in_dims == (0, [0, None], None)
        return Scale.returns([x * scale for x in xs], [0, None])


def test_nested_arguments_of_a_rule(monkeypatch):
    class Both(Scale):
        @staticmethod
        def forward(x, xs, scale=2.0):
            return [x * scale for x in xs]

    shared = fb.ones(4, dtype=X.dtype)
    first, second = vmap(lambda x: Both.apply(x, [x, shared], scale=3.0))(X)
    close(first, X * 3)
    close(second, (shared * 3).expand(2, 4))
    for wrong, words in (
        (lambda output, dims: output, "to have two returns"),
        (lambda output, dims: (output, (0, 0)), "returned an incompatible"),
    ):
        monkeypatch.setattr(Scale, "returns", staticmethod(wrong))
        with pytest.raises(RuntimeError, match=words):
            vmap(lambda x: Both.apply(x, [x, shared], 3.0))(X)


def test_keyword_only_arguments_have_no_rule():
    class Add(Scale):
        @staticmethod
        def forward(x, *, y):
            return x + y

    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        vmap(lambda x: Add.apply(x, y=x))(X)


# ---- doors that would let values out -------------------------------------------------------------------------------------


def test_no_door_shows_the_stand_in():
    for look in (bytes, lambda x: fb.add(x, 1, out=fb.zeros(2)), lambda x: x.requires_grad_(), lambda x: x.backward()):
        with pytest.raises((fb.errors.StateError, ValueError), match="vmap"):
            vmap(lambda x, look=look: look(x))(fb.ones(3, 2))


def test_numpy_does_not_read_it():
    with pytest.raises(TypeError, match="ufunc"):
        vmap(np.sin)(X)


def test_copies():
    import copy

    close(vmap(copy.copy)(X), X)

    def changed(x):
        copy.deepcopy(x).zero_()
        return x

    close(vmap(changed)(X.clone()), X)


def test_reshaping_in_place():
    def f(x):
        y = x.clone()
        assert y.unsqueeze_(0).shape == (1, 3, 4)
        y.squeeze_().t_()
        return y.transpose_(0, 1).transpose_(0, 1)

    close(vmap(f)(X), X.transpose(1, 2))


# ---- convolution ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("batched", [(0, 1, 2), (0,), (1,), (2,), (0, 2), (1, 2)])
def test_convolution(transposed, groups, batched):
    shapes = [(2, 4, 5, 6), (4, 6 // groups, 3, 2) if transposed else (6, 4 // groups, 3, 2), (6,)]
    stacked = [fb.randn((3, *shape), dtype=fb.float64).requires_grad_() for shape in shapes]
    dims = tuple(0 if i in batched else None for i in range(3))
    args = [t if dim == 0 else t[0] for t, dim in zip(stacked, dims, strict=True)]

    def f(x, w, b):
        return fb.convolution(x, w, b, (2, 1), (1, 0), (1, 1), transposed, (0, 0), groups)

    want = fb.stack([f(*(t[i] if dim == 0 else t for t, dim in zip(args, dims, strict=True))) for i in range(3)])
    got = vmap(f, in_dims=dims)(*args)
    close(got, want)
    for a, b in zip(fb.autograd.grad((got**2).sum(), stacked), fb.autograd.grad((want**2).sum(), stacked), strict=True):
        close(a, b)


def test_per_example_gradients_of_a_convolution():
    w, xs = fb.randn(2, 1, 3, 3, dtype=fb.float64), fb.randn(4, 1, 6, 6, dtype=fb.float64)

    def loss(w, x):
        return (fb.convolution(x.unsqueeze(0), w, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1) ** 2).sum()

    one = grad(loss)
    close(vmap(one, in_dims=(None, 0))(w, xs), fb.stack([one(w, x) for x in xs]))


def test_data_is_refused_inside():
    def write(x):
        x.data = fb.ones(2)
        return x

    with pytest.raises(RuntimeError, match="accessing `data` under vmap transform is not allowed"):
        vmap(lambda x: x.data)(fb.ones(3, 2))
    with pytest.raises(RuntimeError, match="mutating directly with `.data` under vmap"):
        vmap(write)(fb.ones(3, 2))


def test_dims_come_in_the_containers_of_the_arguments():
    x, y = fb.ones(3), fb.ones(3)
    with pytest.raises(ValueError, match=r"expected `in_dims` to be int or a \(potentially nested\) tuple"):
        vmap(fb.mul, [0, 0])(x, y)
    with pytest.raises(ValueError, match="in_dims is not compatible with the structure of `inputs`"):
        vmap(lambda z: z[0] + z[1], in_dims=((0, 0),))([x, y])
    with pytest.raises(ValueError, match="out_dims is not compatible with the structure of `outputs`"):
        vmap(lambda v: (v, v), out_dims=(0,))(x)
    assert vmap(lambda v: v, out_dims=(0,))(x).tolist() == [1, 1, 1]
