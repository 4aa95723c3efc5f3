"""Small programs with user-defined transforms, which also run on TorchRL."""

from __future__ import annotations

import copy

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from rlnb.data import (
    Bounded,
    Categorical,
    Composite,
    LazyTensorStorage,
    OneHot,
    TensorDictReplayBuffer,
    Unbounded,
)
from rlnb.envs import EnvBase, SerialEnv, check_env_specs
from rlnb.envs.transforms import ObservationNorm, StepCounter
from rlnb.envs.transforms.transforms import (
    CatTensors,
    Compose,
    ObservationTransform,
    RewardSum,
    Transform,
    TransformedEnv,
    UnsqueezeTransform,
    _apply_to_composite,
    _apply_to_composite_inv,
)


class Count(EnvBase):
    """Observation and reward count the steps; an action is added to the observation; five steps an episode."""

    def __init__(self, batch_size=()):
        super().__init__(batch_size=torch.Size(batch_size))
        batch = self.batch_size
        self.observation_spec = Composite(observation=Unbounded(shape=(*batch, 2)), shape=batch)
        self.action_spec = Bounded(-1, 1, shape=(*batch, 2))
        self.reward_spec = Unbounded(shape=(*batch, 1))
        self.difficulty = 7
        self.count = torch.zeros(*batch, 1)

    def _observe(self, action):
        return self.count.expand(*self.batch_size, 2) + action

    def _reset(self, tensordict=None, **kwargs):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        fresh = torch.zeros_like(self.count)
        self.count = fresh if mask is None else torch.where(mask, fresh, self.count)
        return TensorDict({"observation": self._observe(0.0)}, self.batch_size)

    def _step(self, tensordict):
        self.count = self.count + 1
        found = {"observation": self._observe(tensordict["action"]), "reward": self.count.clone()}
        return TensorDict({**found, "done": self.count >= 5, "terminated": self.count >= 5}, self.batch_size)

    def _set_seed(self, seed):
        pass


def still(tensordict):
    """A policy whose action is 0."""
    return tensordict.set("action", torch.zeros(*tensordict.batch_size, 2))


# 1: the transform of TorchRL's tutorial on coding a pendulum.
class SinTransform(Transform):
    def _apply_transform(self, obs):
        return obs.sin()

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return Bounded(
            low=-1, high=1, shape=observation_spec.shape, dtype=observation_spec.dtype, device=observation_spec.device
        )


class CosTransform(SinTransform):
    def _apply_transform(self, obs):
        return obs.cos()


def test_the_angles_of_the_pendulum_tutorial():
    env = TransformedEnv(Count(), Compose())
    env.append_transform(SinTransform(in_keys=["observation"], out_keys=["sin"]))
    env.append_transform(CosTransform(in_keys=["observation"], out_keys=["cos"]))
    env.append_transform(CatTensors(in_keys=["sin", "cos"], dim=-1, out_key="both", del_keys=False))
    check_env_specs(env)
    data = env.rollout(3, still)
    angles = torch.tensor([0.0, 1.0, 2.0])
    torch.testing.assert_close(data["sin"][:, 0], angles.sin())
    torch.testing.assert_close(data["next", "cos"][:, 1], (angles + 1).cos())
    assert data["both"].shape == (3, 4)
    spec = env.observation_spec["sin"]
    assert isinstance(spec, Bounded) and spec.shape == (2,) and spec.space.high.eq(1).all()
    assert set(env.observation_spec.keys()) == {"observation", "sin", "cos", "both"}


# 2: the decorated method takes a leaf, too.
def test_a_decorated_spec_method_takes_a_leaf():
    spec = SinTransform(["observation"], ["observation"]).transform_observation_spec(Unbounded((3,)))
    assert isinstance(spec, Bounded) and spec.shape == (3,)


# 3: a reward of another size, with its own spec.
class HalfReward(Transform):
    def __init__(self):
        super().__init__(in_keys=["reward"], out_keys=["reward"])

    def _apply_transform(self, reward):
        return reward / 2

    @_apply_to_composite
    def transform_reward_spec(self, reward_spec):
        return Bounded(0.0, 10.0, shape=reward_spec.shape, dtype=reward_spec.dtype)


def test_a_reward_of_another_size():
    env = TransformedEnv(Count(), HalfReward())
    check_env_specs(env)
    assert env.rollout(3, still)["next", "reward"].flatten().tolist() == [0.5, 1.0, 1.5]
    assert env.reward_spec.space.high.item() == 10.0


# 4: actions of another range, changed back for the env.
class TenfoldActions(Transform):
    def __init__(self):
        super().__init__(in_keys=[], out_keys=[], in_keys_inv=["action"], out_keys_inv=["action"])

    def _inv_apply_transform(self, action):
        return action / 10

    @_apply_to_composite_inv
    def transform_input_spec(self, action_spec):
        return Bounded(-10, 10, shape=action_spec.shape, dtype=action_spec.dtype)


def test_actions_of_another_range():
    env = TransformedEnv(Count(), TenfoldActions())
    assert env.action_spec.space.high.eq(10).all()
    reset = env.reset()
    step = env.step(reset.set("action", torch.tensor([10.0, -5.0])))
    assert step["next", "observation"].tolist() == [2.0, 0.5]
    assert step["action"].tolist() == [10.0, -5.0]


# 5: a choice in place of numbers, by _inv_call.
class Choices(Transform):
    TABLE = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])

    def _inv_call(self, tensordict):
        return tensordict.set("action", self.TABLE[tensordict.get("action").long().argmax(-1)])

    def transform_action_spec(self, action_spec):
        if isinstance(action_spec, Composite):
            action_spec["action"] = self.transform_action_spec(action_spec["action"])
            return action_spec
        return OneHot(3, shape=(*action_spec.shape[:-1], 3))


def test_a_choice_in_place_of_numbers():
    env = TransformedEnv(Count(), Choices(in_keys_inv=["action"], out_keys_inv=["action"]))
    assert isinstance(env.action_spec, OneHot)
    data = env.rollout(20, break_when_any_done=False)
    assert data["action"].shape == (20, 3)
    step = env.step(env.reset().set("action", torch.tensor([False, False, True])))
    assert step["next", "observation"].tolist() == [2.0, 2.0]


# 6: what a step leads to, compared with where it started.
class Change(Transform):
    def _step(self, tensordict, next_tensordict):
        return next_tensordict.set("change", next_tensordict["observation"] - tensordict["observation"])

    def _reset(self, tensordict, tensordict_reset):
        return tensordict_reset.set("change", torch.zeros_like(tensordict_reset["observation"]))

    def transform_observation_spec(self, observation_spec):
        observation_spec["change"] = observation_spec["observation"].clone()
        return observation_spec


@pytest.mark.parametrize("batch", [(), (3,)])
def test_the_change_of_an_observation(batch):
    env = TransformedEnv(Count(batch), Change())
    check_env_specs(env)
    data = env.rollout(3, still)
    assert data["next", "change"].eq(1).all() and data["change"][..., 0, :].eq(0).all()


# 7: a new Composite in place of the one that is given.
class Only(Transform):
    def _call(self, tensordict):
        return tensordict.set("double", tensordict["observation"] * 2).exclude("observation")

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec):
        return Composite(double=Unbounded(shape=observation_spec["observation"].shape), shape=observation_spec.shape)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_new_composite(batch):
    env = TransformedEnv(Count(batch), Only())
    check_env_specs(env)
    assert list(env.observation_spec.keys()) == ["double"]
    assert env.rollout(2, still)["next", "double"][..., 0, :].eq(2).all()


# 8: the specs of all outputs at once.
class Flagged(Transform):
    def _call(self, tensordict):
        return tensordict.set("far", tensordict["observation"].sum(-1, keepdim=True) > 4)

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    def transform_output_spec(self, output_spec):
        output_spec = super().transform_output_spec(output_spec)
        shape = (*output_spec["full_observation_spec"].shape, 1)
        output_spec["full_observation_spec"]["far"] = Categorical(2, shape=shape, dtype=torch.bool)
        return output_spec


def test_the_specs_of_all_outputs():
    env = TransformedEnv(Count(), Flagged())
    check_env_specs(env)
    assert env.rollout(4, still)["next", "far"].flatten().tolist() == [False, False, True, True]


# 9: keys that come from the env around.
class AllRewards(Transform):
    def _step(self, tensordict, next_tensordict):
        for key in self.parent.reward_keys:
            next_tensordict.set(key, next_tensordict.get(key) - self.parent.base_env.difficulty)
        return next_tensordict


def test_the_env_around_a_transform():
    env = TransformedEnv(Count(), AllRewards())
    assert env.rollout(2, still)["next", "reward"].flatten().tolist() == [-6.0, -5.0]


# 10: an end signal.
class Stop(Transform):
    def _step(self, tensordict, next_tensordict):
        far = next_tensordict["observation"].ge(3).all(-1, keepdim=True)
        next_tensordict["terminated"] = next_tensordict["terminated"] | far
        next_tensordict["done"] = next_tensordict["done"] | far
        return next_tensordict


def test_an_end_signal():
    assert TransformedEnv(Count(), Stop()).rollout(10, still).shape == (3,)
    data = TransformedEnv(Count((2,)), Stop()).rollout(7, still, break_when_any_done=False)
    assert data["next", "done"][0].flatten().tolist() == [False, False, True, False, False, True, False]


# 11: samples of a buffer.
class Scaled(Transform):
    def __init__(self, factor):
        super().__init__(in_keys=["obs"], out_keys=["obs"], in_keys_inv=["obs"], out_keys_inv=["obs"])
        self.factor = factor

    def _apply_transform(self, value):
        return value * self.factor

    def _inv_apply_transform(self, value):
        return value / self.factor


def test_samples_of_a_buffer():
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=5, transform=Scaled(4.0))
    buffer.extend(TensorDict({"obs": torch.full((10, 2), 8.0)}, [10]))
    assert buffer._storage[:]["obs"].eq(2).all()
    assert buffer.sample()["obs"].eq(8).all()


# 12: forward alone.
class Advantage(Transform):
    def forward(self, tensordict):
        return tensordict.set("advantage", tensordict["next", "reward"] - tensordict["next", "reward"].mean())


def test_forward_alone():
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    buffer.append_transform(Advantage())
    buffer.extend(Count().rollout(5, still))
    assert abs(buffer.sample()["advantage"].sum().item()) < 1e-5


# 13: a subclass of one of the library's transforms.
class Norm(ObservationNorm):
    def __init__(self):
        super().__init__(loc=1.0, scale=2.0, in_keys=["observation"], standard_normal=True)

    def _apply_transform(self, value):
        return super()._apply_transform(value).clamp(-1, 1)


def test_a_subclass_of_a_transform():
    assert isinstance(Norm(), ObservationTransform)
    data = TransformedEnv(Count(), Norm()).rollout(5, still)
    assert data["next", "observation"][:, 0].tolist() == [0.0, 0.5, 1.0, 1.0, 1.0]
    assert data["observation"][0, 0].item() == -0.5


# 14: a transform of observations with its own spec.
class Positive(ObservationTransform):
    def __init__(self):
        super().__init__(in_keys=["observation"], out_keys=["observation"])

    def _apply_transform(self, value):
        return value.abs()

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return Bounded(0, torch.inf, shape=observation_spec.shape, dtype=observation_spec.dtype)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_transform_of_observations(batch):
    env = TransformedEnv(Count(batch), Positive())
    check_env_specs(env)
    assert env.observation_spec["observation"].space.low.eq(0).all()


# 15: what a reset is given.
class Remember(Transform):
    def _reset_env_preprocess(self, tensordict):
        self.given = sorted(tensordict.keys()) if tensordict is not None else None
        return tensordict


def test_what_a_reset_is_given():
    env = TransformedEnv(Count(), Remember())
    env.reset(TensorDict({"hint": 1}))
    assert env.transform.given == ["hint"]


# 16: a parameter that is learned.
class Learned(Transform):
    def __init__(self):
        super().__init__(in_keys=["observation"], out_keys=["observation"])
        self.gain = torch.nn.Parameter(torch.ones(2))

    def _apply_transform(self, value):
        return value * self.gain

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)


def test_a_parameter_that_is_learned():
    env = TransformedEnv(Count(), Learned())
    assert len(list(env.transform.parameters())) == 1
    data = env.rollout(3, still)
    data["next", "observation"].sum().backward()
    assert env.transform.gain.grad.tolist() == [6.0, 6.0]


# 17: a state that partial resets start anew.
class Since(Transform):
    def __init__(self):
        super().__init__()
        self.steps = None

    def _reset(self, tensordict, tensordict_reset):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        fresh = torch.zeros(*tensordict_reset.batch_size, 1, dtype=torch.int64)
        self.steps = fresh if mask is None else torch.where(mask, fresh, self.steps)
        return tensordict_reset.set("since", self.steps.clone())

    def _step(self, tensordict, next_tensordict):
        self.steps = self.steps + 1
        return next_tensordict.set("since", self.steps.clone())

    def transform_observation_spec(self, observation_spec):
        shape = (*observation_spec.shape, 1)
        observation_spec["since"] = Unbounded(shape=shape, dtype=torch.int64, device=observation_spec.device)
        return observation_spec


def test_a_state_that_partial_resets_start_anew():
    env = TransformedEnv(SerialEnv(2, [Count, lambda: TransformedEnv(Count(), Stop())]), Since())
    data = env.rollout(6, lambda td: still(td), break_when_any_done=False)
    assert data["since"][0].flatten().tolist() == [0, 1, 2, 3, 4, 0]
    assert data["since"][1].flatten().tolist() == [0, 1, 2, 0, 1, 2]


# 18: plain functions.
def test_plain_functions():
    env = TransformedEnv(Count(), lambda data: data.set("twice", data["observation"] * 2))
    assert env.step(still(env.reset()))["next", "twice"].tolist() == [2.0, 2.0]
    env.append_transform(lambda data: data.exclude("twice"))
    assert "twice" not in env.step(still(env.reset()))["next"]


# 19: reward shaping in _call, which is called with data that has no reward at a reset.
class Shaping(Transform):
    def _call(self, tensordict):
        tensordict["reward"] = tensordict["reward"] + tensordict["observation"].sum(-1, keepdim=True)
        return tensordict


@pytest.mark.parametrize("batch", [(), (3,)])
def test_reward_shaping(batch):
    env = TransformedEnv(Count(batch), Compose(StepCounter(), Shaping(), RewardSum()))
    check_env_specs(env)
    assert env.rollout(3, still)["next", "reward"].reshape(-1)[:3].tolist() == [3.0, 6.0, 9.0]
    assert "reward" not in env.reset()


class ShapingByGet(Transform):
    def _call(self, tensordict):
        return tensordict.set("reward", tensordict.get("reward") * 2)


def test_reward_shaping_by_get():
    env = TransformedEnv(Count(), ShapingByGet())
    assert env.rollout(2, still)["next", "reward"].flatten().tolist() == [2.0, 4.0]


# 20: chains of own transforms, indexed, copied, stored and loaded.
def test_chains_of_own_transforms():
    chain = Compose(SinTransform(["observation"], ["sin"]), Learned(), UnsqueezeTransform(-1, in_keys=["sin"]))
    env = TransformedEnv(Count(), chain)
    assert env.rollout(2, still)["sin"].shape == (2, 2, 1)
    assert isinstance(env.transform[0], SinTransform) and len(env.transform) == 3
    state = env.transform.state_dict()
    other = TransformedEnv(Count(), copy.deepcopy(env.transform.clone()))
    with torch.no_grad():
        env.transform[1].gain.mul_(3)
    other.transform.load_state_dict(env.transform.state_dict())
    assert other.transform[1].gain.tolist() == [3.0, 3.0] and len(state) == 1
    assert other.rollout(2, still)["next", "observation"][0].tolist() == [3.0, 3.0]


# 21: a module in a transform, with no gradients.
class Features(Transform):
    def __init__(self):
        super().__init__(in_keys=["observation"], out_keys=["features"])
        net = torch.nn.Linear(2, 4)
        torch.nn.init.ones_(net.weight)
        torch.nn.init.zeros_(net.bias)
        self.module = TensorDictModule(net, in_keys=self.in_keys, out_keys=self.out_keys)

    @torch.no_grad()
    def _call(self, tensordict):
        return self.module(tensordict)

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec):
        observation_spec["features"] = Unbounded(shape=(*observation_spec.shape, 4))
        return observation_spec


def test_a_module_in_a_transform():
    env = TransformedEnv(Count((2,)), Features())
    check_env_specs(env)
    assert env.rollout(2, still)["next", "features"][:, 0].eq(2).all()


# 22: entries of the env's input, by transform_state_spec.
class Hint(Transform):
    def transform_state_spec(self, state_spec):
        state_spec["hint"] = Unbounded(shape=(*state_spec.shape, 1))
        return state_spec


def test_entries_of_the_input():
    env = TransformedEnv(Count(), Hint())
    assert "hint" in env.state_spec
