"""A drawing of the backward graph as DOT text and as SVG, laid out here without external programs."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flambeau import Tensor
from flambeau.errors import ArgumentError

__all__ = ["GraphPicture", "visualize"]

_FILL = {"op": "#e9ecef", "leaf": "#cfe8ff", "output": "#d3f2d3", "saved": "#ffe8c7"}
_CHAR, _LINE, _PAD, _GAP_X, _GAP_Y = 7.0, 15.0, 8.0, 18.0, 34.0


class _Node:
    def __init__(self, key: int, kind: str, lines: list[str]) -> None:
        self.key, self.kind, self.lines = key, kind, lines
        self.below: list[tuple[_Node, str]] = []  # the direction of backward
        self.ways: list[list[_Node]] = []  # for each of these, the nodes and points on the way
        self.layer, self.x, self.y = 0, 0.0, 0.0
        self.width = max(len(line) for line in lines) * _CHAR + 2 * _PAD
        self.height = len(lines) * _LINE + 2 * _PAD - 4


class GraphPicture:
    """The result of visualize: `.dot` and `.svg` as text; notebooks display it.

    Example:
        >>> x = fb.ones(2, requires_grad=True)
        >>> fb.autograd.graph.visualize(x.exp()).dot.startswith("digraph")
        True
    """

    def __init__(self, dot: str, svg: str, num_nodes: int) -> None:
        self.dot, self.svg, self.num_nodes = dot, svg, num_nodes

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"GraphPicture({self.num_nodes} nodes; .svg, .dot, .save(path))"

    def save(self, path: str | Path, format: str | None = None) -> Path:
        """Writes the picture; the format is that of the file extension, 'svg' or 'dot', unless given."""
        path = Path(path)
        chosen = format or path.suffix.lstrip(".") or "svg"
        if chosen not in ("svg", "dot"):
            raise ArgumentError(f"visualize: format is 'svg' or 'dot', got {chosen!r}; convert other formats from these")
        path.write_text(self.svg if chosen == "svg" else self.dot, encoding="utf-8")
        return path


def visualize(
    outputs: Tensor | Iterable[Tensor], params: Mapping[str, Tensor] | None = None, path: str | Path | None = None,
    format: str | None = None, *, show_saved: bool = False, max_nodes: int = 500,
) -> GraphPicture:  # fmt: skip
    """A drawing of the graph of tensors: results on top, then the ops that backward traverses, down to the leaves.

    Args:
        outputs: a tensor or several, made by ops that recorded gradients.
        params: names for leaves, for example dict(model.named_parameters()).
        path: where to write the drawing; None writes nothing.
        format: 'svg' or 'dot' for the file; by default what the path ends with.
        show_saved: whether to show the tensors saved for backward.
        max_nodes: a larger graph is refused, as its drawing would not be readable.

    Returns:
        an object with `.svg`, `.dot` and `.save(path)`, which notebooks display.

    Example:
        >>> w = fb.ones(2, requires_grad=True)
        >>> picture = fb.autograd.graph.visualize((w * 2).sum(), params={"w": w})
        >>> "<svg" in picture.svg and "w" in picture.svg
        True
    """
    if format not in (None, "svg", "dot"):
        raise ArgumentError(f"visualize: format is 'svg' or 'dot', got {format!r}")
    if max_nodes < 1:
        raise ArgumentError(f"visualize: max_nodes must be positive, got {max_nodes}")
    tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"visualize: output {i} must be a tensor, got {type(x).__name__}")
        if not x.requires_grad:
            raise ArgumentError(f"visualize: output {i} has no graph: nothing it was made from requires gradients")
    if not tensors:
        raise ArgumentError("visualize: got no outputs")
    nodes = _collect(tensors, params or {}, show_saved, max_nodes)
    _arrange(nodes)
    picture = GraphPicture(_dot(nodes), _svg(nodes), len(nodes))
    if path is not None:
        picture.save(path, format)
    return picture


# ---- reading the graph ---------------------------------------------------------------------------------------------------


def _described(x: Tensor) -> str:
    return f"{tuple(x.shape)} {str(x.dtype).rpartition('.')[2]}"


def _collect(outputs: list[Tensor], params: Mapping[str, Tensor], show_saved: bool, limit: int) -> list[_Node]:
    names = {id(x): name for name, x in params.items()}
    nodes: list[_Node] = []
    of_op: dict[Any, _Node] = {}

    def add(kind: str, lines: list[str]) -> _Node:
        if len(nodes) >= limit:
            raise ArgumentError(
                f"visualize: the graph has more than {limit} nodes and would not be readable; show a part of the model, or raise max_nodes"
            )
        nodes.append(_Node(len(nodes), kind, lines))
        return nodes[-1]

    def op_node(op: Any) -> _Node:
        variable = getattr(op, "variable", None)
        if variable is not None:
            name = names.get(id(variable))
            node = add("leaf", [*([name] if name else []), _described(variable)])
        else:
            node = add("op", [_title(op)])
            for label, saved in _saved(op) if show_saved else ():
                kept = add("saved", [label, _described(saved)])
                node.below.append((kept, "saved"))
        of_op[op] = node
        return node

    stack: list[Any] = []
    for i, x in enumerate(outputs):
        top = add("output", [names.get(id(x), "output" if len(outputs) == 1 else f"output {i}"), _described(x)])
        start = x.grad_fn
        if start is None:
            continue  # a leaf is its own picture
        if start not in of_op:
            op_node(start)
            stack.append(start)
        top.below.append((of_op[start], ""))
    while stack:
        op = stack.pop()
        for below, number in op.next_functions:
            if below is None:
                continue
            if below not in of_op:
                op_node(below)
                stack.append(below)
            of_op[op].below.append((of_op[below], str(number) if number else ""))
    return nodes


def _title(op: Any) -> str:
    """MulBackward0 → Mul."""
    name = op.name().rpartition("::")[2].rstrip("0123456789")
    return name.removesuffix("Backward") or name


def _saved(op: Any) -> list[tuple[str, Tensor]]:
    """Tensors saved by an op for backward, by name; none once they are freed."""
    try:
        return [(name, x) for name, x in op._saved() if isinstance(x, Tensor)]
    except RuntimeError:
        return []


# ---- layout --------------------------------------------------------------------------------------------------------------


def _arrange(nodes: list[_Node]) -> None:
    """Layers by the longest path from an output; within a layer nodes are near those they are connected to.

    An edge across several layers gets a point in each, which takes part in the layout and keeps boxes out of its way.
    """
    _layers_by_longest_way(nodes)
    layers: list[list[_Node]] = [[] for _ in range(1 + max(node.layer for node in nodes))]
    for node in nodes:
        layers[node.layer].append(node)
    above: dict[_Node, list[_Node]] = {}
    below: dict[_Node, list[_Node]] = {}
    for node in nodes:
        node.ways = [_way(node, other, layers) for other, _ in node.below]
        for way in node.ways:
            for upper, lower in itertools.pairwise(way):
                below.setdefault(upper, []).append(lower)
                above.setdefault(lower, []).append(upper)
    _stack(layers)
    for sweep in range(8):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in layers if down else reversed(layers):
            wish = {node: _centre(near.get(node, []), node.x) for node in layer}
            layer.sort(key=wish.__getitem__)
            _spread(layer, [wish[node] for node in layer])
    left = min(node.x - node.width / 2 for layer in layers for node in layer)
    for layer in layers:
        for node in layer:
            node.x += _PAD - left


def _way(node: _Node, other: _Node, layers: list[list[_Node]]) -> list[_Node]:
    way = [node]
    for layer in range(node.layer + 1, other.layer):
        point = _Node(-1, "point", [""])
        point.layer, point.width, point.height = layer, 6.0, 0.0
        layers[layer].append(point)
        way.append(point)
    return [*way, other]


def _centre(near: list[_Node], default: float) -> float:
    return sum(n.x for n in near) / len(near) if near else default


def _layers_by_longest_way(nodes: list[_Node]) -> None:
    waiting = {node.key: 0 for node in nodes}
    for node in nodes:
        for other, _ in node.below:
            waiting[other.key] += 1
    ready = [node for node in nodes if waiting[node.key] == 0]
    while ready:
        node = ready.pop()
        for other, _ in node.below:
            other.layer = max(other.layer, node.layer + 1)
            waiting[other.key] -= 1
            if waiting[other.key] == 0:
                ready.append(other)


def _stack(layers: list[list[_Node]]) -> None:
    """Stacks layers, with nodes in any initial order."""
    y = _PAD
    for layer in layers:
        height = max(n.height for n in layer)
        for node in layer:
            node.y = y + height / 2
        _spread(layer, [0.0] * len(layer))
        y += height + _GAP_Y


def _spread(layer: list[_Node], wishes: list[float]) -> None:
    """Positions near the wishes, in order, without overlap: halfway between pushing right and pushing left."""
    gaps = [(a.width + b.width) / 2 + _GAP_X for a, b in itertools.pairwise(layer)]
    right = list(wishes)
    for i, gap in enumerate(gaps):
        right[i + 1] = max(right[i + 1], right[i] + gap)
    left = list(wishes)
    for i in range(len(gaps) - 1, -1, -1):
        left[i] = min(left[i], left[i + 1] - gaps[i])
    for node, a, b in zip(layer, right, left, strict=True):
        node.x = (a + b) / 2


# ---- writing -------------------------------------------------------------------------------------------------------------


def _dot(nodes: list[_Node]) -> str:
    lines = ["digraph backward {", '  node [shape=box, style="filled,rounded", fontname="sans-serif", fontsize=11];']
    for node in nodes:
        text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in node.lines)
        lines.append(f'  n{node.key} [label="{text}", fillcolor="{_FILL[node.kind]}"];')
    for node in nodes:
        for other, label in node.below:
            style = ' [style=dashed, arrowhead=none]' if label == "saved" else f' [label="{label}"]' if label else ""
            lines.append(f"  n{node.key} -> n{other.key}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _svg(nodes: list[_Node]) -> str:
    points = [n for node in nodes for way in node.ways for n in way]
    width = max(n.x + n.width / 2 for n in [*nodes, *points]) + _PAD
    height = max(n.y + n.height / 2 for n in nodes) + _PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#495057"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
    ]
    for node in nodes:
        parts += [_edge(way, label) for way, (_, label) in zip(node.ways, node.below, strict=True)]
    parts += [_box(node) for node in nodes]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _edge(way: list[_Node], label: str) -> str:
    """A curve from the bottom of one box, through points, to the top of another."""
    first, last = way[0], way[-1]
    places = [(first.x, first.y + first.height / 2), *((n.x, n.y) for n in way[1:-1]), (last.x, last.y - last.height / 2)]
    path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(places):
        bend = (y2 - y1) / 2
        path += f" C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    look = 'stroke-dasharray="4 3"' if label == "saved" else 'marker-end="url(#tip)"'
    return f'<path d="{path}" fill="none" stroke="#495057" {look}/>'


def _box(node: _Node) -> str:
    left, top = node.x - node.width / 2, node.y - node.height / 2
    rectangle = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" rx="5" '
        f'fill="{_FILL[node.kind]}" stroke="#868e96"/>'
    )
    texts = [
        f'<text x="{node.x:.1f}" y="{top + _PAD + 9 + i * _LINE:.1f}" text-anchor="middle">{html.escape(line)}</text>'
        for i, line in enumerate(node.lines)
    ]
    return rectangle + "".join(texts)
