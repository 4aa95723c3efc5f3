"""GymEnv and GymWrapper: single envs, in every encoding, compared with Gymnasium itself."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tensordict import TensorDict

from rlnb.data import Categorical, OneHot
from rlnb.envs import GymEnv, GymWrapper, check_env_specs, step_mdp


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4"])
@pytest.mark.parametrize("pixels_only", [True, False])
def test_pixels(name, pixels_only):
    env = GymEnv(name, from_pixels=True, pixels_only=pixels_only)
    check_env_specs(env)
    data = env.rollout(3)
    assert data["pixels"].dtype == torch.uint8 and data["pixels"].shape[1:] == env.observation_spec["pixels"].shape
    assert ("observation" in data) is not pixels_only
    frame = env.reset()["pixels"]
    assert np.array_equal(frame.numpy(), env.render())
    assert torch.equal(data["next", "pixels"][:-1], data["pixels"][1:])


def gymnasium_loop(name: str, seed: int, actions: list) -> list:
    env = gymnasium.make(name)
    observation, _ = env.reset(seed=seed)
    rows = []
    for action in actions:
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append((observation, after, reward, terminated, truncated))
        observation = env.reset()[0] if terminated or truncated else after
    return rows


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1"])
def test_same_numbers_as_gymnasium(name):
    env = GymEnv(name, categorical_action_encoding=True)
    env.set_seed(3)
    data = env.rollout(300, break_when_any_done=False)
    actions = [a.numpy() if a.ndim else a.item() for a in data["action"]]
    for t, row in enumerate(gymnasium_loop(name, 3, actions)):
        observation, after, reward, terminated, truncated = row
        assert np.array_equal(data["observation"][t].numpy(), observation)
        assert np.array_equal(data["next", "observation"][t].numpy(), after)
        assert data["next", "reward"][t].item() == np.float32(reward)
        assert data["next", "terminated"][t].item() == terminated
        assert data["next", "truncated"][t].item() == truncated


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v4"])
def test_one_hot_and_categorical_agree(name):
    rollouts = []
    for categorical in (False, True):
        env = GymEnv(name, categorical_action_encoding=categorical)
        env.set_seed(0)
        rollouts.append(env.rollout(60, break_when_any_done=False))
    one_hot, index = rollouts
    assert torch.equal(one_hot["action"].argmax(-1), index["action"])
    assert torch.equal(one_hot["observation"].argmax(-1), index["observation"])
    assert torch.equal(one_hot["next", "observation"].argmax(-1), index["next", "observation"])
    assert bool((one_hot["observation"].sum(-1) == 1).all())


def test_step_by_step_is_the_rollout():
    env = GymEnv("CartPole-v1")
    env.set_seed(1)
    data = env.rollout(100, break_when_any_done=False)
    state = torch.get_rng_state()
    env.set_seed(1)
    td_ = env.reset()
    rows = []
    for _ in range(100):
        td, td_ = env.step_and_maybe_reset(env.rand_action(td_))
        rows.append(td)
    assert bool((torch.stack(rows) == data).all())
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_an_early_end_leaves_the_generator_where_a_loop_would(name):
    env = GymEnv(name)
    env.set_seed(1)
    length = len(env.rollout(1000))
    state = torch.get_rng_state()
    env.set_seed(1)
    td = env.reset()
    for _ in range(length):
        td = step_mdp(env.rand_step(td))
    assert torch.equal(state, torch.get_rng_state())


def test_a_long_rollout_begins_with_the_short_one():
    env = GymEnv("Pendulum-v1")
    env.set_seed(5)
    short = env.rollout(7)
    env.set_seed(5)
    assert bool((env.rollout(3000, break_when_any_done=False)[:7] == short).all())


def test_the_env_goes_on_where_the_rollout_ended():
    env = GymEnv("CartPole-v1")
    td = env.reset()
    pieces = []
    for _ in range(5):
        piece = env.rollout(30, break_when_any_done=False, auto_reset=False, tensordict=td)
        td = step_mdp(piece[-1])
        pieces.append(piece)
    whole = torch.cat(pieces)
    inside = ~whole["next", "done"][:-1, 0]
    assert torch.equal(whole["observation"][1:][inside], whole["next", "observation"][:-1][inside])


def test_dict_and_tuple_observations(scripted):
    space = spaces.Dict(
        position=spaces.Box(-1, 1, (2,), np.float32),
        inner=spaces.Dict(flag=spaces.MultiBinary(3), choice=spaces.Discrete(4, start=2)),
        pair=spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 255, (2, 2), np.uint8)]),
        many=spaces.MultiDiscrete([2, 3]),
    )
    for categorical in (True, False):
        env = GymWrapper(scripted(space), categorical_action_encoding=categorical)
        check_env_specs(env, seed=0)
        data = env.rollout(12, break_when_any_done=False)
        assert {("inner", "flag"), ("inner", "choice"), ("pair", "0"), ("pair", "1"), "position", "many"} <= set(
            data.keys(True, True)
        )
        env.set_seed(2)
        fast = env.rollout(12, break_when_any_done=False)
        env.set_seed(2)
        slow = env.rollout(12, break_when_any_done=False, return_contiguous=False).contiguous()
        assert bool((fast == slow).all())


ACTION_SPACES = {
    "discrete": spaces.Discrete(3),
    "started": spaces.Discrete(3, start=5),
    "box": spaces.Box(-2, 2, (2,), np.float32),
    "box64": spaces.Box(-2, 2, (2,), np.float64),
    "many": spaces.MultiDiscrete([2, 4]),
    "bits": spaces.MultiBinary(3),
    "dict": spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (1,), np.float32)),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
}


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("name", ACTION_SPACES)
def test_the_backend_gets_actions_of_its_space(scripted, box, name, categorical):
    space = ACTION_SPACES[name]
    backend = scripted(box, action_space=space)
    env = GymWrapper(backend, categorical_action_encoding=categorical)
    check_env_specs(env)
    env.rollout(60, break_when_any_done=False)  # of so many, each of three actions is one
    env.rand_step(env.reset())
    assert len(backend.actions) > 60
    assert all(space.contains(action) for action in backend.actions)
    if name == "started":
        assert {int(action) for action in backend.actions} == {5, 6, 7}


def test_an_env_that_writes_over_its_observation(box, scripted):
    memory = np.zeros(3, np.float32)

    def observe(t):
        memory[:] = t / 10
        return memory

    env = GymWrapper(scripted(box, observe=observe, length=100))
    data = env.rollout(8)
    assert data["observation"][:, 0].tolist() == pytest.approx([t / 10 for t in range(8)])
    td = env.reset()
    after = env.rand_step(td.clone())
    assert td["observation"][0] == 0 and after["next", "observation"][0] == pytest.approx(0.1)


def test_specs_of_cartpole():
    env = GymEnv("CartPole-v1")
    assert isinstance(env.action_spec, OneHot) and env.action_spec.shape == (2,)
    assert isinstance(GymEnv("CartPole-v1", categorical_action_encoding=True).action_spec, Categorical)
    assert env.observation_keys == ["observation"]
    assert env.done_keys == ["done", "terminated", "truncated"]
    assert (env.action_key, env.reward_key, env.done_key) == ("action", "reward", "done")


def test_attributes_of_the_backend():
    env = GymEnv("Pendulum-v1", g=3.5)
    assert env.g == 3.5
    with pytest.raises(
        AttributeError, match=r"^Neither GymEnv nor the PendulumEnv in it has an attribute 'gravity'\.$"
    ):
        _ = env.gravity


def test_repr_and_list():
    assert repr(GymEnv("CartPole-v1")) == "GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=None)"
    assert "CartPole-v1" in GymEnv.available_envs


def test_device_is_on_the_data():
    env = GymEnv("CartPole-v1", device="cpu")
    assert env.rollout(3).device == torch.device("cpu")
    assert env.rand_step(env.reset())["next"].device == torch.device("cpu")
    check_env_specs(env)


def test_terminated_and_truncated_are_told_apart():
    env = GymEnv("MountainCar-v0", max_episode_steps=20)
    data = env.rollout(100)
    assert data.batch_size == (20,)
    last = data[-1]["next"]
    assert (last["done"].item(), last["terminated"].item(), last["truncated"].item()) == (True, False, True)


def test_close_closes_the_backend(scripted, box):
    closed = []
    backend = scripted(box)
    backend.close = lambda: closed.append(True)
    env = GymWrapper(backend)
    env.close()
    env.close()
    assert closed == [True] and env.is_closed


def test_rollout_with_td_of_other_entries_keeps_them():
    env = GymEnv("CartPole-v1")
    data = env.rollout(4, tensordict=TensorDict({"goal": torch.tensor([2.0])}))
    assert data["goal"].tolist() == [[2.0]] * 4


def test_a_subclass_with_its_own_step_is_asked_for_every_step():
    class Doubled(GymEnv):
        def _step(self, tensordict):
            data = super()._step(tensordict)
            return data.set("reward", 2 * data["reward"])

    assert Doubled("CartPole-v1").rollout(3)["next", "reward"].flatten().tolist() == [2, 2, 2]


def test_checks_of_every_step_where_they_are_wanted(scripted, box):
    env = GymWrapper(scripted(box, observe=lambda t: np.zeros(3 if t < 3 else 4, np.float32)))
    env.run_type_checks = True
    with pytest.raises(RuntimeError, match=r"observation: expected shape \[3\], got \[4\]"):
        env.rollout(5)
