"""Comparison of two trees: the nodes they share, and where their best lines diverge."""

from __future__ import annotations

import numpy as np
import pytest
from rlnb_widgets import TreeExplorer
from rlnb_widgets.tree_explorer import tree_model
from rlnb_widgets.tree_explorer.compare import compared, matched

from rlnb.search import PUCT
from tests.widgets.tree_explorer.conftest import connect_four, search_of, tree_of


@pytest.mark.parametrize("swap", [False, True])
def test_nodes_are_matched_by_the_actions_that_lead_to_them(swap):
    a, b = tree_model(search_of(n=80)), tree_model(search_of(PUCT(), n=60, seed=5))
    a, b = (b, a) if swap else (a, b)
    by_path = {tuple(b.path(node)): node for node in range(len(b.nodes))}
    expected = [by_path.get(tuple(a.path(node)), -1) for node in range(len(a.nodes))]
    assert matched(a, b).tolist() == expected
    assert compared(a, b).shared == sum(node >= 0 for node in expected)


def test_the_first_place_where_the_best_ways_part():
    a, b = tree_model(search_of(n=80)), tree_model(search_of(PUCT(), n=60, seed=5))
    part = compared(a, b).parting
    ways = [[int(m.nodes.action[n]) for n in m.principal[1:]] for m in (a, b)]
    common = next(i for i in range(9) if ways[0][i : i + 1] != ways[1][i : i + 1])
    assert part.path == tuple(ways[0][:common])
    assert (a.path(part.node), b.path(part.other)) == (list(part.path), list(part.path))
    assert (part.action, part.other_action) == tuple(way[common] if common < len(way) else -1 for way in ways)


def test_ways_that_part_below_the_root_and_ways_that_end():
    long = tree_of([[1], [2], [3], []], count=np.array([4, 3, 2, 1]))
    short = tree_of([[1], [2], []], count=np.array([3, 2, 1]))
    a, b = tree_model(long), tree_model(short)
    part = compared(a, b).parting
    assert (part.path, part.action, part.other_action) == ((0, 0), 0, -1)
    part = compared(b, a).parting
    assert (part.path, part.action, part.other_action) == ((0, 0), -1, 0)


def test_a_tree_beside_itself_parts_nowhere():
    search = search_of(n=50)
    model = tree_model(search)
    found = compared(model, tree_model(search))
    assert found.parting is None and found.match.tolist() == list(range(len(model.nodes)))
    explorer = TreeExplorer(search, other=search)
    assert explorer._head["compare"]["words"] == (
        "Both principal variations are the same. 51 nodes in both, of 51 (this tree) and 51 (the other tree)."
    )
    assert explorer._head["compare"]["part"] is None


def test_the_words_and_the_payload_of_a_comparison():
    explorer = TreeExplorer(search_of(n=80), other=search_of(PUCT(), n=60, seed=5))
    compare = explorer._head["compare"]
    assert compare["head"]["nodes"] == 61 and compare["head"]["rule"]["name"] == "PUCT"
    kind, start, count = compare["head"]["columns"]["visits"]
    visits = np.frombuffer(explorer._columns, f"<{kind}", count, start)
    assert np.array_equal(visits, explorer.comparison.other.nodes.visits)
    kind, start, count = explorer._head["columns"]["match"]
    assert np.array_equal(np.frombuffer(explorer._columns, f"<{kind}", count, start), explorer.comparison.match)
    assert compare["words"] in repr(explorer) and compare["words"] in explorer.explain()
    assert compare["part"] == explorer.comparison.parting.node


def test_each_view_says_which_tree_is_which():
    explorer = TreeExplorer(search_of(n=80), other=search_of(PUCT(), n=60, seed=5), names=("trained", "untrained"))
    part, model = explorer.comparison.parting, explorer.model
    one, two = (model.action_text(action) for action in (part.action, part.other_action))
    words = f": action {one} (trained), action {two} (untrained). "
    assert words in repr(explorer) and words in explorer.explain() and words in explorer._head["compare"]["words"]
    headline = "MCTS, 61 nodes"
    assert f"trained beside untrained: {headline}" in repr(explorer)
    assert f"Trained beside untrained: {headline}" in explorer.explain()
    picture = explorer.to_svg()
    assert "Trained: MCTS, 81 nodes" in picture and f"Untrained: {headline}" in picture
    assert "Trained: all of it, and the actions of the root." in picture
    unnamed = TreeExplorer(explorer.tree, other=explorer.other).to_svg()
    assert "This tree: MCTS, 81 nodes" in unnamed and f"The other tree: {headline}" in unnamed


@pytest.mark.parametrize("names", ["ab", ("a",), ("a", "a"), ("a", ""), ("a", 3), ("a", "b", "c"), 3])
def test_names_that_are_not_two_texts(names):
    with pytest.raises(ValueError) as error:
        TreeExplorer(search_of(n=2), other=search_of(n=3), names=names)
    assert str(error.value) == (
        "names must be two different texts, the names of the tree and of the other one, got "
        f'{names!r}. Fix: names=("trained", "untrained").'
    )


def test_names_of_a_single_tree():
    with pytest.raises(ValueError) as error:
        TreeExplorer(search_of(n=2), names=("a", "b"))
    assert str(error.value) == (
        "names are those of two trees that are compared, and there is only one. Fix: give the second tree, "
        "TreeExplorer(search, other=search2, names=names)."
    )


def test_a_search_beside_one_of_another_game_is_refused():
    with pytest.raises(ValueError) as error:
        TreeExplorer(search_of(n=5), other=connect_four(5))
    assert str(error.value) == (
        "Two trees are compared action by action, and the first has 9 actions, the second 7. "
        "Fix: give two searches of the same game, such as with two rules or two seeds."
    )


def test_a_search_beside_a_tree():
    search = search_of(n=50)
    explorer = TreeExplorer(search, other=search_of(n=50).tree())
    assert explorer.comparison.shared == 51
