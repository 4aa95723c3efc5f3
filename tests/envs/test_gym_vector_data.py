"""Vector envs: observations, actions, infos and pixels of all kinds have a row for each sub-env."""

from __future__ import annotations

import copy
import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from rlnb.data import Bounded, Composite, Unbounded, violations
from rlnb.envs import GymEnv, GymWrapper, check_env_specs, default_info_dict_reader
from tests.pairwise import sampled

MODES = list(AutoresetMode)


def vector(functions, kind=SyncVectorEnv, mode=AutoresetMode.NEXT_STEP, vector=None, **kwargs) -> GymWrapper:
    backend = kind(functions, autoreset_mode=mode, **(vector or {}))
    return GymWrapper(backend, **{"categorical_action_encoding": True, **kwargs})


def cart_pole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


# Spaces ---------------------------------------------------------------------------------------------------------------

OBSERVATIONS = {
    "box": spaces.Box(-1, 1, (2, 3), np.float64),
    "number": spaces.Box(-1, 1, (), np.float32),
    "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
    "discrete": spaces.Discrete(4, start=2),
    "many": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(3),
    "dict": spaces.Dict(a=spaces.Discrete(3), inner=spaces.Dict(b=spaces.Box(0, 1, (2,), np.float32))),
    "tuple": spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (1,), np.float32)]),
}
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "started": spaces.Discrete(3, start=5),
    "box": spaces.Box(-2, 2, (2,), np.float32),
    "many": spaces.MultiDiscrete([2, 4]),
    "bits": spaces.MultiBinary(3),
    "dict": spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (1,), np.float32)),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
}


@pytest.mark.parametrize(("name", "categorical", "mode"), sampled(list(OBSERVATIONS), [False, True], MODES))
def test_observations_of_all_spaces(scripted, name, categorical, mode):
    space = OBSERVATIONS[name]
    lengths = (2, 3, 5)
    functions = [lambda n=n: scripted(copy.deepcopy(space), length=n) for n in lengths]
    env = vector(functions, mode=mode, categorical_action_encoding=categorical)
    check_env_specs(env, seed=0)
    env.set_seed(0)
    data = env.rollout(12, break_when_any_done=False)
    assert violations(env.observation_spec, data.select(*env.observation_keys).transpose(0, 1), leading=1) == []
    for i, n in enumerate(lengths):
        single = GymWrapper(scripted(copy.deepcopy(space), length=n), categorical_action_encoding=categorical)
        single.set_seed(i)
        alone = single.rollout(12, break_when_any_done=False)
        for key in env.observation_keys:
            path = (key,) if isinstance(key, str) else key
            assert torch.equal(data[i][key], alone[key]), (i, key)
            assert torch.equal(data[i][("next", *path)], alone[("next", *path)]), (i, key)


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("name", ACTIONS)
def test_sub_envs_get_actions_of_their_space(scripted, box, name, categorical):
    space = ACTIONS[name]
    env = vector([lambda: scripted(box, action_space=space)] * 3, categorical_action_encoding=categorical)
    check_env_specs(env)
    data = env.rollout(4)
    for i, sub in enumerate(env._env.envs):
        assert all(space.contains(action) for action in sub.actions)
        single = GymWrapper(scripted(box, action_space=space), categorical_action_encoding=categorical)
        for taken, row in zip(sub.actions[-4:], data[i], strict=True):
            wanted = single.read_action(single._action_of(row))
            assert repr(taken) == repr(wanted) or np.array_equal(taken, wanted)


def test_bounds_that_differ_between_sub_envs(scripted):
    boxes = [spaces.Box(-k, k, (2,), np.float32) for k in (1, 2)]
    env = vector([lambda b=b: scripted(b) for b in boxes], vector={"observation_mode": "different"})
    spec = env.observation_spec["observation"]
    assert isinstance(spec, Bounded) and spec.space.high.tolist() == [[1, 1], [2, 2]]
    check_env_specs(env)
    in_dict = [spaces.Dict(x=b, n=spaces.Discrete(2)) for b in boxes]
    env = vector([lambda b=b: scripted(b) for b in in_dict], vector={"observation_mode": "different"})
    assert env.observation_spec["x"].space.high.tolist() == [[1, 1], [2, 2]]
    check_env_specs(env)


@pytest.mark.parametrize(
    ("categorical", "actions", "text"),
    [
        (
            True,
            [0, 1, 2],
            "The action 2 is not an action of the env: it must be an integer from 0 to 1. Fix: is the policy's output "
            "as wide as the number of actions? See env.action_spec. It is the action of env 2.",
        ),
        (
            False,
            [[1, 0], [1, 1], [0, 1]],
            "The action [1, 1] is not one-hot: exactly one of its 2 numbers must be 1 and the others 0. "
            "Fix: env.action_spec.encode(index) makes one of an index. It is the action of env 1.",
        ),
    ],
)
def test_wrong_actions_are_refused_before_any_env_steps(categorical, actions, text):
    env = vector([cart_pole] * 3, categorical_action_encoding=categorical)
    td = env.reset()
    start = td["observation"].clone()
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.step(td.set("action", torch.tensor(actions)))
    assert np.array_equal(np.stack([sub.unwrapped.state for sub in env._env.envs]).astype(np.float32), start.numpy())


# Pixels, infos, attributes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sync", "vector_entry_point"])
@pytest.mark.parametrize("pixels_only", [True, False])
def test_pixels(how, pixels_only):
    env = GymEnv("CartPole-v1", num_envs=2, from_pixels=True, pixels_only=pixels_only, vectorization_mode=how)
    check_env_specs(env)
    data = env.rollout(3)
    assert data["pixels"].shape == (2, 3, 400, 600, 3) and data["pixels"].dtype == torch.uint8
    assert ("observation" in data) is not pixels_only
    assert torch.equal(data["next", "pixels"][:, :-1], data["pixels"][:, 1:])
    assert np.array_equal(env.reset()["pixels"].numpy(), np.stack(env._env.render()))


def test_pixels_of_same_step_envs_are_refused():
    text = (
        "from_pixels=True cannot show the last frame of an episode in the autoreset mode SameStep: the frame is "
        "rendered after the reset. Fix: autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED, or "
        "GymEnv(id, num_envs=n, from_pixels=True)."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        GymEnv("CartPole-v1", num_envs=2, from_pixels=True, vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})


class Informed(gymnasium.Wrapper):
    """Counts in the info dictionary, from 10 at a reset; only every second step tells "now and then"."""

    def reset(self, **kwargs):
        observation, _ = self.env.reset(**kwargs)
        return observation, {"count": 10, "share": 0.5, "name": "left out"}

    def step(self, action):
        *outputs, _ = self.env.step(action)
        t = self.env.unwrapped.t
        return (*outputs, {"count": 10 + t, "share": 0.5 + t, "flag": t > 1, "vector": np.full(2, t, np.int16)})


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", MODES)
def test_infos_are_of_the_episode_that_the_step_belongs_to(scripted, box, kind, mode):
    functions = [lambda n=n: Informed(scripted(box, length=n)) for n in (2, 3)]
    env = vector(functions, kind, mode).auto_register_info_dict()
    check_env_specs(env)
    data = env.rollout(6, break_when_any_done=False)
    assert data["next", "count"].tolist() == [[11, 12, 11, 12, 11, 12], [11, 12, 13, 11, 12, 13]]
    assert data["count"].tolist() == [[10, 11, 10, 11, 10, 11], [10, 11, 12, 10, 11, 12]]
    assert data["next", "flag"].tolist()[1] == [False, True, True] * 2
    assert data["next", "vector"].shape == (2, 6, 2) and "name" not in data["next"]
    dtypes = {key: data["next", key].dtype for key in ("count", "share", "flag", "vector")}
    assert dtypes == {"count": torch.int64, "share": torch.float64, "flag": torch.bool, "vector": torch.int16}
    env.close()


def test_specs_of_readers_are_those_of_one_env_or_of_the_batch(scripted, box):
    for shape in ((), (2,)):
        env = vector([lambda: Informed(scripted(box))] * 2)
        spec = Composite(count=Unbounded(shape=shape, dtype=torch.float32), shape=shape)
        env.set_info_dict_reader(default_info_dict_reader(spec=spec))
        assert env.observation_spec["count"].shape == (2,)
        check_env_specs(env)
        assert env.rollout(2)["next", "count"].tolist() == [[11.0, 12.0]] * 2


def test_attributes_of_the_vector_env():
    env = vector([cart_pole] * 2)
    assert env.num_envs == 2
    with pytest.raises(
        AttributeError, match=r"^Neither GymWrapper nor the SyncVectorEnv in it has an attribute 'gravy'\.$"
    ):
        _ = env.gravy
    assert repr(env) == "GymWrapper(env=SyncVectorEnv, batch_size=torch.Size([2]), device=None)"


def test_device_is_on_the_data():
    env = vector([cart_pole] * 2, device="cpu")
    assert env.rollout(3).device == torch.device("cpu")
    check_env_specs(env)
