"""SpreadEnv's end signals and resets at two levels: of an agent, and of all."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlnb.data import check_ted
from rlnb.envs import MarlGroupMapType, SpreadEnv
from tests.envs.custom.spreads import act, index_env

STAY, LEFT, DOWN, RIGHT, UP = range(5)


def parked(**options):
    """Agent 0 walks onto a landmark with its first step, agent 1 is far from its own."""
    where = [(0, 0), (2, 2)], [(0, 1), (2, 0)]
    env, td = index_env(2, 3, *where, agent_done=True, **options)
    return env, env.step(td.set(("agents", "action"), torch.tensor([RIGHT, STAY])))


def test_an_agent_that_is_done_stays_and_earns_nothing():
    env, step = parked()
    assert step["next", "agents", "done"].flatten().tolist() == [True, False]
    assert not step["next", "done"]
    after = act(env, env._step_mdp(step), LEFT, LEFT)
    assert after["state"][0].tolist() == [0, 1, 0]
    assert after["agents", "reward"].flatten().tolist() == [0.0, -1.0]
    second = env.step(env._step_mdp(step).set(("agents", "action"), torch.tensor([DOWN, LEFT])))
    last = act(env, env._step_mdp(second), UP, LEFT)
    assert last["agents", "done"].all() and last["done"] and last["terminated"] and not last["truncated"]


@pytest.mark.parametrize("any_done", [True, False])
def test_the_root_is_done_with_any_or_all(any_done):
    _, step = parked(done_on_any=any_done)
    assert step["next", "done"].item() is step["next", "terminated"].item() is any_done
    assert not step["next", "truncated"]


@pytest.mark.parametrize("any_done", [True, False])
@given(seed=st.integers(0, 2**31))
@settings(max_examples=10)
def test_the_laws_of_end_signals(any_done, seed):
    env = SpreadEnv(2, 3, agent_done=True, done_on_any=any_done, batch_size=[12], seed=seed, max_steps=5)
    after = env.rollout(12, break_when_any_done=False)["next"]
    for level in (after, after["agents"]):
        assert torch.equal(level["done"], level["terminated"] | level["truncated"])
    agents = after["agents", "done"]
    assert torch.equal(after["done"], agents.any(-2) if any_done else agents.all(-2))
    ended = after["agents", "terminated"]
    assert torch.equal(after["terminated"], ended.any(-2) if any_done else ended.all(-2))


def test_time_is_up_for_those_who_are_not_there():
    env, step = parked(max_steps=2)
    after = act(env, env._step_mdp(step), STAY, UP)
    assert after["agents", "terminated"].flatten().tolist() == [True, False]
    assert after["agents", "truncated"].all()
    assert after["done"] and after["truncated"] and not after["terminated"]


@pytest.mark.parametrize("group_map", [MarlGroupMapType.ALL_IN_ONE_GROUP, MarlGroupMapType.ONE_GROUP_PER_AGENT])
@pytest.mark.parametrize("seed", range(5))
def test_one_agent_is_reset_alone(group_map, seed):
    env = SpreadEnv(3, 4, agent_done=True, batch_size=[3], group_map=group_map, seed=seed)
    step = env.rollout(5, break_when_any_done=False)[:, -1]
    td = env._step_mdp(step)
    mask = torch.zeros(3, 3, 1, dtype=torch.bool)
    mask[1, 2] = True
    before, steps = td.clone(), env._steps.clone()
    groups = env._groups.split({"_reset": mask}, env.batch_size)
    for group in env.group_map:
        td[group, "_reset"] = groups[group]["_reset"]
    td = env.reset(td)
    assert not any(key[-1] == "_reset" for key in td.keys(True) if isinstance(key, tuple))
    own = mask.squeeze(-1)
    state, old = td["state"], before["state"]
    assert torch.equal(state[:, :3][~own], old[:, :3][~own]), "the others stay where they are"
    assert torch.equal(state[:, 3:, :2], old[:, 3:, :2]), "the landmarks stay"
    assert torch.equal(env._state, state)
    assert torch.equal(env._steps, steps.masked_fill(own, 0))
    places = [tuple(row) for row in state[1, :, :2].tolist()]
    assert places[2] not in (*places[:2], *places[3:]), "the new place is free"
    for group in env.group_map:
        again, was, marked = td[group], before[group], groups[group]["_reset"].squeeze(-1)
        assert (again[~marked] == was[~marked]).all(), "the data of the others is as it was"
        assert not again["done"][marked].any()
    observed = env._groups.join(td, "observation")[1, 2]
    assert observed[:2].tolist() == list(map(float, places[2]))
    check = env.rollout(3, auto_reset=False, tensordict=td)
    assert torch.equal(check["state"][:, 0], state)


def test_agents_that_are_reset_together_get_places_apart():
    env = SpreadEnv(3, (2, 3), agent_done=True, batch_size=[500], seed=0)
    td = env.reset()
    landmarks = td["state"][:, 3:].clone()
    td["agents", "_reset"] = torch.tensor([[True], [False], [True]]).expand(500, 3, 1).clone()
    state = env.reset(td)["state"]
    cells = state[..., 0] * 3 + state[..., 1]
    assert (cells.sort(-1).values.diff(dim=-1) > 0).all() and torch.equal(state[:, 3:], landmarks)


@pytest.mark.parametrize("agent_done", [True, False])
def test_a_mask_at_the_root_resets_whole_copies(agent_done):
    env = SpreadEnv(2, 4, agent_done=agent_done, batch_size=[2, 2], seed=0)
    td = env._step_mdp(env.rollout(4, break_when_any_done=False)[..., -1])
    before, steps = td.clone(), env._steps.clone()
    mask = torch.tensor([[[False], [True]], [[False], [False]]])
    td = env.reset(td.set("_reset", mask))
    row = mask.squeeze(-1)
    assert (td[~row] == before[~row]).all()
    assert not td["done"][row].any() and (env._steps[row] == 0).all() and torch.equal(env._steps[~row], steps[~row])
    assert torch.equal(td["state"], env._state)
    assert not torch.equal(td["state"][row], before["state"][row])
    assert (td["agents", "observation"][..., :2] == td["state"][..., :2, :2]).all()


def test_a_mask_at_the_root_prevails():
    env, step = parked()
    td = env._step_mdp(step)
    td["_reset"], td["agents", "_reset"] = torch.tensor([True]), torch.zeros(2, 1, dtype=torch.bool)
    td = env.reset(td)
    assert not td["agents", "done"].any() and not env._steps.any()


def test_agents_without_ends_of_their_own_cannot_be_reset_alone():
    env = SpreadEnv(2, seed=0)
    td = env.reset()
    td["agents", "_reset"] = torch.ones(2, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match=re.escape("This env can be reset at: ['_reset'].")):
        env.reset(td)


def test_a_rollout_resets_the_copies_that_end():
    env = SpreadEnv(2, 3, batch_size=[4], agent_done=True, seed=0, max_steps=4)
    data = env.rollout(40, break_when_any_done=False)
    ended = data["next", "done"][:, :-1, 0]
    assert ended.any() and not data["done"].any()
    goes_on = ~ended
    assert torch.equal(data["next", "state"][:, :-1][goes_on], data["state"][:, 1:][goes_on])
    assert not data["agents", "done"][:, 1:][ended].any(), "a new episode starts with all agents"


def test_an_agent_that_waits_for_the_others_is_no_fault_of_the_data():
    data = SpreadEnv(2, 3, agent_done=True, batch_size=[3], max_steps=20, seed=0).rollout(60, break_when_any_done=False)
    assert data["agents", "done"].any() and check_ted(data).ok


def test_a_single_copy_is_reset_and_goes_on():
    data = SpreadEnv(2, 3, max_steps=5, seed=0).rollout(12, break_when_any_done=False)
    assert data["next", "truncated"].flatten().nonzero().flatten().tolist() == [4, 9]
