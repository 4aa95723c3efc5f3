"""The starts that the player reports are those of the environment, compared with its ``_reset`` masks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets.rollout_player.agents import RESTART
from rlnb_widgets.rollout_player.episodes import KINDS
from rlnb_widgets.rollout_player.model import player_model
from tensordict import TensorDict

from rlnb.envs import MarlGroupMapType, SpreadEnv, step_mdp

ALL, EACH = MarlGroupMapType.ALL_IN_ONE_GROUP, MarlGroupMapType.ONE_GROUP_PER_AGENT


def numbered(observation):
    """Send agent i to landmark i, along the longer side first."""
    down, right = observation[..., 2:8].unflatten(-1, (3, 2)).diagonal(dim1=-3, dim2=-2).mT.unbind(-1)
    move = torch.where(right.abs() >= down.abs(), torch.where(right > 0, 3, 1), torch.where(down > 0, 2, 4))
    return torch.where((down == 0) & (right == 0), 0, move)


class Recorded(SpreadEnv):
    """Notes which copies and which agents are reset, and before which step."""

    def __init__(self, **kwargs):
        super().__init__(3, size=6, agent_done=True, categorical_action_encoding=True, **kwargs)
        self.taken, self.whole, self.alone = 0, [], []

    def _reset(self, tensordict=None, **kwargs):
        copies, agents = self._masks(tensordict)
        if copies is not None:
            self.whole += [(*place, self.taken) for place in copies.reshape(-1).nonzero().tolist()]
        elif agents is not None:
            self.alone += [(e, self.taken, k) for e, k in agents.reshape(-1, self.n_agents).nonzero().tolist()]
        return super()._reset(tensordict, **kwargs)

    def joined(self, data, name):
        """An entry of all agents, whatever their groups."""
        return torch.cat([data[group, name] for group in self.group_map], -2)


def play(env, seed, steps, how_often, see_at_once=False):
    """Play, and now and then reset the agents that have ended."""
    env.set_seed(seed)
    chance = torch.Generator().manual_seed(seed)
    keys = {"reward_keys": env.reward_keys, "done_keys": env.done_keys, "action_keys": env.action_keys}
    data, rows = env.reset(), []
    for t in range(steps):
        moves = numbered(env.joined(data, "observation"))
        for k, group in enumerate(env.group_map):
            data[group, "action"] = moves if len(env.group_map) == 1 else moves[..., k : k + 1]
        rows.append(env.step(data))
        env.taken, data = t + 1, step_mdp(rows[-1], **keys)
        if t + 1 == steps:
            break
        if data["done"].any():
            data["_reset"] = data["done"].clone()
            data = env.reset(data)
        elif env.joined(data, "done").any() and torch.rand((), generator=chance) < how_often:
            for group in env.group_map:
                data[group, "_reset"] = data[group, "done"].clone()
            data = env.reset(data)
            if see_at_once:
                for group, of_group in env._groups.split(env._observe(env._state), env.batch_size, None).items():
                    data[group, "observation"] = of_group["observation"]
    return torch.stack(rows, -1)


def said(data):
    """What the player says: resets of the whole, resets of agents alone, and cuts."""
    model = player_model(data)
    whole = [(e, t) for e, t in zip(*model.resets.nonzero(), strict=True)]
    agents = [agent for group in model.groups for agent in group.agents]
    alone = [(e, t, k) for k, a in enumerate(agents) for e, t in zip(*(a.lane >= RESTART).nonzero(), strict=True)]
    cuts = [(e, t) for e, t in zip(*(model.code == KINDS.index("cut")).nonzero(), strict=True)]
    return whole, sorted(alone), cuts


@given(
    seed=st.integers(0, 10_000),
    groups=st.sampled_from([ALL, EACH]),
    how_often=st.sampled_from([0.0, 0.3, 1.0]),
    see_at_once=st.booleans(),
)
def test_what_is_said_of_starts_is_what_happened(seed, groups, how_often, see_at_once):
    env = Recorded(group_map=groups, max_steps=15)
    data = play(env, seed, 25, how_often, see_at_once)
    assert said(data) == (sorted(env.whole), sorted(env.alone), [])


@pytest.mark.parametrize("seed", range(4))
def test_in_a_batch(seed):
    env = Recorded(batch_size=[3], max_steps=15)
    data = play(env, seed, 25, 0.5)
    assert said(data) == (sorted(env.whole), sorted(env.alone), [])
    assert env.alone


def test_the_seed_that_was_read_as_a_cut():
    env = Recorded()
    env.set_seed(6)
    assert player_model(play(env, 6, 25, 1.0)).notes == (
        'next[t] and root[t+1] differ at 10 steps, first at t = 0 in ("agents", "observation"): an agent was reset '
        "alone, and what it starts from stands in the root only.",
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("groups", [ALL, EACH])
def test_the_seams_of_a_flattened_batch_stay_cuts(seed, groups):
    env = SpreadEnv(3, size=6, agent_done=True, group_map=groups, batch_size=[4], seed=seed)
    data = env.rollout(9, break_when_any_done=False)
    over = data["next", "done"][:, -1].flatten()
    seams = [9 * row + 8 for row in range(3) if not over[row]]
    assert [t for _, t in said(data.reshape(-1))[2]] == seams


def agents(observation, over, waits):
    """Two agents with a number each, in one trajectory of three steps."""
    flags = {"done": torch.tensor(over)[..., None], "terminated": torch.tensor(over)[..., None]}
    none = torch.zeros(3, 1, dtype=torch.bool)
    root = {"observation": torch.tensor(observation)[..., None], "done": torch.tensor(waits)[..., None]}
    following = {"observation": torch.tensor(observation)[..., None] + 1, "reward": torch.ones(3, 2, 1), **flags}
    whole = {"agents": following, "done": none, "terminated": none}
    return TensorDict({"agents": root, "next": whole}, [3])


ENDED, NONE = [[True, False], [False, False], [False, False]], [[False, False]] * 3


def test_one_that_begins_anew_while_the_other_goes_on():
    assert said(agents([[0.0, 0.0], [90.0, 1.0], [91.0, 2.0]], ENDED, NONE)) == ([], [(0, 1, 0)], [])


def test_another_trajectory_whose_other_agents_are_elsewhere_too():
    assert said(agents([[0.0, 0.0], [90.0, 50.0], [91.0, 51.0]], ENDED, NONE)) == ([], [], [(0, 0)])


def test_one_that_waits_was_not_reset():
    waits = [[False, False], [True, False], [True, False]]
    assert said(agents([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], ENDED, waits)) == ([], [], [])
