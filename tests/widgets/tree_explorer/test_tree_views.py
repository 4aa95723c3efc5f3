"""Views of the tree explorer: deterministic, escaped, bounded, and fast for ten thousand nodes."""

# Formulas have Greek letters and true minus signs.
# ruff: noqa: RUF001

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from rlnb_widgets import TreeExplorer
from rlnb_widgets._core.display_svg import WIDTH
from rlnb_widgets._core.measures import text_width
from rlnb_widgets.tree_explorer.scene import root_display, tree_display
from tensordict import TensorDict

from rlnb.search import EXP3, PUCT, Gumbel, UCB1Tuned
from tests.widgets.tree_explorer.conftest import (
    cartpole_search,
    connect_four,
    diamond,
    endgame_search,
    learned_search,
    search_of,
    tree_of,
)

EVIL = "<script>alert(1)</script>&\"'"


def words_of(svg):
    """All texts of a picture that are seen."""
    root = ElementTree.fromstring(svg)
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_text():
    search = endgame_search(12)
    explorer = TreeExplorer(search, actions=list("abcdefghi"))
    assert repr(explorer) == TEXT
    assert repr(TreeExplorer(search, actions=list("abcdefghi"))) == TEXT


TEXT = """\
TreeExplorer: MCTS, 8 nodes, depth 2, 13 visits, UCB1(c=1.414)
  Best action: i (6 of 12 visits, 50%, mean 1). Principal variation, visited most: i.
  action  visits  share  prior  improved  value  score
  ------  ------  -----  -----  --------  -----  -----
  f            3  25.0%  0.333      0.25  0.333   1.64
  h            3  25.0%  0.333      0.25  0.667   1.97
  i            6  50.0%  0.333       0.5      1   1.92
  the largest branches, by the actions that lead there
    root: 13 visits, value 0.769
      i: 6 visits, value 1, end
      f: 3 visits, value 0.333
      h: 3 visits, value 0.667
  record: 12 simulations, 12 of them in the picture
      simulation 8: i; ends at node 3, where the episode is over; 5 numbers changed
      simulation 9: f, h; adds node 6, worth 1; 12 numbers changed
      simulation 10: i; ends at node 3, where the episode is over; 5 numbers changed
      simulation 11: f, i; adds node 7, worth 0; 6 numbers changed
    > simulation 12: i; ends at node 3, where the episode is over; 5 numbers changed"""


def test_the_text_of_a_forest_tree():
    assert (
        repr(TreeExplorer(diamond()))
        == """\
TreeExplorer: Tree, 5 nodes, depth 2
  Largest branch: action 0 (75% of the nodes below). The largest branch of each node: 0, 0.
  action  share
  ------  -----
  0       75.0%
  1       25.0%
  the largest branches, by the actions that lead there
    root: 5 nodes
      0: 3 nodes
        0, 0: 1 node, end, shared
        0, 1: 1 node, end, shared
      1: 1 node
  No node was visited, so areas stand for the number of nodes at and below a node.
  A node that can be reached in several ways is counted once, where it is drawn."""
    )


def test_the_text_is_that_of_the_playhead():
    explorer = TreeExplorer(search_of(n=30))
    assert explorer.t == 30
    explorer.t = 10
    lines = repr(explorer).splitlines()
    assert lines[0] == "TreeExplorer: MCTS, 11 nodes, depth 2, 11 visits, UCB1(c=1.414)"
    assert "  record: 30 simulations, 10 of them in the picture" in lines
    assert lines[-1].startswith("    > simulation 10: ")
    assert "11 nodes" in words_of(explorer.to_svg())[0]
    explorer.t = 0
    assert repr(explorer).splitlines()[0].startswith("TreeExplorer: MCTS, 1 node, depth 0, 1 visit, ")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: search_of(n=40), "Actions are selected by UCB1(c=1.414): the score is Q + c · √("),
        (lambda: learned_search(UCB1Tuned()), "min(¼, V)), with V = s² − q² + √(c · ln N / n)."),
        (
            lambda: learned_search(PUCT()),
            "the score is Q + c · P · √(N) / (1 + n). Q: mean return of the action, P: its prior, n: its",
        ),
        (lambda: search_of(EXP3()), "the score is (1 − γ) · w / (Σ w) + γ / K. w: weight of the action"),
        (lambda: learned_search(Gumbel(30)), "c_scale · q at the root, and below it π − n / (1 + Σ n). g: the draw"),
        (cartpole_search, "Values from 0 to 50 are first mapped to -1 to 1."),
        (lambda: cartpole_search(9, UCB1Tuned()), "Values from 0 to 50 are first mapped to 0 to 1."),
        (endgame_search, "A ring marks the end of an episode;"),
        (diamond, "2 nodes can be reached in several ways; each is drawn once, with a line per way."),
        (lambda: search_of(n=0), "Each circle is a node"),
        (lambda: search_of(n=9), "9 simulations can be looked at one by one, forwards and backwards"),
    ],
)
def test_the_explanation_says_what_is_shown(make, says):
    explorer = TreeExplorer(make())
    assert says in explorer.explain()
    svg = ElementTree.fromstring(explorer.to_svg())
    assert svg.find("{http://www.w3.org/2000/svg}desc").text == explorer.explain()


def test_the_picture_shows_tree_icicle_legend_summary_and_board():
    explorer = TreeExplorer(learned_search(PUCT(), 120))
    svg = explorer.to_svg()
    texts = words_of(svg)
    for said in (
        "root action",
        "prior",
        "visits",
        "improved policy",
        "the whole tree, area: visits",
        "mean return of the action for the player who is to move at the root",
        "larger, wider: more visits",
        "line visited most",
        "+n",
    ):
        assert said in texts, said
    assert any(re.fullmatch(r"\+\d+", text) for text in texts)
    assert svg.count("scale(") == 1, "the position, smaller"
    rings = [c for c in re.findall(r"<circle[^>]*>", svg) if "s-ink" in c]  # that of the legend is a path
    model = explorer.model
    assert len(rings) == sum(bool(model.nodes.terminal[node]) for node in model.open)


def test_a_shared_node_has_a_dashed_second_line_in_the_picture():
    svg = TreeExplorer(diamond()).to_svg()
    lines = re.findall(r'<path[^>]*d="M[^>]*stroke-width', svg)
    assert svg.count("stroke-dasharray") == 2 + 1 and len(lines) == 6 + 3, "lines of the tree, and signs of the legend"
    assert "another way to the same node" in words_of(svg)


def test_a_dashed_line_crosses_no_text():
    marks = tree_display(TreeExplorer(diamond()).model).marks
    points = [point for mark in marks if mark.get("dash") for point in mark["points"]]
    texts = [mark for mark in marks if mark["kind"] == "text" and mark.get("anchor") is None]
    assert points and texts
    for text in texts:
        right = text["x"] + text_width(text["text"], text["size"])
        assert not any(text["x"] <= x <= right and text["y"] - 8 <= y <= text["y"] for x, y in points), text["text"]


def test_names_and_labels_from_outside_are_escaped_and_shown_as_they_are():
    names = [EVIL, *"bcdefghi"]
    explorer = TreeExplorer(search_of(n=30), actions=names, labels=lambda node: EVIL)
    html, svg = explorer.to_html(), explorer.to_svg()
    assert "<script>alert" not in html and "<script>alert" not in svg
    assert explorer.model.action_text(0) == "<script>alert(1)</scrip…"
    assert "<script>alert" in repr(explorer)
    assert explorer._boards["0"]["label"] == EVIL
    ElementTree.fromstring(svg)


def test_observations_with_an_evil_key_are_escaped():
    tree = tree_of([[1], []], node_data=TensorDict({EVIL: torch.tensor([1, 2])}, [2]))
    explorer = TreeExplorer(tree)
    assert explorer._boards["1"]["pairs"] == [['"' + EVIL.replace('"', '\\"') + '"', "2"]]
    assert "<script>alert" not in explorer.to_html()


def test_the_page_is_self_contained():
    html = TreeExplorer(search_of(n=30)).to_html()
    assert "http://www.w3.org" in html
    assert not re.search(r"(src|href)=\"https?:", html) and "import(" not in html


def test_the_values_of_the_head_are_plain_json():
    for make in (lambda: learned_search(Gumbel(30)), cartpole_search, diamond, endgame_search, lambda: search_of(n=0)):
        explorer = TreeExplorer(make(), other=search_of(n=5) if make is endgame_search else None)
        json.dumps([explorer._head, explorer._boards], allow_nan=False)
        ends = [start + np.dtype(kind).itemsize * count for kind, start, count in explorer._head["columns"].values()]
        assert max(ends) <= len(explorer._columns)


def test_ten_thousand_nodes_stay_small():
    explorer = TreeExplorer(connect_four(10_000))
    assert len(explorer.model.nodes) > 9_900
    assert len(explorer._columns) < 3_000_000 and len(json.dumps([explorer._head, explorer._boards])) < 300_000
    svg = explorer.to_svg()
    assert len(svg) < 400_000 and len(repr(explorer).splitlines()) < 80


def test_no_line_of_the_picture_is_cut():
    explorer = TreeExplorer(search_of(Gumbel(simulations=24, considered=4), n=24))
    picture = str(explorer.to_svg())
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    head = repr(explorer).splitlines()[0]
    words = head.partition(": ")[2]
    assert len(words) > 100 and words in " ".join(lines) and "Gumbel(simulations=24, considered=4, c_visit=50," in head
    assert "children that are not drawn" in lines and max(map(len, lines)) <= 140


def test_beside_the_position_of_the_root_its_actions_keep_to_their_room():
    explorer = TreeExplorer(learned_search(n=64))
    board = explorer._positions.drawing(0)
    assert board is not None
    texts = [mark for mark in root_display(explorer.model, None).marks if mark["kind"] == "text"]
    beside = [mark for mark in root_display(explorer.model, board).marks if mark["kind"] == "text"]
    means = [mark for mark in beside if mark["text"].startswith("mean ")]
    assert len(means) == 9 and len(texts) == len(beside)
    assert all(mark["x"] + text_width(mark["text"], 11) <= WIDTH - 188 - 8 for mark in means)
    shares = [mark for mark in beside if mark["text"].endswith("%")]
    assert all(mark["x"] + text_width(mark["text"], 10) < means[0]["x"] for mark in shares)
