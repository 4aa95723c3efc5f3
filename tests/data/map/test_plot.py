"""Tree.plot: the figures of plain trees, of nodes with several parents, and of custom labels."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest
from tensordict import TensorDict

from rlnb.data import Tree
from rlnb.data.map.tree.plot import layout
from tests.data.map.graphs import forest_of, meeting_tree, page_tree, state

EDGES = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6), (2, 7), (2, 8)]


def drawn_edges(figure: go.Figure) -> list[tuple[int, int]]:
    """The edges of a figure, as the nodes that stand at their ends."""
    lines, marks = figure.data
    at = {(x, y): node for node, (x, y) in enumerate(zip(marks.x, marks.y, strict=True))}
    points = list(zip(lines.x, lines.y, strict=True))
    assert all(np.isnan(x) for x, _ in points[2::3])
    return [(at[points[i]], at[points[i + 1]]) for i in range(0, len(points), 3)]


@pytest.mark.parametrize("copied", [False, True])
def test_tree(copied):
    tree = page_tree().clone() if copied else page_tree()
    figure = tree.plot()
    assert isinstance(figure, go.Figure) and drawn_edges(figure) == EDGES
    marks = figure.data[1]
    assert list(marks.y) == [0, -1, -1, -1, -2, -2, -2, -2, -2]
    assert len(set(zip(marks.x, marks.y, strict=True))) == 9
    assert marks.text[4] == "node_id: 4<br>count: 0<br>wins: 0.0"
    assert marks.hovertext[4] == "path (0, 0)<br>node_id: 4<br>count: 0<br>wins: 0.0"
    assert figure == tree.plot("plotly", "tree")


def test_a_notebook_saves_a_static_picture_of_the_tree(monkeypatch):
    monkeypatch.setattr(pio.renderers, "default", "plotly_mimetype")
    tree = page_tree()
    figure = tree.plot(make_labels=lambda node, path: f"<b>{path}</b><br>1 &lt; 2").update_layout(height=300)
    bundle = figure._repr_mimebundle_()
    assert "application/vnd.plotly.v1+json" in bundle
    svg = ElementTree.fromstring(bundle["image/svg+xml"])
    name = "{http://www.w3.org/2000/svg}"
    assert len(list(svg.iter(f"{name}path"))) == len(EDGES) and len(list(svg.iter(f"{name}circle"))) == 9
    assert [text.text for text in svg.iter(f"{name}text")][:4] == ["()", "1 < 2", "(0,)", "1 < 2"]


def test_box():
    figure = page_tree().plot(figure="box")
    (boxes,) = figure.data
    assert isinstance(boxes, go.Treemap) and list(boxes.ids) == [str(node) for node in range(9)]
    assert list(boxes.parents) == ["", "0", "0", "0", "1", "1", "1", "2", "2"]
    assert boxes.labels[8] == "node_id: 8<br>count: 0<br>wins: 0.0"


@pytest.mark.parametrize("figure", ["tree", "box"])
def test_labels(figure):
    def text(drawn):
        return list(drawn.data[1].text if figure == "tree" else drawn.data[0].labels)

    seen = []
    tree = page_tree()
    labels = text(
        tree.plot(figure=figure, make_labels=lambda node, path: seen.append(node.node_id) or f"<b>{path}</b>")
    )
    assert labels[:3] == ["<b>()</b>", "<b>(0,)</b>", "<b>(1,)</b>"] and seen == list(range(9))
    assert text(tree.plot(figure=figure, info=["hash", "num_children"]))[2] == (
        f"hash: {tree.subtree[1].hash}<br>num_children: 2"
    )
    assert text(tree.plot(figure=figure, info=[]))[0] == ""


def test_text_of_the_data_is_text():
    node = Tree.make_node(TensorDict({"observation": "<script>x</script>"}))
    for figure in ("tree", "box"):
        drawn = node.plot(figure=figure, info=["node_observations"]).to_plotly_json()["data"][-1]
        shown = [*drawn.get("text", ()), *drawn.get("labels", ()), *drawn["hovertext"]]
        assert len(shown) == 2 and all("&lt;script&gt;" in text and "<script>" not in text for text in shown)


@pytest.mark.parametrize(("backend", "figure"), [("igraph", "tree"), ("plotly", "circle")])
def test_other_plots(backend, figure):
    with pytest.raises(NotImplementedError) as error:
        page_tree().plot(backend, figure)
    assert str(error.value) == (
        f'Trees are drawn with backend="plotly" and figure="tree" or "box", got {backend=} and {figure=}. '
        'Fix: tree.plot(figure="tree").'
    )


def test_unknown_info():
    assert page_tree().plot(info=["visits", "batch_size"]).data
    with pytest.raises(ValueError, match="got 'size'"):
        page_tree().plot(info=["size"])  # a method
    with pytest.raises(ValueError) as error:
        page_tree().plot(info=["count", "children"])
    assert str(error.value) == (
        "info must name fields or properties of a node, got 'children'. The fields are: 'count', 'wins', "
        "'index', 'hash', 'node_id', 'rollout', 'node_data', 'subtree', '_parent', 'specs'. "
        'Fix: tree.plot(info=["count", "wins"]).'
    )


def test_ways_that_meet():
    figure = meeting_tree().plot()
    assert len(figure.data[1].x) == 5  # a node with two parents is drawn once, with two edges
    assert drawn_edges(figure) == [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4)]
    assert list(meeting_tree().plot(figure="box").data[0].parents) == ["", "0", "0", "1", "1"]


def test_it_needs_plotly_alone(monkeypatch):
    for name in ("igraph", "networkx", "kaleido"):
        monkeypatch.setitem(sys.modules, name, None)
    assert page_tree().plot().data


def test_many_nodes_without_labels():
    forest = forest_of(*([0, number, 1_000 + number] for number in range(1, 200)))
    marks = forest.get_tree(state(0), compact=False).plot().data[1]
    assert marks.mode == "markers" and len(marks.x) == 399 and page_tree().plot().data[1].mode == "markers+text"


def test_layout():
    found = layout([[1, 2], [3, 4, 5], [], [], [], []])
    assert found.positions.tolist() == [[2, 0], [1, -1], [3, -1], [0, -2], [1, -2], [2, -2]]
    assert found.parents.tolist() == [-1, 0, 0, 1, 1, 1]
    assert layout([[]]).positions.tolist() == [[0, 0]]
    chain = layout([[row + 1] for row in range(4_999)] + [[]])
    assert chain.positions[-1].tolist() == [0, -4_999]
