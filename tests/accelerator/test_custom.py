"""Formulas and kernels of users: values on every device, gradients, and what they say about mistakes."""

import pytest

import flambeau as fb
from flambeau import accelerator

DEVICE = fb.device("sim", 0)

swish = accelerator.formula("swish(x, beta=1) = x / (1 + exp(-beta * x))")
shift = accelerator.kernel(
    "shift(Tensor x, int by=1) -> Tensor",
    "STORE_out(item, item >= g.by ? LOAD_x(item - g.by) : (T)0);",
    gradient=lambda grad, by: fb.cat([grad[by:], grad.new_zeros(by)]),
)


def test_a_formula_is_one_kernel_that_broadcasts_and_promotes():
    x, beta = fb.randn(3, 4), fb.rand(4)
    accelerator.reset_coverage()
    got = swish(x.to(DEVICE).t(), beta.to(DEVICE)[:, None])
    assert accelerator.coverage()["swish"] == (1, 0)
    fb.testing.assert_close(got.cpu(), x.t() * fb.sigmoid(beta[:, None] * x.t()))
    for device in ("cpu", DEVICE):
        on = x.to(device)
        fb.testing.assert_close(swish(on, beta=0.5).cpu(), x * fb.sigmoid(0.5 * x))
        assert swish(on.bfloat16()).dtype == fb.bfloat16 and swish(on.double()).dtype == fb.float64
        assert swish(fb.arange(3, device=device)).dtype == fb.float32 and swish(fb.zeros(0, 2, device=device)).shape == (0, 2)
        whole = accelerator.formula("f(x, y, n) = max(x * y, n) - (x > 1) * 3")(
            fb.arange(4, device=device), fb.tensor(2, device=device), 1
        )
        assert whole.tolist() == [1, 2, 1, 3] and whole.dtype == fb.int64
        third = accelerator.formula("f(x) = x * (1 / 3) + where(!(x > 0) || isnan(x), 2, pow(x, 0.5))")
        fb.testing.assert_close(third(fb.tensor([4.0, -3.0], device=device)).cpu(), fb.tensor([2 + 4 / 3, 1.0]))
        assert accelerator.formula("f(x, y) = y")(on, fb.ones(1, device=device)).shape == (3, 4)
        assert accelerator.formula("f(x) = 7")(on).tolist() == [[7] * 4] * 3
    assert swish(fb.ones(2, device="meta")).device.type == "meta"


WORDS = accelerator._words.WORDS
PAIRS = sorted(accelerator._words._TWO)


@pytest.mark.parametrize("word", sorted(WORDS))
def test_every_word_has_the_value_and_the_slope_of_its_op(word):
    pair = word in PAIRS
    call = accelerator.formula(f"f(a, b) = {word}(a, b)" if pair else f"f(a) = {word}(a)")
    op = getattr(fb, WORDS[word].op)
    low = 1.1 if word == "acosh" else -0.9
    inputs = [fb.linspace(low, low + 1.8, 7, dtype=fb.float64) if word != "pow" else fb.linspace(0.1, 2, 7, dtype=fb.float64)]
    inputs += [fb.linspace(1.5, -2, 7, dtype=fb.float64)] * pair
    if word.startswith(("log", "sqrt")) or word == "lgamma":
        inputs = [inputs[0].abs() + 0.05]
    for device in ("cpu", DEVICE):
        on = [x.to(device).requires_grad_() for x in inputs]
        got, expected = call(*on), op(*inputs).double()
        fb.testing.assert_close(got.cpu(), expected, rtol=1e-9, atol=1e-12)
        if word == "lgamma":
            with pytest.raises(RuntimeError, match="'lgamma' has no derivative"):
                got.sum().backward()
            continue
        slopes = fb.autograd.grad(got.sum(), on, allow_unused=True)
        if not expected.requires_grad and word.startswith("is"):
            assert slopes == (None,)
            continue
        there = [x.clone().requires_grad_() for x in inputs]
        wanted = fb.autograd.grad(op(*there).sum(), there)
        for slope, want in zip(slopes, wanted, strict=True):
            fb.testing.assert_close(fb.zeros_like(want) if slope is None else slope.cpu(), want, rtol=1e-9, atol=1e-12)


def test_formulas_can_be_differentiated_twice_and_mapped():
    f = accelerator.formula("f(x, y, a=2) = where(x > y, a * x * y, sin(x) - y / x) + pow(x, 3)")
    for device in ("cpu", DEVICE):
        x = fb.tensor([0.5, 1.5, 2.5], dtype=fb.float64, device=device, requires_grad=True)
        y = fb.tensor([[1.0], [2.0]], dtype=fb.float64, device=device, requires_grad=True)
        assert fb.autograd.gradcheck(f, (x, y)) and fb.autograd.gradgradcheck(f, (x, y))
        fb.testing.assert_close(fb.func.vmap(lambda row: f(row, 1.0))(x[:, None].detach()), f(x[:, None].detach(), 1.0))
        slopes = fb.func.vmap(fb.func.grad(lambda t: f(t, 1.0)))(x.detach())
        fb.testing.assert_close(slopes, fb.autograd.grad(f(x, 1.0).sum(), x)[0])


def test_gradients_of_formulas_may_be_given():
    straight = accelerator.formula("straight(x) = x > 0", gradient={"x": "grad * (1 + out)"})
    scaled = accelerator.formula("scaled(x, y) = x * y", gradient=lambda grad, y: (grad * y * 100, None))
    for device in ("cpu", DEVICE):
        x = fb.tensor([-1.0, 2.0], device=device, requires_grad=True)
        straight(x).sum().backward()
        assert x.grad.tolist() == [1, 2]
        y = fb.tensor([3.0, 4.0], device=device, requires_grad=True)
        (slope, none) = fb.autograd.grad(scaled(x, y).sum(), (x, y), allow_unused=True)
        assert slope.tolist() == [300, 400] and none is None


def test_formulas_say_what_is_wrong():
    def error(kind, match, make, *args, **kwargs):
        with pytest.raises(kind, match=match):
            make(*args, **kwargs)

    formula = accelerator.formula
    error(ValueError, r"expected a text like 'scaled\(x, y, a=2\) = a \* x \* y'", formula, "x * y")
    error(ValueError, "'grad' cannot be the name", formula, "f(grad) = grad")
    error(ValueError, "mentions 'z', which is not an argument; expected x, y", formula, "f(x, y) = x * z")
    error(ValueError, r"do not have '\^'; for a power write pow\(x, y\)", formula, "f(x) = x ^ 2")
    error(ValueError, "do not have 'besselj'.*exp", formula, "f(x) = besselj(x)")
    error(ValueError, "'pow' takes 2 arguments, got 1", formula, "f(x) = pow(x)")
    error(ValueError, "f: formula 'x \\+': expected a name", formula, "f(x) = x +")
    error(ValueError, r"gradient names \['q'\]; expected some of x", formula, "f(x) = x", gradient={"q": "grad"})
    error(ValueError, "the default of 'a' is b; expected a number", formula, "f(x, a=b) = x")
    x = fb.ones(3)
    error(TypeError, r"swish: missing a required argument: 'x'; expected swish\(x, beta=1\)", swish)
    error(TypeError, "swish: argument 'beta' must be a tensor or a number, got str", swish, x, "2")
    error(TypeError, "swish: expected a tensor among the arguments", swish, 1.0)
    error(TypeError, "argument 'x' has dtype flambeau.complex64; formulas take real", swish, x.to(fb.complex64))
    error(ValueError, "swish: argument 'x' is on 'cpu', argument 'beta' on '.*'; move one with .to", swish, x, x.to(DEVICE))
    error(ValueError, r"do not broadcast together: 'x' \(3,\), 'beta' \(2,\)", swish, x, fb.ones(2))


def test_a_kernel_runs_everywhere():
    x = fb.arange(6.0)
    for device in ("cpu", DEVICE):
        assert shift(x.to(device), 2).tolist() == [0, 0, 0, 1, 2, 3]
        assert shift(x.to(device)[::2]).tolist() == [0, 0, 2]  # what has gaps is copied
        assert shift(x.half().to(device)).dtype == fb.float16 and shift(fb.arange(3, device=device)).tolist() == [0, 0, 1]
        assert shift(fb.zeros(0, device=device)).shape == (0,)
        on = x.to(device).detach().requires_grad_()
        (shift(on, by=2) * fb.arange(6.0, device=device)).sum().backward()
        assert on.grad.tolist() == [2, 3, 4, 5, 0, 0]
    assert shift(fb.ones(2, 3, device="meta")).shape == (2, 3)
    rows = fb.func.vmap(shift)(x.view(2, 3))
    assert rows.tolist() == [[0, 0, 1], [0, 3, 4]]


def test_a_kernel_with_groups_functions_numbers_and_two_results():
    """A group for each row sums it in shared memory; one item of it looks for the largest element."""
    rows = accelerator.kernel(
        "rows(Tensor x, float scale=1.0, bool square=False) -> (Tensor sums, Tensor best)",
        """
        SHARED T part[SIZE];
        const ix row = (ix)GROUP, n = g.x_shape[1];
        T sum = 0;
        for (ix k = (ix)LID; k < n; k += SIZE) sum += term(LOAD_x(row * n + k), (T)g.scale, (int)g.square);
        part[LID] = sum;
        BARRIER;
        if (LID == 0) {
            ix top = 0;
            for (ix k = 1; k < n; k++) top = LOAD_x(row * n + k) > LOAD_x(row * n + top) ? k : top;
            for (int i = 1; i < SIZE; i++) sum += part[i];
            STORE_sums(row, sum);
            best[row] = top;
        }
        """,
        functions="FN T term(T x, T scale, int square) { return scale * (square ? x * x : x); }",
        outputs=lambda x: (x.new_empty(x.shape[0]), x.new_empty(x.shape[0], dtype=fb.int64)),
        items=lambda sums: 128 * sums.numel(),
        gradient=lambda grad_sums, scale: (grad_sums * scale)[:, None].expand(-1, 300),
    )
    x = fb.randn(3, 300)
    for device in ("cpu", DEVICE):
        on = x.to(device).detach().requires_grad_()
        sums, best = rows(on, 2, square=True)
        fb.testing.assert_close(sums.cpu(), 2 * (x * x).sum(1), rtol=1e-5, atol=1e-5)
        assert best.tolist() == x.argmax(1).tolist() and sums.requires_grad and not best.requires_grad
        rows(on, scale=3.0)[0].sum().backward()
        assert (on.grad == 3).all()


def test_build_errors_show_the_line_of_the_text():
    broken = accelerator.kernel(
        "broken(Tensor x) -> Tensor",
        """
        const T here = LOAD_x(item);
        STORE_out(item, here + missing);
        """,
    )
    helper = accelerator.kernel(
        "helper(Tensor x) -> Tensor", "STORE_out(item, twice(LOAD_x(item)));", functions="\nFN T twice(T x) {\n    return x * two;\n}"
    )
    for device in ("cpu", DEVICE):
        for _ in range(2):  # the second time it is known
            where = r"cannot be built for '.*', line 2 of the kernel:\n    STORE_out\(item, here \+ missing\);\n"
            with pytest.raises(RuntimeError, match=where) as error:
                broken(fb.ones(3, device=device))
            assert "missing" in str(error.value).split("\n", 2)[2]
        with pytest.raises(RuntimeError, match="line 2 of its functions:\n    return x \\* two;"):
            helper(fb.ones(3, device=device))
    assert (fb.ones(2, device=DEVICE) + 1).tolist() == [2, 2]


def test_kernels_report_errors():
    pick = accelerator.kernel(
        "pick(Tensor x, Tensor index) -> Tensor",
        """
        const i64 i = LOAD_index(item);
        if (i < 0 || i >= g.x_shape[0]) { FAIL(i < 0 ? 1 : 0, i); return; }
        STORE_out(item, LOAD_x(i));
        """,
        outputs=lambda x, index: x.new_empty(index.shape),
        errors=["index {index} is too large"],
    )
    for device in ("cpu", DEVICE):
        x = fb.arange(3.0, device=device)
        assert pick(x, fb.tensor([2, 0], device=device)).tolist() == [2, 0]
        for index, text in ((7, "pick: index 7 is too large"), (-1, "pick: the kernel reported error 1 at index -1")):
            with pytest.raises(IndexError, match=text):
                pick(x, fb.tensor([index], device=device)).cpu()
        assert pick(x, fb.tensor([1], device=device)).tolist() == [1]


def test_kernels_say_what_is_wrong():
    def error(kind, match, make, *args, **kwargs):
        with pytest.raises(kind, match=match):
            make(*args, **kwargs)

    kernel, body = accelerator.kernel, "STORE_out(item, LOAD_x(item));"
    error(ValueError, "expected a signature like", kernel, "shift", body)
    error(ValueError, "'names' has type str", kernel, "f(Tensor x, str names) -> Tensor", body)
    error(ValueError, "the name 'item' has another meaning", kernel, "f(Tensor item) -> Tensor", body)
    error(ValueError, "expected a Tensor among the arguments", kernel, "f(int n) -> Tensor", body)
    x = fb.ones(3)
    error(TypeError, "shift: argument 'x' must be a tensor, got list", shift, [1])
    error(TypeError, "shift: argument 'by' must be int, got 1.5", shift, x, 1.5)
    error(TypeError, r"shift: got an unexpected keyword argument 'to'; expected shift\(x, by=1\)", shift, x, to=2)
    error(TypeError, "argument 'x' is flambeau.complex64", shift, x.to(fb.complex64))
    two = kernel("two(Tensor x, Tensor y) -> Tensor", "STORE_out(item, LOAD_x(item) + LOAD_y(item));")
    error(ValueError, "two: argument 'x' is on 'cpu', argument 'y' on '.*'; move one", two, x, x.to(DEVICE))
    error(RuntimeError, "two: this kernel has no gradient; make it with gradient=", lambda: two(x.requires_grad_(), x).sum().backward())
    elsewhere = kernel("f(Tensor x) -> Tensor", body, outputs=lambda x: fb.ones(3, 3).t())
    error(TypeError, "outputs must give a contiguous tensor on 'cpu' for 'out', got one on 'cpu', not contiguous", elsewhere, x)
    strange = kernel("f(Tensor x) -> Tensor", body, outputs=lambda z: z)
    error(TypeError, "f, outputs: a function given to it asks for z; it may ask for x", strange, x)
    few = kernel("f(Tensor x, Tensor y) -> Tensor", body, gradient=lambda grad: grad)
    error(TypeError, "gave 1 results; expected one for each of 2 tensors", lambda: few(x, fb.ones(3)).sum().backward())
