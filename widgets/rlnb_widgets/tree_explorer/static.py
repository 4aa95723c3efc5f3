"""Static SVG of the explorer: open nodes, icicle, actions of the root, and its position."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np

from rlnb_widgets._core.svg import Svg, coordinate
from rlnb_widgets._core.text import number, shorten
from rlnb_widgets.scenes.scene import Scene
from rlnb_widgets.scenes.svg import frame_svg, scene_style
from rlnb_widgets.tree_explorer.compare import Comparison
from rlnb_widgets.tree_explorer.positions import PositionDrawer
from rlnb_widgets.tree_explorer.schema import Summary, TreeModel
from rlnb_widgets.tree_explorer.words import (
    advance_words,
    best_words,
    compare_words,
    node_words,
    size_words,
    tree_headline,
    value_words,
)

_WIDTH, _LEAF, _WIDEST_LEVEL, _LARGEST, _SMALLEST = 760.0, 25.0, 110.0, 13.0, 2.5
_ICICLE_ROWS, _ROW, _MOST_ACTIONS, _BOARD = 8, 14.0, 12, 150.0
_LOW, _MIDDLE, _HIGH = "c3", "line", "c0"
#: Above this intensity a colour is too strong for dark letters.
_DARK = 0.45


def tree_svg(model: TreeModel, comparison: Comparison | None, positions: PositionDrawer, words: str) -> Svg:
    """Draw the tree at the playhead; ``words`` are for screen readers."""
    places, tall_tree = _places(model)
    rows = [row for row in model.summary if row.legal][:_MOST_ACTIONS]
    lines = [best_words(model), advance_words(model), "" if comparison is None else compare_words(model, comparison)]
    lines = [part for line in (*lines, *model.notes) for part in textwrap.wrap(line, 118)]
    title = textwrap.wrap(f"TreeExplorer: {tree_headline(model)}", 92)
    legend = textwrap.wrap("; ".join(_legend_words(model)), 128)
    levels = min(int(model.nodes.depth.max()) + 1, _ICICLE_ROWS)
    tall_icicle = 26 + levels * _ROW
    board = positions.drawing(0)
    scale = 0.0 if board is None else min(_BOARD / board.width, _BOARD / board.height)
    tall_root = max(34 + 15.0 * len(rows), 0.0 if board is None else scale * board.height + 20)
    tall_legend = 32 + 14 * len(legend)
    height = 16 + 18 * len(title) + 16 * len(lines) + tall_tree + tall_legend + tall_icicle + tall_root + 10
    svg = Svg(_WIDTH, height, title=f"TreeExplorer: {tree_headline(model)}", desc=words)
    y = 16.0
    for line in title:
        svg.text(12, y + 4, line, bold=True, size=13)
        y += 18
    for line in lines:
        svg.text(12, y + 6, line, size=10.5)
        y += 16
    _tree(svg, model, places, y)
    y += tall_tree
    _legend(svg, model, legend, y)
    y += tall_legend
    _icicle(svg, model, y, levels)
    y += tall_icicle
    _root(svg, model, rows, y)
    if board is not None:
        _board(svg, board, scale, y)
    return svg


# The tree ---------------------------------------------------------------------------------------------------------


def _places(model: TreeModel) -> tuple[dict[int, tuple[float, float]], float]:
    """Lay out the open nodes: leaves from top to bottom in order of the actions, parents centred on their children."""
    children: dict[int, list[int]] = {node: [] for node in model.open}
    for node in model.open[1:]:
        children[int(model.nodes.parent[node])].append(node)
    for below in children.values():
        below.sort(key=lambda node: int(model.nodes.action[node]))
    line: dict[int, float] = {}
    leaves = 0
    for node in _bottom_up(children):
        below = children[node]
        if below:
            line[node] = (line[below[0]] + line[below[-1]]) / 2
        else:
            line[node] = leaves
            leaves += 1
    depth = model.nodes.depth
    deep = max(int(max(depth[node] for node in model.open)), 1)
    level = min((_WIDTH - 90) / deep, _WIDEST_LEVEL)
    places = {node: (36 + level * float(depth[node]), 24 + _LEAF * line[node]) for node in model.open}
    return places, _LEAF * leaves + 28


def _bottom_up(children: dict[int, list[int]]) -> list[int]:
    """Return the nodes with children before parents, from top to bottom."""
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        stack += children[node]
    return order[::-1]


def _tree(svg: Svg, model: TreeModel, places: dict[int, tuple[float, float]], top: float) -> None:
    nodes, edges = model.nodes, model.edges
    line = set(zip(model.principal, model.principal[1:], strict=False))
    for node, (x, y) in places.items():
        for edge in edges.of(node):
            child = int(edges.child[edge])
            if child not in places:
                continue
            x1, y1 = places[child]
            way = "M" + " ".join(map(coordinate, (x, top + y)))
            middle = (x + x1) / 2
            way += "C" + " ".join(map(coordinate, (middle, top + y, middle, top + y1, x1, top + y1)))
            wide = 0.8 + 9 * float(edges.prior[edge]) if model.priors else 1.5
            second = int(nodes.parent[child]) != node
            svg.path(
                way, stroke="ink" if (node, child) in line else "line", stroke_width=round(wide, 1),
                stroke_opacity=0.55,
                stroke_dasharray="4 3" if second else None,
                hint=f"action {model.action_text(int(edges.action[edge]))}",
            )  # fmt: skip
    inner = {int(nodes.parent[node]) for node in places}
    for node, (x, y) in places.items():
        _node(svg, model, node, x, top + y, node in inner)
        hidden = {int(child) for child in edges.child[edges.first[node] : edges.first[node + 1]] if child >= 0}
        hidden -= set(places)
        if hidden:
            svg.text(x + _radius(model, node) + 4, top + y - 4, f"+{len(hidden)}", fill="muted", size=8.5)


def _radius(model: TreeModel, node: int) -> float:
    share = float(model.nodes.size[node]) / max(float(model.nodes.size[0]), 1.0)
    return max(_LARGEST * math.sqrt(min(max(share, 0.0), 1.0)), _SMALLEST)


def _place(model: TreeModel, node: int) -> float:
    """Return the position of a node's value in the range of values, from -1 to 1."""
    values, mean = model.values, model.drawn_value(node)
    if math.isnan(mean):
        return 0.0
    side = values.high - values.middle if mean > values.middle else values.middle - values.low
    return float(np.clip((mean - values.middle) / max(side, 1e-12), -1, 1))


def _node(svg: Svg, model: TreeModel, node: int, x: float, y: float, below: bool) -> None:
    """Draw a node; its count is written below it if a line continues to the right."""
    r, nodes = _radius(model, node), model.nodes
    if nodes.terminal[node]:
        svg.circle(x, y, r + 3, fill=None, stroke="ink", stroke_width=1.2)
    svg.circle(x, y, r, fill=_MIDDLE, hint=node_words(model, node), stroke="muted", stroke_width=0.6)
    if model.sized_by == "visits":
        place = _place(model, node)
        svg.circle(x, y, r, fill=_HIGH if place > 0 else _LOW, fill_opacity=abs(place))
    if node:
        svg.text(
            x - r - 4, y - 3, shorten(model.action_text(int(nodes.action[node])), 9), anchor="end", size=9, bold=True
        )
    at = (
        (x, y + r + 9.5, "middle")
        if below or not node
        else (x + r + (7 if nodes.terminal[node] else 4), y + 6, "start")
    )
    svg.text(*at[:2], f"{int(nodes.size[node]):,}", anchor=at[2], fill="muted", size=8.5)


def _legend_words(model: TreeModel) -> list[str]:
    words = [size_words(model), *(["width: prior"] if model.priors else []), "ring: end of the episode"]
    words += ["dashed: one more way to a node"] if model.nodes.shared.any() else []
    return [*words, "strong line: principal variation", "+n: children that are not drawn"]


def _legend(svg: Svg, model: TreeModel, lines: list[str], y: float) -> None:
    for i, line in enumerate(lines):
        svg.text(12, y + 30 + 14 * i, line, size=10, fill="muted")
    if model.sized_by != "visits":
        return
    low = number(model.values.low, 3)
    svg.text(12, y + 13, low, size=10, fill="muted")
    x = 18 + 6.5 * len(low)
    for i in range(21):
        place = i / 10 - 1
        svg.rect(x + 6 * i, y + 3, 6.5, 12, fill=_MIDDLE)
        svg.rect(x + 6 * i, y + 3, 6.5, 12, fill=_HIGH if place > 0 else _LOW, fill_opacity=abs(place))
    high = number(model.values.high, 3)
    svg.text(x + 132, y + 13, high, size=10, fill="muted")
    svg.text(x + 148 + 6.5 * len(high), y + 13, value_words(model), size=10, fill="muted")


# The whole, and the root ------------------------------------------------------------------------------------------


def _icicle(svg: Svg, model: TreeModel, y: float, levels: int) -> None:
    """Draw the icicle of the whole tree, one row per level; parts too narrow to see are left out."""
    nodes, wide = model.nodes, _WIDTH - 24
    svg.text(12, y + 8, f"the whole tree, {size_words(model)}", size=10, fill="muted")
    seen = np.flatnonzero(((nodes.end - nodes.start) * wide >= 1.5) & (nodes.depth < levels))
    for node in seen.tolist():
        x0, width = 12 + wide * float(nodes.start[node]), wide * float(nodes.end[node] - nodes.start[node])
        top = y + 14 + _ROW * float(nodes.depth[node])
        style: dict[str, Any] = {"rx": 1.5, "stroke": "paper", "stroke_width": 0.5}
        svg.rect(x0, top, width, _ROW - 1, fill=_MIDDLE, hint=node_words(model, node), **style)
        place = _place(model, node) if model.sized_by == "visits" else 0.0
        if place:
            svg.rect(x0, top, width, _ROW - 1, fill=_HIGH if place > 0 else _LOW, fill_opacity=abs(place), **style)
        if width > 26 and node:
            name = shorten(model.action_text(int(nodes.action[node])), max(int(width / 6), 2))
            svg.text(x0 + 3, top + 10, name, size=9, fill="paper" if abs(place) > _DARK else "ink")


def _root(svg: Svg, model: TreeModel, rows: list[Summary], y: float) -> None:
    """Draw the actions of the root: prior, visits and improved policy as bars."""
    if not rows:
        return
    searched = model.rule is not None
    bars = [("visits" if model.sized_by == "visits" else "nodes", "c0", [row.share for row in rows])]
    if searched:
        bars.insert(0, ("prior", "c7", [row.prior or 0.0 for row in rows]))
        bars.append(("improved policy", "c2", [row.improved or 0.0 for row in rows]))
    svg.text(12, y + 16, "root action", bold=True, size=10.5)
    for i, (name, role, shares) in enumerate(bars):
        x, most = 104.0 + 132 * i, max(max(shares), 1e-12)
        svg.text(x, y + 16, name, size=10, fill="muted")
        for k, share in enumerate(shares):
            svg.rect(x, y + 24 + 15 * k, 84 * share / most, 10, fill=role, rx=2)
            svg.text(x + 84 * share / most + 4, y + 33 + 15 * k, f"{share:.0%}", size=9)
    for k, row in enumerate(rows):
        best = row.action == model.best
        svg.text(12, y + 33 + 15 * k, shorten(model.action_text(row.action), 12), size=10, bold=best)
        if row.value is not None:
            svg.text(108.0 + 132 * len(bars), y + 33 + 15 * k, f"mean {number(row.value, 3)}", size=10)


def _board(svg: Svg, scene: Scene, scale: float, y: float) -> None:
    svg.style(scene_style())
    svg.open(f"translate({_WIDTH - 12 - scale * scene.width:.1f} {y + 8:.1f}) scale({scale:.4f})")
    svg.raw(frame_svg(scene, -1))
    svg.close()
