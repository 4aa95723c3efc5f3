"""MOGymEnv and MOGymWrapper beside MO-Gymnasium."""

from __future__ import annotations

import re

import gymnasium
import mo_gymnasium
import numpy as np
import pytest
import torch
from rlnb_widgets.rollout_player.model import player_model

from rlnb.data import Bounded, Unbounded
from rlnb.envs import GymWrapper, ParallelEnv, check_env_specs
from rlnb.envs.libs.gym import MOGymEnv, MOGymWrapper
from tests.libs.wrappers import assert_keeps_promises, assert_plays_frames

# Seeds do not reach the ores of minecart-v0, which are drawn from the generator of the whole process.
OBJECTIVES = {"deep-sea-treasure-v0": 2, "minecart-deterministic-v0": 3, "mo-mountaincar-v0": 3, "mo-halfcheetah-v5": 2}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_keeps_its_promises(name):
    rollout = assert_keeps_promises(lambda: MOGymEnv(name))
    assert rollout["next", "reward"].shape == (8, OBJECTIVES[name])


@pytest.mark.parametrize("name", ["deep-sea-treasure-v0", "minecart-deterministic-v0"])
def test_vector_envs_keep_their_promises(name):
    rollout = assert_keeps_promises(lambda: MOGymEnv(name, num_envs=3), steps=30)
    assert rollout["next", "reward"].shape == (3, 30, OBJECTIVES[name])


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_data_is_that_of_the_librarys_own_loop(name, rows):
    env = MOGymEnv(name, categorical_action_encoding=True)
    env.set_seed(5)
    env.run_type_checks = not rows
    assert env._fills_rows is rows
    data = env.rollout(60, break_when_any_done=False)
    own = mo_gymnasium.make(name)
    observation, _ = own.reset(seed=5)
    for t in range(60):
        assert np.array_equal(data["observation"][t].numpy(), observation)
        observation, reward, terminated, truncated, _ = own.step(data["action"][t].numpy())
        now = data["next"][t]
        assert np.array_equal(now["observation"].numpy(), observation)
        assert np.array_equal(now["reward"].numpy(), np.asarray(reward, now["reward"].numpy().dtype))
        assert (now["terminated"].item(), now["truncated"].item()) == (terminated, truncated)
        if terminated or truncated:
            observation, _ = own.reset()


def test_specs_are_the_reward_spaces():
    env = MOGymEnv("minecart-v0")
    assert isinstance(env.reward_spec, Bounded) and env.reward_spec.low.tolist() == [0, 0, -1]
    twice = MOGymEnv("minecart-v0", frame_skip=2)
    assert isinstance(twice.reward_spec, Unbounded) and twice.reward_spec.shape == (3,)
    check_env_specs(twice)
    assert torch.allclose(twice.rollout(3)["next", "reward"][:, 2].abs().min(), torch.tensor(0.02), atol=0.03)


def test_wrapped_envs():
    env = MOGymWrapper(mo_gymnasium.make("deep-sea-treasure-v0", render_mode="rgb_array"))
    check_env_specs(env)
    assert_plays_frames(env)
    one = GymWrapper(
        mo_gymnasium.wrappers.LinearReward(mo_gymnasium.make("minecart-v0"), weight=np.array([0.5, 0.3, 0.2]))
    )
    check_env_specs(one)
    assert one.rollout(3)["next", "reward"].shape == (3, 1)


def test_an_env_with_one_reward_is_refused():
    text = (
        "MOGymWrapper wraps an env of MO-Gymnasium, which has a reward_space, and MOGymWrapper(env=CartPole-v1, "
        "batch_size=torch.Size([]), device=None) has none. "
        'Fix: MOGymEnv("deep-sea-treasure-v0"), or GymWrapper for an env with one reward.'
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        MOGymWrapper(gymnasium.make("CartPole-v1"))


def test_a_vector_of_another_length_is_refused():
    env = MOGymEnv("minecart-v0")
    inner = env._env.unwrapped
    step = inner.step
    env.rollout(2)
    inner.step = lambda action: (*step(action)[:1], np.zeros(2), *step(action)[2:])
    with pytest.raises(RuntimeError, match=r"^The reward must be 3 numbers"):
        env.rollout(3)


def test_frames_in_the_player():
    assert_plays_frames(MOGymEnv("mo-mountaincar-v0", render_mode="rgb_array"))
    for name in MOGymEnv.available_envs:
        if name.startswith("mo-mountaincar"):
            env = MOGymEnv(name)
            assert player_model(env.rollout(2), env).frames.kind == "scene", name
    assert MOGymEnv("mo-mountaincar-v0", from_pixels=True).rollout(2)["pixels"].shape == (2, 400, 600, 3)


def test_processes():
    with ParallelEnv(2, lambda: MOGymEnv("minecart-v0")) as env:
        assert env.rollout(5)["next", "reward"].shape == (2, 5, 3)


def test_names():
    assert {"minecart-v0", "mo-reacher-v5"} < set(MOGymEnv.available_envs)
    assert "CartPole-v1" not in MOGymEnv.available_envs
    with pytest.raises(ValueError) as caught:
        MOGymEnv("minecar-v0")
    assert str(caught.value).startswith(
        "There is no environment 'minecar-v0' in MO-Gymnasium. Did you mean 'minecart-v0'"
    )
