"""The scores as modules: the documented formulas, any batch, actions never taken, missing entries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb import modules
from rlnb.modules.mcts import EXP3Score, MCTSScore, MCTSScores, PUCTScore, UCB1TunedScore, UCBScore, formulas, scores


def node(batch=()):
    data = {
        "win_count": torch.tensor([15.0, 25.0, 0.0]),
        "visits": torch.tensor([10.0, 40.0, 0.0]),
        "prior_prob": torch.tensor([0.5, 0.3, 0.2]),
        "sum_squared_rewards": torch.tensor([23.0, 22.0, 0.0]),
        "weights": torch.tensor([1.0, 2.0, 3.0]),
    }
    data = {key: value.expand(*batch, 3).clone() for key, value in data.items()}
    return TensorDict({**data, "total_visits": torch.full(batch, 100.0), "num_actions": torch.full(batch, 3)}, batch)


WANT = {
    # As a released TorchRL gives them, but for actions that were never taken: there it gives NaN for the first two.
    "PUCT": [1.5 + 5 * 0.5 * 10 / 11, 0.625 + 5 * 0.3 * 10 / 41, 10.0],
    "UCB": [1.5 + math.sqrt(2) * 10 / 11, 0.625 + math.sqrt(2) * 10 / 41, math.sqrt(2) * 10],
    "UCB1_TUNED": [1.5 + math.sqrt(math.log(100) / 10 * 0.25), 0.625 + math.sqrt(math.log(100) / 40 * 0.25), 3.4028e37],
    "EXP3": [0.9 / 6 + 0.1 / 3, 0.9 / 3 + 0.1 / 3, 0.9 / 2 + 0.1 / 3],
}


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("name", WANT)
def test_the_documented_formulas(name, batch):
    module = MCTSScores[name]()
    assert isinstance(module, MCTSScore) and type(MCTSScores[name].value()) is type(module)
    td = module(node(batch))
    want = torch.tensor(WANT[name]).expand(*batch, 3)
    torch.testing.assert_close(td["score"], want, rtol=1e-4, atol=0)
    if name == "EXP3":
        torch.testing.assert_close(td["action_prob"], td["score"])


def test_the_variance_counts():
    steady = TensorDict(
        win_count=torch.tensor([50.0]), visits=torch.tensor([100.0]), total_visits=torch.tensor(200.0),
        sum_squared_rewards=torch.tensor([25.0]),
    )  # fmt: skip
    bound = math.log(200) / 100
    want = 0.5 + math.sqrt(bound * min(0.25, math.sqrt(0.1 * bound)))
    assert UCB1TunedScore(exploration_constant=0.1)(steady)["score"].item() == pytest.approx(want)
    below = steady.clone().set("sum_squared_rewards", torch.tensor([1.0]))  # no returns in [0, 1] have such squares
    assert UCB1TunedScore(exploration_constant=0.0)(below)["score"].item() == 0.5


def test_other_keys_and_constants():
    td = TensorDict({"w": torch.ones(2), "n": torch.ones(2), ("root", "n"): torch.tensor(4.0), "p": torch.ones(2) / 2})
    keys = {"win_count_key": "w", "visits_key": "n", "total_visits_key": ("root", "n"), "score_key": ("out", "s")}
    assert PUCTScore(c=2.0, prior_prob_key="p", **keys)(td)["out", "s"].tolist() == [2.0, 2.0]
    assert UCBScore(c=2.0, **keys)(td)["out", "s"].tolist() == [3.0, 3.0]


def test_a_missing_entry():
    with pytest.raises(KeyError) as caught:
        UCBScore(c=1.0)(TensorDict(visits=torch.ones(2), win_count=torch.ones(2)))
    assert caught.value.args[0] == (
        "UCBScore reads ['win_count', 'total_visits', 'visits'] and found no 'total_visits': the TensorDict has "
        "['visits', 'win_count']. Fix: set it, or name the entry that has it when you make the UCBScore."
    )


def test_gamma_is_a_share():
    with pytest.raises(ValueError) as caught:
        EXP3Score(gamma=2)
    assert str(caught.value) == "EXP3Score(gamma=...), the share of uniform choices, must be from 0 to 1, got 2."


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 1000), st.integers(1, 10_000), st.floats(0, 1), st.floats(0, 3))
def test_a_formula_is_the_same_for_numbers_arrays_and_tensors(value, square, visits, total, prior, c):
    def of(kind):
        v, s, n, p = kind(value), kind(square), kind(float(visits)), kind(prior)
        log, root = kind(math.log(total)), kind(math.sqrt(total))
        return [
            formulas.ucb1(v, n, log, c), formulas.ucb1_tuned(v, s, n, log, c), formulas.puct(v, n, root, p, c),
            formulas.exp3(p, n, min(c, 1)),
        ]  # fmt: skip

    plain = of(float)
    np.testing.assert_allclose(np.array(of(lambda x: np.array([x])))[:, 0], plain, rtol=1e-12)
    np.testing.assert_allclose(
        [t.item() for t in of(lambda x: torch.tensor([x], dtype=torch.float64))], plain, rtol=1e-12
    )


def test_all_are_exported():
    for name in scores.__all__:
        assert getattr(modules, name) is getattr(scores, name)
