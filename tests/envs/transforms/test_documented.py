"""The documented examples of transforms, verbatim and in order."""

from __future__ import annotations

import pytest
import torch

from rlnb.envs import Compose, DoubleToFloat, GymEnv, Resize, RewardSum, SerialEnv, ToTensorImage, TransformedEnv
from tests.envs.transforms.cases import Numbers


def pendulum():
    return GymEnv("Pendulum-v1", from_pixels=True, device="cpu")


def test_the_examples_in_a_row():
    base_env = pendulum()
    transform = Compose(ToTensorImage(in_keys=["pixels"]), Resize(64, 64, in_keys=["pixels"]))
    env = TransformedEnv(base_env, transform)
    assert env.device == base_env.device == env.rollout(2)["pixels"].device
    assert env.reset()["pixels"].shape == (3, 64, 64)

    resize_parent = env.transform[-1].parent  # returns the same as TransformedEnv(base_env, transform[:-1])
    same = TransformedEnv(base_env, transform[:-1])
    assert resize_parent.observation_spec == same.observation_spec
    assert resize_parent.reset()["pixels"].shape == same.reset()["pixels"].shape == (3, 500, 500)

    env.append_transform(DoubleToFloat(in_keys_inv=["action"]))
    assert env.rollout(2)["action"].dtype == torch.float32

    third_transform = env.transform[2]
    assert third_transform.parent is not None
    with pytest.raises(RuntimeError, match="already in a Compose"):
        TransformedEnv(base_env, third_transform)
    TransformedEnv(base_env, third_transform.clone()).rollout(2)

    transform1, transform2, transform3 = ToTensorImage(), Resize(8), RewardSum()
    env = TransformedEnv(base_env, Compose(transform1, transform2, transform3))
    last_two = env.transform[-2:]
    assert isinstance(last_two, Compose)
    assert last_two.parent is None
    assert last_two[0] is not transform2
    assert isinstance(last_two[0], type(transform2))
    assert last_two[1] is not transform3
    assert isinstance(last_two[1], type(transform3))


def test_actions_of_float32_come_to_the_env_as_float64():
    env = TransformedEnv(Numbers())  # which refuses any other dtype
    env.append_transform(DoubleToFloat(in_keys_inv=["action"]))
    assert env.action_spec.dtype == torch.float32 and env.base_env.action_spec.dtype == torch.float64
    assert env.rollout(3)["action"].dtype == torch.float32


def test_vectorized_envs_are_transformed_alike():
    env = TransformedEnv(SerialEnv(2, pendulum), Compose(ToTensorImage(in_keys=["pixels"]), Resize(8)))
    assert env.rollout(2)["pixels"].shape == (2, 2, 3, 8, 8)


def test_any_callable_is_a_transform():
    env = TransformedEnv(Numbers(), lambda td: td.set("velocity", td["velocity"] + 1))
    env.set_seed(0)
    td = env.reset()
    torch.testing.assert_close(td["velocity"], td["position"][..., :1] / 10 + 1)
