"""Legends of the tree and of the icicle: of the signs in their pictures, those that occur."""

from __future__ import annotations

from collections.abc import Sequence

from rlnb_widgets._core.display import Legend, Sign
from rlnb_widgets._core.display_svg import legend_payload, line_sign, text_sign
from rlnb_widgets._core.measures import text_width
from rlnb_widgets._core.text import number
from rlnb_widgets.tree_explorer.schema import TreeModel


def picture_legend(model: TreeModel) -> Legend:
    """Return the legend of the static view."""
    found = [*_values(model), *((tree, words) for tree, _, words in _signs(model, recorded=False))]
    found += [_further()] if _meet(model) else []
    return [*found, (text_sign("+n"), "children that are not drawn")]


def page_legends(model: TreeModel, compared: bool = False) -> dict[str, list[list[str]]]:
    """Return what the page explains of both pictures, of the tree, of further ways to a node, and of the icicle."""
    rows = _signs(model, recorded=model.records is not None and len(model.records) > 0)
    tree = [(text_sign("n · v"), "visits and mean value of a node")] if model.sized_by == "visits" else []
    tree += [(sign, words) for sign, _, words in rows]
    if compared:
        tree += [(_ring("c4", 2, (3, 2)), "not in the other tree"), (_ring("c4", 2), "another action is visited most")]
    icicle = [(sign, words) for _, sign, words in rows]
    further = [_further()] if model.nodes.shared.any() else []
    parts = {"both": _values(model), "tree": tree, "further": further, "icicle": icicle}
    return {name: legend_payload(items) for name, items in parts.items()}


def _signs(model: TreeModel, recorded: bool) -> list[tuple[Sign, Sign, str]]:
    """Return what both pictures show: its sign in the tree and in the icicle, and its meaning."""
    visited, ends = model.sized_by == "visits", bool(model.nodes.terminal.any())
    more, main = ("more visits", "line visited most") if visited else ("more nodes below", "largest branch")
    occurs = [
        (Sign(20, _discs), Sign(20, _boxes), f"larger, wider: {more}", True),
        (line_sign("ink"), _frame("ink", 1), main, True),
        (_ring("ink", 1.4), _edge("ink", 10), "the episode ends", ends),
        (_ring("c2", 1.8), _edge("c2", 2), "kept from the previous search", 0 < model.reused < len(model.nodes)),
        (line_sign("lit", 4), _frame("lit", 2), "path of the simulation", recorded),
    ]
    return [(tree, icicle, words) for tree, icicle, words, there in occurs if there]


def _values(model: TreeModel) -> list[tuple[Sign, str]]:
    low, high = number(model.values.low), number(model.values.high)
    left = text_width(low, 12) + 4

    def scale(sign: Sign) -> None:
        sign.text(0, 11, low, "muted", size=12)
        sign.rect(left, left + 84, 2, 10, "line")
        for i in (-3, -2, -1, 1, 2, 3):
            sign.box(left + 36 + 12 * i, 2, 12, 10, "c0" if i > 0 else "c3", opacity=abs(i) / 3)
        sign.text(left + 88, 11, high, "muted", size=12)

    wide = left + 88 + text_width(high, 12)
    return [(Sign(wide, scale), model.values.what)] if model.sized_by == "visits" else []


def _further() -> tuple[Sign, str]:
    return line_sign("muted", 2, (5, 4)), "another way to the same node"


def _meet(model: TreeModel) -> bool:
    """Whether one of the lines that are drawn leads to a node that another line leads to."""
    drawn, edges = set(model.open), model.edges
    ways = ((node, int(edges.child[edge])) for node in drawn for edge in edges.of(node))
    return any(child in drawn and int(model.nodes.parent[child]) != node for node, child in ways)


def _ring(role: str, width: float, dash: Sequence[float] | None = None) -> Sign:
    return Sign(14, lambda sign: sign.sector(7, 7, 5, 5, 0, 1, stroke=role, width=width, dash=dash))


def _frame(role: str, w: float) -> Sign:
    return Sign(20, lambda sign: sign.box(w / 2, 2 + w / 2, 20 - w, 10 - w, stroke=role, width=w))


def _edge(role: str, y: float) -> Sign:
    """Return a part of the icicle of which one edge has a colour."""

    def draw(sign: Sign) -> None:
        sign.box(0, 2, 20, 10, "line")
        sign.box(0, y, 20, 2, role)

    return Sign(20, draw)


def _discs(sign: Sign) -> None:
    sign.disc(3, 7, 2, "muted")
    sign.disc(14, 7, 4.5, "muted")


def _boxes(sign: Sign) -> None:
    sign.box(0, 2, 4, 10, "muted")
    sign.box(6, 2, 14, 10, "muted")
