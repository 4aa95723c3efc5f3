"""Plotly figures of trees: nodes and edges, or nested boxes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlnb.data.map.tree.walk import structure_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from rlnb.data.map.tree.node import Tree

_INFO = ("node_id", "count", "wins")
# On the page's own background, light or dark; a grey that is read on both.
_LOOKS = {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font_color": "#767676"}
# Figures with more nodes than this show a label only while the pointer is over its node.
_MOST_LABELS = 60


def plot_tree(
    tree: Tree, backend: str, figure: str, info: Sequence[str] | None, make_labels: Callable[..., Any] | None
) -> Figure:
    """Draw a tree; see :meth:`Tree.plot`."""
    draw = {"tree": _nodes_and_edges, "box": _boxes}.get(figure)
    if backend != "plotly" or draw is None:
        raise NotImplementedError(
            f'Trees are drawn with backend="plotly" and figure="tree" or "box", got {backend=} and {figure=}. '
            'Fix: tree.plot(figure="tree").'
        )
    names = list(_INFO if info is None else info)
    cls, fields = type(tree), [field.name for field in dataclasses.fields(type(tree))]
    unknown = [name for name in names if name not in fields and not isinstance(getattr(cls, name, None), property)]
    if unknown:
        raise ValueError(
            f"info must name fields or properties of a node, got {', '.join(map(repr, unknown))}. The fields are: "
            f'{", ".join(map(repr, fields))}. Fix: tree.plot(info=["count", "wins"]).'
        )
    structure = structure_of(tree)
    nodes: dict[tuple[int, ...], Tree] = {}
    numbers: dict[int, int] = {}
    labels, hovers = [], []
    for row, path in structure.paths(once=True):
        node = nodes[path] = nodes[path[:-1]].subtree[path[-1]] if path else tree
        numbers[row] = len(numbers)
        lines = [f"{name}: {_text(getattr(node, name))}" for name in names]
        label = "<br>".join(lines) if make_labels is None else str(make_labels(node, path))
        labels.append(label)
        hovers.append("<br>".join([f"path {path}", label]))
    children = [[numbers[child] for child in structure.children[row]] for row in numbers]
    return draw(children, labels, hovers)


def _text(value: Any) -> str:
    """Write a value on one line, escaped for the HTML subset of plotly."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return escape(str(value), quote=False).replace("\n", "<br>")


def _nodes_and_edges(children: list[list[int]], labels: list[str], hovers: list[str]) -> Figure:
    import plotly.graph_objects as go

    from rlnb.data.map.tree.figure import TreeFigure

    positions, _ = layout(children)
    ends = np.array([(node, child) for node, below in enumerate(children) for child in below], int).reshape(-1, 2)
    lines = np.full((len(ends), 3, 2), np.nan)  # a gap after each edge
    lines[:, 0], lines[:, 1] = positions[ends[:, 0]], positions[ends[:, 1]]
    x, y = lines.reshape(-1, 2).T
    edges = go.Scatter(x=x, y=y, mode="lines", line={"color": "rgb(150,150,150)", "width": 1}, hoverinfo="skip")
    crowded = len(labels) > _MOST_LABELS
    marks = go.Scatter(
        x=positions[:, 0],
        y=positions[:, 1],
        mode="markers" if crowded else "markers+text",
        text=labels,
        textposition="middle right",
        hovertext=hovers,
        hoverinfo="text",
        marker={"size": 6 if crowded else 14, "color": "#4477aa"},
    )
    blank = {"visible": False}
    figure = TreeFigure([edges, marks])
    return figure.update_layout(
        showlegend=False, xaxis=blank, yaxis=blank, hovermode="closest", title_text="Tree", **_LOOKS
    )


def _boxes(children: list[list[int]], labels: list[str], hovers: list[str]) -> Figure:
    import plotly.graph_objects as go

    _, parents = layout(children)
    boxes = go.Treemap(
        ids=[str(node) for node in range(len(labels))],
        parents=["" if parent < 0 else str(parent) for parent in parents],
        labels=labels,
        hovertext=hovers,
        hoverinfo="text",
    )
    return go.Figure([boxes]).update_layout(title_text="Tree", **_LOOKS)


class TreeLayout(NamedTuple):
    """Positions of the nodes of a drawn tree, ``[nodes, 2]``, and the parent that each is drawn below; -1 for the root.

    The root is node 0. The unit of x is the width of a leaf, and y is minus the depth.
    """

    positions: np.ndarray
    parents: np.ndarray


def layout(children: list[list[int]]) -> TreeLayout:
    """Lay out a tree: leaves side by side, every other node above the middle of its children.

    Node 0 is the root, and every other node comes after its first parent, below which it is drawn.

    Example:
        >>> layout([[1, 2], [], []]).positions.tolist()
        [[0.5, 0.0], [0.0, -1.0], [1.0, -1.0]]
    """
    count = len(children)
    parents = np.full(count, -1)
    depth = np.zeros(count)
    own: list[list[int]] = [[] for _ in children]
    for node, below in enumerate(children):
        for child in below:
            if child and parents[child] < 0:
                parents[child] = node
                depth[child] = depth[node] + 1
                own[node].append(child)
    x = np.zeros(count)
    stack, leaves, order = [0], 0, []
    while stack:
        node = stack.pop()
        order.append(node)
        if not own[node]:
            x[node] = leaves
            leaves += 1
        stack.extend(reversed(own[node]))
    for node in reversed(order):
        if own[node]:
            x[node] = (x[own[node][0]] + x[own[node][-1]]) / 2
    return TreeLayout(np.stack([x, 0.0 - depth], 1), parents)
