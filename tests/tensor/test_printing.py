"""Printing: the expected texts are PyTorch's, with the name of the package in place of its own."""

import math

import pytest

import flambeau as fb
from flambeau._tensor.printing import tensor_format, tensor_repr

inf, nan = math.inf, math.nan

CASES = [
    (lambda: fb.tensor(3), "tensor(3)"),
    (lambda: fb.tensor(3.5), "tensor(3.5000)"),
    (lambda: fb.tensor(-0.0), "tensor(-0.)"),
    (lambda: fb.tensor(2.0), "tensor(2.)"),
    (lambda: fb.tensor(True), "tensor(True)"),
    (lambda: fb.tensor(1e10), "tensor(1.0000e+10)"),
    (lambda: fb.tensor(1.5 - 2j), "tensor(1.5000-2.j)"),
    (lambda: fb.tensor([1, 2, 3]), "tensor([1, 2, 3])"),
    (lambda: fb.tensor([-10, 2, 300]), "tensor([-10,   2, 300])"),
    (lambda: fb.tensor([True, False]), "tensor([ True, False])"),
    (lambda: fb.tensor([True, True]), "tensor([True, True])"),
    (lambda: fb.tensor([1.0, 2.0, -3.0]), "tensor([ 1.,  2., -3.])"),
    (lambda: fb.tensor([0.0, -0.0]), "tensor([0., -0.])"),
    (lambda: fb.tensor([0.1, 0.25, 10.0]), "tensor([ 0.1000,  0.2500, 10.0000])"),
    (lambda: fb.tensor([1.0, nan, inf, -inf]), "tensor([1., nan, inf, -inf])"),
    (lambda: fb.tensor([0.5, nan, inf, -inf]), "tensor([0.5000,    nan,    inf,   -inf])"),
    (lambda: fb.tensor([nan, inf]), "tensor([nan, inf])"),
    (lambda: fb.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (lambda: fb.tensor([0.0001, 0.1]), "tensor([1.0000e-04, 1.0000e-01])"),
    (lambda: fb.tensor([1.0, 1001.0]), "tensor([1.0000e+00, 1.0010e+03])"),
    (lambda: fb.tensor([1.0, 1000.0]), "tensor([   1., 1000.])"),
    (lambda: fb.tensor([1.5, 123456.0]), "tensor([1.5000e+00, 1.2346e+05])"),
    (lambda: fb.tensor([2e8, 1.5e8]), "tensor([2.0000e+08, 1.5000e+08])"),
    (lambda: fb.tensor([1e38, 1e-38]), "tensor([1.0000e+38, 1.0000e-38])"),
    (lambda: fb.tensor([1 + 2j, 3 - 4j]), "tensor([1.+2.j, 3.-4.j])"),
    (lambda: fb.tensor([1.5 + 2j, -3 - 4.25j]), "tensor([ 1.5000+2.0000j, -3.0000-4.2500j])"),
    (lambda: fb.tensor([1e-6 + 1j, 1 + 1e6j]), "tensor([1.0000e-06+1.0000e+00j, 1.0000e+00+1.0000e+06j])"),
    (lambda: fb.tensor([complex(nan, -inf), 1j]), "tensor([nan-infj, 0.+1.j])"),
    (lambda: fb.tensor([1, 2], dtype=fb.int32), "tensor([1, 2], dtype=flambeau.int32)"),
    (lambda: fb.tensor([1, 200], dtype=fb.uint8), "tensor([  1, 200], dtype=flambeau.uint8)"),
    (
        lambda: fb.tensor([2**64 - 1, 0], dtype=fb.uint64),
        "tensor([18446744073709551615,                    0], dtype=flambeau.uint64)",
    ),
    (lambda: fb.tensor([-(2**63), 0]), "tensor([-9223372036854775808,                    0])"),
    (lambda: fb.tensor([1.5, 2.0], dtype=fb.float64), "tensor([1.5000, 2.0000], dtype=flambeau.float64)"),
    (lambda: fb.tensor([1.1, 2.0], dtype=fb.float16), "tensor([1.0996, 2.0000], dtype=flambeau.float16)"),
    (lambda: fb.tensor([1.1, -2.0], dtype=fb.bfloat16), "tensor([ 1.1016, -2.0000], dtype=flambeau.bfloat16)"),
    (lambda: fb.tensor([1 + 1j], dtype=fb.complex128), "tensor([1.+1.j], dtype=flambeau.complex128)"),
    (lambda: fb.tensor([]), "tensor([])"),
    (lambda: fb.empty(0, 3), "tensor([], size=(0, 3))"),
    (lambda: fb.empty(2, 0, dtype=fb.int64), "tensor([], size=(2, 0), dtype=flambeau.int64)"),
    (lambda: fb.empty(0, dtype=fb.bool), "tensor([], dtype=flambeau.bool)"),
    (
        lambda: fb.tensor([[1, 2], [3, 40]]),
        """\
tensor([[ 1,  2],
        [ 3, 40]])""",
    ),
    (
        lambda: fb.tensor([[0.5, -2.0], [300.0, 4.0]]),
        """\
tensor([[  0.5000,  -2.0000],
        [300.0000,   4.0000]])""",
    ),
    (
        lambda: fb.tensor([[[1], [2]], [[3], [4]]]),
        """\
tensor([[[1],
         [2]],

        [[3],
         [4]]])""",
    ),
    (
        lambda: fb.zeros(2, 1, 1, 2),
        """\
tensor([[[[0., 0.]]],


        [[[0., 0.]]]])""",
    ),
    (
        lambda: fb.arange(30),
        """\
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])""",
    ),
    (
        lambda: fb.arange(24.0).reshape(2, 3, 4) / 8,
        """\
tensor([[[0.0000, 0.1250, 0.2500, 0.3750],
         [0.5000, 0.6250, 0.7500, 0.8750],
         [1.0000, 1.1250, 1.2500, 1.3750]],

        [[1.5000, 1.6250, 1.7500, 1.8750],
         [2.0000, 2.1250, 2.2500, 2.3750],
         [2.5000, 2.6250, 2.7500, 2.8750]]])""",
    ),
    (lambda: fb.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (lambda: fb.arange(1001.0) / 16, "tensor([ 0.0000,  0.0625,  0.1250,  ..., 62.3750, 62.4375, 62.5000])"),
    (
        lambda: fb.arange(1200).reshape(40, 30),
        """\
tensor([[   0,    1,    2,  ...,   27,   28,   29],
        [  30,   31,   32,  ...,   57,   58,   59],
        [  60,   61,   62,  ...,   87,   88,   89],
        ...,
        [1110, 1111, 1112,  ..., 1137, 1138, 1139],
        [1140, 1141, 1142,  ..., 1167, 1168, 1169],
        [1170, 1171, 1172,  ..., 1197, 1198, 1199]])""",
    ),
    (
        lambda: fb.arange(12000).reshape(20, 30, 20),
        """\
tensor([[[    0,     1,     2,  ...,    17,    18,    19],
         [   20,    21,    22,  ...,    37,    38,    39],
         [   40,    41,    42,  ...,    57,    58,    59],
         ...,
         [  540,   541,   542,  ...,   557,   558,   559],
         [  560,   561,   562,  ...,   577,   578,   579],
         [  580,   581,   582,  ...,   597,   598,   599]],

        [[  600,   601,   602,  ...,   617,   618,   619],
         [  620,   621,   622,  ...,   637,   638,   639],
         [  640,   641,   642,  ...,   657,   658,   659],
         ...,
         [ 1140,  1141,  1142,  ...,  1157,  1158,  1159],
         [ 1160,  1161,  1162,  ...,  1177,  1178,  1179],
         [ 1180,  1181,  1182,  ...,  1197,  1198,  1199]],

        [[ 1200,  1201,  1202,  ...,  1217,  1218,  1219],
         [ 1220,  1221,  1222,  ...,  1237,  1238,  1239],
         [ 1240,  1241,  1242,  ...,  1257,  1258,  1259],
         ...,
         [ 1740,  1741,  1742,  ...,  1757,  1758,  1759],
         [ 1760,  1761,  1762,  ...,  1777,  1778,  1779],
         [ 1780,  1781,  1782,  ...,  1797,  1798,  1799]],

        ...,

        [[10200, 10201, 10202,  ..., 10217, 10218, 10219],
         [10220, 10221, 10222,  ..., 10237, 10238, 10239],
         [10240, 10241, 10242,  ..., 10257, 10258, 10259],
         ...,
         [10740, 10741, 10742,  ..., 10757, 10758, 10759],
         [10760, 10761, 10762,  ..., 10777, 10778, 10779],
         [10780, 10781, 10782,  ..., 10797, 10798, 10799]],

        [[10800, 10801, 10802,  ..., 10817, 10818, 10819],
         [10820, 10821, 10822,  ..., 10837, 10838, 10839],
         [10840, 10841, 10842,  ..., 10857, 10858, 10859],
         ...,
         [11340, 11341, 11342,  ..., 11357, 11358, 11359],
         [11360, 11361, 11362,  ..., 11377, 11378, 11379],
         [11380, 11381, 11382,  ..., 11397, 11398, 11399]],

        [[11400, 11401, 11402,  ..., 11417, 11418, 11419],
         [11420, 11421, 11422,  ..., 11437, 11438, 11439],
         [11440, 11441, 11442,  ..., 11457, 11458, 11459],
         ...,
         [11940, 11941, 11942,  ..., 11957, 11958, 11959],
         [11960, 11961, 11962,  ..., 11977, 11978, 11979],
         [11980, 11981, 11982,  ..., 11997, 11998, 11999]]])""",
    ),
    (
        lambda: fb.arange(1200).reshape(2, 600),
        """\
tensor([[   0,    1,    2,  ...,  597,  598,  599],
        [ 600,  601,  602,  ..., 1197, 1198, 1199]])""",
    ),
    (
        lambda: fb.arange(1100, dtype=fb.int16).reshape(1, 1100),
        "tensor([[   0,    1,    2,  ..., 1097, 1098, 1099]], dtype=flambeau.int16)",
    ),
    (
        lambda: fb.arange(2000.0).to(fb.bfloat16),
        """\
tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 2.0000e+03, 2.0000e+03,
        2.0000e+03], dtype=flambeau.bfloat16)""",
    ),
    (
        lambda: fb.arange(6).reshape(2, 3).T,
        """\
tensor([[0, 3],
        [1, 4],
        [2, 5]])""",
    ),
    (
        lambda: fb.tensor([0.123456789] * 9, dtype=fb.float64),
        """\
tensor([0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235],
       dtype=flambeau.float64)""",
    ),
    (
        lambda: fb.ones(3, 9, dtype=fb.float64),
        """\
tensor([[1., 1., 1., 1., 1., 1., 1., 1., 1.],
        [1., 1., 1., 1., 1., 1., 1., 1., 1.],
        [1., 1., 1., 1., 1., 1., 1., 1., 1.]], dtype=flambeau.float64)""",
    ),
]

OPTION_CASES = [
    (dict(precision=2), lambda: fb.tensor([1.23456, 2.0]), "tensor([1.23, 2.00])"),
    (dict(precision=0), lambda: fb.tensor([1.6, 2.0]), "tensor([2, 2])"),
    (dict(precision=8), lambda: fb.tensor([0.1]), "tensor([0.10000000])"),
    (dict(sci_mode=True), lambda: fb.tensor([1.0, 2.5]), "tensor([1.0000e+00, 2.5000e+00])"),
    (dict(sci_mode=True), lambda: fb.tensor([1.0, 2.0]), "tensor([1.0000e+00, 2.0000e+00])"),
    (dict(sci_mode=False), lambda: fb.tensor([1e-7, 1.0]), "tensor([0.0000, 1.0000])"),
    (dict(sci_mode=False), lambda: fb.tensor([1e10, 1.0]), "tensor([10000000000.,           1.])"),
    (dict(sci_mode=True), lambda: fb.tensor([0.0, nan]), "tensor([0., nan])"),
    (dict(threshold=5), lambda: fb.arange(8), "tensor([0, 1, 2,  ..., 5, 6, 7])"),
    (dict(threshold=5), lambda: fb.arange(6), "tensor([0, 1, 2, 3, 4, 5])"),
    (
        dict(threshold=5, edgeitems=1),
        lambda: fb.arange(12).reshape(3, 4),
        """\
tensor([[ 0,  ...,  3],
        ...,
        [ 8,  ..., 11]])""",
    ),
    (
        dict(threshold=5, edgeitems=2),
        lambda: fb.arange(10) + 0.5j,
        "tensor([0.+0.5000j, 1.+0.5000j,  ..., 8.+0.5000j, 9.+0.5000j])",
    ),
    (dict(threshold=0, edgeitems=0), lambda: fb.arange(4).reshape(2, 2), "tensor([...], size=(2, 2))"),
    (dict(edgeitems=0), lambda: fb.arange(4), "tensor([0, 1, 2, 3], size=(4,))"),
    (
        dict(linewidth=20),
        lambda: fb.arange(10),
        """\
tensor([0, 1, 2, 3,
        4, 5, 6, 7,
        8, 9])""",
    ),
    (
        dict(linewidth=20),
        lambda: fb.tensor([1, 2], dtype=fb.int32),
        """\
tensor([1, 2],
       dtype=flambeau.int32)""",
    ),
    (
        dict(linewidth=1),
        lambda: fb.tensor([1.5, 2.5]),
        """\
tensor([1.5000,
        2.5000])""",
    ),
    (
        dict(linewidth=120),
        lambda: fb.arange(30),
        """\
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
        28, 29])""",
    ),
    (dict(profile="short"), lambda: fb.arange(1001.0) / 7, "tensor([  0.00,   0.14,  ..., 142.71, 142.86])"),
    (dict(profile="short", precision=1), lambda: fb.tensor([0.25]), "tensor([0.2])"),
]


@pytest.fixture(autouse=True)
def default_options():
    fb.set_printoptions(profile="default")
    yield
    fb.set_printoptions(profile="default")


@pytest.mark.parametrize("make, expected", CASES)
def test_repr(make, expected):
    t = make()
    assert tensor_repr(t) == expected
    assert repr(t) == expected


@pytest.mark.parametrize("options, make, expected", OPTION_CASES)
def test_options(options, make, expected):
    with fb.printoptions(**options):
        assert repr(make()) == expected


def test_full_profile_shows_every_element():
    with fb.printoptions(profile="full"):
        text = repr(fb.arange(1001))
    assert "..." not in text
    assert text.count(",") == 1000


def test_default_dtype_decides_which_dtype_is_named():
    single, double, both = fb.tensor([0.5]), fb.tensor([0.5], dtype=fb.float64), fb.tensor([1j], dtype=fb.complex128)
    fb.set_default_dtype(fb.float64)
    try:
        assert repr(single) == "tensor([0.5000], dtype=flambeau.float32)"
        assert repr(double) == "tensor([0.5000])"
        assert repr(both) == "tensor([0.+1.j])"
    finally:
        fb.set_default_dtype(fb.float32)


def test_a_long_dimension_costs_only_what_is_shown():
    t = fb.zeros(1).expand(10**9)
    assert repr(t) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"


def test_negative_strides():
    assert repr(fb.arange(5).flip(0)) == "tensor([4, 3, 2, 1, 0])"
    assert repr(fb.arange(5)[::-1]) == "tensor([4, 3, 2, 1, 0])"


def test_many_dimensions():
    assert repr(fb.ones([1] * 32)) == "tensor(" + "[" * 32 + "1." + "]" * 32 + ")"


def test_context_manager_restores_after_an_error():
    with pytest.raises(KeyError), fb.printoptions(precision=1):
        raise KeyError
    assert fb.get_printoptions() == {
        "precision": 4,
        "threshold": 1000,
        "edgeitems": 3,
        "linewidth": 80,
        "sci_mode": None,
    }


def test_a_profile_replaces_and_other_options_persist():
    fb.set_printoptions(precision=2, edgeitems=5)
    fb.set_printoptions(linewidth=60, sci_mode=True)
    assert fb.get_printoptions() == {
        "precision": 2,
        "threshold": 1000,
        "edgeitems": 5,
        "linewidth": 60,
        "sci_mode": True,
    }
    fb.set_printoptions(profile="short")
    assert fb.get_printoptions() == {
        "precision": 2,
        "threshold": 1000,
        "edgeitems": 2,
        "linewidth": 80,
        "sci_mode": None,
    }


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"profile": "long"}, ValueError, "unknown profile 'long'; expected one of default, short, full"),
        ({"precision": -1}, ValueError, "precision must be at least 0, got -1"),
        ({"precision": 2.5}, TypeError, "precision must be an int, got float"),
        ({"threshold": "many"}, TypeError, "threshold must be a number, got str"),
        ({"threshold": nan}, ValueError, "threshold must be at least 0, got nan"),
        ({"linewidth": 0}, ValueError, "linewidth must be at least 1, got 0"),
        ({"edgeitems": True}, TypeError, "edgeitems must be an int, got bool"),
        ({"sci_mode": 1}, TypeError, "sci_mode must be True, False or None, got int"),
    ],
)
def test_bad_options(options, error, message):
    before = fb.get_printoptions()
    with pytest.raises(error, match=message):
        fb.set_printoptions(**options)
    assert fb.get_printoptions() == before


def test_format():
    assert f"{fb.tensor(3.14159):.2f}" == "3.14"
    assert f"{fb.tensor(7):>4}" == "   7"
    assert f"{fb.tensor(2.5)}" == "2.5"
    assert f"{fb.tensor([1, 2])}" == "tensor([1, 2])"
    assert tensor_format(fb.tensor(True), "") == "True"
    with pytest.raises(TypeError, match="takes no format spec, got '.2f'"):
        f"{fb.tensor([1.0]):.2f}"


class Named(fb.Tensor):
    pass


class Own(fb.Tensor):
    def __repr__(self, *, tensor_contents=None):
        return "my own"


class OwnParameter(fb.nn.Parameter):
    pass


class Counting(fb.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses_print_under_their_name():
    t = fb.arange(4.0).reshape(2, 2).as_subclass(Named)
    assert repr(t) == str(t) == "Named([[0., 1.],\n       [2., 3.]])"
    assert repr(OwnParameter(fb.ones(1))) == "Parameter(OwnParameter([1.], requires_grad=True))"
    plain = fb.nn.Parameter(fb.ones(1))
    assert repr(plain) == str(plain) == "Parameter containing:\ntensor([1.], requires_grad=True)"


def test_a_subclass_with_a_repr_of_its_own_prints_by_it():
    t = fb.ones(2).as_subclass(Own)
    assert str(t) == repr(t) == f"{t}" == "my own" and str([t]) == "[my own]"


def test_printing_asks_a_class_once():
    Counting.calls.clear()
    assert str(fb.ones(2).as_subclass(Counting)) == "Counting([1., 1.])" and Counting.calls == [fb.Tensor.__repr__]


def test_numbers_on_the_meta_device_format_as_they_print():
    x = fb.empty((), device="meta")
    assert format(x) == f"{x}" == repr(x)
