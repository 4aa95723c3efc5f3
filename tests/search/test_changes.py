"""Changes of many simulations as columns, and the nodes that a search keeps."""

from __future__ import annotations

import numpy as np
import pytest
from tensordict import TensorDict

from rlnb.envs import TicTacToeEnv
from rlnb.search import EXP3, MCTS, Gumbel, UCB1Tuned
from rlnb.search.history import change_columns

NAMES = ["visits", "value_sum", "children", "edge_visits", "legal", "log_weight", "edge_square_sum", "parent"]


def searched(rule=None, roots=1, n=12):
    env = TicTacToeEnv()
    start = env.reset(TensorDict(batch_size=[roots])) if roots > 1 else None
    return MCTS(env, rule=rule, seed=0).reset(start).run(simulations=n, record=True)


@pytest.mark.parametrize("roots", [1, 3])
@pytest.mark.parametrize("rule", [None, UCB1Tuned(), EXP3()])
def test_columns_are_the_changes_of_the_records(rule, roots):
    search = searched(rule, roots)
    for tree in range(roots):
        found = change_columns(search.history.records, tree, NAMES)
        phases = ("expand", "back up")
        rows = [
            (r, phases[p], NAMES[n], node, None if action < 0 else action, before, after)
            for r, p, n, node, action, before, after in zip(*(column.tolist() for column in found), strict=True)
        ]
        expected = [
            (r, c.phase, c.name, c.node, c.action, float(c.before), float(c.after))
            for r, record in enumerate(search.history.records)
            for c in record.changes(tree)
            if c.name in NAMES
        ]
        assert sorted(rows, key=str) == sorted(expected, key=str)
        assert (np.diff(found.record) >= 0).all()
        assert (np.diff(found.record * 2 + found.phase) >= 0).all()


def test_columns_of_nothing():
    found = change_columns([], 0, NAMES)
    assert [len(column) for column in found] == [0] * 7
    search = searched()
    assert len(change_columns(search.history.records, 0, ["no such array"]).record) == 0


def test_the_nodes_that_were_kept_are_counted_for_each_root():
    search = searched(roots=3, n=40)
    assert search.reused.tolist() == [0, 0, 0]
    chosen = search.best_action
    kept = search.visits[np.arange(3), chosen]
    search.advance(chosen)
    assert search.reused.tolist() == kept.tolist() == search.nodes.count.tolist()
    search.run(simulations=5)
    assert search.reused.tolist() == kept.tolist()
    search.reset()
    assert search.reused.tolist() == [0]


def test_a_node_that_advancing_adds_was_not_kept():
    search = searched(n=2)
    never = int(np.flatnonzero(search.visits == 0)[0])
    assert search.advance(never).reused.tolist() == [0]
    assert search.nodes.count.tolist() == [1]
    taken = searched(n=2)
    assert taken.advance(0).reused.tolist() == [1]


def test_gumbel_knows_how_often_actions_had_been_taken_before():
    search = searched(Gumbel(simulations=16), n=16)
    assert search.rule.before.tolist() == [[0] * 9]
    search.advance(int(search.best_action))
    before = search.visits.tolist()
    search.run(simulations=4)
    assert search.rule.before.tolist() == [before] and sum(before) > 0
