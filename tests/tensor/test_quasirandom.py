"""Sobol sequences: known points, evenness, scrambling, and what is refused."""

import copy

import numpy as np
import pytest

import flambeau as fb
from flambeau.quasirandom import SobolEngine


def test_known_points():
    engine = SobolEngine(4)
    known = [
        [0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5], [0.75, 0.25, 0.25, 0.25], [0.25, 0.75, 0.75, 0.75],
        [0.375, 0.375, 0.625, 0.875], [0.875, 0.875, 0.125, 0.375], [0.625, 0.125, 0.875, 0.625], [0.125, 0.625, 0.375, 0.125],
    ]  # fmt: skip
    assert engine.draw(8).tolist() == known
    assert engine.num_generated == 8
    # a far dimension too: its direction numbers come from a polynomial of degree 17
    far = SobolEngine(21201).draw(6, dtype=fb.float64)[:, -1].tolist()
    assert far == [0.0, 0.5, 0.75, 0.25, 0.625, 0.125]


def test_parts_make_the_whole():
    whole = SobolEngine(3).draw(40)
    engine = SobolEngine(3)
    assert fb.equal(fb.cat([engine.draw(), engine.draw(0), engine.draw(6), engine.draw(33)]), whole)
    assert fb.equal(engine.reset().fast_forward(11).draw(5), whole[11:16])
    assert fb.equal(copy.deepcopy(engine).draw(3), engine.draw(3))
    target = fb.empty(0)
    assert engine.reset().draw(4, out=target) is target
    assert fb.equal(target, whole[:4])


@pytest.mark.parametrize("scramble", [False, True])
def test_each_axis_is_hit_evenly(scramble):
    points = SobolEngine(7, scramble, seed=3).draw_base2(6, dtype=fb.float64).numpy()
    assert points.min() >= 0
    assert points.max() < 1
    for axis in range(7):
        assert sorted((points[:, axis] * 64).astype(int)) == list(range(64))
    # and each pair of the first axes, in 8 by 8 boxes
    boxes = {tuple(row) for row in (points[:, :2] * 8).astype(int)}
    assert len(boxes) == 64


def test_scrambling():
    assert fb.equal(SobolEngine(3, True, seed=5).draw(9), SobolEngine(3, True, seed=5).draw(9))
    assert not fb.equal(SobolEngine(3, True, seed=5).draw(9), SobolEngine(3, True, seed=6).draw(9))
    fb.manual_seed(0)
    first = SobolEngine(3, True).draw(9)
    fb.manual_seed(0)
    assert fb.equal(SobolEngine(3, True).draw(9), first)
    # without bias: the mean over many scramblings of the first point is the middle
    firsts = np.stack([SobolEngine(2, True, seed=s).draw().numpy()[0] for s in range(200)])
    assert np.allclose(firsts.mean(0), 0.5, atol=0.08)
    assert repr(SobolEngine(3, True, seed=5)) == "SobolEngine(dimension=3, scramble=True, seed=5)"


def test_dtypes():
    for dtype in (fb.float16, fb.bfloat16, fb.float32, fb.float64):
        assert SobolEngine(2).draw(4, dtype=dtype).dtype == dtype
    with pytest.raises(TypeError, match="floating point"):
        SobolEngine(2).draw(4, dtype=fb.int64)


def test_refused():
    for dimension in (0, -1, 21202, 2.5, None):
        with pytest.raises(ValueError, match="SobolEngine: dimension"):
            SobolEngine(dimension)
    engine = SobolEngine(2)
    with pytest.raises(ValueError, match="not negative"):
        engine.draw(-1)
    with pytest.raises(ValueError, match="not negative"):
        engine.fast_forward(-1)
    with pytest.raises(ValueError, match=r"2\*\*30 points"):
        engine.draw(2**30 + 1)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of two"):
        engine.draw_base2(3)
    for m in (-1, 31, 2.5, "a"):
        with pytest.raises(ValueError, match="draw_base2: m must be an integer"):
            engine.draw_base2(m)
    with pytest.raises(TypeError, match="expected a floating point dtype, got 'a'"):
        engine.draw(dtype="a")


@pytest.mark.parametrize("scramble", [False, True])
def test_points_do_not_depend_on_the_default_dtype(scramble):
    single = SobolEngine(3, scramble=scramble, seed=4).draw(8, dtype=fb.float64)
    fb.set_default_dtype(fb.float64)
    try:
        double = SobolEngine(3, scramble=scramble, seed=4).draw(8)
    finally:
        fb.set_default_dtype(fb.float32)
    assert double.dtype == fb.float64 and fb.equal(single, double)
