"""Grid worlds: maps, walls, starts, rewards, slips and masks."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import GridWorldEnv
from rlnb.envs.custom.grid_world import read_map

MAP = ("S.G", ".#H")


def walk(env, *actions):
    td, seen = env.reset(), []
    for action in actions:
        td = env.step(td.set("action", torch.tensor(action)))
        after = td["next"]
        seen.append((after["observation"].item(), after["reward"].item(), after["terminated"].item()))
        td = env._step_mdp(td).exclude("done")  # who does not know that it is over may step
    return seen


@pytest.mark.parametrize(
    ("actions", "cells"),
    [
        ((0, 3), [0, 0]),  # off the map
        ((2, 1), [1, 1]),  # into a wall from above
        ((1, 2), [3, 3]),  # into a wall from the side
        ((2, 2), [1, 2]),
        ((1, 3, 2), [3, 0, 1]),
    ],
)
def test_moves(actions, cells):
    env = GridWorldEnv(MAP, categorical_action_encoding=True)
    assert [cell for cell, *_ in walk(env, *actions)] == cells


def test_a_goal_of_the_default_map_can_be_reached():
    env = GridWorldEnv()
    found = set(env._starts.tolist())
    for _ in range(env.n_states):
        found |= {cell for known in found for cell in env._target[known].tolist()}
    letters = "".join(env.desc)
    assert {"G", "H"} <= {letters[cell] for cell in found}
    assert "#" not in {letters[cell] for cell in found}


def test_rewards_and_ends():
    env = GridWorldEnv(
        ("SG", "H."), goal_reward=5.0, hole_reward=-7.0, step_reward=-1.0, categorical_action_encoding=True
    )
    # Beyond the end of an episode the agent stays, and earns nothing.
    assert walk(env, 0, 2, 1) == [(0, -1.0, False), (1, 5.0, True), (1, 0.0, True)]
    assert walk(env, 1, 2) == [(2, -7.0, True), (2, 0.0, True)]


def test_each_start_is_drawn_as_often():
    env = GridWorldEnv(("S.S", "GS."), batch_size=[6000], seed=0)
    counts = torch.bincount(env.reset()["observation"], minlength=6)
    assert (counts[[1, 3, 5]] == 0).all()
    assert (counts[[0, 2, 4]] > 1850).all()


@pytest.mark.parametrize("slip", [0.0, 0.3, 1.0])
def test_a_slip_goes_to_either_side_with_half_its_probability(slip):
    n = 8000
    env = GridWorldEnv(("...", ".S.", "..."), slip=slip, batch_size=[n], seed=0, categorical_action_encoding=True)
    ahead = {0: 3, 1: 7, 2: 5, 3: 1}
    for action, cell in ahead.items():
        env.reset()
        after = env.step(TensorDict({"action": torch.full((n,), action)}, [n]))["next", "observation"]
        share = torch.bincount(after, minlength=9) / n
        sides = [c for c in ahead.values() if c not in (cell, 8 - cell)]
        assert share[cell] == pytest.approx(1 - slip, abs=0.02)
        assert [share[c].item() for c in sides] == pytest.approx([slip / 2] * 2, abs=0.02)
        assert share[8 - cell] == share[4] == 0


def test_masks_mark_the_moves_that_lead_elsewhere():
    env = GridWorldEnv(MAP, action_mask=True, batch_size=[4])
    td = env.reset(state=torch.tensor([0, 1, 3, 0]))
    assert td["action_mask"].tolist() == [
        [False, True, True, False],
        [True, False, True, False],
        [False, False, False, True],
        [False, True, True, False],
    ]
    alone = GridWorldEnv(("#S#", "###"), action_mask=True)
    assert alone.reset()["action_mask"].all(), "a cell without a way out has all moves"
    assert "action_mask" not in GridWorldEnv(MAP).reset()


def test_masks_follow_the_agent():
    env = GridWorldEnv(MAP, action_mask=True, batch_size=[64], seed=0)
    data = env.rollout(30, break_when_any_done=False)
    inside = ~data["next", "done"].squeeze(-1)
    index = data["action"].argmax(-1)
    allowed = data["action_mask"].gather(-1, index.unsqueeze(-1)).squeeze(-1)
    moved = data["observation"] != data["next", "observation"]
    assert torch.equal(allowed[inside], moved[inside])


def test_maps_are_read_from_rows_and_from_text():
    assert read_map("S.G\n.#H\n") == read_map(list(MAP)) == MAP
    assert GridWorldEnv("\n  S.\n  .G\n").desc == ("S.", ".G")


@pytest.mark.parametrize(
    ("desc", "text"),
    [
        (("S.", "..."), "The rows of a map must be equally long and not empty, and they are ['S.', '...']."),
        ((), "The rows of a map must be equally long and not empty, and they are []."),
        ("", "The rows of a map must be equally long and not empty, and they are []."),
        (
            ("S.", "?G"),
            "The map has '?' at row 1, column 0. Its letters are 'S' start, 'G' goal, 'H' hole, '#' wall, '.' free, "
            "'F' free (frozen).",
        ),
        (("..", ".G"), "The map has no start. Fix: put an 'S' where the agent is to start."),
    ],
)
def test_a_bad_map_is_explained(desc, text):
    with pytest.raises(ValueError) as error:
        GridWorldEnv(desc)
    assert str(error.value) == text


@pytest.mark.parametrize("slip", [-0.1, 1.1])
def test_slip_is_a_probability(slip):
    with pytest.raises(ValueError) as error:
        GridWorldEnv(slip=slip)
    assert str(error.value) == f"slip must be a probability from 0 to 1 and is {slip}."


@pytest.mark.parametrize("cell", [-1, 4, 6])
def test_a_reset_refuses_walls_and_what_is_off_the_map(cell):
    env = GridWorldEnv(MAP)
    env.reset(state=torch.tensor(3))
    with pytest.raises(ValueError) as error:
        env.reset(state=torch.tensor(cell))
    assert str(error.value) == (
        f"GridWorldEnv.reset(state=...) got the cell {cell}: a cell is row * columns + column, from 0 to 5, and not a "
        "wall."
    )
    assert env._state == 3
