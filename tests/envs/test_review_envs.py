"""Regression tests of envs: each test once failed."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, Unbounded
from rlnb.envs import CartPoleEnv, EnvBase, GymEnv, GymWrapper, PendulumEnv
from rlnb.envs.utils import check_env_specs


def _vector(how: str) -> GymWrapper:
    if how == "own":
        return GymEnv("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    mode = {"autoreset_mode": AutoresetMode(how)}
    return GymWrapper(gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync", vector_kwargs=mode))


def _steps(env: EnvBase, data: TensorDict, n: int) -> TensorDict:
    steps = []
    for _ in range(n):
        step, data = env.step_and_maybe_reset(env.rand_action(data))
        steps.append(step)
    return torch.stack(steps, -1)


@pytest.mark.parametrize("how", ["NextStep", "SameStep", "Disabled", "own"])
def test_a_copy_of_a_vector_env_resets_its_own_rows(how):
    env = _vector(how)
    env.set_seed(0)
    data = env.reset()
    twin = copy.deepcopy(env)
    ours = _steps(env, data.clone(), 60)  # if the twin reset the rows of this one, both would go wrong
    theirs = _steps(twin, data.clone(), 60)
    assert ours["next", "done"].sum() > 3
    assert bool((ours == theirs).all())


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_actions_have_the_dtype_of_their_space(scripted, box, dtype, vector, categorical):
    def make():
        return scripted(box, spaces.Discrete(4, dtype=dtype), length=3)

    backend = SyncVectorEnv([make] * 2) if vector else make()
    env = GymWrapper(backend, categorical_action_encoding=categorical)
    env.rollout(4, break_when_any_done=False)
    env.rollout(4, break_when_any_done=False, callback=lambda step: None)
    for single in backend.envs if vector else [backend]:
        assert single.actions and {np.asarray(action).dtype for action in single.actions} == {np.dtype(dtype)}
        assert all(single.action_space.contains(action) for action in single.actions)


@pytest.mark.parametrize("encoded", [torch.bool, torch.int8])
def test_an_encoding_too_small_for_the_index_does_not_cut_it(scripted, box, encoded):
    env = GymWrapper(scripted(box, spaces.Discrete(200)))
    spec = env.action_spec.to(encoded)
    env.action_spec = spec
    env.step(env.reset().set("action", spec.encode(150)))
    assert env._env.actions == [150]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_rewards_have_the_dtype_of_their_spec_whichever_way_they_are_collected(dtype):
    env = GymEnv("Pendulum-v1")
    env.reward_spec = Unbounded(shape=(1,), dtype=dtype)
    rows, steps = env.rollout(3), env.rollout(3, callback=lambda step: None)
    assert rows["next", "reward"].dtype == steps["next", "reward"].dtype == dtype


def test_frames_do_not_replace_an_observation(scripted, box):
    space = spaces.Dict(pixels=box)
    env = scripted(space)
    env.render_mode, env.render = "rgb_array", lambda: np.zeros((4, 5, 3), np.uint8)
    with pytest.raises(ValueError) as error:
        GymWrapper(env, from_pixels=True)
    assert str(error.value) == (
        "from_pixels=True adds the rendered frame as 'pixels', and the env has an observation of that name. "
        "Fix: leave from_pixels out, or pixels_only=True."
    )
    assert GymWrapper(env, from_pixels=True, pixels_only=True).rollout(2)["pixels"].shape == (2, 4, 5, 3)


@pytest.mark.parametrize("space", [spaces.Text(3), spaces.Sequence(spaces.Discrete(2))])
def test_actions_that_are_not_tensors_are_rejected_at_once(scripted, box, space):
    with pytest.raises(TypeError) as error:
        GymWrapper(scripted(box, space))
    assert str(error.value) == (
        f"The action 'action' has the space {space}, whose values are not tensors. "
        "Fix: give the env an action space of numbers, with gymnasium.wrappers.TransformAction around it."
    )


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("make", [lambda: GymEnv("Pendulum-v1"), PendulumEnv, lambda: CartPoleEnv(batch_size=[2])])
def test_a_policy_may_return_its_action_alone(make, contiguous):
    env = make()
    alone = env.rollout(3, lambda td: env.rand_action(td.empty()), return_contiguous=contiguous)
    whole = env.rollout(3, lambda td: env.rand_action(td), return_contiguous=contiguous)
    assert set(alone.keys(True, True)) == set(whole.keys(True, True))
    for key in env.observation_keys:
        assert torch.equal(alone[..., 0]["next"][key], alone[..., 1][key])


class _Buffers(EnvBase):
    """Gives away its own memory, or copies of it."""

    def __init__(self, copies: bool) -> None:
        super().__init__()
        self.observation_spec = Composite(moving=Unbounded(shape=(2,)), fixed=Unbounded(shape=(2,)))
        self.action_spec = Categorical(2)
        self.copies, self.moving, self.fixed = copies, torch.zeros(2), torch.tensor([1.0, float("nan")])

    def _reset(self, tensordict=None, **kwargs):
        self.moving.zero_()
        return self._data()

    def _step(self, tensordict):
        self.moving += 1
        return self._data().update({"reward": torch.ones(1), "done": torch.zeros(1, dtype=torch.bool)})

    def _data(self):
        return TensorDict({"moving": self.moving.clone() if self.copies else self.moving, "fixed": self.fixed})

    def _set_seed(self, seed):
        pass


def test_check_env_specs_finds_memory_that_is_written_over():
    check_env_specs(_Buffers(copies=True))  # memory that two steps share is no fault while it stays as it is
    with pytest.raises(AssertionError) as error:
        check_env_specs(_Buffers(copies=False))
    assert str(error.value) == (
        "_Buffers does not keep to its specs: 1 problem.\n"
        "\n"
        "  seen at  entry   problem  expected              got\n"
        "  step 1   moving  domain   what it was at reset  overwritten\n"
        "\n"
        "What to do:\n"
        "  - moving: The env returned its own memory, and wrote to it later. Return a copy: value.clone()."
    )


def test_a_done_of_another_dtype_is_converted_with_a_warning(counter):
    def step(env, tensordict):
        return TensorDict({"observation": torch.ones(1), "reward": torch.ones(1), "done": torch.zeros(1)})

    env = counter(step=step)
    with pytest.warns(UserWarning, match="returned 'done' with dtype torch.float32, and its spec has dtype torch.bool"):
        assert env.rand_step(env.reset())["next", "done"].tolist() == [False]
    with pytest.raises(AssertionError, match=r"done .* dtype .* torch\.bool .* torch\.float32"):
        check_env_specs(env)


def test_signals_that_are_numbers_are_completed_in_their_own_dtype(counter):
    def step(env, tensordict):
        observation = tensordict["observation"] + 1
        return TensorDict({"observation": observation, "reward": observation, "done": (observation >= 2).long()})

    env = counter(step=step)
    env.done_spec = Categorical(2, shape=(1,), dtype=torch.int64)
    env.add_truncated_keys()
    after = env.rollout(5)["next"]
    assert {after[key].dtype for key in env.done_keys} == {torch.int64}
    assert [after[key].flatten().tolist() for key in ("done", "terminated", "truncated")] == [[0, 1], [0, 1], [0, 0]]
