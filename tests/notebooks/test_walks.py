"""The random walk with known values, and the learner that the checks compare with."""

from __future__ import annotations

from itertools import pairwise

import torch
from exercises.walks import (
    HOME,
    START,
    STATES,
    episode_of,
    error_curve,
    first_guess,
    learn_n_step,
    true_values,
    walks,
)

from rlnb.data import check_ted


def test_walks_are_episodes_from_the_middle_to_an_end() -> None:
    for run in walks(2, 5):
        for episode in run:
            cells = [*episode["observation"].tolist(), int(episode["next", "observation"][-1])]
            assert cells[0] == START and cells[-1] in (0, HOME) and not {0, HOME} & set(cells[:-1])
            assert all(abs(a - b) == 1 for a, b in pairwise(cells))
            assert episode["next", "reward"].sum() == float(cells[-1] == HOME)
            assert check_ted(episode).ok


def test_the_true_values_are_a_fixed_point_of_the_coin() -> None:
    true = true_values()
    home = torch.cat([true[:-1], torch.ones(1)])  # the reward of the step home
    assert torch.allclose(true[1:HOME], (home[: HOME - 1] + home[2:]) / 2)


def test_one_step_and_all_steps_are_td_and_monte_carlo() -> None:
    values, episode = torch.arange(STATES) / 10.0, episode_of([5, 6, 7], [1.0, 2.0])
    one = learn_n_step(values, episode, 1, 0.5, 0.5)
    assert torch.allclose(one[5:7], torch.tensor([0.5 + 0.5 * (1.0 + 0.5 * 0.6 - 0.5), 0.6 + 0.5 * (2.0 - 0.6)]))
    full = learn_n_step(values, episode, 9, 0.5, 0.5)
    assert torch.allclose(full[5:7], torch.tensor([0.5 + 0.5 * (2.0 - 0.5), 0.6 + 0.5 * (2.0 - 0.6)]))
    assert torch.equal(one[[0, 1, 8]], values[[0, 1, 8]])


def test_the_error_begins_with_the_guess_and_is_0_for_the_truth() -> None:
    assert error_curve(lambda values, episode: true_values(), runs=2, episodes=3)[1:] == [0.0, 0.0, 0.0]
    kept = error_curve(lambda values, episode: values, runs=2, episodes=3)
    guess = (first_guess() - true_values())[1:HOME].square().mean().sqrt().item()
    assert all(abs(error - guess) < 1e-6 for error in kept)
