"""The picture of a graph: complete, well-formed, readable."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest

import flambeau as fb
from flambeau.autograd._visualize import visualize

SVG = "{http://www.w3.org/2000/svg}"


def model():
    w = fb.ones(3, 2, requires_grad=True)
    b = fb.zeros(2, requires_grad=True)
    x = fb.ones(4, 3)
    hidden = (x @ w + b).relu()
    return (hidden * hidden).sum(), {"weight <1>": w, "bias": b}


def boxes(picture):
    root = ET.fromstring(picture.svg)
    size = float(root.get("width")), float(root.get("height"))
    # The first rectangle is the background.
    rectangles = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in root.findall(f"{SVG}rect")[1:]]
    return size, rectangles, root


def test_nodes_and_names():
    out, params = model()
    picture = visualize(out, params)
    _, rectangles, root = boxes(picture)
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert "weight <1>" in texts and "bias" in texts and "output" in texts
    assert {"Sum", "Mul", "Relu", "Add"} <= set(texts)
    assert len(rectangles) == picture.num_nodes
    assert picture.dot.count("label=") >= picture.num_nodes and picture.dot.count("->") >= picture.num_nodes - 1
    assert picture._repr_svg_() == picture.svg and str(picture.num_nodes) in repr(picture)


def test_a_shared_node_is_drawn_once():
    out, _ = model()
    assert visualize(out).dot.count('label="Relu"') == 1


def test_boxes_do_not_overlap_and_fit():
    x = fb.ones(2, requires_grad=True)
    branches = [x.exp().sin() * k for k in range(12)]
    (width, height), rectangles, _ = boxes(visualize(sum(branches).sum()))
    for (ax, ay, aw, ah), (bx, by, bw, bh) in itertools.combinations(rectangles, 2):
        assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in rectangles)


def test_edges_go_down():
    out, _ = model()
    for path in ET.fromstring(visualize(out).svg).findall(f"{SVG}path"):
        numbers = path.get("d").replace("M", "").replace("C", "").split()
        assert float(numbers[1]) < float(numbers[-1])


def test_saved_tensors():
    x = fb.ones(2, requires_grad=True)
    out = x.exp().sum()
    assert visualize(out, show_saved=True).num_nodes > visualize(out).num_nodes


def test_files(tmp_path):
    out, params = model()
    picture = visualize(out, params, tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text() == picture.svg
    visualize(out, path=tmp_path / "graph.txt", format="dot")
    assert (tmp_path / "graph.txt").read_text().startswith("digraph")
    assert picture.save(tmp_path / "other.dot").read_text() == picture.dot
    with pytest.raises(ValueError, match="format"):
        picture.save(tmp_path / "graph.png")


def test_limit():
    x = fb.ones(2, requires_grad=True)
    y = x
    for _ in range(600):
        y = y.sin()
    with pytest.raises(ValueError, match="more than 500 nodes"):
        visualize(y)
    assert visualize(y, max_nodes=1000).num_nodes == 602


def test_arguments():
    x = fb.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="no graph"):
        visualize(fb.ones(2))
    with pytest.raises(TypeError, match="must be a tensor"):
        visualize([3])
    with pytest.raises(ValueError, match="no outputs"):
        visualize([])
    with pytest.raises(ValueError, match="format"):
        visualize(x.sin(), format="png")
    assert visualize([x.sin(), x.cos()]).num_nodes == 5
    assert fb.autograd.graph.visualize(x.sin()).num_nodes == 3
