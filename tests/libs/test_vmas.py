"""VmasEnv and VmasWrapper beside VMAS itself."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import vmas
from rlnb_widgets import RolloutPlayer
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.scenes.vmas import MARKS
from tensordict.nn import TensorDictModule

from rlnb.data import Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot
from rlnb.envs import MarlGroupMapType, ParallelEnv, TransformedEnv, VmasEnv, VmasWrapper, check_env_specs
from rlnb.record import PixelRenderTransform
from tests.libs.wrappers import assert_keeps_promises, assert_same


def balance(**kwargs):
    return VmasEnv("balance", num_envs=3, **{"max_steps": 4, **kwargs})


@pytest.mark.parametrize(
    "make", [balance, lambda: VmasEnv("simple_tag", num_envs=2, continuous_actions=False)], ids=["balance", "tag"]
)
def test_the_wrapper_keeps_its_promises(make):
    assert_keeps_promises(make)


def test_the_data_are_those_of_the_own_loop():
    env = balance(seed=5, max_steps=3)
    rollout = env.rollout(8, break_when_any_done=False)
    own = vmas.make_env("balance", num_envs=3, max_steps=3)
    observations, infos = own.reset(seed=5, return_info=True)
    for t in range(8):
        now, after = rollout[:, t], rollout[:, t]["next"]
        assert torch.equal(now["agents", "observation"], torch.stack(observations, 1)), t
        actions = list(now["agents", "action"].unbind(1))
        observations, rewards, dones, infos = own.step(actions)
        assert torch.equal(after["agents", "observation"], torch.stack(observations, 1))
        assert torch.equal(after["agents", "reward"], torch.stack(rewards, 1).unsqueeze(-1))
        assert torch.equal(after["done"], dones.unsqueeze(-1)) and torch.equal(after["terminated"], after["done"])
        for name in infos[0]:
            want = torch.stack([info[name] for info in infos], 1).unsqueeze(-1)
            assert torch.equal(after["agents", "info", name], want)
        if dones.any():
            assert dones.all(), "all end at max_steps"
            observations, infos = own.reset(return_info=True)


def test_one_row_is_reset_and_the_others_go_on():
    env = balance(seed=1, max_steps=None)
    td = env.rand_step(env.reset())
    after = env.step_mdp(td)
    before = after.clone()
    mask = torch.tensor([[False], [True], [False]])
    again = env.reset(after.set("_reset", mask))
    kept = ~mask.squeeze(-1)
    assert torch.equal(again["agents", "observation"][kept], before["agents", "observation"][kept])
    assert not torch.equal(again["agents", "observation"][1], before["agents", "observation"][1])
    env.rand_step(again)


def test_each_env_draws_its_own_numbers():
    first, second = balance(), balance()
    first.set_seed(3)
    alone = first.reset()
    first.set_seed(3)
    second.set_seed(4)
    second.reset()
    assert_same(first.reset().exclude(("agents", "info")), alone.exclude(("agents", "info")))
    shared = first._env.vmas_random_state[0].clone()
    first.reset()
    assert torch.equal(shared, first._env.vmas_random_state[0]), "VMAS's own state is left alone"


KINDS = [
    ({}, Bounded, (2, 3, 2)),
    ({"continuous_actions": False}, Categorical, (2, 3)),
    ({"continuous_actions": False, "categorical_actions": False}, OneHot, (2, 3, 9)),
    ({"continuous_actions": False, "multidiscrete_actions": True}, MultiCategorical, (2, 3, 2)),
    (
        {"continuous_actions": False, "multidiscrete_actions": True, "categorical_actions": False},
        MultiOneHot,
        (2, 3, 6),
    ),
]


@pytest.mark.parametrize(("kwargs", "kind", "shape"), KINDS, ids=[kind.__name__ for _, kind, _ in KINDS])
def test_actions_of_every_kind_move_the_agents_alike(kwargs, kind, shape):
    env = VmasEnv("simple_tag", num_envs=2, **kwargs)
    spec = env.full_action_spec["adversary", "action"]
    assert isinstance(spec, kind) and spec.shape == shape
    env.set_seed(0)
    td = env.rand_step(env.reset())
    own = vmas.make_env(
        "simple_tag", num_envs=2, continuous_actions=not kwargs, multidiscrete_actions="multidiscrete_actions" in kwargs
    )
    own.reset(seed=0)
    actions = []
    for agent in own.agents:
        group, number = agent.name.split("_")
        leaf, action = env.full_action_spec[group, "action"], td[group, "action"]
        action = leaf.to_categorical(action) if isinstance(leaf, (OneHot, MultiOneHot)) else action
        actions.append(action[:, int(number)].clone())
    observations = dict(zip([a.name for a in own.agents], own.step(actions)[0], strict=True))
    assert torch.equal(td["next", "agent", "observation"][:, 0], observations["agent_0"])
    assert torch.equal(td["next", "adversary", "observation"][:, 2], observations["adversary_2"])


def test_groups():
    assert balance().group_map == {"agents": ["agent_0", "agent_1", "agent_2"]}
    names = {"speaker": ["speaker_0"], "listener": ["listener_0"]}
    env = VmasEnv("simple_speaker_listener", num_envs=2)
    assert env.group_map == names
    assert env.rollout(2)["speaker", "action"].shape[-1] != env.rollout(2)["listener", "action"].shape[-1]
    alone = balance(group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT, seed=2).rollout(3)
    together = balance(seed=2)
    actions = torch.stack([alone[f"agent_{i}", "action"][:, :, 0] for i in range(3)], 2)
    want = together.rollout(3, actions=[{("agents", "action"): a} for a in actions.unbind(1)])
    for i in range(3):
        assert torch.equal(alone["next", f"agent_{i}", "reward"][:, :, 0], want["next", "agents", "reward"][:, :, i])
    split = balance(group_map={"b": ["agent_2", "agent_0"], "a": ["agent_1"]}, seed=2).reset()
    whole = balance(seed=2).reset()["agents", "observation"]
    assert torch.equal(split["b", "observation"], whole[:, [2, 0]])
    with pytest.raises(ValueError, match=r"The agent 'agent_2' is in no group"):
        balance(group_map={"a": ["agent_0", "agent_1"]})
    with pytest.raises(ValueError) as error:
        VmasEnv("simple_speaker_listener", num_envs=2, group_map=MarlGroupMapType.ALL_IN_ONE_GROUP)
    assert str(error.value) == (
        "The agents 'speaker_0' and 'listener_0' of the group 'agents' do not have the same observation, so their data "
        "do not stack. Fix: group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT, or put them into different groups."
    )


def test_ends_are_told_apart_on_request():
    assert set(balance().done_keys) == {"done", "terminated"}
    ends = balance(terminated_truncated=True, max_steps=2).rollout(2, break_when_any_done=False)["next"]
    assert ends["truncated"][:, -1].all() and ends["done"][:, -1].all() and not ends["terminated"].any()


def test_dictionaries_by_name_and_arguments_of_the_scenario():
    env = balance(dict_spaces=True, n_agents=2, scenario_kwargs={"n_agents": 5})
    check_env_specs(env)
    assert len(env.agent_names) == 2 and env.scenario_name == "balance"


def test_data_can_be_trained_on_and_gradients_flow_through_the_simulator():
    env = VmasEnv("navigation", num_envs=3, grad_enabled=True)
    size = env.observation_spec["agents", "observation"].shape[-1]
    network = torch.nn.Sequential(torch.nn.Linear(size, 2), torch.nn.Tanh())
    policy = TensorDictModule(network, [("agents", "observation")], [("agents", "action")])
    rollout = VmasEnv("navigation", num_envs=3).rollout(2, policy)
    network(rollout["agents", "observation"]).sum().backward()  # not tensors of inference_mode
    network.zero_grad()
    env.rollout(3, policy)["next", "agents", "reward"].sum().backward()
    assert network[0].weight.grad.abs().sum() > 0


def test_frames_of_each_env():
    env = balance(from_pixels=True)
    td = env.rand_step(env.reset())
    assert td["next", "pixels"].shape == (3, 700, 700, 3) and td["pixels"].dtype == torch.uint8
    assert np.array_equal(env.render(env_index=2), td["next", "pixels"][2].numpy())
    assert not torch.equal(td["pixels"][0], td["pixels"][1])
    env.close()


def test_frames_by_a_transform():
    env = TransformedEnv(balance(), PixelRenderTransform())
    td = env.rollout(2)
    assert td["next", "pixels"].shape == (3, 2, 700, 700, 3)
    assert np.array_equal(env.base_env.render(env_index=2), td["next", "pixels"][2, 1].numpy())
    env.close()


def test_a_step_without_a_reset():
    assert VmasEnv("balance", num_envs=3, n_agents=5).rand_step()["next", "agents", "observation"].shape == (3, 5, 16)


def test_names_and_objects_that_are_not_an_env():
    assert {"balance", "simple_tag", "waterfall"} < set(VmasEnv.available_envs)
    with pytest.raises(ValueError, match=r"^There is no environment 'balanse' in VMAS. Did you mean 'balance'"):
        VmasEnv("balanse", num_envs=2)
    with pytest.raises(ValueError, match=r"^num_envs must be a positive integer and is 0\.$"):
        VmasEnv("balance", num_envs=0)
    with pytest.raises(TypeError) as error:
        VmasWrapper("balance")
    assert str(error.value) == (
        "VmasWrapper wraps an environment of VMAS and got a str. "
        'Fix: VmasWrapper(vmas.make_env("balance", num_envs=32)), or VmasEnv("balance", num_envs=32).'
    )


def test_the_wrapped_env_is_at_hand():
    own = vmas.make_env("balance", num_envs=2)
    env = VmasWrapper(own)
    assert env.n_agents == own.n_agents and env.lib is vmas
    assert repr(env) == "VmasWrapper(env=Scenario, batch_size=torch.Size([2]), device=None)"
    copy.deepcopy(env).rollout(2)


@pytest.mark.parametrize("name", [*MARKS, "simple_tag", "wheel"])
def test_the_player_draws_the_agents_and_what_they_seek(name):
    env = VmasEnv(name, num_envs=2)
    rollout = env.rollout(3)
    frames = player_model(rollout, env).frames
    assert frames.kind == "scene"
    scene, world = frames.scene, env._env.world
    places = [[p.name for p in scene.parts].index(f"agent {k}") for k in range(env.n_agents)]
    ends = scene.poses[[-2, -1]]  # the last states of both envs
    ordered = {agent.name: agent for agent in env.agents}
    agents = [ordered[name] for names in env.group_map.values() for name in names]
    truth = {place: agent.state.pos for place, agent in zip(places, agents, strict=True)}
    for k, part in enumerate(scene.parts):
        owner = int(part.name.rpartition(" ")[2]) if part.name.startswith("goal ") else 0
        if name == "simple_spread" and part.name.startswith("landmark"):
            truth[k] = world.landmarks[int(part.name[-1])].state.pos
        elif part.name.startswith("goal"):
            held = agents[owner].goal if hasattr(agents[owner], "goal") else None
            package = getattr(env.scenario, "package", None) or getattr(env.scenario, "packages", [None])[0]
            truth[k] = (held or package.goal).state.pos
    assert len(truth) > len(agents) or name in ("simple_tag", "wheel", "flocking")
    # One scale and one origin for all.
    found = torch.tensor(np.stack([ends[:, k, :2] for k in truth])) - 200
    want = torch.stack(list(truth.values())) * torch.tensor([1.0, -1.0])
    scale = (found * want).sum() / (want * want).sum()
    torch.testing.assert_close(found, want * scale, rtol=1e-3, atol=0.05)
    assert "<svg" in RolloutPlayer(rollout, env).to_svg()


def test_workers():
    env = ParallelEnv(2, balance)
    try:
        assert env.rollout(5, break_when_any_done=False).batch_size == (2, 3, 5)
    finally:
        env.close()
