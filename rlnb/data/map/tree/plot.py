"""Drawings of a tree as plotly figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from rlnb.data.map.tree import faults
from rlnb.data.map.tree.layout import layout
from rlnb.data.map.tree.walk import structure_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from rlnb.data.map.tree.node import Tree

_INFO = ("node_id", "count", "wins")
# More labels than this are shown only when the pointer is on a node.
_MOST_LABELS = 60


def plot_tree(
    tree: Tree,
    backend: str,
    figure: str,
    info: Sequence[str] | None,
    make_labels: Callable[..., Any] | None,
) -> Figure:
    """Draw a tree; see :meth:`Tree.plot`.

    Args:
        tree: its root.
        backend: ``"plotly"``.
        figure: ``"tree"`` or ``"box"``.
        info: names of fields or properties.
        make_labels: from node and path to a label.

    Returns:
        The figure.

    Raises:
        NotImplementedError: for another backend or figure.
        ValueError: if ``info`` names something that a node does not have.
    """
    draw = {"tree": _nodes_and_edges, "box": _boxes}.get(figure)
    if backend != "plotly" or draw is None:
        raise NotImplementedError(faults.unknown_plot(backend, figure))
    names = list(_INFO if info is None else info)
    fields = [field.name for field in dataclasses.fields(type(tree))]
    unknown = [name for name in names if name not in fields and not _is_property(tree, name)]
    if unknown:
        raise ValueError(faults.unknown_info(unknown, fields))
    structure = structure_of(tree)
    nodes: dict[tuple[int, ...], Tree] = {}
    numbers: dict[int, int] = {}
    labels, hovers = [], []
    for row, path in structure.breadth_first():
        node = nodes[path] = nodes[path[:-1]].subtree[path[-1]] if path else tree
        numbers[row] = len(numbers)
        lines = [f"{name}: {_text(getattr(node, name))}" for name in names]
        label = "<br>".join(lines) if make_labels is None else str(make_labels(node, path))
        labels.append(label)
        hovers.append("<br>".join([f"path {path}", label]))
    children = [[numbers[child] for child in structure.children[row]] for row in numbers]
    return draw(children, labels, hovers)


def _is_property(tree: Tree, name: str) -> bool:
    return isinstance(getattr(type(tree), name, None), property)


def _text(value: Any) -> str:
    """A value on one line, safe in plotly's small HTML."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return escape(str(value), quote=False).replace("\n", "<br>")


def _nodes_and_edges(children: list[list[int]], labels: list[str], hovers: list[str]) -> Figure:
    import plotly.graph_objects as go

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
    figure = go.Figure([edges, marks])
    return figure.update_layout(showlegend=False, xaxis=blank, yaxis=blank, hovermode="closest", title_text="Tree")


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
    return go.Figure([boxes]).update_layout(title_text="Tree")
