"""The columns compared with a plain traversal of the tree, for searches and Trees of all kinds."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets import TreeExplorer
from rlnb_widgets.tree_explorer import layout, read_search, tree_model
from tensordict import TensorDict

from rlnb.data import Tree
from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.envs import TicTacToeEnv
from rlnb.search import MCTS, PUCT, UCB1
from tests.widgets.tree_explorer.conftest import (
    RULES,
    batched_search,
    board,
    cartpole_search,
    diamond,
    endgame_search,
    learned_search,
    search_of,
    tree_of,
)

SEARCHES = {
    "random rollouts": (lambda: search_of(n=60), 0),
    "network": (lambda: learned_search(PUCT()), 0),
    "one of three roots": (batched_search, 1),
    "one player": (cartpole_search, 0),
    "ends": (endgame_search, 0),
    "nothing searched": (lambda: search_of(n=0), 0),
}


@pytest.mark.parametrize("case", SEARCHES)
def test_a_search_is_read_as_a_plain_walk_reads_it(case):
    make, index = SEARCHES[case]
    search = make()
    tree, model = search.nodes, tree_model(search, index)
    nodes, edges = model.nodes, model.edges
    n = int(tree.count[index])
    assert len(nodes) == n and model.n_actions == tree.n_actions
    seen = [0]
    for node in range(n):
        path = tree.path(node, index)
        assert (nodes.depth[node], model.path(node)) == (len(path), path)
        assert nodes.parent[node] == tree.parent[index, node] and nodes.action[node] == tree.action[index, node]
        assert nodes.visits[node] == nodes.size[node] == tree.visits[index, node]
        assert nodes.value_sum[node] == tree.value_sum[index, node]
        assert nodes.mean(node) == tree.value(node, index)
        assert nodes.evaluation[node] == tree.evaluation[index, node]
        assert nodes.reward[node] == tree.reward[index, node]
        assert nodes.to_play[node] == tree.to_play[index, node]
        assert nodes.terminal[node] == tree.terminal[index, node]
        assert (nodes.steps[node], nodes.shared[node]) == (int(node > 0), False)
        rows = [] if tree.terminal[index, node] else [row for row in search.table(node, index) if row.legal]
        found = [
            (edges.node[e], edges.action[e], edges.visits[e], edges.value_sum[e], edges.prior[e], edges.child[e])
            for e in edges.of(node)
        ]
        sums = tree.edge_value_sum[index, node]
        assert found == [(node, r.action, r.visits, sums[r.action], r.prior, r.child) for r in rows]
        assert nodes.legal[node] == len(rows)
        seen += [int(edges.child[e]) for e in edges.of(node) if edges.child[e] >= 0]
    assert sorted(seen) == list(range(n))


@pytest.mark.parametrize("case", SEARCHES)
def test_the_summary_of_the_root_is_what_the_search_says(case):
    make, index = SEARCHES[case]
    search = make()
    model = tree_model(search, index)
    flat = {
        name: np.asarray(getattr(search, name)).reshape(-1, model.n_actions)[index]
        for name in ("visits", "prior", "policy", "q_values")
    }
    assert [row.action for row in model.summary] == list(range(model.n_actions))
    for row in model.summary:
        a = row.action
        assert row.legal == search.nodes.legal[index, 0, a]
        assert row.visits == flat["visits"][a]
        assert row.share == pytest.approx(flat["visits"][a] / max(flat["visits"].sum(), 1))
        assert row.prior == pytest.approx(flat["prior"][a])
        assert row.improved == pytest.approx(flat["policy"][a])
        assert (row.value is None and math.isnan(flat["q_values"][a])) or row.value == flat["q_values"][a]
    assert model.best == np.asarray(search.best_action).reshape(-1)[index]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("make", [learned_search, search_of, batched_search])
def test_best_action_policy_and_principal_variation_agree_with_the_search_for_every_rule(rule, make):
    search = make(RULES[rule](), 24)
    for index in range(search.nodes.batch):
        model = tree_model(search, index)
        assert model.best == np.asarray(search.best_action).reshape(-1)[index]
        policy = np.asarray(search.policy).reshape(-1, model.n_actions)[index]
        assert [row.improved for row in model.summary] == pytest.approx(policy.tolist())
        way = [int(model.nodes.action[node]) for node in model.principal[1:]]
        assert way == search.principal_variation(index)


def test_of_actions_visited_equally_often_the_principal_variation_takes_the_one_that_is_played():
    search = search_of(PUCT(), 40)
    visits, model = np.asarray(search.visits), tree_model(search)
    assert (visits == visits.max()).sum() > 1 and visits.argmax() != model.best
    assert search.principal_variation()[0] == model.nodes.action[model.principal[1]] == model.best


@pytest.mark.parametrize("case", SEARCHES)
def test_a_node_is_drawn_with_the_value_of_its_action_as_the_player_at_the_root_sees_it(case):
    make, index = SEARCHES[case]
    search = make()
    tree, model = search.nodes, tree_model(search, index)
    assert model.nodes.edge[0] == -1
    assert model.drawn_value(0) == tree.value(0, index)
    for node in range(1, len(model.nodes)):
        parent, action = tree.parent[index, node], tree.action[index, node]
        edge = model.nodes.edge[node]
        assert (model.edges.node[edge], model.edges.action[edge], model.edges.child[edge]) == (parent, action, node)
        mean = tree.edge_value_sum[index, parent, action] / tree.edge_visits[index, parent, action]
        sign = 1 if tree.to_play[index, parent] == tree.to_play[index, 0] or search.game.n_players == 1 else -1
        assert model.drawn_value(node) == pytest.approx(sign * mean)


def test_a_win_is_drawn_as_one_though_nothing_is_to_come():
    model = tree_model(endgame_search())
    ends = [node for node in range(len(model.nodes)) if model.nodes.terminal[node] and model.nodes.reward[node]]
    assert {(model.nodes.mean(node), abs(model.drawn_value(node))) for node in ends} == {(0.0, 1.0)}


def test_values_have_the_range_and_the_middle_of_the_search():
    two, one = tree_model(search_of()).values, tree_model(cartpole_search()).values
    assert (two.low, two.high, two.middle, two.players) == (-1.0, 1.0, 0.0, True)
    assert (one.low, one.high, one.middle, one.players) == (0.0, 50.0, 25.0, False)


def test_with_very_many_actions_those_never_taken_are_left_out(monkeypatch):
    monkeypatch.setattr(read_search, "MOST_EDGES", 100)
    model = tree_model(search_of(n=30))
    assert (model.edges.child >= 0).all() and len(model.edges) == 30
    assert model.nodes.legal[0] == 9
    assert model.notes[0] == "228 actions are too many to be shown; those that were never taken are left out."


def test_the_columns_do_not_change_when_the_search_goes_on():
    search = search_of(n=20)
    model = tree_model(search)
    before = {name: array.copy() for name, array in vars(model.nodes).items()}
    search.run(simulations=100)
    assert all((array == before[name]).all() for name, array in vars(model.nodes).items())


def test_what_was_kept_when_the_root_advanced():
    search = search_of(n=60)
    assert tree_model(search).reused == 0
    action = int(search.best_action)
    kept = int(search.visits[action])
    search.advance(action)
    assert tree_model(search).reused == kept == len(tree_model(search).nodes)
    search.run(simulations=10)
    assert tree_model(search).reused == kept
    fresh = search_of(n=3).advance(8)
    assert (tree_model(fresh).reused, len(tree_model(fresh).nodes)) == (0, 1)


def test_a_root_where_the_episode_has_ended():
    search = endgame_search()
    while not search.nodes.terminal[0, 0]:
        search.advance(int(search.best_action))
    model = tree_model(search)
    assert (model.best, model.principal, len(model.edges)) == (-1, (0,), 0)
    assert "The episode has ended at the root, so there is nothing to search." in model.notes


# The layout -------------------------------------------------------------------------------------------------------


@st.composite
def parents(draw):
    n = draw(st.integers(1, 40))
    return np.array([-1, *(draw(st.integers(0, i - 1)) for i in range(1, n))])


@given(parents(), st.data())
def test_an_icicle_holds_each_node_below_its_parent_beside_its_siblings(parent, data):
    n = len(parent)
    own = np.array(data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
    size = own.copy()
    for node in range(n - 1, 0, -1):
        size[parent[node]] += size[node]
    child = np.arange(1, n)
    order = np.lexsort((child, parent[1:]))
    edge_node, edge_child = parent[1:][order], child[order]
    depth = layout.depths(parent)
    start, end = layout.spans(parent, depth, size, edge_node, edge_child)
    total = max(size[0], 1)
    assert np.allclose((end - start) * total, size * (size[0] > 0))
    for node in range(1, n):
        assert depth[node] == depth[parent[node]] + 1
        assert start[node] >= start[parent[node]] - 1e-12 and end[node] <= end[parent[node]] + 1e-12
    for node in range(n):
        below = [c for c in edge_child[edge_node == node]]
        for a, b in pairwise(below):
            assert end[a] <= start[b] + 1e-12
    counts = layout.below(parent, depth)
    assert counts[0] == n and all(counts[parent == node].sum() + 1 == counts[node] for node in range(n))


def test_a_node_is_as_wide_as_its_children_where_they_are_larger():
    parent = np.array([-1, 0, 0])
    start, end = layout.spans(parent, np.array([0, 1, 1]), np.array([1, 2, 2]), np.array([0, 0]), np.array([1, 2]))
    assert (start.tolist(), end.tolist()) == ([0.0, 0.0, 0.5], [1.0, 0.5, 1.0])


def test_of_two_actions_that_lead_to_one_node_the_first_is_drawn():
    parent, edge_node, edge_child = np.array([-1, 0, 1]), np.array([0, 0, 0, 1]), np.array([1, 1, 2, 2])
    assert layout.tree_edges(parent, edge_node, edge_child).tolist() == [-1, 0, 3]
    model = tree_model(tree_of([[1, 1], []], count=np.array([3, 2])))
    assert (model.nodes.edge.tolist(), model.nodes.shared.tolist()) == ([-1, 0], [False, True])
    assert (model.nodes.start.tolist(), model.nodes.end[0]) == ([0.0, 0.0], 1.0)


def test_the_principal_variation_is_open_where_many_children_weigh_the_same():
    """The best of nine equal children is not among the first six."""
    explorer = TreeExplorer(search_of(UCB1(), 33, seed=1))
    model = explorer.model
    assert set(model.principal) <= set(model.open)
    assert sum(int(model.nodes.parent[node]) == 0 for node in model.open) == 6
    assert model.action_text(int(model.nodes.action[model.principal[1]])) in explorer.to_svg()


def test_what_is_open_at_first_is_the_principal_variation_with_its_largest_neighbours():
    model = tree_model(search_of(n=200))
    assert set(model.principal[:12]) <= set(model.open) and model.open[0] == 0
    for node in model.principal[:-1]:
        children = [c for c in model.open if model.nodes.parent[c] == node]
        visits = sorted((int(v) for v in model.nodes.visits[model.nodes.parent == node]), reverse=True)
        assert sorted((int(model.nodes.visits[c]) for c in children), reverse=True) == visits[: 2 if node else 6]
    assert all(int(model.nodes.parent[node]) in model.open for node in model.open[1:])


# Trees ------------------------------------------------------------------------------------------------------------


def same(a, b):
    """Assert that two models have the same columns."""
    for part in ("nodes", "edges"):
        for name, column in vars(getattr(a, part)).items():
            other = getattr(getattr(b, part), name)
            assert (column is None and other is None) or np.array_equal(column, other), (part, name)


def test_a_search_seen_as_a_tree_has_the_numbers_of_the_search():
    search = search_of(n=80)
    model, tree = tree_model(search), tree_model(search.tree())
    for name in ("parent", "action", "depth", "visits", "value_sum", "terminal", "reward", "start", "end", "steps"):
        assert np.array_equal(getattr(model.nodes, name), getattr(tree.nodes, name)), name
    taken = model.edges.child >= 0
    for name in ("node", "action", "child", "visits"):
        assert np.array_equal(getattr(model.edges, name)[taken], getattr(tree.edges, name))
    assert (tree.kind, tree.priors, tree.rule) == ("tree", False, None)
    assert tree.nodes.visits[tree.principal[1]] == model.nodes.visits[model.principal[1]]


@pytest.mark.parametrize("make", [diamond, lambda: search_of(n=15).tree()])
def test_a_tree_that_is_walked_is_read_like_one_that_is_a_view(make, tmp_path):
    tree = make()
    model = tree_model(tree)
    same(model, tree_model(tree.clone()))
    tree.save(tmp_path / "tree")
    same(model, tree_model(Tree.load(tmp_path / "tree")))


def test_a_node_that_two_ways_lead_to_is_one_node():
    tree = diamond()
    model = tree_model(tree)
    assert len(model.nodes) == tree.num_vertices() == 5
    assert sorted(zip(model.edges.node.tolist(), model.edges.child.tolist(), strict=True)) == sorted(tree.edges())
    assert np.flatnonzero(model.nodes.shared).tolist() == [3, 4]
    assert model.nodes.steps.tolist() == [0, 2, 2, 1, 1]
    assert model.nodes.reward.tolist() == [0.0, 2.0, 2.0, 1.0, 1.0]
    assert model.nodes.terminal.tolist() == [False, False, False, True, True]
    again = tree_model(tree.subtree[1])
    assert (len(again.nodes), again.edges.action.tolist(), again.nodes.shared.any()) == (3, [0, 1], False)


def test_a_tree_of_hand_made_nodes_with_one_object_in_two_places():
    root, left, right, both = (Tree.make_node(TensorDict({"observation": torch.tensor(i)})) for i in range(4))
    left.subtree = Tree.lazy_stack([both])
    right.subtree = Tree.lazy_stack([both])
    root.subtree = Tree.lazy_stack([left, right])
    model = tree_model(root)
    assert len(model.nodes) == 4 and model.nodes.shared.tolist() == [False, False, False, True]
    assert model.notes[0] == "The actions are not integers, so they are numbered by the order of the children, from 0."


@given(st.data())
def test_views_and_copies_of_random_graphs_are_read_alike(data):
    n = data.draw(st.integers(1, 12))
    children = [[] for _ in range(n)]
    for child in range(1, n):
        for parent in data.draw(st.lists(st.integers(0, child - 1), min_size=1, max_size=3, unique=True)):
            children[parent].append(child)
    order = data.draw(st.permutations(range(1, n))) if n > 1 else []
    name = [0, *order]  # rows in any order
    shuffled = [[] for _ in range(n)]
    for row, below in enumerate(children):
        shuffled[name[row]] = [name[child] for child in below]
    if not any(shuffled):
        shuffled = [[]]
    if not shuffled[0]:
        return
    count = torch.arange(len(shuffled), dtype=torch.int32)
    hashes = torch.arange(len(shuffled)) + 100
    tree = tree_of(shuffled, count=count, wins=count.float() / 2, hashes=hashes)
    model = tree_model(tree)
    assert len(model.nodes) == tree.num_vertices()
    assert (model.nodes.parent < np.arange(len(model.nodes))).all()
    reached = {(int(a), int(b)) for a, b in zip(model.edges.node, model.edges.child, strict=True)}
    assert len(reached) == len(tree.edges())
    by_visits = {int(v) for v in model.nodes.visits}
    assert by_visits == {int(node.count) for node in tree.vertices(key_type="id").values()}
    assert np.array_equal(model.nodes.value_sum, model.nodes.visits / 2)


def test_a_tree_of_which_not_all_rows_are_a_part():
    tree = tree_of([[2], [2], [], [1]])
    assert len(tree_model(tree).nodes) == 2


def test_counts_that_a_user_wrote_are_shown_in_place_and_in_the_arrays():
    tree = tree_of([[1, 2], [], []], count=torch.tensor([3, 1, 1], dtype=torch.int32), wins=torch.zeros(3))
    child = tree.subtree[1]
    child.count += 4
    tree.subtree[0].wins = torch.tensor(2.5)
    model = tree_model(tree)
    assert (model.nodes.visits.tolist(), model.nodes.value_sum.tolist()) == ([3, 1, 5], [0.0, 2.5, 0.0])


def test_where_nothing_was_visited_areas_are_nodes():
    model = tree_model(diamond())
    assert (model.sized_by, model.nodes.size.tolist()) == ("nodes", [5, 3, 1, 1, 1])
    assert "No node was visited, so areas stand for the number of nodes at and below a node." in model.notes
    assert model.principal == (0, 1, 3)


def steps_of(actions: torch.Tensor) -> TensorDict:
    return TensorDict({"action": actions}, [len(actions)])


@pytest.mark.parametrize(
    ("actions", "numbers"),
    [
        (torch.tensor([0, 5, 2]), [2, 5]),
        (torch.tensor([[0], [5], [2]]), [2, 5]),
        (torch.tensor([[0, 0, 1], [0, 1, 0], [1, 0, 0]]), [0, 1]),
        (torch.tensor([[False, True], [False, True], [True, False]]), [0, 1]),
        (torch.tensor([0.0, 0.5, 0.25]), [0, 1]),
        (torch.tensor([0, -5, 2]), [0, 1]),
        (torch.tensor([[1, 1], [1, 1], [1, 0]]), [0, 1]),
    ],
)
def test_actions_are_numbers_where_they_can_be(actions, numbers):
    model = tree_model(tree_of([[1, 2], [], []], steps=steps_of(actions)))
    assert model.edges.action.tolist() == numbers
    plain = actions.dtype.is_floating_point or (actions < 0).any() or actions[1:].reshape(2, -1).sum() == 3
    assert any("The actions are not integers" in note for note in model.notes) == bool(plain)


def test_a_tree_of_one_node():
    model = tree_model(Tree.make_node(TensorDict({"observation": torch.tensor(1)})))
    assert (len(model.nodes), len(model.edges), model.principal, model.best) == (1, 0, (0,), -1)
    assert (model.summary, model.notes, model.nodes.terminal.tolist()) == ((), (), [True])
    assert math.isnan(model.drawn_value(0)) and math.isnan(tree_model(diamond()).drawn_value(3))


def test_chance_gives_one_action_several_children():
    tree = tree_of([[1, 2], [], []], steps=steps_of(torch.tensor([0, 3, 3])))
    model = tree_model(tree)
    assert (model.edges.action.tolist(), model.edges.child.tolist()) == ([3, 3], [1, 2])


def test_a_tree_on_steps_that_can_only_be_indexed():
    class Rows:
        def __init__(self, data):
            self.data = data

        def __getitem__(self, rows):
            return self.data[rows]

    data = TensorDict({"action": torch.tensor([1, 0]), "next": {"reward": torch.tensor([[2.0], [3.0]])}}, [2])
    arrays = TreeArrays(
        np.array([[1], [-1]]),
        TensorDict({"observation": torch.zeros(2)}, [2]),
        steps=Rows(data),
        step_rows=[[], [0, 1]],
    )
    model = tree_model(Tree.from_arrays(arrays))
    assert (model.edges.action.tolist(), model.nodes.reward.tolist()) == ([1], [0.0, 5.0])


def test_a_rule_of_ones_own_is_asked_for_scores_and_policy():
    class Mine(UCB1):
        def policy(self, tree):
            return np.full((tree.batch, tree.n_actions), 0.5)

    search = search_of(Mine())
    model = tree_model(search)
    assert (model.rule.name, model.rule.formula) == ("Mine", "")
    assert [row.improved for row in model.summary] == [0.5] * 9
    for node in range(5):
        rows = search.rule.scores(search.nodes, np.array([node]))[0]
        assert model.edges.scores[list(model.edges.of(node))].tolist() == rows[search.nodes.legal[0, node]].tolist()


def test_the_position_that_is_searched_is_the_root():
    search = search_of(n=0)
    search.reset(search.game.env.reset(board(0, 1, -1, -1, -1, -1, -1, -1, -1))).run(simulations=5)
    assert [row.legal for row in tree_model(search).summary] == [False, False, *[True] * 7]


def test_what_a_solver_has_proven_is_said():
    env = TicTacToeEnv()
    cells = torch.tensor([[-1, -1, 1], [-1, 1, 0], [0, 0, -1]], dtype=torch.int32)
    search = MCTS(env, seed=0).reset(env.reset(TensorDict({"board": cells}))).run(simulations=40)
    nodes = int(search.nodes.count[0])
    said = f"The solver has proven {nodes} of {nodes} nodes, and the root: 0 with best play."
    assert tree_model(search).notes[0].startswith(said)
    assert not any("solver" in note for note in tree_model(search_of(n=3)).notes)
    undecided = MCTS(env, seed=0).reset(env.reset()).run(simulations=3)
    assert undecided.solver is not None and tree_model(undecided).notes == ()
