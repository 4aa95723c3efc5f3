"""Budgets, progress, interrupts, networks, noise, advancing, results, and errors."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from rlnb.data import Tree
from rlnb.envs import GridWorldEnv, TicTacToeEnv
from rlnb.search import EXP3, MCTS, PUCT, UCB1, Evaluation, Gumbel, Network, RandomRollout, RootNoise
from rlnb.search.budget import Budget, bar
from rlnb.search.gumbel import considered_visits
from tests.search.test_laws import arrays, assert_conserved, same


def tic_tac_toe(batch=(), **kinds):
    return MCTS(TicTacToeEnv(), seed=0, **{"solver": False, **kinds}).reset(TensorDict(batch_size=batch))


# Budgets ----------------------------------------------------------------------------------------------------------


def test_simulations_and_seconds_end_a_search():
    assert tic_tac_toe().run(7).simulations == 7
    search = tic_tac_toe().run(seconds=0.05)
    assert search.simulations > 5
    assert tic_tac_toe().run(3, seconds=1000).simulations == 3
    assert tic_tac_toe().run(10**9, seconds=1e-9).simulations == 1


@pytest.mark.parametrize("budget", [{}, {"simulations": 0}, {"simulations": -1}, {"seconds": 0}, {"simulations": 1.5}])
def test_no_budget(budget):
    search = tic_tac_toe().run(2)
    before = arrays(search)
    with pytest.raises(ValueError) as caught:
        search.run(**budget)
    given = ", ".join(f"{name}={budget.get(name)!r}" for name in ("simulations", "seconds"))
    assert str(caught.value) == (
        "run takes a budget: simulations, a positive integer, or seconds, a positive number, or both; got "
        f"{given}. Fix: search.run(simulations=100)."
    )
    assert same(arrays(search), before)


def test_progress_is_told_and_drawn(capsys):
    told = []
    now = iter(np.arange(0, 100, 0.06))
    budget = Budget(4, None, lambda *args: told.append(args), clock=lambda: next(now))
    while not budget.spent():
        budget.count()
    budget.report()
    assert [done for done, _, _ in told] == [1, 3, 4] and {total for _, total, _ in told} == {4}
    bar(15, 30, 2.0)
    bar(30, 30, 0.0)
    bar(1500, None, 2.0)
    error = capsys.readouterr().err
    assert error == (
        "\r|###############...............| 15 of 30, 8 simulations/s"
        "\r|##############################| 30 of 30, \n"
        "\r1,500 simulations, 2.0 s, 750 simulations/s"
    )
    tic_tac_toe().run(5, progress=True)
    assert capsys.readouterr().err.endswith("\n")


class Interrupting(Evaluation):
    """Random rollouts, in the midst of which somebody presses stop."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, game, positions, rng, discount):
        self.calls += 1
        if self.calls in self.at:
            signal.raise_signal(signal.SIGINT)
        return RandomRollout()(game, positions, rng, discount)


@pytest.mark.parametrize("record", [False, True])
def test_an_interrupt_keeps_the_tree_whole(record):
    before = signal.getsignal(signal.SIGINT)
    search = tic_tac_toe((2,), evaluation=Interrupting({11})).run(100, record=record)
    assert search.interrupted and search.simulations == 10  # the root was the first call
    assert_conserved(search)
    assert signal.getsignal(signal.SIGINT) is before
    assert not search.run(5).interrupted and search.simulations == 15


def test_a_second_interrupt_is_not_held():
    before = signal.getsignal(signal.SIGINT)

    class Twice(Interrupting):
        def __call__(self, *args):
            found = super().__call__(*args)
            if self.calls in self.at:
                signal.raise_signal(signal.SIGINT)
            return found

    with pytest.raises(KeyboardInterrupt):
        tic_tac_toe(evaluation=Twice({4})).run(100)
    assert signal.getsignal(signal.SIGINT) is before


# Networks ---------------------------------------------------------------------------------------------------------


def test_a_network_is_called_once_a_simulation_for_all_roots():
    sizes = []

    def network(td):
        assert not torch.is_grad_enabled() and set(td.keys()) == {"board", "turn", "mask"}
        sizes.append(len(td))
        return torch.zeros(len(td), 9), torch.zeros(len(td), 1)

    search = tic_tac_toe((16,), rule=PUCT(), evaluation=Network(network)).run(5)
    assert sizes == [16] * 6
    np.testing.assert_allclose(search.prior, 1 / 9)


def test_a_tensordict_module_and_other_keys():
    module = TensorDictModule(
        lambda board: (board.flatten(1).float(), board.flatten(1).float().mean(-1, keepdim=True)),
        ["board"], ["scores", "worth"],
    )  # fmt: skip
    search = tic_tac_toe((2,), rule=PUCT(), evaluation=Network(module, logits_key="scores", value_key="worth")).run(9)
    assert search.nodes.evaluation[0, 0] == -1 and search.visits.sum() == 18


def broken(kind, calls):
    """A network that is well until it has been called so often."""
    state = {"left": calls}

    def network(td):
        n, state["left"] = len(td), state["left"] - 1
        logits, value = torch.zeros(n, 9), torch.zeros(n)
        if state["left"] >= 0:
            return logits, value
        return {
            "few logits": (logits[:, :8], value),
            "long value": (logits, value[:1]),
            "nan prior": (logits + torch.nan, value),
            "inf value": (logits, value + torch.inf),
            "one tensor": logits,
            "other keys": TensorDict({"action": value}, [n]),
        }[kind]

    return network


NETWORKS = {
    "few logits": "The network's logits must have shape (3, 9), one logit per action, got (3, 8). It was called with 3 "
    "positions at once, so its first dimension is the batch. Fix: let the network return logits of shape "
    "[batch, actions].",
    "long value": "The network's value must have shape (3,), one value per position, got (1,). It was called with "
    "3 positions at once, so its first dimension is the batch. Fix: let the network return value of shape [batch].",
    "nan prior": "The network's logits has a value that is NaN or infinite for a legal action, first in position 0 of "
    "the batch. The tree was left as it was. Likely cause: the network diverged in training (look at its loss, or "
    "lower the learning rate), or its input is not finite.",
    "inf value": "The network's value has a value that is NaN or infinite, first in position 0 of the batch. The tree "
    "was left as it was. Likely cause: the network diverged in training (look at its loss, or lower the learning "
    "rate), or its input is not finite.",
    "one tensor": "The network returned a Tensor. It must return the pair (logits, value), or a TensorDict "
    'with "logits" and "state_value". Fix: Network(module, logits_key=..., value_key=...) names other entries.',
    "other keys": "The network returned a TensorDict with the entries ['action']. It must return the pair "
    '(logits, value), or a TensorDict with "logits" and "state_value". Fix: Network(module, logits_key=..., '
    "value_key=...) names other entries.",
}


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("record", [False, True])
def test_a_broken_network_leaves_the_tree_as_it_was(kind, record):
    search = tic_tac_toe((3,), rule=PUCT(), evaluation=Network(broken(kind, 6))).run(5, record=record)
    before = arrays(search)
    with pytest.raises((ValueError, TypeError)) as caught:
        search.run(1, record=record)
    assert str(caught.value) == NETWORKS[kind]
    assert same(arrays(search), before) and search.simulations == 5
    with pytest.raises((ValueError, TypeError)):
        search.reset(TensorDict(batch_size=[3]))
    assert same(arrays(search), before)


# Roots ------------------------------------------------------------------------------------------------------------


def test_noise_is_mixed_into_the_prior_of_the_root_alone():
    plain = tic_tac_toe((2,), rule=PUCT()).run(9)
    noisy = tic_tac_toe((2,), rule=PUCT(), noise=RootNoise(0.3, 0.5)).run(9)
    assert np.allclose(noisy.prior.sum(-1), 1) and (noisy.prior >= 0.5 / 9 - 1e-12).all()
    assert not np.allclose(noisy.prior[0], noisy.prior[1]) and not np.allclose(noisy.prior, plain.prior)
    assert np.allclose(noisy.nodes.prior[:, 1], 0.125 * noisy.nodes.legal[:, 1])
    assert not np.allclose(noisy.advance([4, 4]).prior[0], 0.125)


def test_the_subtree_is_kept_when_the_root_advances():
    search = tic_tac_toe(evaluation=RandomRollout(2)).run(300)
    child = int(search.nodes.children[0, 0, 4])
    want = search.table(child)
    visits, value = search.nodes.visits[0, child], search.nodes.value(child)
    search.advance(4)
    assert [row[:5] for row in search.table()] == [row[:5] for row in want]
    assert (search.nodes.visits[0, 0], search.nodes.value()) == (visits, value)
    assert search.simulations == 0 and search.nodes.path(search.nodes.children[0, 0, 0]) == [0]
    assert not search.nodes.visits[0, search.nodes.count[0] :].any()
    search.run(50)
    assert search.nodes.visits[0, 0] == visits + 50


def test_a_game_is_played_to_its_end_by_advancing():
    search = tic_tac_toe((3,), rule=PUCT())
    for action in (0, 3, 1, 4):
        search.run(30).advance([action] * 3)
    search.run(30).advance([2, 2, 5])  # two of them have won now
    assert search.nodes.terminal[:, 0].tolist() == [True, True, False]
    search.run(10)
    assert search.nodes.visits[2, 0] > 10 and search.nodes.edge_visits[:2, 0].sum() == 0


def test_an_illegal_action():
    search = tic_tac_toe((2,)).run(20).advance([4, 0])
    before = arrays(search)
    with pytest.raises(ValueError) as caught:
        search.advance([0, 0])
    assert str(caught.value) == (
        "advance got the action 0 for tree 1, and the legal actions of its root are [1, 2, 3, 4, 5, 6, 7, 8]."
    )
    assert same(arrays(search), before)


class Closed(GridWorldEnv):
    """Its mask closes all actions, at the start or after a step."""

    at = 0

    def _observe(self, state):
        data = super()._observe(state)
        data["action_mask"] = data["action_mask"] & bool((state != self.at).all())
        return data


def test_a_mask_with_no_legal_action():
    env = Closed(["S.G"], action_mask=True)
    with pytest.raises(ValueError) as caught:
        MCTS(env).reset(env.reset())
    text = (
        "The mask of {} 0 has no legal action, and the episode has not ended there. A search needs an action to try. "
        'Fix: in the env, set "done" where no action is left, or leave one open in the mask.'
    )
    assert str(caught.value) == text.format("root")
    env.at = 1
    search = MCTS(env, evaluation=RandomRollout(max_steps=1)).reset(env.reset())
    before = arrays(search)
    with pytest.raises(ValueError) as caught:
        search.run(1)
    assert str(caught.value) == text.format("position")
    assert same(arrays(search), before)


def test_no_root_and_nothing_to_take_back():
    search = MCTS(TicTacToeEnv())
    with pytest.raises(RuntimeError) as caught:
        search.run(3)
    assert str(caught.value) == (
        "The search has no root. Fix: search.reset(td) with what env.reset() or env.step() returned, then run."
    )
    with pytest.raises(RuntimeError) as caught:
        search.reset().run(3).back()
    assert str(caught.value) == (
        "There is no recorded simulation to take back: the search is at its first one, or the simulations were run "
        "without a record. Fix: search.step(), or search.run(..., record=True), records them."
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: MCTS(TicTacToeEnv(), discount=0), "discount must be above 0 and at most 1, got 0."),
        (
            lambda: MCTS(TicTacToeEnv(), value_range=(1, 1)),
            "value_range must be (least return, greatest return), got (1, 1).",
        ),
        (lambda: UCB1(-1), "UCB1(c=...) must be a number of at least 0, got -1."),
        (lambda: PUCT(base=0), "PUCT(base=...) must be a positive number of visits or None, got 0."),
        (lambda: EXP3(0), "EXP3(gamma=...), the share of uniform choices, must be above 0 and at most 1, got 0."),
        (lambda: RandomRollout(0), "RandomRollout takes positive integers, got rollouts=0, max_steps=None."),
        (
            lambda: RootNoise(alpha=0),
            "RootNoise takes a positive alpha and a fraction from 0 to 1, got alpha=0, fraction=0.25.",
        ),
        (
            lambda: Gumbel(0),
            "Gumbel takes positive numbers, got simulations=0, considered=16, c_visit=50.0, c_scale=0.1.",
        ),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense(make, text):
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value) == text


# Results ----------------------------------------------------------------------------------------------------------


def test_results_have_the_batch_of_the_roots():
    for batch in ((), (1,), (2, 3)):
        search = tic_tac_toe(batch).run(30)
        assert search.visits.shape == search.q_values.shape == search.policy.shape == (*batch, 9)
        assert search.best_action.shape == search.value.shape == batch
        np.testing.assert_allclose(search.policy.sum(-1), 1)
    assert np.isnan(tic_tac_toe().run(1).q_values[1:]).all()


def test_results_are_copies():
    search = tic_tac_toe().run(10)
    search.visits[:] = 0
    assert search.visits.sum() == 10


def test_two_searches_share_no_rule():
    rule = Gumbel(20)
    one = tic_tac_toe(rule=rule).run(5)
    tic_tac_toe((4,), rule=rule).run(5)
    assert one.run(5).simulations == 10


def test_sequential_halving_spends_its_budget_evenly():
    assert considered_visits(8, 24, 24) == (0,) * 8 + (1,) * 4 + (2,) * 4 + (3, 3, 4, 4, 5, 5, 6, 6)
    assert considered_visits(1, 4, 3) == (0, 1, 2)
    search = tic_tac_toe((5,), rule=Gumbel(32, considered=4)).run(32)
    assert ((search.visits > 0).sum(-1) == 4).all() and (search.visits.max(-1) >= 12).all()
    search.run(30)  # beyond the budget
    assert_conserved(search)


def test_a_search_is_a_tree():
    search = tic_tac_toe().run(60)
    tree = search.tree()
    assert isinstance(tree, Tree)
    nodes, n = search.nodes, int(search.nodes.count[0])
    assert tree.count == 61 and tree.num_vertices() == n and tree.num_children == 9
    assert tree.edges() and set(tree.edges()) == {(int(nodes.parent[0, i]), i) for i in range(1, n)}
    child = tree.subtree[4]
    assert int(child.branching_action) == 4 and int(child.visits) == nodes.visits[0, nodes.children[0, 0, 4]]
    assert child.node_observations["board"][1, 1] == 0
    path = search.tree().rollout_from_path((4,))
    assert path["next", "board"][0, 1, 1] == 0 and path["board"].max() == -1
    search.run(1)
    assert tree.count == 62  # the memory of the search


def test_a_search_of_a_grid_world_is_a_tree():
    tree = MCTS(GridWorldEnv(["S.G"], seed=0), seed=0).reset().run(8).tree()
    assert tree.to_string().splitlines()[0] == "(0,) {'observation': tensor(0)}"
    assert tree.subtree[2].branching_action.tolist() == [0, 0, 1, 0]


def test_rlnb_has_it():
    import rlnb

    assert rlnb.search.MCTS is MCTS
