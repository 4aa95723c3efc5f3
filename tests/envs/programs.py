"""Environments written for TorchRL, which the tests run with both libraries."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from rlnb.data import Binary, Bounded, Categorical, Composite, OneHot, Unbounded
from rlnb.envs import (
    EnvBase,
    GymEnv,
    GymLikeEnv,
    GymWrapper,
    SerialEnv,
    StepCounter,
    ToTensorImage,
    TransformedEnv,
    check_env_specs,
    step_mdp,
)
from rlnb.envs.common import EnvBase as CommonEnvBase


class Stateless(EnvBase):
    """A pendulum in the manner of the tutorial: state and parameters travel with the data."""

    batch_locked = False

    def __init__(self, td_params=None, seed=None, device="cpu"):
        if td_params is None:
            td_params = self.gen_params()
        super().__init__(device=device, batch_size=[])
        self._make_spec(td_params)
        self.set_seed(0 if seed is None else seed)

    @staticmethod
    def gen_params(batch_size=()):
        params = TensorDict({"dt": 0.05, "g": 10.0, "max_speed": 8.0}, [])
        td = TensorDict({"params": params}, [])
        return td.expand(batch_size).contiguous() if batch_size else td

    def _make_spec(self, td_params):
        self.observation_spec = Composite(
            th=Bounded(low=-torch.pi, high=torch.pi, shape=(), dtype=torch.float32),
            thdot=Bounded(low=-8.0, high=8.0, shape=(), dtype=torch.float32),
            params=Composite({k: Unbounded(shape=v.shape, dtype=v.dtype) for k, v in td_params["params"].items()}),
            shape=(),
        )
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Bounded(low=-2.0, high=2.0, shape=(1,), dtype=torch.float32)
        self.reward_spec = Unbounded(shape=(*td_params.shape, 1))

    def _reset(self, tensordict):
        if tensordict is None or tensordict.is_empty() or "params" not in set(tensordict.keys()):
            shape = () if tensordict is None else tuple(tensordict.batch_size)
            tensordict = self.gen_params(shape)
        shape = tensordict.shape
        th = torch.rand(shape, generator=self.rng) * 2 - 1
        return TensorDict({"th": th, "thdot": torch.zeros(shape), "params": tensordict["params"]}, batch_size=shape)

    @staticmethod
    def _step(tensordict):
        th, thdot, params = tensordict["th"], tensordict["thdot"], tensordict["params"]
        u = tensordict["action"].squeeze(-1).clamp(-2, 2)
        thdot = (thdot + (params["g"] * th.sin() + u) * params["dt"]).clamp(-params["max_speed"], params["max_speed"])
        reward = -(th**2).view(*tensordict.shape, 1)
        done = torch.zeros_like(reward, dtype=torch.bool)
        th = ((th + thdot * params["dt"]) + torch.pi) % (2 * torch.pi) - torch.pi
        return TensorDict(
            {"th": th, "thdot": thdot, "params": params, "reward": reward, "done": done}, tensordict.shape
        )

    def _set_seed(self, seed):
        self.rng = torch.Generator().manual_seed(seed if seed is not None else 0)
        return seed


def stateless_with_params():
    env = Stateless()
    check_env_specs(env)
    td = env.reset(env.gen_params(batch_size=[10]))
    td = env.rand_step(td)
    assert td["next", "reward"].shape == (10, 1)
    rollout = env.rollout(3, auto_reset=False, tensordict=env.reset(env.gen_params(batch_size=[4])))
    assert rollout.shape == (4, 3) and rollout["next", "params", "g"].shape == (4, 3)
    policy = TensorDictModule(lambda th, thdot: torch.stack([-th - thdot], -1), ["th", "thdot"], ["action"])
    assert env.rollout(5, policy)["action"].shape == (5, 1)


class Counter(EnvBase):
    """Counts; what a subclass changes is what its program is about."""

    length = 5

    def __init__(self, batch_size=(), **kwargs):
        super().__init__(batch_size=torch.Size(batch_size), **kwargs)
        size = self.batch_size
        self.observation_spec = Composite(observation=Unbounded(shape=(*size, 1)), shape=size)
        self.action_spec = Categorical(3, shape=size)
        self.reward_spec = Unbounded(shape=(*size, 1))

    def _reset(self, tensordict=None, **kwargs):
        if tensordict is not None and "_reset" in set(tensordict.keys()):
            self.count = torch.where(tensordict["_reset"], 0.0, self.count)
        else:
            self.count = torch.zeros(*self.batch_size, 1)
        return TensorDict({"observation": self.count.clone()}, self.batch_size)

    def _step(self, tensordict):
        self.count = self.count + 1
        data = {"observation": self.count.clone(), "reward": torch.ones_like(self.count)}
        return TensorDict({**data, "done": self.count >= self.length}, self.batch_size)

    def _set_seed(self, seed):
        return torch.manual_seed(seed or 0)


def batch_with_partial_resets():
    env = Counter([3])
    env.length = 2
    data = env.rollout(5, break_when_any_done=False)
    assert data.shape == (3, 5) and data["observation"][0].flatten().tolist() == [0, 1, 0, 1, 0]
    assert env.set_seed(3) is not None  # what _set_seed returns does not matter


class TimeLimit(Counter):
    def __init__(self):
        super().__init__()
        self.full_done_spec["terminated"] = Categorical(2, shape=(1,), dtype=torch.bool)
        self.full_done_spec["truncated"] = Categorical(2, shape=(1,), dtype=torch.bool)
        self.full_done_spec["done"] = Categorical(2, shape=(1,), dtype=torch.bool)

    def _step(self, tensordict):
        data = super()._step(tensordict).exclude("done")
        over = self.count >= 3
        return data.update({"terminated": torch.zeros_like(over), "truncated": over, "done": over})


def time_limit_set_in_the_constructor():
    data = TimeLimit().rollout(10)
    assert data.shape == (3,) and bool(data["next", "truncated"][-1]) and not bool(data["next", "terminated"].any())


class SpecsFirst(Counter):
    def __init__(self):
        self.observation_spec = Composite(observation=Unbounded(shape=(1,)))
        self.action_spec = Categorical(3, shape=())
        self.reward_spec = Unbounded(shape=(1,))
        EnvBase.__init__(self)


def specs_before_the_base():
    assert SpecsFirst().rollout(10).shape == (5,) and SpecsFirst().action_spec.n == 3


class LooseShapes(Counter):
    def _step(self, tensordict):
        data = super()._step(tensordict)
        return data.update({"reward": data["reward"].squeeze(-1), "done": data["done"].squeeze(-1)})


def rewards_and_ends_without_their_last_dimension():
    for size in ((), (4,)):
        data = LooseShapes(size).rollout(9)
        assert data["next", "reward"].shape == data["next", "done"].shape == (*size, 5, 1)
        assert int(data["next", "done"].sum()) == max(1, torch.Size(size).numel())
        check_env_specs(LooseShapes(size))


class NoDone(Counter):
    def _step(self, tensordict):
        return super()._step(tensordict).exclude("done")


def an_env_that_never_ends():
    data = NoDone().rollout(8)
    assert data.shape == (8,) and not bool(data["next", "done"].any()) and not bool(data["next", "terminated"].any())


class Routing(CommonEnvBase):
    """Visits all cities, in a batch that the data brings: as libraries for routing problems do it."""

    batch_locked = False

    def __init__(self, num_loc=5, device="cpu"):
        super().__init__(device=device, batch_size=[], run_type_checks=False)
        self.num_loc = num_loc
        self.observation_spec = Composite(
            locs=Bounded(0, 1, shape=(num_loc, 2)),
            current=Unbounded(shape=(1,), dtype=torch.int64),
            action_mask=Unbounded(shape=(num_loc,), dtype=torch.bool),
            i=Unbounded(shape=(1,), dtype=torch.int64),
            shape=(),
        )
        self.action_spec = Bounded(low=0, high=num_loc, shape=(1,), dtype=torch.int64)
        self.reward_spec = Unbounded(shape=(1,))
        self.done_spec = Unbounded(shape=(1,), dtype=torch.bool)

    def _reset(self, td=None, batch_size=None):
        size = td.batch_size if td is not None and td.batch_size else torch.Size(batch_size or [2])
        locs = td["locs"] if td is not None and "locs" in set(td.keys()) else torch.rand(*size, self.num_loc, 2)
        return TensorDict(
            {
                "locs": locs,
                "current": torch.zeros(*size, 1, dtype=torch.int64),
                "i": torch.zeros(*size, 1, dtype=torch.int64),
                "action_mask": torch.ones(*size, self.num_loc, dtype=torch.bool),
            },
            batch_size=size,
        )

    def _step(self, td):
        current = td["action"]
        mask = td["action_mask"].scatter(-1, current[..., None] if current.ndim == td.ndim else current, False)
        done = mask.sum(-1) == 0
        return TensorDict(
            {
                "locs": td["locs"],
                "current": current,
                "i": td["i"] + 1,
                "action_mask": mask,
                "reward": torch.zeros_like(done, dtype=torch.float64),
                "done": done,
            },
            td.shape,
        )

    def _set_seed(self, seed):
        self.rng = torch.manual_seed(seed)


def routing():
    env = Routing()
    td = env.reset(TensorDict({"locs": torch.rand(3, 5, 2)}, [3]))
    steps = 0
    while not bool(td["done"].all()):
        action = td["action_mask"].float().argmax(-1, keepdim=True)
        td = env.step(td.set("action", action))["next"]
        steps += 1
    assert steps == 5 and td["done"].shape[0] == 3 and td["current"].flatten().tolist() == [4, 4, 4]


class Agents(EnvBase):
    """Two agents with rewards of their own, and one end for both."""

    def __init__(self):
        super().__init__(device="cpu")
        n = 2
        self.observation_spec = Composite(
            agents=Composite(observation=Unbounded(shape=(n, 3)), shape=(n,)), shared=Unbounded(shape=(4,))
        )
        self.action_spec = Composite(agents=Composite(action=OneHot(3, shape=(n, 3)), shape=(n,)))
        self.reward_spec = Composite(agents=Composite(reward=Unbounded(shape=(n, 1)), shape=(n,)))
        self.done_spec = Composite(done=Categorical(2, shape=(1,), dtype=torch.bool))

    def _data(self):
        return {"agents": TensorDict({"observation": torch.randn(2, 3)}, [2]), "shared": torch.zeros(4)}

    def _reset(self, tensordict=None, **kwargs):
        self.t = 0
        return TensorDict(self._data(), [])

    def _step(self, tensordict):
        self.t += 1
        data = TensorDict(self._data(), [])
        data["agents", "reward"] = tensordict["agents", "action"].float().argmax(-1, keepdim=True).float()
        return data.set("done", torch.tensor([self.t >= 4]))

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def agents_with_a_shared_end():
    env = Agents()
    check_env_specs(env)
    data = env.rollout(10)
    assert data.shape == (4,) and data["next", "agents", "reward"].shape == (4, 2, 1)
    assert env.reward_key == ("agents", "reward") and env.action_key == ("agents", "action")


class UnequalAgents(EnvBase):
    """Two agents with observations and actions of different sizes."""

    def __init__(self):
        super().__init__()
        self.action_spec = Composite(
            agents=torch.stack([Composite(action=Unbounded(shape=(n,))) for n in (1, 2)]),
        )
        self.observation_spec = Composite(
            agents=torch.stack([Composite(obs=Unbounded(shape=(n,))) for n in (3, 4)]),
        )
        self.reward_spec = Composite(agents=Composite(reward=Unbounded(shape=(2, 1)), shape=(2,)))
        self.done_spec = Composite(done=Categorical(2, shape=(1,), dtype=torch.bool))

    def _reset(self, tensordict=None, **kwargs):
        self.t = 0
        return TensorDict({"agents": self.observation_spec["agents"].rand()}, [])

    def _step(self, tensordict):
        self.t += 1
        sizes = [tuple(row["action"].shape) for row in tensordict["agents"].unbind(0)]
        assert sizes == [(1,), (2,)], sizes
        agents = self.observation_spec["agents"].rand()
        agents["reward"] = torch.full((2, 1), float(self.t))
        return TensorDict({"agents": agents, "done": torch.tensor([self.t >= 3])}, [])

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def agents_of_different_shapes():
    env = UnequalAgents()
    data = env.rollout(9, return_contiguous=False)
    assert data.shape == (3,) and [tuple(row["obs"].shape) for row in data[0]["agents"].unbind(0)] == [(3,), (4,)]
    assert data[2]["next", "agents", "reward"].flatten().tolist() == [3.0, 3.0]
    td = env.step(env.rand_action(env.reset()))
    td = step_mdp(td)
    assert [tuple(row["obs"].shape) for row in td["agents"].unbind(0)] == [(3,), (4,)]
    assert env.step(env.rand_action(td))["next", "agents", "reward"].shape == (2, 1)


class DictActions(Counter):
    def __init__(self):
        super().__init__()
        self.action_spec = Composite(
            move=Categorical(4, shape=()), grip=Binary(2, shape=(2,)), arm=Composite(x=Unbounded((1,)))
        )

    def _step(self, tensordict):
        assert tensordict["move"].shape == () and tensordict["grip"].shape == (2,)
        assert tensordict["arm", "x"].shape == (1,)
        return super()._step(tensordict)


def several_actions():
    env = DictActions()
    check_env_specs(env)
    assert env.rollout(3)["arm", "x"].shape == (3, 1) and len(env.action_keys) == 3


class NestedEnds(EnvBase):
    """Two groups, each with an end and a reset key of its own."""

    def __init__(self):
        super().__init__()
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        self.observation_spec = Composite({g: Composite(x=Unbounded(shape=(1,))) for g in "ab"})
        self.action_spec = Composite({g: Composite(action=Categorical(2, shape=())) for g in "ab"})
        self.reward_spec = Composite({g: Composite(reward=Unbounded(shape=(1,))) for g in "ab"})
        self.done_spec = Composite({g: Composite(done=flag.clone()) for g in "ab"})
        self.x = {"a": torch.zeros(1), "b": torch.zeros(1)}

    def _reset(self, tensordict=None, **kwargs):
        for group in self.x:
            mask = None if tensordict is None else tensordict.get((group, "_reset"), None)
            if mask is None or bool(mask.all()):
                self.x[group] = torch.zeros(1)
        return TensorDict({g: {"x": x.clone()} for g, x in self.x.items()}, [])

    def _step(self, tensordict):
        self.x = {g: x + 1 for g, x in self.x.items()}
        limit = {"a": 2, "b": 3}
        return TensorDict(
            {g: {"x": x.clone(), "reward": x.clone(), "done": x >= limit[g]} for g, x in self.x.items()}, []
        )

    def _set_seed(self, seed):
        pass


def groups_with_reset_keys_of_their_own():
    env = NestedEnds()
    assert set(env.reset_keys) == {("a", "_reset"), ("b", "_reset")}
    data = env.rollout(6, break_when_any_done=False)
    assert data["a", "x"].flatten().tolist() == [0, 1, 0, 1, 0, 1]
    assert data["b", "x"].flatten().tolist() == [0, 1, 2, 0, 1, 2]


class Backend:
    def reset(self):
        self.x = 0.0
        return np.array([self.x], dtype=np.float32), {}

    def step(self, action):
        self.x += float(np.asarray(action).sum())
        return np.array([self.x], dtype=np.float32), 1.0, self.x >= 3, False, {"note": "x"}

    def close(self):
        self.closed = True


class BackendEnv(GymLikeEnv):
    def __init__(self, env=None, **kwargs):
        if env is not None:
            kwargs["env"] = env
        super().__init__(**kwargs)

    def _check_kwargs(self, kwargs):
        assert "env" in kwargs

    def _build_env(self, env, **kwargs):
        return env

    def _make_specs(self, env):
        self.observation_spec = Composite(observation=Unbounded(shape=(1,)))
        self.action_spec = Unbounded(shape=(1,))
        self.reward_spec = Unbounded(shape=(1,))
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        self.done_spec = Composite(done=flag.clone(), terminated=flag.clone(), truncated=flag.clone())

    def _init_env(self):
        self.initialized = True

    def _set_seed(self, seed):
        pass

    def _output_transform(self, step_outputs_tuple):
        obs, reward, terminated, truncated, info = step_outputs_tuple
        return obs, reward, terminated, truncated, terminated or truncated, info

    def _reset_output_transform(self, reset_data):
        return reset_data


def a_gym_like_wrapper_that_builds_its_env():
    env = BackendEnv(Backend())
    policy = TensorDictModule(lambda obs: torch.ones(1), ["observation"], ["action"])
    assert env.rollout(10, policy)["next", "observation"].flatten().tolist() == [1.0, 2.0, 3.0]
    env.close()


class Pictures(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (8, 9, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.full((8, 9, 3), 51, np.uint8), {}

    def step(self, action):
        self.t += 1
        return np.full((8, 9, 3), 255, np.uint8), 1.0, self.t >= 3, False, {}


def images_of_gymnasium():
    env = TransformedEnv(GymWrapper(Pictures()), ToTensorImage())
    data = env.rollout(5)
    assert data["pixels"].shape == (3, 3, 8, 9) and data["pixels"].dtype == torch.float32
    assert round(float(data["pixels"][0].mean()), 4) == 0.2 and float(data["next", "pixels"].min()) == 1.0


def actions_of_torch_distributions():
    env = GymEnv("CartPole-v1")
    policy = TensorDictModule(
        lambda obs: torch.distributions.OneHotCategorical(probs=torch.ones(2) / 2).sample(), ["observation"], ["action"]
    )
    assert env.rollout(3, policy)["action"].shape == (3, 2)


def closing_and_starting_again():
    env = GymEnv("CartPole-v1")
    env.close()
    assert env.rollout(3).shape == (3,)
    env.close(raise_if_closed=False)
    frozen = GymEnv("FrozenLake-v1", is_slippery=False, map_name="8x8")
    assert frozen.observation_spec["observation"].shape == (64,) and frozen.cardinality() == 4
    assert env.numel() == 1 and env.ndimension() == 0 and env.is_spec_locked


class Handles(Counter):
    def __init__(self):
        self.device = torch.device("cpu")
        super().__init__()


def in_batches_with_transforms():
    def make():
        return TransformedEnv(Counter(), StepCounter(max_steps=3))

    env = SerialEnv(2, make)
    data = env.rollout(7, break_when_any_done=False)
    assert data.shape == (2, 7) and data["step_count"][0].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
    env.close()
    assert Handles().device == torch.device("cpu")


PROGRAMS = [
    stateless_with_params,
    batch_with_partial_resets,
    time_limit_set_in_the_constructor,
    specs_before_the_base,
    rewards_and_ends_without_their_last_dimension,
    an_env_that_never_ends,
    routing,
    agents_with_a_shared_end,
    agents_of_different_shapes,
    several_actions,
    groups_with_reset_keys_of_their_own,
    a_gym_like_wrapper_that_builds_its_env,
    images_of_gymnasium,
    actions_of_torch_distributions,
    closing_and_starting_again,
    in_batches_with_transforms,
]


def main() -> None:
    """Run all programs, and print the names of those that ran."""
    for program in PROGRAMS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program()
        print(program.__name__)


if __name__ == "__main__":
    main()
