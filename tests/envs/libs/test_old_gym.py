"""Envs of gym in GymWrapper and GymEnv, with stand-ins for two of its versions.

The interfaces follow gym 0.21 and 0.26.2: their ``gym/core.py`` and ``gym/vector/sync_vector_env.py``, documented at
https://www.gymlibrary.dev. tests/libs/test_gym.py has the real library.
"""

from __future__ import annotations

import re
import sys
import types

import gymnasium
import numpy as np
import pytest
import torch

from rlnb.envs import GymEnv, GymWrapper, check_env_specs, set_gym_backend
from rlnb.envs.libs.gym.old_gym import space_from_gym


def in_gym(name, module="gym.spaces", **attributes):
    """An instance of a class of gym that has these attributes."""
    kind = type(name, (), {"__module__": module})
    made = kind()
    vars(made).update(attributes)
    return made


BOX = in_gym("Box", low=-np.ones(2, np.float32), high=np.ones(2, np.float32), shape=(2,), dtype=np.dtype("float32"))
DISCRETE = in_gym("Discrete", n=3)
METADATA_21, METADATA_26 = {"render.modes": ["human", "rgb_array"]}, {"render_modes": ["rgb_array"]}


class Env:
    """What all versions share. An episode takes four steps, or is cut after ``limit``."""

    __module__ = "gym.core"
    metadata, spec, observation_space, action_space = {}, None, BOX, DISCRETE
    tricks = 7

    def __init__(self, limit=9, **kwargs):
        self.limit, self.generator, self.kwargs = limit, np.random.default_rng(), kwargs

    @property
    def unwrapped(self):
        return self

    def _start(self):
        self.t, self.start = 0, self.generator.uniform()
        return np.array([0, self.start], np.float32)

    def _advance(self, action):
        self.t += 1
        self.last = action
        return np.array([self.t / 4, self.start], np.float32), float(action), self.t == 4, self.t == self.limit

    def close(self):
        self.closed = True


class Gym21Env(Env):
    """Of gym 0.21: one end signal, ``seed``, and the mode as an argument of ``render``."""

    metadata = METADATA_21

    def seed(self, seed=None):
        self.generator = np.random.default_rng(seed)

    def reset(self):
        return self._start()

    def step(self, action):
        observation, reward, over, cut = self._advance(action)
        return observation, reward, over or cut, {"TimeLimit.truncated": cut and not over}

    def render(self, mode="human"):
        return {"rgb_array": np.full((4, 5, 3), self.t, np.uint8)}[mode]


class Gym26Env(Env):
    """Of gym 0.26: two end signals, and the interface that Gymnasium took over."""

    metadata = METADATA_26
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.generator = np.random.default_rng(seed)
        return self._start(), {}

    def step(self, action):
        return *self._advance(action), {}

    def render(self):
        return np.full((4, 5, 3), self.t, np.uint8)


both = pytest.mark.parametrize("kind", [Gym21Env, Gym26Env])


@both
def test_every_version_gives_the_same_data(kind):
    env = GymWrapper(kind())
    check_env_specs(env)
    assert env._fills_rows and repr(env) == f"GymWrapper(env={kind.__name__}, batch_size=torch.Size([]), device=None)"
    data = env.rollout(6, break_when_any_done=False)
    assert torch.equal(data["next", "observation"][:, 0], torch.tensor([0.25, 0.5, 0.75, 1, 0.25, 0.5]))
    assert torch.equal(data["next", "reward"].squeeze(-1), data["action"].argmax(-1).float())
    assert data["next", "terminated"].squeeze(-1).tolist() == [False, False, False, True, False, False]
    assert not data["next", "truncated"].any()


@both
def test_time_limits_truncate(kind):
    data = GymWrapper(kind(limit=2)).rollout(6)
    assert data.batch_size == (2,)
    assert data["next", "truncated"][-1] and not data["next", "terminated"][-1]


@both
def test_seeds_repeat(kind):
    found = []
    for seed in (3, 3, 4):
        env = GymWrapper(kind())
        env.set_seed(seed)
        found.append(env.reset()["observation"])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("truth", [bool, np.bool_])
def test_a_choice_may_be_given_as_a_bool(truth, rows):
    class Yes(Gym26Env):
        observation_space = in_gym("Discrete", n=2)

        def _start(self):
            self.t, self.start = 0, 0
            return truth(False)

        def _advance(self, action):
            return truth(True), *super()._advance(action)[1:]

    env = GymWrapper(Yes())
    env.run_type_checks = not rows
    assert env.rollout(3)["next", "observation"].tolist() == [[0, 1]] * 3


@both
def test_frames_and_everything_else_are_the_envs(kind):
    inner = kind()
    env = GymWrapper(inner, from_pixels=True, pixels_only=True)
    assert env.rollout(3)["next", "pixels"][:, 0, 0, 0].tolist() == [1, 2, 3]
    assert env.tricks == 7 and env._env.tricks == 7
    with pytest.raises(AttributeError, match="Neither GymWrapper nor the"):
        env.no_such_trick  # noqa: B018
    env.close()
    assert inner.closed


def text_space():
    return in_gym("Text", max_length=3, min_length=1, characters="abc")


@pytest.mark.parametrize(
    ("space", "same"),
    [
        (BOX, gymnasium.spaces.Box(-1, 1, (2,), np.float32)),
        (in_gym("Discrete", n=3, start=2), gymnasium.spaces.Discrete(3, start=2)),
        (in_gym("MultiDiscrete", nvec=np.array([2, 3]), dtype=np.int64), gymnasium.spaces.MultiDiscrete([2, 3])),
        (in_gym("MultiBinary", n=4), gymnasium.spaces.MultiBinary(4)),
        (in_gym("Dict", spaces={"a": DISCRETE}), gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(3)})),
        (in_gym("Tuple", spaces=[DISCRETE]), gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(3)])),
        (text_space(), gymnasium.spaces.Text(3, min_length=1, charset="abc")),
        (in_gym("Sequence", feature_space=DISCRETE), gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(3))),
        (gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(5)),
    ],
    ids=lambda space: type(space).__name__,
)
def test_spaces_are_converted(space, same):
    assert space_from_gym(space) == same


def test_a_space_that_there_is_not():
    text = "There is no space of Gymnasium for a Sphere, <Sphere>."
    kind = type("Sphere", (), {"__module__": "gym.spaces", "__repr__": lambda self: "<Sphere>"})
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        space_from_gym(kind())


class Vector:
    """As gym 0.26's SyncVectorEnv: a sub-env that ends is reset, and its last observation is in the infos."""

    __module__ = "gym.vector.sync_vector_env"
    metadata, spec = None, None
    single_observation_space, single_action_space, action_space = BOX, DISCRETE, in_gym("MultiDiscrete", nvec=[3, 3])
    observation_space = in_gym(
        "Box", low=-np.ones((2, 2), np.float32), high=np.ones((2, 2), np.float32), shape=(2, 2), dtype=np.float32
    )

    def __init__(self):
        self.action_space.dtype = np.int64
        self.envs, self.num_envs = [Gym26Env(), Gym26Env(limit=2)], 2

    @property
    def unwrapped(self):
        return self

    def reset(self, *, seed=None, options=None):
        return np.stack([env.reset(seed=seed)[0] for env in self.envs]), {}

    def step(self, actions):
        found = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        observations, rewards, terminated, truncated = map(np.stack, zip(*[row[:4] for row in found], strict=True))
        infos = {}
        over = terminated | truncated
        if over.any():
            infos["final_observation"], infos["final_info"] = np.empty((2, 2), object)
            for i in np.flatnonzero(over):
                infos["final_observation"][i], infos["final_info"][i] = observations[i], {"steps": self.envs[i].t}
            observations = np.stack(
                [env.reset()[0] if e else o for env, o, e in zip(self.envs, observations, over, strict=True)]
            )
        return observations, rewards, terminated, truncated, infos

    def close(self, **kwargs):
        self.closed = True


Vector.__name__ = "SyncVectorEnv"
VectorEnv = type("VectorEnv", (), {"__module__": "gym.vector.vector_env"})


def test_vector_envs_give_true_transitions():
    kind = type("SyncVectorEnv", (Vector, VectorEnv), {"__module__": "gym.vector.sync_vector_env"})
    env = GymWrapper(kind())
    data = env.rollout(5, break_when_any_done=False)
    assert data.batch_size == (2, 5)
    assert data["next", "observation"][..., 0].tolist() == [[0.25, 0.5, 0.75, 1, 0.25], [0.25, 0.5, 0.25, 0.5, 0.25]]
    assert data["observation"][..., 0].tolist() == [[0, 0.25, 0.5, 0.75, 0], [0, 0.25, 0, 0.25, 0]]
    assert data["next", "truncated"][1].squeeze(-1).tolist() == [False, True, False, True, False]
    env.close()
    assert env._env.env.closed


@pytest.fixture
def gym(monkeypatch):
    """Stands for the module of gym 0.26."""
    module, registration = types.ModuleType("gym"), types.ModuleType("gym.envs.registration")
    names = {"Count-v0": types.SimpleNamespace(namespace=None, name="Count", version=0, id="Count-v0", entry_point="x")}
    registration.registry = names
    unregistered = type("UnregisteredEnv", (Exception,), {})

    def make(id, max_episode_steps=None, disable_env_checker=None, **kwargs):
        if id not in names:
            raise unregistered("as gym says it")
        return Gym26Env(checked=not disable_env_checker, **kwargs)

    module.make, module.__path__ = make, []
    for name, part in (("gym", module), ("gym.envs", types.ModuleType("gym.envs"))):
        monkeypatch.setitem(sys.modules, name, part)
    monkeypatch.setitem(sys.modules, "gym.envs.registration", registration)
    return module


def test_two_backends_in_one_program(gym):
    first = GymEnv("CartPole-v1")
    with set_gym_backend("gym"):
        second = GymEnv("Count-v0", limit=3)
        assert GymEnv.available_envs == ["Count-v0"]
    third = GymEnv("CartPole-v1", num_envs=2)
    assert "CartPole-v1" in GymEnv.available_envs
    assert (first.rollout(3)["observation"].shape, third.rollout(3)["observation"].shape) == ((3, 4), (2, 3, 4))
    assert second.rollout(9)["observation"].shape == (3, 2)
    assert isinstance(second._env.env, Gym26Env) and second._env.env.kwargs == {"checked": False}


def test_num_envs_of_gym_wait_when_they_are_done(gym):
    with set_gym_backend("gym"):
        env = GymEnv("Count-v0", num_envs=2, limit=2, frame_skip=2)
    check_env_specs(env)
    data = env.rollout(3, break_when_any_done=False)
    assert data["next", "observation"][..., 0].tolist() == [[0.5, 0.5, 0.5]] * 2
    with set_gym_backend("gym"), pytest.raises(ValueError) as caught:
        GymEnv("Count-v0", num_envs=2, vectorization_mode="vector_entry_point")
    assert str(caught.value) == (
        "vectorization_mode must be 'sync' or 'async' for envs of gym and is 'vector_entry_point'."
    )


def test_unknown_ids_are_looked_up_in_gym(gym):
    with set_gym_backend("gym"), pytest.raises(Exception, match=r"in gym's registry\. Did you mean Count-v0"):
        GymEnv("Coun-v0")
