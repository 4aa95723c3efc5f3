"""Laws of every tree: statistics add up, stepping back undoes steps, one seed gives one search."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.envs import ConnectFourEnv, TicTacToeEnv
from rlnb.search import EXP3, MCTS, PUCT, UCB1, Gumbel, RootNoise, UCB1Tuned
from rlnb.search.connection import ConnectionGame
from rlnb.search.phases import Phases
from rlnb.search.scalar_phases import ScalarPhases
from tests.examples import at_most
from tests.search.table_game import TableGame, TableNetwork, TwoPlayerTableGame

RULES = st.sampled_from([UCB1(), UCB1(0.3), UCB1Tuned(), PUCT(), PUCT(base=20, first_play=-1), EXP3(), Gumbel(20, 4)])
GAMES = {
    "tic-tac-toe": lambda: (TicTacToeEnv(), None),
    "connect four": lambda: (ConnectFourEnv(4, 4, 3), None),
    "one player": lambda: (TableGame(1, (3, 8)), TableNetwork()),
    "two players": lambda: (TwoPlayerTableGame((3, 8)), TableNetwork()),
}


def make(game, batch, rule, seed, discount=1.0, noise=None, solver=False):
    env, evaluation = GAMES[game]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gumbel with random rollouts
        search = MCTS(env, rule=rule, evaluation=evaluation, seed=seed, discount=discount, noise=noise, solver=solver)
    return search.reset(None if evaluation else TensorDict(batch_size=batch))


def arrays(search):
    return {name: array.copy() for name, array in search.nodes.arrays.items()} | {"count": search.nodes.count.copy()}


def same(one, other):
    return all(
        np.array_equal(one[name][:, : other[name].shape[1]] if one[name].ndim > 1 else one[name], other[name])
        for name in other
    )


searches = st.tuples(
    st.sampled_from(list(GAMES)), st.sampled_from([(), (1,), (3,)]), RULES, st.integers(0, 2**32 - 1),
    st.sampled_from([1.0, 0.9]), st.sampled_from([None, RootNoise(0.5)]),
)  # fmt: skip


def assert_conserved(search, evaluations=True):
    """Visits of a node are 1 plus those of its actions; what was backed up is what the leaves were worth."""
    nodes = search.nodes
    for b in range(nodes.batch):
        for i in range(int(nodes.count[b])):
            taken, terminal = int(nodes.edge_visits[b, i].sum()), nodes.terminal[b, i]
            assert taken == 0 if terminal else nodes.visits[b, i] == 1 + taken
            assert not nodes.edge_visits[b, i][~nodes.legal[b, i]].any()
            total = 0.0 if terminal else nodes.evaluation[b, i] + nodes.edge_value_sum[b, i].sum()
            assert nodes.value_sum[b, i] == pytest.approx(total)
            for a in np.flatnonzero(nodes.children[b, i] >= 0):
                child = nodes.children[b, i, a]
                sign = 1 if nodes.to_play[b, child] == nodes.to_play[b, i] else -1
                n = int(nodes.edge_visits[b, i, a])
                assert nodes.parent[b, child] == i and nodes.action[b, child] == a
                # After the root advanced, the new root has come to life without an action that led to it.
                assert n == nodes.visits[b, child]
                want = n * nodes.reward[b, child] + sign * search.discount * nodes.value_sum[b, child]
                assert nodes.edge_value_sum[b, i, a] == pytest.approx(want)


@given(searches, st.integers(1, 30))
def test_visits_and_values_are_conserved(args, simulations):
    search = make(*args).run(simulations)
    assert_conserved(search)
    live = ~search.nodes.terminal[:, 0]
    assert (search.nodes.visits[live, 0] == simulations + 1).all()


@at_most(25)
@given(searches, st.lists(st.integers(0, 3), max_size=3), st.integers(1, 20))
def test_they_are_after_the_root_advanced(args, ranks, simulations):
    search = make(*args)
    for rank in ranks:
        search.run(simulations)
        legal = search.nodes.legal[:, 0]
        search.advance([np.flatnonzero(row)[rank % row.sum()] for row in legal])
        assert_conserved(search)
        if search.nodes.terminal[:, 0].all():
            return
    search.run(simulations)
    assert_conserved(search)


@at_most(25)
@given(searches, st.integers(0, 10), st.integers(1, 10), st.booleans())
def test_backwards_undoes_forwards_bit_for_bit(args, first, steps, solver):
    search = make(*args, solver)
    if first:
        search.run(first)
    states = [arrays(search)]
    for _ in range(steps):
        if search.solved.all():
            break
        search.step()
        states.append(arrays(search))
    if len(states) == 1:
        return
    for state in states[-2::-1]:
        search.back()
        assert same(arrays(search), state)
    for state in states[1:]:
        search.step()
        assert same(arrays(search), state)
    search.back()
    search.run(1)  # what was taken back is drawn again
    assert same(arrays(search), states[-1])


@at_most(25)
@given(searches, st.integers(1, 15), st.booleans())
def test_the_record_has_every_number_that_changed(args, simulations, solver):
    search = make(*args, solver)
    for _ in range(simulations):
        if search.solved.all():
            return
        search.nodes.reserve(1)
        before = arrays(search)
        record = search.step()
        for change in record.changes():
            at = (change.tree, change.node) if change.action is None else (change.tree, change.node, change.action)
            if change.phase == "expand":
                assert before[change.name][at] == change.before
            before[change.name][at] = change.after
        now = arrays(search)
        for name in set(now) - {"states", "count"}:
            assert np.array_equal(before[name], now[name]), name


@at_most(20)
@given(searches, st.integers(1, 20), st.booleans())
def test_one_seed_one_search_however_it_is_run(args, simulations, solver):
    run, stepped, halves = make(*args, solver).run(simulations), make(*args, solver), make(*args, solver)
    for _ in range(run.simulations):
        stepped.step()
    halves.run((simulations + 1) // 2)
    if simulations // 2:
        halves.run(simulations // 2, record=True)
    for other in (stepped, halves):
        assert other.nodes.count.tolist() == run.nodes.count.tolist()
        n = int(run.nodes.count.max())
        for name, array in run.nodes.arrays.items():
            assert np.array_equal(array[:, :n], other.nodes.arrays[name][:, :n]), name


@pytest.mark.parametrize("solver", [False, True])
@pytest.mark.parametrize("rule", [UCB1(), UCB1Tuned(), PUCT()], ids=repr)
def test_one_tree_on_plain_numbers_is_the_tree_on_arrays(rule, solver, monkeypatch):
    # Both get the same value for a leaf: a number computed from its stones.
    monkeypatch.setattr(ConnectionGame, "playout_one", lambda self, mine, theirs, *_: (mine * 7 + theirs) % 13 / 6 - 1)
    monkeypatch.setattr(
        ConnectionGame,
        "playout",
        lambda self, p, *_: ((p.states[:, 0] * 7 + p.states[:, 1]) % 13).astype(float) / 6 - 1,
    )
    for env, discount in ((TicTacToeEnv(), 1.0), (ConnectFourEnv(), 0.9 if solver else 1.0)):
        plain = MCTS(env, rule=rule, solver=solver, discount=discount).reset().run(300)
        many = MCTS(env, rule=rule, solver=solver, discount=discount).reset(TensorDict(batch_size=[2])).run(300)
        assert isinstance(plain._phases, ScalarPhases) and isinstance(many._phases, Phases)
        names = ["visits", "children", "to_play", "terminal", "reward", "parent", "legal", "states", "edge_visits"]
        names += ["lower", "upper", "open", "edge_lower", "edge_upper"] if solver else []
        for name in names:
            for tree in (0, 1):
                assert np.array_equal(plain.nodes.arrays[name][0], many.nodes.arrays[name][tree]), name
        np.testing.assert_allclose(plain.nodes.edge_value_sum[0], many.nodes.edge_value_sum[0], atol=1e-9)
