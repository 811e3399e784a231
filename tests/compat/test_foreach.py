"""torch._foreach_*: every function against the op of its name, the forms of operands, and errors."""

import pytest

import flambeau as fb
from flambeau.compat import foreach

# As `dir(torch)` of PyTorch 2.13 lists them.
BOTH = """
    abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp lgamma log log10
    log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
""".split()
NAMES = {f"_foreach_{n}" for n in BOTH} | {f"_foreach_{n}_" for n in BOTH}
NAMES |= {f"_foreach_{n}" for n in ("clone", "copy_", "max", "mm", "norm", "powsum", "zero_")}


@pytest.fixture
def torch():
    with fb.compat.torch() as torch:
        yield torch


def lists():
    return [fb.tensor([0.25, 0.5]), fb.tensor([[0.75]])], [fb.tensor([2.0, 3.0]), fb.tensor([[4.0]])]


def values(tensors):
    return [t.tolist() for t in tensors]


def test_names(torch):
    assert set(foreach.NAMES) == NAMES and len(NAMES) == 91
    for name in NAMES:
        assert callable(getattr(torch, name)) and getattr(torch, name).__name__ == name
    assert not hasattr(torch, "_foreach_no_such_op") and not hasattr(torch, "_foreach_zero") and not hasattr(torch, "_foreach_norm_")


@pytest.mark.parametrize("name", BOTH)
def test_each_is_the_op_of_its_name(torch, name):
    a, b = lists()
    rest = {"lerp": (b, 0.5), "addcmul": (b, b, 2.0), "addcdiv": (b, b, 2.0)}
    binary = ("add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub")
    operands = rest.get(name, (b,) if name in binary else ())
    expected = []
    for i, t in enumerate(a):
        row = [x[i] if isinstance(x, list) else x for x in operands]
        options = {"value": row.pop()} if name.startswith("addc") else {}
        expected.append(getattr(fb, name)(t, *row, **options))
    results = getattr(torch, f"_foreach_{name}")(a, *operands)
    assert isinstance(results, tuple) and values(results) == values(expected)
    assert getattr(torch, f"_foreach_{name}_")(a, *operands) is a and values(a) == values(expected)


def test_forms_of_operands(torch):
    a, b = lists()
    for op in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"):
        each = getattr(torch, f"_foreach_{op}")
        assert values(each(a, 2)) == values(each(a, [2, 2.0])) == values(each(a, fb.tensor(2.0)))
    assert values(torch._foreach_add(a, b, alpha=2)) == [[4.25, 6.5], [[8.75]]]
    assert values(torch._foreach_add(a, fb.tensor(1.0), alpha=2)) == [[2.25, 2.5], [[2.75]]]
    assert values(torch._foreach_addcmul(a, b, b)) == [[4.25, 9.5], [[16.75]]]
    scaled = [[4.25, 9.5], [[32.75]]]
    for scalars in ([1.0, 2.0], (1, 2), fb.tensor([1.0, 2.0])):
        assert values(torch._foreach_addcmul(a, b, b, scalars)) == values(torch._foreach_addcmul(a, b, b, scalars=scalars)) == scaled
    assert values(torch._foreach_lerp(a, b, [0.0, 1.0])) == [[0.25, 0.5], [[4.0]]]
    assert values(torch._foreach_lerp(a, b, weights=[fb.tensor(1.0), fb.tensor(0.0)])) == [[2.0, 3.0], [[0.75]]]
    assert values(torch._foreach_pow(2.0, b)) == [[4.0, 8.0], [[16.0]]]
    assert values(torch._foreach_mul(a, other=b)) == values(torch._foreach_mul(a, b))
    assert values(torch._foreach_mul(a, scalar=2)) == values(torch._foreach_mul(a, scalars=[2, 2]))
    # An integer list with a fractional number is promoted, not truncated.
    assert torch._foreach_maximum([fb.tensor([1, 2])], 1.5)[0].tolist() == [1.5, 2.0]


def test_others(torch):
    a, b = lists()
    assert [t.item() for t in torch._foreach_norm([fb.tensor([3.0, 4.0])])] == [5.0]
    assert torch._foreach_norm([fb.tensor([3.0, -4.0])], fb.inf)[0].item() == 4.0
    assert torch._foreach_norm([fb.tensor([3.0, -4.0])], 1, dtype=fb.float64)[0].dtype == fb.float64
    assert torch._foreach_powsum([fb.tensor([3.0, -4.0])])[0].item() == 25.0
    assert [t.item() for t in torch._foreach_max(b)] == [3.0, 4.0]
    copies = torch._foreach_clone(a)
    assert values(copies) == values(a) and copies[0].data_ptr() != a[0].data_ptr()
    assert torch._foreach_copy_(a, [t.int() for t in b]) is a and values(a) == values(b)
    assert torch._foreach_zero_(a) is a and values(a) == [[0.0, 0.0], [[0.0]]]
    assert torch._foreach_mm([fb.eye(2)], [fb.ones(2, 1)])[0].tolist() == [[1.0], [1.0]]
    torch.ops.aten._foreach_maximum_.Scalar(a, 1.0)
    assert a[1].tolist() == [[1.0]]
    x = [fb.ones(2, requires_grad=True)]
    fb.stack(torch._foreach_mul(x, 3.0)).sum().backward()
    assert x[0].grad.tolist() == [3.0, 3.0]


def test_errors(torch):
    a, b = lists()
    with pytest.raises(RuntimeError, match="Tensor list must have at least one tensor"):
        torch._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="Tensor list must have same number of elements as scalar list"):
        torch._foreach_add(a, [1])
    with pytest.raises(RuntimeError, match="Tensor lists must have the same number of tensors, got 2 and 1"):
        torch._foreach_add(a, b[:1])
    with pytest.raises(TypeError, match="expected Tensor as element 0 in argument 0, but got int"):
        torch._foreach_exp([1])
    with pytest.raises(TypeError, match="expected a list of tensors first"):
        torch._foreach_exp(a[0])
    with pytest.raises(RuntimeError, match="scalar tensor expected to be 0 dim but it has 1 dimensions and 2 elements"):
        torch._foreach_mul(a, fb.ones(2))
    with pytest.raises(RuntimeError, match="packed scalar Tensor to be of dimension 1"):
        torch._foreach_addcmul(a, b, b, fb.tensor(1.0))
    with pytest.raises(RuntimeError, match="length of scalars to match input of length 2 but got 3 instead"):
        torch._foreach_addcmul(a, b, b, fb.ones(3))
    with pytest.raises(TypeError, match="tensor1 must be a list of tensors"):
        torch._foreach_addcmul(a, 1.0, b)
    with pytest.raises(TypeError, match="unexpected keyword argument 'beta'"):
        torch._foreach_add(a, b, beta=1)
    with pytest.raises(RuntimeError, match="cannot compute the infinity norm on an empty tensor"):
        torch._foreach_norm([fb.ones(0)], fb.inf)
    with pytest.raises(RuntimeError, match="cannot compute the maximum of an empty tensor"):
        torch._foreach_max([fb.ones(0)])
