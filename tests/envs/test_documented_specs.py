"""Documented examples of specs, with rlnb in place of torchrl, and the output that the pages print."""

from __future__ import annotations

import gymnasium
import pytest
import torch

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs import GymWrapper, PendulumEnv, RenameTransform, TransformedEnv
from rlnb.envs.libs.gym import GymEnv


@pytest.fixture
def env() -> GymEnv:
    return GymEnv("Pendulum-v1", device="cpu")  # the page prints device=cpu


# What the pages print of a leaf: its name, shape, device, dtype and domain.
TORQUE = ("BoundedContinuous", (1,), "cpu", torch.float32, "continuous")
REWARD = ("UnboundedContinuous", (1,), "cpu", torch.float32, "continuous")
FLAG = ("Categorical", (1,), "cpu", torch.bool, "discrete")
ANGLES = ("BoundedContinuous", (3,), "cpu", torch.float32, "continuous")


def check(spec, wanted: tuple) -> None:
    name = repr(spec).partition("(")[0]
    assert (name, tuple(spec.shape), str(spec.device), spec.dtype, spec.domain) == wanted


@pytest.mark.parametrize("what", ["action", "reward"])
def test_setting_and_reading_a_spec(env, what):
    setattr(env, f"{what}_spec", Unbounded(1))
    check(getattr(env, f"{what}_spec"), REWARD)

    setattr(env, f"{what}_spec", Composite({"nested": {what: Unbounded(1)}}))
    check(getattr(env, f"{what}_spec"), REWARD)

    setattr(
        env, f"{what}_spec", Composite({"nested": {what: Unbounded(1), f"another_{what}": Categorical(1, shape=(1,))}})
    )
    spec = getattr(env, f"{what}_spec")
    assert isinstance(spec, Composite) and (spec.shape, spec.device) == (torch.Size([]), torch.device("cpu"))
    check(spec["nested", what], REWARD)
    check(spec["nested", f"another_{what}"], ("Categorical", (1,), "cpu", torch.int64, "discrete"))
    assert spec["nested", f"another_{what}"].space.n == 1
    group = env.input_spec if what == "action" else env.output_spec
    assert group[f"full_{what}_spec"] == spec


def test_setting_and_reading_the_end_signals(env):
    flag = Categorical(2, shape=(1,), dtype=torch.bool)
    bare = ("Categorical", (1,), "cpu", torch.bool, "discrete")
    # the page prints a lone "done"; the other page says that a "terminated" always stands beside it
    env.done_spec = flag
    assert set(env.done_spec.keys(True, True)) == {"done", "terminated"}
    check(env.done_spec["done"], bare)
    env.done_spec = Composite({"nested": {"done": flag}})
    assert set(env.done_spec.keys(True, True)) == {("nested", "done"), ("nested", "terminated")}
    env.done_spec = Composite({"nested": {"done": flag, "another_done": flag}})
    check(env.done_spec["nested", "another_done"], bare)
    check(env.done_spec["nested", "done"], bare)
    assert env.output_spec["full_done_spec"] == env.done_spec


def test_leaves_of_pendulum(env):
    check(env.action_spec, TORQUE)
    assert env.action_spec == Bounded(-2.0, 2.0, shape=(1,), device="cpu")
    check(env.reward_spec, REWARD)
    check(env.done_spec["done"], FLAG)
    assert list(env.observation_spec.keys()) == ["observation"]
    check(env.observation_spec["observation"], ANGLES)
    assert torch.allclose(env.observation_spec["observation"].space.high, torch.tensor([1.0, 1.0, 8.0]))


def test_the_input_spec_of_pendulum(env):
    assert set(env.input_spec.keys()) == {"full_state_spec", "full_action_spec"}
    state = env.input_spec["full_state_spec"]
    assert state is None or state.is_empty()  # the page prints None
    check(env.input_spec["full_action_spec", "action"], TORQUE)
    assert (env.input_spec.device, env.input_spec.shape) == (torch.device("cpu"), torch.Size([]))


def test_the_output_spec_of_pendulum(env):
    assert set(env.output_spec.keys()) == {"full_reward_spec", "full_observation_spec", "full_done_spec"}
    check(env.output_spec["full_reward_spec", "reward"], REWARD)
    check(env.output_spec["full_observation_spec", "observation"], ANGLES)
    check(env.output_spec["full_done_spec", "done"], FLAG)
    assert (env.output_spec.device, env.output_spec.shape) == (torch.device("cpu"), torch.Size([]))


def test_the_end_signals_of_a_wrapped_env():
    env = GymWrapper(gymnasium.make("Pendulum-v1"), device="cpu")
    assert {"done", "truncated"} <= set(env.full_done_spec.keys())
    for name in ("done", "truncated"):
        check(env.full_done_spec[name], FLAG)


def test_a_renamed_reward():
    base_env = GymWrapper(gymnasium.make("Pendulum-v1"), device="cpu")
    env = TransformedEnv(base_env, RenameTransform("reward", ("nested", "reward")))
    assert list(env.full_reward_spec.keys(True, True)) == [("nested", "reward")]
    check(env.full_reward_spec["nested", "reward"], REWARD)
    assert env.reward_key == ("nested", "reward") and env.rollout(2)["next", "nested", "reward"].shape == (2, 1)


# Brax is not installed: the stateless env here is PendulumEnv.


def test_actions_of_a_stateless_env():
    env = PendulumEnv(device="cpu")
    assert list(env.full_action_spec.keys()) == ["action"]
    check(env.full_action_spec["action"], TORQUE)


def test_states_of_a_stateless_env():
    env = PendulumEnv(device="cpu")
    for spec in (env.state_spec, env.full_state_spec):
        assert isinstance(spec, Composite) and spec.device == torch.device("cpu")
        check(spec["params", "g"], ("UnboundedContinuous", (), "cpu", torch.float32, "continuous"))


PRINTED = """
    full_reward_spec: Composite(
        reward: UnboundedContinuous(
            shape=torch.Size([1]),
            space=ContinuousBox(
                low=Tensor(shape=torch.Size([1]), device=cpu, dtype=torch.float32, contiguous=True),
                high=Tensor(shape=torch.Size([1]), device=cpu, dtype=torch.float32, contiguous=True)),
            device=cpu,
            dtype=torch.float32,
            domain=continuous),
"""


def test_specs_are_printed_as_on_the_page(env):
    printed = repr(env.output_spec)
    assert printed.startswith("Composite(\n") and PRINTED.rstrip(",\n") in printed
    assert printed.endswith("device=cpu,\n    shape=torch.Size([]))")
