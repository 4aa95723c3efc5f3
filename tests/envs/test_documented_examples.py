"""Examples of the documented interface, with rlnb for torchrl: what a reader types must run."""

from __future__ import annotations

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.envs import GymEnv, step_mdp
from rlnb.envs.libs.gym import GymEnv as SameGymEnv
from rlnb.envs.utils import check_env_specs


class ArgMaxModule(nn.Module):
    def forward(self, values):
        return values.argmax(-1)


def leaves(data) -> dict:
    return {key: (tuple(data[key].shape), data[key].dtype) for key in data.keys(True, True)}


def flags(*prefix: str) -> dict:
    names = ("done", "terminated", "truncated")
    return {(*prefix, name) if prefix else name: ((10, 1), torch.bool) for name in names}


def test_rollout_with_a_policy():  # RS-12, RS-13
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env.set_seed(0)
    n_obs = env.observation_spec["observation"].shape[-1]
    n_act = env.action_spec.n
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(n_obs, n_act), ArgMaxModule())
    wrapped = TensorDictModule(plain, in_keys=list(env.observation_spec.keys()), out_keys=["action"])
    for policy in (plain, wrapped):
        data = env.rollout(max_steps=10, policy=policy, break_when_any_done=False)
        assert leaves(data) == {
            "action": ((10,), torch.int64),
            "observation": ((10, 4), torch.float32),
            ("next", "observation"): ((10, 4), torch.float32),
            ("next", "reward"): ((10, 1), torch.float32),
            **flags(),
            **flags("next"),
        }
        assert data.names == ["time"]


def test_rollouts_in_a_loop():  # RS-15, RS-19
    env = GymEnv("CartPole-v1")
    input_td = env.reset()
    for _ in range(10):
        rollout_td = env.rollout(max_steps=100, break_when_any_done=False, auto_reset=False, tensordict=input_td)
        input_td = step_mdp(rollout_td[..., -1])
        assert rollout_td.batch_size == (100,)
        assert not rollout_td["done"].any()  # RS-20


def test_a_non_stopping_rollout():  # RS-10
    env = GymEnv("CartPole-v1")

    def rollout(env, n):
        data_ = env.reset()
        result = []
        for _ in range(n):
            data, data_ = env.step_and_maybe_reset(env.rand_action(data_))
            result.append(data)
        return torch.stack(result)

    assert rollout(env, 200).batch_size == (200,)


def test_pendulum_with_its_gravity():  # LW-01
    env = SameGymEnv("Pendulum-v1", from_pixels=True, g=9.81, device="cpu")
    check_env_specs(env)
    assert env.g == 9.81
    assert env.observation_spec["pixels"].shape == (500, 500, 3)


def test_spec_keys_of_an_env():  # EN-19, EN-20, EN-21, EN-34, EN-35, EN-36
    env = GymEnv("CartPole-v1")
    assert set(env.specs.keys()) == {"input_spec", "output_spec"}
    assert env.output_spec["full_reward_spec"][env.reward_key] == env.reward_spec
    assert env.input_spec["full_action_spec"][env.action_key] == env.action_spec
    assert env.output_spec["full_done_spec"][env.done_key].dtype == torch.bool
    assert env.reset_keys == ["_reset"] and env.done_keys_groups == [["done", "terminated", "truncated"]]


def test_an_env_is_a_module():  # EN-01
    env = GymEnv("CartPole-v1")
    assert isinstance(env, nn.Module) and list(env.parameters()) == []
    td = env.rand_action(env.reset())
    assert ("next", "reward") in env(td).keys(True)  # RS-06
