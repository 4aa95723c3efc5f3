"""Input that environments accept as TorchRL does: early specs, inexact data and actions, partial steps."""

from __future__ import annotations

import copy
import importlib
import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, Unbounded
from rlnb.envs import (
    CartPoleEnv,
    EnvBase,
    GymEnv,
    GymWrapper,
    PendulumEnv,
    SerialEnv,
    SpreadEnv,
    StepCounter,
    TicTacToeEnv,
    ToTensorImage,
    TransformedEnv,
    check_env_specs,
)
from tests.envs.kinds import KINDS, make

EVERY = pytest.mark.parametrize("kind", KINDS)
FLAG = Categorical(2, shape=(1,), dtype=torch.bool)


# Specs ---------------------------------------------------------------------------------------------------------


def test_specs_are_edited_in_place_while_the_constructor_runs(counter):
    class Edited(counter):
        def __init__(self):
            super().__init__()
            assert not self.is_spec_locked
            self.full_done_spec["truncated"] = FLAG.clone()
            self.observation_spec["extra"] = Unbounded(shape=(2,))
            assert "truncated" in self.done_keys and "extra" in self.observation_keys  # at once

    env = Edited()
    assert env.is_spec_locked and env.done_keys == ["done", "terminated", "truncated"]
    with pytest.raises(RuntimeError, match="this Composite is locked"):
        env.full_done_spec["more"] = FLAG
    with pytest.raises(ValueError, match="an end signal"):

        class Wrong(counter):
            def __init__(self):
                super().__init__()
                self.full_done_spec["stop"] = FLAG.clone()

        Wrong().reset()


@EVERY
def test_specs_are_locked_after_the_constructor_and_can_be_unlocked(kind):
    env = make(kind)
    assert env.is_spec_locked
    if kind == "vector":
        return
    before = list(env.observation_keys)
    assert env.set_spec_lock_(False) is env and not env.is_spec_locked
    base = env.base_env if kind == "transformed" else env
    base.observation_spec["extra"] = Unbounded(shape=(*env.batch_size, 1))
    assert env.set_spec_lock_() is env and env.is_spec_locked
    assert set(env.observation_keys) == {*before, "extra"}


def test_device_and_batch_size_are_set_by_the_constructor(counter):
    class Early(counter):
        def __init__(self):
            self.device = "cpu"
            self.batch_size = torch.Size([3])
            EnvBase.__init__(self)
            self.observation_spec = Unbounded(shape=(3, 1))
            self.action_spec = Categorical(2, shape=(3,))

    class Late(counter):
        def __init__(self):
            EnvBase.__init__(self)
            self.batch_size = [3]
            self.device = torch.device("cpu")
            self.observation_spec = Unbounded(shape=(3, 1))

    for env in (Early(), Late()):
        assert (env.device, env.batch_size) == (torch.device("cpu"), (3,))
        assert env.reward_spec.shape == (3, 1) and env.full_reward_spec.device == torch.device("cpu")
        assert env.numel() == 3 and env.ndimension() == 1 and env.shape == (3,)
        with pytest.raises(RuntimeError, match=r"device cannot be set .*Fix: env = env.to\('meta'\)"):
            env.device = "meta"
        with pytest.raises(RuntimeError, match="its specs have it already"):
            env.batch_size = [2]
        assert env.batch_size == (3,)


def test_batch_locked_is_set_by_the_constructor(counter):
    class Free(counter):
        def __init__(self):
            super().__init__()
            self.batch_locked = False

    assert not Free().batch_locked and counter().batch_locked


def test_a_composite_may_have_more_leading_dimensions_than_the_env():
    class Four(EnvBase):
        def __init__(self):
            super().__init__(batch_size=[4])
            self.observation_spec = Composite({"observation": Unbounded(shape=(4, 3))}, shape=(4, 3))
            self.action_spec = Unbounded(shape=(4, 1))
            self.done_spec = Composite({"done": Categorical(2, shape=(4, 1), dtype=torch.bool)}, shape=(4, 1))

        def _reset(self, tensordict=None, **kwargs):
            return TensorDict({"observation": torch.zeros(4, 3)}, [4])

        def _step(self, tensordict):
            zeros = torch.zeros(4, 1)
            return TensorDict({"observation": torch.zeros(4, 3), "reward": zeros, "done": zeros > 0}, [4])

        def _set_seed(self, seed):
            pass

    env = Four()
    assert env.full_done_spec.shape == (4,) and env.full_done_spec["done"].shape == (4, 1)
    check_env_specs(env)


# Data ----------------------------------------------------------------------------------------------------------


def given(counter, batch=(), run_type_checks=None, **data):
    def step(env, td):
        observation = td["observation"] + 1
        full = {"observation": observation, "reward": torch.ones(*batch, 1), "done": torch.zeros(*batch, 1) > 0}
        found = {**full, **data}
        return TensorDict({key: value for key, value in found.items() if value is not None}, batch)

    return counter(batch, step=step, run_type_checks=run_type_checks)


def test_a_reward_of_another_float_dtype_is_cast_with_one_warning(counter):
    env = given(counter, reward=torch.ones(1, dtype=torch.float64))
    text = (
        "Counter._step returned 'reward' with dtype torch.float64, and its spec has dtype torch.float32: it is "
        "converted, at every step. Fix: return value.to(torch.float32)."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(text)}$") as caught:
        data = env.rollout(4)
        env.rollout(4)
    assert len(caught) == 1 and data["next", "reward"].dtype == torch.float32
    with pytest.raises(AssertionError, match=r"reward +dtype"):
        check_env_specs(given(counter, reward=torch.ones(1, dtype=torch.float64)))


def test_a_missing_end_signal_is_false_with_one_warning(counter):
    env = given(counter, done=None)
    with pytest.warns(UserWarning, match=r"^Counter\._step returned none of \['done', 'terminated'\]") as caught:
        data = env.rollout(4)
    assert len(caught) == 1 and data["next", "done"].tolist() == [[False]] * 4


@pytest.mark.parametrize("reward", [torch.ones(2), torch.ones(3, 1)])
def test_a_reward_that_differs_in_more_is_refused(counter, reward):
    with pytest.raises(RuntimeError, match="reward: expected shape"):
        given(counter, reward=reward).rollout(2)


def test_no_type_checks_means_none(counter):
    wrong = {"observation": torch.zeros(7, dtype=torch.float64)}
    with pytest.raises(RuntimeError, match="does not fit its specs"):
        given(counter, **wrong).rollout(2)
    env = given(counter, run_type_checks=False, **wrong)
    assert env.rand_step(env.reset())["next", "observation"].shape == (7,) and not env.run_type_checks
    env = given(counter, **wrong)
    env.run_type_checks = False
    assert env.rand_step(env.reset())["next", "observation"].dtype == torch.float64
    flat = given(counter, run_type_checks=False, reward=torch.tensor(1.0))
    with pytest.warns(UserWarning, match="'reward' with shape"):
        assert flat.rollout(3)["next", "reward"].shape == (3, 1)  # steps must stack all the same


# Actions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gym", "vector", "batch"])
def test_one_hot_actions_of_floats(kind):
    env = make(kind)
    drawn = env.full_action_spec.rand()["action"]
    td = env.step(env.reset().set("action", drawn.float()))
    assert td["action"].dtype == torch.float32  # what the policy wrote stays
    twin = make(kind)
    assert torch.equal(twin.step(twin.reset().set("action", drawn))["next", "observation"], td["next", "observation"])
    with pytest.raises(TypeError, match="would cut the numbers off"):
        env.step(env.reset().set("action", drawn.float() * 0.5))


def test_an_action_without_its_dimension_of_size_one():
    env, twin = GymEnv("Pendulum-v1"), GymEnv("Pendulum-v1")
    env.set_seed(0), twin.set_seed(0)
    flat = env.rollout(3, lambda observation: torch.tensor(0.5))
    assert torch.equal(
        flat["next", "observation"], twin.rollout(3, lambda o: torch.tensor([0.5]))["next", "observation"]
    )
    batch = GymEnv("Pendulum-v1", num_envs=2)
    assert batch.step(batch.reset().set("action", torch.zeros(2)))["next", "reward"].shape == (2, 1)
    with pytest.raises(ValueError, match="must have shape"):
        batch.step(batch.reset().set("action", torch.zeros(2, 3)))


def test_steps_of_integers_say_what_a_step_takes():
    with pytest.raises(
        TypeError, match=r"^step takes a TensorDict and got an int\. An action is an entry of it\. Fix:"
    ):
        GymEnv("CartPole-v1").step(1)


# Partial steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("around", [lambda env: env, lambda env: TransformedEnv(env, StepCounter())])
@pytest.mark.parametrize("batch", ["tensors", "stateless"])
def test_marked_envs_step_and_the_others_stay(batch, around):
    env = around(CartPoleEnv(batch_size=[3]) if batch == "tensors" else PendulumEnv())
    td = env.reset() if batch == "tensors" else env.reset(TensorDict({}, [3]))
    td = env.rand_action(td)
    whole = make_twin(env, td)
    after = env.step(td.set("_step", torch.tensor([True, False, True])))["next"]
    keys = [key for key in env.observation_keys if key[0] != "params"]
    for key in keys:
        assert torch.equal(after[key][1], td[key][1])
        assert torch.equal(after[key][0], whole[key][0]) and torch.equal(after[key][2], whole[key][2])
    assert after["reward"][1].item() == 0 and torch.equal(after["reward"][0], whole["reward"][0])
    if batch == "tensors":  # what was left out goes on from where it was
        base = getattr(env, "base_env", env)
        assert torch.equal(base._state[1], td["observation"][1]) and not torch.equal(
            base._state[0], td["observation"][0]
        )


def make_twin(env, td):
    """The full step of a copy."""
    return copy.deepcopy(env).step(td.clone())["next"]


def test_a_single_env_that_is_not_marked_stays():
    env = GymEnv("CartPole-v1")
    td = env.rand_action(env.reset()).set("_step", torch.tensor([False]))
    after = env.step(td.copy())["next"]
    assert torch.equal(after["observation"], td["observation"]) and after["reward"].item() == 0
    assert env.step(td.set("_step", torch.tensor([True])))["next", "reward"].item() == 1


def test_partial_steps_that_an_env_cannot_take_are_refused():
    env = GymEnv("CartPole-v1", num_envs=2)
    td = env.rand_action(env.reset())
    with pytest.raises(RuntimeError, match=r"^GymEnv steps all of its envs at once.*Fix: SerialEnv"):
        env.step(td.set("_step", torch.tensor([True, False])))
    assert "next" not in td
    batch = CartPoleEnv(batch_size=[2])
    td = batch.rand_action(batch.reset()).set("_step", torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^The entry '_step' marks the envs .* got \(2, 3\)"):
        batch.step(td)


def test_marked_envs_of_a_batch_below_a_transform():
    env = TransformedEnv(SerialEnv(2, lambda: GymEnv("Pendulum-v1")), StepCounter())
    td = env.rand_action(env.reset()).set("_step", torch.tensor([False, True]))
    after = env.step(td)["next"]
    assert torch.equal(after["observation"][0], td["observation"][0])
    assert not torch.equal(after["observation"][1], td["observation"][1])
    assert after["step_count"].flatten().tolist() == [0, 1]
    env.close()


# Images and backends -------------------------------------------------------------------------------------------


class Pictures(gymnasium.Env):
    action_space = spaces.Discrete(2)
    render_mode = "rgb_array"

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}

    def render(self):
        return np.zeros((5, 6, 3), np.uint8)


def box(*shape, low=0, high=255, dtype=np.uint8):
    return spaces.Box(low, high, shape, dtype)


IMAGES = {
    "an image": (box(8, 9, 3), ["pixels"]),
    "an image of floats": (box(8, 9, 3, dtype=np.float32), ["pixels"]),
    "channels first": (box(3, 8, 9), ["observation"]),
    "gray": (box(8, 9, 1), ["observation"]),
    "four channels": (box(8, 9, 4), ["observation"]),
    "from 0 to 1": (box(8, 9, 3, high=1, dtype=np.float32), ["observation"]),
    "a vector": (box(3), ["observation"]),
    "a dictionary": (spaces.Dict(a=box(8, 9, 3)), ["a"]),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_called_pixels(name):
    space, keys = IMAGES[name]
    assert GymWrapper(Pictures(space)).observation_keys == keys
    drawn = GymWrapper(Pictures(space), from_pixels=True)
    assert set(drawn.observation_keys) == {"pixels", *keys}
    frame = space.shape if keys == ["pixels"] else (5, 6, 3)
    assert drawn.rollout(2)["pixels"].shape == (2, *frame)
    assert GymWrapper(Pictures(space), from_pixels=True, pixels_only=True).observation_keys == ["pixels"]


@pytest.mark.parametrize("vector", [False, True])
def test_image_transforms_find_the_images_of_an_env(vector):
    modes = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}
    backend = Pictures(box(8, 9, 3))
    if vector:
        backend = gymnasium.vector.SyncVectorEnv([lambda: Pictures(box(8, 9, 3))] * 2, **modes)
    data = TransformedEnv(GymWrapper(backend), ToTensorImage()).rollout(3)
    assert data["pixels"].shape[-3:] == (3, 8, 9) and data["next", "pixels"].dtype == torch.float32


def test_atari_games_register_themselves(monkeypatch):
    imported = []
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda name, *rest: imported.append(name) or real(name, *rest))
    for make_env in (lambda: GymEnv("ALE/NoSuchGame-v5"), lambda: GymEnv("ALE/NoSuchGame-v5", num_envs=2)):
        with pytest.raises(gymnasium.error.Error):
            make_env()
    assert imported.count("ale_py") == 2


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), [0.5], np.array([[0.5]])])
def test_an_observation_that_differs_in_dimensions_of_size_one(value):
    env = Pictures(spaces.Box(-1, 1, (1,), np.float32))
    env.reset, env.step = lambda **kwargs: (value, {}), lambda action: (value, 0.0, False, False, {})
    wrapped = GymWrapper(env)
    for policy in (None, lambda td: wrapped.rand_action(td)):
        assert wrapped.rollout(3, policy)["observation"].tolist() == [[0.5]] * 3


def test_keywords_of_torchrl():
    env = GymEnv("CartPole-v1", True, batch_size=[], allow_done_after_reset=True, missing_obs_value=0)
    assert env.categorical_action_encoding and env.allow_done_after_reset
    with pytest.raises(ValueError, match=r"has batch size \[\], and batch_size=\[2\] was given"):
        GymEnv("CartPole-v1", batch_size=[2])
    seen = []
    backend = Pictures(spaces.Box(-1, 1, (1,), np.float32))
    plain = backend.step
    backend.step = lambda action: seen.append(type(action)) or plain(action)
    GymWrapper(backend, convert_actions_to_numpy=False).rollout(2)
    assert seen == [torch.Tensor, torch.Tensor]
    GymWrapper(backend, convert_actions_to_numpy=True).rollout(1)
    assert seen[2] is not torch.Tensor


def test_envs_that_do_not_reset_themselves():
    text = (
        "auto_reset=True is for envs that reset themselves, and CartPole-v1 does not: after the end of an episode its "
        "steps have no meaning. Fix: leave auto_reset out; rollouts reset it when it is done."
    )
    for options in ({}, {"num_envs": 2}):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            GymEnv("CartPole-v1", auto_reset=True, **options)


def test_rendering_what_cannot_be_rendered():
    text = "CartPoleEnv was made without a render mode, so it renders nothing. Fix: GymEnv('CartPole-v1', render_mode="
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
        GymEnv("CartPole-v1").render()
    with pytest.raises(RuntimeError, match=r"^render was called before reset"):
        GymEnv("CartPole-v1", render_mode="rgb_array").render()
    with pytest.raises(AttributeError, match=r"^PendulumEnv has no render method"):
        PendulumEnv().render()


# The rest of the interface -------------------------------------------------------------------------------------


def test_actions_are_counted_and_listed():
    assert GymEnv("CartPole-v1").all_actions()["action"].tolist() == [[1, 0], [0, 1]]
    assert PendulumEnv().cardinality() == float("inf")
    env = TicTacToeEnv()
    assert env.cardinality() == env.cardinality(env.reset()) == 9 and env.all_actions(env.reset()).shape == (9,)


def test_any_done_marks_what_must_be_reset():
    env = CartPoleEnv(batch_size=[2], max_steps=1)
    td = env.rand_action(env.reset())
    assert not env.any_done(td) and "_reset" not in set(td.keys())
    td = env.step(td)
    assert env.any_done(td) and td["next", "_reset"].tolist() == [[True], [True]]


def test_specs_from_a_step(counter):
    env = counter()
    env.observation_spec, env.action_spec = Composite(), Composite()
    found = env.auto_specs_(lambda td: td.set("action", torch.zeros(2)))
    assert found is env and env.action_spec.shape == (2,) and env.observation_keys == ["observation"]
    with pytest.raises(KeyError, match="reads 'obs'"):
        counter().auto_specs_(lambda td: td.set("action", torch.zeros(())), observation_key="obs")


def test_resets_to_a_state():
    env = PendulumEnv()
    td = env.reset()
    assert env.reset(td.clone().fill_("th", 0.25), set_state=True)["th"].item() == 0.25
    with pytest.raises(NotImplementedError, match="cannot be reset to a given state"):
        GymEnv("CartPole-v1").reset(td, set_state=True)
    with pytest.raises(NotImplementedError):
        env.set_state()


def test_checks_of_the_specs_from_the_env():
    GymEnv("CartPole-v1").check_env_specs(seed=0, break_when_any_done="both")
    check_env_specs(PendulumEnv(), tensordict=PendulumEnv().reset())
    SpreadEnv(2).check_env_specs()


def test_what_only_batches_can_do_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="CartPoleEnv does not run other envs"):
        CartPoleEnv().configure_parallel(use_buffers=True)
    env = CartPoleEnv()
    assert env.collector is None
    env.register_collector(env)
    assert env.collector is env


def test_paths_of_torchrl():
    common = importlib.import_module("rlnb.envs.common")
    assert common.EnvBase is EnvBase
    assert importlib.import_module("rlnb._utils").logger.name == "rlnb"
