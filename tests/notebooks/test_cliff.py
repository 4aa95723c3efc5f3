"""CliffWalking as a table: it equals the environment, and learning on it finds the paths in the lesson."""

from __future__ import annotations

import torch
from exercises.cliff import ACTIONS, CLIFF, START, STATES, cliff_map, greedy_path, learn, sarsa, steps_of_cliff
from exercises.stacked import Stacked

from rlnb.envs import GymEnv


def shortest() -> torch.Tensor:
    """Action values whose greedy actions go up, along the edge, and down."""
    Q = torch.zeros(STATES, ACTIONS)
    Q[START, 0] = 1.0
    Q[24:35, 1] = 1.0
    Q[35, 2] = 1.0
    return Q


def test_the_table_is_that_of_the_environment() -> None:
    world = steps_of_cliff()
    env = GymEnv("CliffWalking-v1", categorical_action_encoding=True, max_episode_steps=400)
    env.set_seed(0)
    torch.manual_seed(0)
    td = env.rollout(400)
    for row in td[:200]:
        after = row["next"]
        expected = world[int(row["observation"])][int(row["action"])]
        found = (int(after["observation"]), float(after["reward"]), bool(after["terminated"]))
        assert found == (int(expected[0]), float(expected[1]), bool(expected[2]))


def test_the_greedy_path_is_followed_to_the_goal_or_given_up() -> None:
    cells = greedy_path(shortest())
    assert len(cells) == 14 and cells[1] == 24 and cells[-1] == 47
    assert len(greedy_path(torch.zeros(STATES, ACTIONS))) == 100


def test_sarsa_keeps_away_from_the_edge_and_improves() -> None:
    Q, returns = learn(sarsa, 300, alpha=0.3)
    assert sum(returns[-100:]) / 100 > sum(returns[:20]) / 20 + 50
    path = greedy_path(Q)
    assert path[-1] == 47 and len(path) > 14
    assert learn(sarsa, 20)[1] == learn(sarsa, 20)[1], "seeded"


def test_the_map_has_the_directions_of_the_cliff() -> None:
    lines = repr(cliff_map({"Q": shortest()})).splitlines()
    assert lines[0] == "Q" and lines[4].split()[0] == "1.00^"
    assert lines[3].split() == ["1.00>"] * 11 + ["1.00v"]
    assert lines[4].split()[1:] == ["C"] * 10 + ["G"]
    assert lines[1].split() == ["0.00"] * 12 and len(CLIFF) == 4


def test_stacked_pictures_have_all_texts_and_pictures() -> None:
    one, two = cliff_map({"a": shortest()}), cliff_map({"b": shortest()})
    both = Stacked((one, two))
    assert repr(both) == f"{one!r}\n{two!r}"
    assert both._repr_html_().count("<img") == 2
