"""Display lists of the static view: the open nodes, the icicle, and the actions of the root.

The page unfolds the tree, so that its script makes the same marks (``scene.js``).
"""

from __future__ import annotations

import math

import numpy as np

from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import WIDTH, Part, stacked
from rlnb_widgets._core.measures import cut_text, text_width
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import number, plural, shorten
from rlnb_widgets.scenes.scene import Scene
from rlnb_widgets.tree_explorer.compare import Comparison
from rlnb_widgets.tree_explorer.legend import picture_legend
from rlnb_widgets.tree_explorer.positions import PositionDrawer
from rlnb_widgets.tree_explorer.schema import TreeModel
from rlnb_widgets.tree_explorer.words import (
    advance_words,
    best_words,
    compare_words,
    first_upper,
    node_words,
    size_words,
    tree_headline,
)

_ROW, _INNER, _LEFT, _RIGHT, _COLUMN = 22.0, 42.0, 46.0, 84.0, 124.0
_LARGEST, _SMALLEST, _WIDEST = 13.0, 3.0, 7.0
_TEXT, _LABEL = 11, 10  # sizes of letters
_ICICLE_ROWS, _ICICLE_ROW, _MOST_ACTIONS, _BOARD = 8, 14.0, 12, 188.0
#: Farther from the middle than this, neither light nor dark letters can be read on a colour in both themes.
_STRONG = 0.3


def tree_svg(model: TreeModel, comparison: Comparison | None, positions: PositionDrawer, words: str) -> Svg:
    """Draw the tree at the playhead; ``words`` are for screen readers."""
    lines = [best_words(model), advance_words(model), "" if comparison is None else compare_words(model, comparison)]
    here, there = ("", "") if comparison is None else (f"{first_upper(name)}: " for name in comparison.names)
    parts: list[Part] = [f"{here}{tree_headline(model)}.", *(line for line in (*lines, *model.notes) if line)]
    parts.append(tree_display(model))
    if comparison is not None:
        parts += [f"{there}{tree_headline(comparison.other)}.", tree_display(comparison.other)]
        parts.append(f"{here}all of it, and the actions of the root.")
    parts += [picture_legend(model), icicle_display(model), root_display(model, positions.drawing(0))]
    return stacked(f"TreeExplorer: {model.name}, {plural(len(model.nodes), 'node')}", words, parts, {})


def tree_display(model: TreeModel) -> Display:
    """Draw the open nodes: a column for each step, leaves in rows, parents between their children."""
    places, height, column = _places(model)
    display = Display(height)
    nodes, edges = model.nodes, model.edges
    line = set(zip(model.principal, model.principal[1:], strict=False))
    inner = {int(nodes.parent[node]) for node in places}
    past = {node: 0.0 if node in inner else _past(model, node) for node in places}
    for node, (x, y) in places.items():
        for edge in edges.of(node):
            child = int(edges.child[edge])
            if child in places:
                main = (node, child) in line
                further = int(nodes.parent[child]) != node
                role, opacity = ("ink", 0.9) if main else ("muted", 0.7)
                points = _detour(places, past, node, child) if further else _curve((x, y), places[child])
                dash = (5, 4) if further else None
                display.poly(points, stroke=role, width=_line_width(model, edge), opacity=opacity, dash=dash)
    for node, (x, y) in places.items():
        _node(display, model, node, x, y, node in inner, column - 36)
        hidden = {int(child) for child in edges.child[edges.first[node] : edges.first[node + 1]] if child >= 0}
        hidden -= set(places)
        if hidden:
            display.text(x + _radius(model, node) + 4, y - 7, f"+{len(hidden)}", fill="muted", size=_LABEL)
    return display


def icicle_display(model: TreeModel) -> Display:
    """Draw the whole tree, one row per level; parts too narrow to see are left out."""
    nodes = model.nodes
    levels = min(int(nodes.depth.max()) + 1, _ICICLE_ROWS)
    display = Display(16 + levels * _ICICLE_ROW)
    display.text(0, 10, f"the whole tree, {size_words(model)}", fill="muted")
    seen = np.flatnonzero(((nodes.end - nodes.start) * WIDTH >= 1.5) & (nodes.depth < levels))
    for node in seen.tolist():
        x, x2 = WIDTH * float(nodes.start[node]), WIDTH * float(nodes.end[node])
        top, place = 14 + _ICICLE_ROW * float(nodes.depth[node]), _place(model, node)
        stop = max(x2 - 1, x + 0.5)
        display.rect(x, stop, top, _ICICLE_ROW - 1, "line")
        if place:
            display.rect(x, stop, top, _ICICLE_ROW - 1, "c0" if place > 0 else "c3", opacity=abs(place))
        display.hit(x, x2, top, _ICICLE_ROW - 1, tip=node_words(model, node))
        if x2 - x > 26 and node:
            text = cut_text(model.action_text(int(nodes.action[node])), x2 - x - 6, _LABEL)
            if abs(place) > _STRONG:
                display.box(x + 2, top + 1.5, text_width(text, _LABEL) + 2, _ICICLE_ROW - 4, "paper", opacity=0.75)
            display.text(x + 3, top + 10, text, size=_LABEL, within=x2 - x - 6)
    return display


def root_display(model: TreeModel, board: Scene | None) -> Display:
    """Draw the actions of the root: prior, visits and improved policy, and to the right of them its position."""
    scale = 0.0 if board is None else min(_BOARD / board.width, _BOARD / board.height)
    tall = 0.0 if board is None else scale * board.height
    rows = [row for row in model.summary if row.legal][:_MOST_ACTIONS]
    display = Display(max(20 + 15.0 * len(rows) if rows else 0.0, tall + 12))
    if board is not None:
        with display.placed((WIDTH - scale * board.width, 12, 0), scale):
            board.draw(display, -1, smallest=10 / scale)  # smaller numbers cannot be read
    if not rows:
        return display
    bars = [("visits" if model.sized_by == "visits" else "nodes", "c0", [row.share for row in rows])]
    if model.rule is not None:
        bars.insert(0, ("prior", "c7", [row.prior or 0.0 for row in rows]))
        bars.append(("improved policy", "c2", [row.improved or 0.0 for row in rows]))
    means = ["" if row.value is None else f"mean {_written(row.value)}" for row in rows]
    # Beside a position there is less room for the bars.
    beside = scale * board.width + 16 if board is not None else 0.0
    room = WIDTH - beside - 96 - max(text_width(mean, _TEXT) for mean in means)
    step = min(room / len(bars), 126.0)
    display.text(0, 12, "root action", bold=True)
    for i, (name, role, shares) in enumerate(bars):
        x, most, wide = 92.0 + step * i, max(max(shares), 1e-12), step - 46
        display.text(x, 12, name, fill="muted")
        for k, share in enumerate(shares):
            display.box(x, 18 + 15 * k, wide * share / most, 10, role, radius=2)
            display.text(x + wide * share / most + 4, 27 + 15 * k, f"{share:.0%}", size=_LABEL)
    for k, (row, mean) in enumerate(zip(rows, means, strict=True)):
        display.text(0, 27 + 15 * k, shorten(model.action_text(row.action), 12), bold=row.action == model.best)
        display.text(96.0 + step * len(bars), 27 + 15 * k, mean)
    return display


def _written(x: float) -> str:
    return number(x, 3).replace("-", "\N{MINUS SIGN}")


def _places(model: TreeModel) -> tuple[dict[int, tuple[float, float]], float, float]:
    """Lay out the open nodes; return their places, the height of all and the width of a column."""
    children: dict[int, list[int]] = {node: [] for node in model.open}
    for node in model.open[1:]:
        children[int(model.nodes.parent[node])].append(node)
    depth = model.nodes.depth
    deepest = max(int(max(depth[node] for node in model.open)), 1)
    column = min((WIDTH - _LEFT - _RIGHT) / deepest, _COLUMN)
    y: dict[int, float] = {}

    def put(node: int, top: float) -> float:
        """Put leaves into rows and a node between its children; return where the next row begins."""
        below = sorted(children[node], key=lambda child: int(model.nodes.action[child]))
        y[node], end = top, top
        for child in below:
            end = put(child, end)
        if not below:
            return top + _ROW
        y[node] = (y[below[0]] + y[below[-1]]) / 2
        return max(end, top + _INNER)

    height = put(0, _ROW)
    return {node: (_LEFT + column * float(depth[node]), y[node]) for node in model.open}, height, column


def _curve(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Return points of a curve that leaves and arrives level."""
    (x0, y0), (x1, y1) = start, end
    points = []
    for i in range(17):
        s = i / 16
        x = x0 * (1 - s) ** 3 + x1 * s**3 + 3 * s * (1 - s) * (x0 + x1) / 2
        points.append((x, y0 * (1 - s) ** 2 * (1 + 2 * s) + y1 * s**2 * (3 - 2 * s)))
    return points


def _detour(
    places: dict[int, tuple[float, float]], past: dict[int, float], node: int, child: int
) -> list[tuple[float, float]]:
    """Return points of one more way to a node: level past the text beside its parent, then past those on the way."""
    (x, y), end = places[node], places[child]
    passed = [past[other] for other, (x2, y2) in places.items() if x2 == x and (y2 - y) * (y2 - end[1]) < 0]
    most = 0.7 * (end[0] - x)
    turn = x + min(max([past[node], *passed]), most)
    return [(x + min(past[node], most), y), *_curve((turn, y), end)]


def _radius(model: TreeModel, node: int) -> float:
    share = float(model.nodes.size[node]) / max(float(model.nodes.size[0]), 1.0)
    return max(_LARGEST * math.sqrt(min(max(share, 0.0), 1.0)), _SMALLEST)


def _rings(model: TreeModel, node: int) -> tuple[list[tuple[str, float]], float]:
    """Return role and width of the rings of a node, and the radius outside of which its text begins."""
    rings = [("ink", 1.4)] if model.nodes.terminal[node] else []
    rings += [("c2", 1.8)] if node < model.reused < len(model.nodes) else []
    return rings, _radius(model, node) + 4 + 3 * len(rings)


def _past(model: TreeModel, node: int) -> float:
    """Return how far to the right of a node the texts beside it end, those of its size and of children not drawn."""
    size = text_width(f"{int(model.nodes.size[node]):,}", _TEXT)
    return _rings(model, node)[1] + max(size, text_width("+00", _LABEL)) + 4


def _line_width(model: TreeModel, edge: int) -> float:
    """Return the width of a line: the share of all visits that went along it."""
    visits = model.sized_by == "visits"
    went = float(model.edges.visits[edge] if visits else model.nodes.size[model.edges.child[edge]])
    return 1 + _WIDEST * min(max(went / max(float(model.nodes.size[0]), 1.0), 0.0), 1.0)


def _place(model: TreeModel, node: int) -> float:
    """Return the position of a node's value in the range of values, from -1 to 1."""
    values, mean = model.values, model.drawn_value(node)
    if math.isnan(mean) or model.sized_by != "visits":
        return 0.0
    side = values.high - values.middle if mean > values.middle else values.middle - values.low
    return float(np.clip((mean - values.middle) / max(side, 1e-12), -1, 1))


def _node(display: Display, model: TreeModel, node: int, x: float, y: float, inner: bool, room: float) -> None:
    """Draw a node; its visits are written below it if a line continues to the right, its action in ``room`` pixels."""
    r, nodes, place = _radius(model, node), model.nodes, _place(model, node)
    rings, around = _rings(model, node)
    display.disc(x, y, r, "line")
    if place:
        display.disc(x, y, r, "c0" if place > 0 else "c3", opacity=abs(place))
    display.disc(x, y, r, stroke="muted", width=0.8)
    for i, (role, width) in enumerate(rings):
        display.disc(x, y, r + 3 + 3 * i, stroke=role, width=width)
    if node:
        action = model.action_text(int(nodes.action[node]))
        up = y - 3 - max(_line_width(model, int(nodes.edge[node])) - 2, 0) / 2
        wide = min(text_width(action, _TEXT), max(room, 40))
        display.box(x - around - wide, up - 9, wide + 2, 11, "paper", opacity=0.9)
        display.text(x - around + 1, up, action, size=_TEXT, bold=True, anchor="end", within=max(room, 40))
    text = f"{int(nodes.size[node]):,}"
    if inner or not node:
        display.text(x, y + around + 8, text, size=_TEXT, anchor="middle")
    else:
        display.text(x + around, y + 4, text, size=_TEXT)
    display.hit(x - around, x + around, y - around, 2 * around, tip=node_words(model, node))
