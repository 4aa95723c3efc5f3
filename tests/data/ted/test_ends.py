"""The definition of an episode's end, for one agent and for several."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlnb.data import check_ted
from rlnb.data.ted.ends import episode_end_flags


def steps_of_agents(agents, root=None, before=None):
    """Three steps of two agents, whose "done" is given as rows of 0 and 1."""
    done = torch.tensor(agents).bool().unsqueeze(-1)
    data = TensorDict({"next": {"agents": TensorDict({"done": done}, [3, 2])}}, [3])
    if root is not None:
        data["next", "done"] = torch.tensor(root).bool().unsqueeze(-1)
    if before is not None:
        data["agents"] = TensorDict({"done": torch.tensor(before).bool().unsqueeze(-1)}, [3, 2])
    return data


def test_the_root_decides():
    data = steps_of_agents([[0, 1], [0, 1], [1, 1]], root=[0, 0, 1])
    assert episode_end_flags(data).tolist() == [False, False, True]


def test_without_a_root_the_first_agent_ends_the_episode():
    assert episode_end_flags(steps_of_agents([[0, 0], [0, 1], [0, 0]])).tolist() == [False, True, False]


def test_an_agent_that_waits_does_not_end_the_episode_again():
    data = steps_of_agents([[0, 1], [0, 1], [1, 1]], before=[[0, 0], [0, 1], [0, 1]])
    assert episode_end_flags(data).tolist() == [True, False, True]


def test_a_single_step_and_data_without_signals():
    data = steps_of_agents([[0, 0], [0, 1], [0, 0]])
    assert episode_end_flags(data[1]).item() is True and episode_end_flags(data[0]).shape == torch.Size([])
    nothing = TensorDict({"next": TensorDict({"reward": torch.zeros(2, 3, 1)}, [2, 3])}, [2, 3])
    assert episode_end_flags(nothing).tolist() == [[False] * 3] * 2


def test_an_id_goes_on_where_only_an_agent_is_done():
    """The root says that the episode goes on, so the id must not change at the end of one agent."""
    data = steps_of_agents([[0, 1], [0, 1], [1, 1]], root=[0, 0, 1])
    data["collector"] = TensorDict({"traj_ids": torch.zeros(3, dtype=torch.int64)}, [3])
    assert "episodes" not in check_ted(data).broken()
    data["next", "done"][0] = True
    assert "episodes" in check_ted(data).broken()
