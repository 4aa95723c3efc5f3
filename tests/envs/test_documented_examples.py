"""Documented examples, with rlnb in place of torchrl, run as they are written."""

from __future__ import annotations

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.data import Binary, Categorical, Composite, Unbounded
from rlnb.envs import EnvBase, GymEnv, step_mdp
from rlnb.envs.libs.gym import GymEnv as SameGymEnv
from rlnb.envs.transforms import ActionMask, StepCounter, TransformedEnv
from rlnb.envs.utils import check_env_specs
from rlnb.modules import MaskedCategorical


class ArgMaxModule(nn.Module):
    def forward(self, values):
        return values.argmax(-1)


def leaves(data) -> dict:
    return {key: (tuple(data[key].shape), data[key].dtype) for key in data.keys(True, True)}


def flags(*prefix: str, shape=(10, 1)) -> dict:
    names = ("done", "terminated", "truncated")
    return {(*prefix, name) if prefix else name: (shape, torch.bool) for name in names}


def test_rollout_with_a_policy():
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env.set_seed(0)
    n_obs = env.observation_spec["observation"].shape[-1]
    n_act = env.action_spec.n
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(n_obs, n_act), ArgMaxModule())
    wrapped = TensorDictModule(plain, in_keys=list(env.observation_spec.keys()), out_keys=["action"])
    for policy in (plain, wrapped):
        data = env.rollout(max_steps=10, policy=policy, break_when_any_done=False)
        assert leaves(data) == {
            "action": ((10,), torch.int64),
            "observation": ((10, 4), torch.float32),
            ("next", "observation"): ((10, 4), torch.float32),
            ("next", "reward"): ((10, 1), torch.float32),
            **flags(),
            **flags("next"),
        }
        assert data.names == ["time"]


def test_rollouts_in_a_loop():
    env = GymEnv("CartPole-v1")
    input_td = env.reset()
    for _ in range(10):
        rollout_td = env.rollout(max_steps=100, break_when_any_done=False, auto_reset=False, tensordict=input_td)
        input_td = step_mdp(rollout_td[..., -1])
        assert rollout_td.batch_size == (100,)
        assert not rollout_td["done"].any()


def non_stopping(env, n):
    data_ = env.reset()
    result = []
    for _ in range(n):
        # the pages leave the action out, which no env takes
        data, data_ = env.step_and_maybe_reset(env.rand_action(data_))
        result.append(data)
    return torch.stack(result)


def test_a_non_stopping_rollout():
    assert non_stopping(GymEnv("CartPole-v1"), 200).batch_size == (200,)


def test_a_non_stopping_rollout_of_two_envs():
    data = non_stopping(GymEnv("CartPole-v1", num_envs=2), 2)  # the page has a ParallelEnv here
    assert leaves(data.exclude("action")) == {
        "observation": ((2, 2, 4), torch.float32),
        ("next", "observation"): ((2, 2, 4), torch.float32),
        ("next", "reward"): ((2, 2, 1), torch.float32),
        **flags(shape=(2, 2, 1)),
        **flags("next", shape=(2, 2, 1)),
    }


@pytest.mark.parametrize("num_envs", [0, 3])
def test_a_rollout_without_a_policy(num_envs):
    env = TransformedEnv(GymEnv("Pendulum-v1", num_envs=num_envs), StepCounter(max_steps=20))
    batch, names = ((3,), [None, "time"]) if num_envs else ((), ["time"])
    rollout = env.rollout(max_steps=1000)
    assert leaves(rollout) == {
        "action": ((*batch, 20, 1), torch.float32),
        "observation": ((*batch, 20, 3), torch.float32),
        "step_count": ((*batch, 20, 1), torch.int64),
        ("next", "observation"): ((*batch, 20, 3), torch.float32),
        ("next", "reward"): ((*batch, 20, 1), torch.float32),
        ("next", "step_count"): ((*batch, 20, 1), torch.int64),
        **flags(shape=(*batch, 20, 1)),
        **flags("next", shape=(*batch, 20, 1)),
    }
    assert rollout.batch_size == (*batch, 20) and rollout.names == names
    assert torch.equal(rollout["next", "step_count"][..., 0], torch.arange(1, 21).expand(*batch, 20))
    assert rollout["next", "truncated"][..., -1, :].all() and not rollout["next", "truncated"][..., :-1, :].any()

    lazy = env.rollout(4, return_contiguous=False)
    assert isinstance(lazy, LazyStackedTensorDict) and isinstance(lazy.get("next"), LazyStackedTensorDict)
    assert lazy.batch_size == (*batch, 4) and lazy.names == names
    assert leaves(lazy)["step_count"] == ((*batch, 4, 1), torch.int64)


def test_a_callable_as_transform():
    env = GymEnv("CartPole-v1", device="cpu")
    loc, scale = 0.5, 1.0
    env = env.append_transform(transform=lambda data: data.set("observation", (data.get("observation") - loc) / scale))
    assert str(env) == (
        "TransformedEnv(\n"
        "    env=GymEnv(env=CartPole-v1, batch_size=torch.Size([]), device=cpu),\n"
        "    transform=_CallableTransform(keys=[]))"
    )
    assert bool((env.reset()["observation"] <= -0.4).all())


class Zeros(EnvBase):
    """Returns zeros after a reset; ``levels`` have an end signal for each of two components."""

    def __init__(self, *levels):
        super().__init__()
        pair = {"shape": (2,), "dtype": torch.int64}
        self.keys = [(level, "val") if level else "val" for level in levels or ("",)]
        self.observation_spec = Composite({key: Unbounded(**pair) for key in self.keys})
        self.action_spec = Categorical(2)
        ends = [(level, "done") if level else "done" for level in levels or ("",)]
        self.done_spec = Composite({key: Binary(shape=(2,), dtype=torch.bool) for key in {*ends, "done"}})

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({key: torch.zeros(2, dtype=torch.int64) for key in self.keys})

    def _step(self, tensordict):
        raise NotImplementedError

    def _set_seed(self, seed):
        pass


def test_a_reset_of_one_component():
    data = TensorDict({"val": [1, 1], "_reset": [False, True]}, [])
    Zeros().reset(data)
    assert data.get("val").tolist() == [1, 0] and "_reset" not in data


@pytest.mark.parametrize("root", [False, True])
def test_nested_resets(root):
    nested = {
        ("agent0", "val"): [1, 1],
        ("agent0", "_reset"): [False, True],
        ("agent1", "val"): [2, 2],
        ("agent1", "_reset"): [True, False],
    }
    data = TensorDict({**({"_reset": [True, True]} if root else {}), **nested}, [])
    Zeros("agent0", "agent1").reset(data)
    assert data.get(("agent0", "val")).tolist() == ([0, 0] if root else [1, 0])
    assert data.get(("agent1", "val")).tolist() == ([0, 0] if root else [0, 2])
    assert not any("_reset" in key for key in data.keys(True, True))


def test_a_reset_of_three_envs_of_four():
    env = GymEnv("Pendulum-v1", num_envs=4, from_pixels=True)  # the page has a ParallelEnv here
    env.reset()
    tensordict = TensorDict({"_reset": [[True], [False], [True], [True]]}, [4])
    env.reset(tensordict)
    assert leaves(tensordict) == {"pixels": ((4, 500, 500, 3), torch.uint8), **flags(shape=(4, 1))}


class Masked(EnvBase):
    """The action of the last step is not legal in the next."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(
            observation=Unbounded(shape=(4,)), action_mask=Binary(4, shape=(4,), dtype=torch.bool)
        )
        self.action_spec = Categorical(4)

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"observation": torch.zeros(4), "action_mask": torch.ones(4, dtype=torch.bool)})

    def _step(self, tensordict):
        action, mask = tensordict["action"], tensordict["action_mask"]
        assert mask[action], "an action that is not legal"
        mask = torch.arange(4) != action
        return TensorDict(
            {"observation": mask.float(), "action_mask": mask, "reward": torch.ones(1), "done": torch.zeros(1) > 0}
        )

    def _set_seed(self, seed):
        pass


def test_a_policy_that_takes_a_mask():
    module = TensorDictModule(nn.Linear(4, 4), in_keys=["observation"], out_keys=["logits"])
    dist = ProbabilisticTensorDictModule(
        in_keys={"logits": "logits", "mask": "action_mask"}, out_keys=["action"], distribution_class=MaskedCategorical
    )
    actor = TensorDictSequential(module, dist)
    data = Masked().rollout(50, actor)
    assert (data["action"][1:] != data["action"][:-1]).all() and data["logits"].shape == (50, 4)


def test_a_default_policy_that_takes_a_mask():
    env = TransformedEnv(Masked(), ActionMask(action_key="action", mask_key="action_mask"))
    data = env.rollout(50)
    assert (data["action"][1:] != data["action"][:-1]).all() and len(data["action"].unique()) == 4


def test_a_callback_of_a_rollout():
    seen = []
    data = GymEnv("CartPole-v1").rollout(5, callback=lambda td: seen.append(td["next", "reward"].item()))
    assert seen == data["next", "reward"].flatten().tolist() == [1.0] * 5


def test_pendulum_with_its_gravity():
    env = SameGymEnv("Pendulum-v1", from_pixels=True, g=9.81, device="cpu")
    check_env_specs(env)
    assert env.g == 9.81
    assert env.observation_spec["pixels"].shape == (500, 500, 3)


def test_spec_keys_of_an_env():
    env = GymEnv("CartPole-v1")
    assert set(env.specs.keys()) == {"input_spec", "output_spec"}
    assert env.output_spec["full_reward_spec"][env.reward_key] == env.reward_spec
    assert env.input_spec["full_action_spec"][env.action_key] == env.action_spec
    assert env.output_spec["full_done_spec"][env.done_key].dtype == torch.bool
    assert env.reset_keys == ["_reset"] and env.done_keys_groups == [["done", "terminated", "truncated"]]


def test_an_env_is_a_module():
    env = GymEnv("CartPole-v1")
    assert isinstance(env, nn.Module) and list(env.parameters()) == []
    td = env.rand_action(env.reset())
    assert ("next", "reward") in env(td).keys(True)
