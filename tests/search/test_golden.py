"""Each rule builds the right tree: compared with stored trees, with mctx, and with an independent loop."""

from __future__ import annotations

import json
import math
import pathlib

import numpy as np
import pytest

from rlnb.search import MCTS, PUCT, Gumbel
from tests.search import make_golden
from tests.search.table_game import (
    ACTIONS,
    TableGame,
    TableNetwork,
    TwoPlayerTableGame,
    next_state,
    reward,
    value,
)

GOLDEN = json.loads(make_golden.FILE.read_text())
MCTX = json.loads((pathlib.Path(__file__).parent / "golden_mctx.json").read_text())


@pytest.mark.parametrize("name", make_golden.RULES)
def test_the_stored_tree(name):
    assert make_golden.tree(make_golden.search(name)) == GOLDEN[name]


@pytest.mark.parametrize("case", MCTX["cases"], ids=lambda c: f"{c['rule']} {c['discount']} {c['simulations']}")
def test_visits_of_every_node_are_those_of_mctx(case):
    two, n = case["discount"] < 0, case["simulations"]
    game = TwoPlayerTableGame(MCTX["roots"]) if two else TableGame(1, MCTX["roots"])
    rule = PUCT(1.25, base=19652) if case["rule"] == "puct" else Gumbel(n, considered=4)
    search = MCTS(game, rule=rule, evaluation=TableNetwork(), discount=1.0 if two else case["discount"]).reset()
    if "draws" in case:
        search.rule.draws[:] = case["draws"]
    search.run(n)
    assert search.nodes.edge_visits[:, : n + 1].tolist() == case["visits"]
    assert search.best_action.tolist() == case["action"]
    np.testing.assert_allclose(search.value, case["root_value"], atol=2e-6)
    if "policy" in case:
        np.testing.assert_allclose(search.policy, case["policy"], atol=5e-6)


class Node:
    """A node of the plain search below: dictionaries and recursion, in place of arrays."""

    def __init__(self, state):
        self.state, self.visits, self.total = state, 1, value(state)
        self.children, self.returns, self.weights = {}, {a: [] for a in range(ACTIONS)}, [1.0] * ACTIONS


def ucb1(node, rng):
    for a, returns in node.returns.items():
        if not returns:
            return a
    log = math.log(node.visits)
    mean = {a: sum(r) / len(r) / 2 for a, r in node.returns.items()}  # the range -2 to 2 as -1 to 1
    return max(mean, key=lambda a: mean[a] + math.sqrt(2) * math.sqrt(log / len(node.returns[a])))


def ucb1_tuned(node, rng):
    for a, returns in node.returns.items():
        if not returns:
            return a

    def score(a):
        gains = np.array([(g + 2) / 4 for g in node.returns[a]])
        bound = math.log(node.visits) / len(gains)
        return gains.mean() + math.sqrt(bound * min(0.25, gains.var() + math.sqrt(2 * bound)))

    return max(node.returns, key=score)


def chances(node, gamma=0.3):
    total = sum(node.weights)
    return [(1 - gamma) * w / total + gamma / ACTIONS for w in node.weights]


def exp3(node, rng):
    edges = np.cumsum(chances(node))
    return int(np.argmax(edges > rng.random((1, 1))[0, 0] * edges[-1]))


def simulate(node, choose, rng):
    """Return what the simulation gained for the player who is to move in the node."""
    node.visits += 1
    a = choose(node, rng)
    if a in node.children:
        gain = reward(node.children[a].state) - simulate(node.children[a], choose, rng)
    else:
        node.children[a] = Node(int(next_state(node.state, a)))
        gain = reward(node.children[a].state) - value(node.children[a].state)
    if choose is exp3:
        node.weights[a] *= math.exp(0.3 * (gain + 2) / 4 / chances(node)[a] / ACTIONS)
    node.returns[a].append(gain)
    node.total += gain
    return gain


@pytest.mark.parametrize(("name", "choose"), [("UCB1", ucb1), ("UCB1Tuned", ucb1_tuned), ("EXP3", exp3)])
def test_a_plain_recursive_search_builds_the_same_tree(name, choose):
    root, rng = Node(5), np.random.default_rng(3)
    for _ in range(24):
        simulate(root, choose, rng)
    search = make_golden.search(name)

    def same(node, at):
        assert search.nodes.visits[0, at] == node.visits
        assert search.nodes.value_sum[0, at] == pytest.approx(node.total)
        for a in range(ACTIONS):
            child = search.nodes.children[0, at, a]
            assert (child >= 0) == (a in node.children)
            if child >= 0:
                same(node.children[a], child)

    same(root, 0)
