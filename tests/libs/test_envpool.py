"""MultiThreadedEnv beside EnvPool."""

from __future__ import annotations

import envpool
import numpy as np
import pytest
import torch

from rlnb.envs import MultiThreadedEnv, MultiThreadedEnvWrapper, ParallelEnv, TransformedEnv, check_env_specs
from rlnb.record import PixelRenderTransform
from tests.libs.wrappers import assert_keeps_promises, assert_same


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Catch-v0", "Taxi-v3"])
def test_it_keeps_its_promises(name):
    rollout = assert_keeps_promises(lambda: MultiThreadedEnv(3, name), steps=40)
    assert rollout.batch_size == (3, 40)


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "Catch-v0"])
def test_the_data_is_that_of_the_pools_own_loop(name):
    """The pool resets an env that is done at its next step; here the env is reset before."""
    env = MultiThreadedEnv(3, name, categorical_action_encoding=True)
    env.set_seed(5)
    data = env.rollout(60, break_when_any_done=False)
    pool = envpool.make(name, env_type="gymnasium", num_envs=3, seed=5)
    observation, _ = pool.reset()
    observation = np.array(observation)
    for t in range(60):
        assert np.array_equal(data["observation"][:, t].numpy(), observation)
        found, reward, terminated, truncated, _ = pool.step(data["action"][:, t].numpy())
        observation = np.array(found)
        now = data["next"][:, t]
        assert np.array_equal(now["observation"].numpy(), observation)
        assert np.array_equal(now["reward"].squeeze(-1).numpy(), reward)
        assert np.array_equal(now["terminated"].squeeze(-1).numpy(), terminated)
        assert np.array_equal(now["truncated"].squeeze(-1).numpy(), truncated)
        if (over := np.flatnonzero(terminated | truncated).astype(np.int32)).size:
            observation[over] = pool.reset(over)[0]


def test_every_step_of_cart_pole_follows_from_the_step_before():
    env = MultiThreadedEnv(4, "CartPole-v1")
    data = env.rollout(100, break_when_any_done=False)
    done = data["next", "done"].squeeze(-1)
    assert done.any()
    going_on = ~done[:, :-1]
    assert torch.equal(data["next", "observation"][:, :-1][going_on], data["observation"][:, 1:][going_on])
    assert (data["observation"][:, 1:][~going_on].abs() <= 0.05).all()  # an episode begins here


def test_images_and_wrapped_pools():
    env = MultiThreadedEnv(2, "Pong-v5", create_env_kwargs={"num_threads": 1})
    check_env_specs(env)
    assert env.rollout(3)["observation"].shape == (2, 3, 4, 84, 84)
    pool = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=2, seed=1)
    wrapped = MultiThreadedEnvWrapper(pool)
    check_env_specs(wrapped)
    text = "An EnvPool can only be seeded when it is made"
    with pytest.raises(RuntimeError, match=text):
        wrapped.set_seed(0)


def test_seeds_make_equal_pools():
    envs = [MultiThreadedEnv(2, "CartPole-v1") for _ in range(2)]
    for env in envs:
        env.set_seed(9)
    assert_same(envs[0].reset(), envs[1].reset())


def test_frames():
    env = MultiThreadedEnv(2, "CartPole-v1", create_env_kwargs={"render_mode": "rgb_array"})
    td = TransformedEnv(env, PixelRenderTransform()).rollout(2)
    assert td["next", "pixels"].shape == (2, 2, 400, 600, 3) and td["pixels"].dtype == torch.uint8
    assert np.array_equal(env.render()[1], td["next", "pixels"][1, 1].numpy())
    env = MultiThreadedEnv(2, "CartPole-v1")
    env.reset()
    with pytest.raises(RuntimeError) as caught:
        env.render()
    assert str(caught.value) == (
        "CartPole-v1 was made without a render mode, so it renders nothing. "
        """Fix: MultiThreadedEnv(2, 'CartPole-v1', create_env_kwargs={"render_mode": "rgb_array"})."""
    )


def test_processes():
    with ParallelEnv(2, lambda: MultiThreadedEnv(3, "CartPole-v1")) as env:
        assert env.rollout(5)["observation"].shape == (2, 3, 5, 4)


def test_names():
    names = MultiThreadedEnv.available_envs
    assert "CartPole-v1" in names and names == sorted(envpool.list_all_envs())
    with pytest.raises(ValueError) as caught:
        MultiThreadedEnv(2, "CartPol-v1")
    assert str(caught.value).startswith("There is no environment 'CartPol-v1' in EnvPool. Did you mean 'CartPole-v1'")
