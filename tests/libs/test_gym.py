"""GymEnv and GymWrapper beside gym 0.26, and beside Gymnasium's vector envs in each autoreset mode."""

from __future__ import annotations

import gym
import gymnasium
import numpy as np
import pytest
import torch

from rlnb.envs import GymEnv, GymWrapper, ParallelEnv, check_env_specs, set_gym_backend
from tests.libs.wrappers import assert_keeps_promises, assert_plays_frames


def of_gym(name, **kwargs):
    with set_gym_backend("gym"):
        return GymEnv(name, **kwargs)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Taxi-v3", "Blackjack-v1"])
def test_it_keeps_its_promises(name):
    assert_keeps_promises(lambda: of_gym(name))


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
@pytest.mark.parametrize("rows", [True, False])
def test_the_data_is_that_of_gyms_own_loop(name, rows):
    env = of_gym(name, categorical_action_encoding=True)
    env.set_seed(5)
    env.run_type_checks = not rows
    assert env._fills_rows is rows
    data = env.rollout(60, break_when_any_done=False)
    own = gym.make(name, disable_env_checker=True)
    observation, _ = own.reset(seed=5)
    for t in range(60):
        assert np.array_equal(data["observation"][t].numpy(), observation)
        action = data["action"][t].numpy()
        observation, reward, terminated, truncated, _ = own.step(action if action.ndim else int(action))
        now = data["next"][t]
        assert np.array_equal(now["observation"].numpy(), observation)
        assert now["reward"].item() == np.float32(reward)
        assert (now["terminated"].item(), now["truncated"].item()) == (terminated, truncated)
        if terminated or truncated:
            observation, _ = own.reset()


def test_envs_that_are_made_already():
    env = GymWrapper(gym.make("CartPole-v1", disable_env_checker=True, render_mode="rgb_array"))
    check_env_specs(env)
    assert env.x_threshold == 2.4
    assert env.reset() is not None and env.render().shape == (400, 600, 3)
    assert_plays_frames(env)
    pixels = of_gym("CartPole-v1", from_pixels=True)
    assert pixels.rollout(2)["pixels"].shape == (2, 400, 600, 3)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_vector_envs_of_gym(asynchronous):
    made = gym.vector.make("CartPole-v1", num_envs=2, asynchronous=asynchronous, disable_env_checker=True)
    env = GymWrapper(made)
    env.set_seed(3)
    data = env.rollout(80, break_when_any_done=False)
    env.close()
    for i in range(2):
        single = of_gym("CartPole-v1")
        single.set_seed(3 + i)
        actions = iter(data["action"][i])
        expected = single.rollout(80, policy=lambda td, a=actions: td.set("action", next(a)), break_when_any_done=False)
        for key in ("observation", ("next", "observation"), ("next", "done"), ("next", "reward")):
            assert torch.equal(data[i][key], expected[key]), key


def test_num_envs():
    assert_keeps_promises(lambda: of_gym("CartPole-v1", num_envs=3), steps=60)


def test_two_backends_in_one_program():
    first = GymEnv("CartPole-v1")
    second = of_gym("CartPole-v1")
    assert isinstance(first._env.unwrapped, gymnasium.Env) and isinstance(second._env.unwrapped, gym.Env)
    found = []
    for env in (first, second):
        env.set_seed(0)
        torch.manual_seed(0)
        found.append(env.rollout(200))
    assert torch.equal(found[0]["observation"], found[1]["observation"])  # the same physics


def test_names():
    with set_gym_backend("gym"):
        assert "CartPole-v0" in GymEnv.available_envs
        with pytest.raises(gym.error.UnregisteredEnv) as caught:
            GymEnv("CartPol-v1")
    assert str(caught.value) == (
        "There is no environment 'CartPol-v1' in gym's registry. Did you mean CartPole-v1, CartPole-v0, Acrobot-v1?"
    )


def test_processes():
    with ParallelEnv(2, lambda: of_gym("CartPole-v1")) as env:
        assert env.rollout(5)["observation"].shape == (2, 5, 4)


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode))
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_vector_envs_of_gymnasium_in_each_autoreset_mode(name, mode):
    """Every row is a single env of the same seed and actions, at the ends of episodes, too."""
    made = gymnasium.make_vec(name, 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
    env = GymWrapper(made)
    check_env_specs(env)
    env.set_seed(7)
    data = env.rollout(250, break_when_any_done=False)
    assert data["next", "done"].sum() >= 3
    for i in range(3):
        single = GymEnv(name)
        single.set_seed(7 + i)
        actions = iter(data["action"][i])
        expected = single.rollout(
            250, policy=lambda td, a=actions: td.set("action", next(a)), break_when_any_done=False
        )
        for key in ("observation", ("next", "observation"), ("next", "truncated"), ("next", "reward")):
            assert torch.equal(data[i][key], expected[key]), key
