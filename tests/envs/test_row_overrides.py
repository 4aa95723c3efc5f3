"""The rule for filling rows: an env that overrides anything is stepped method by method, with the same results."""

from __future__ import annotations

import inspect
import types

import pytest
import torch

from rlnb.envs import GymEnv, GymWrapper, ParallelEnv, SerialEnv
from rlnb.envs import rollout as rollout_module
from rlnb.envs.rows import CONSTRUCTION, overridden

MEMBERS = [name for name in dir(GymWrapper) if not name.startswith("__") and name != "_fills_rows"]
OF_BATCHES = [name for name, value in inspect.getmembers(SerialEnv, inspect.isfunction) if not name.startswith("__")]


def is_ours(cls: type, name: str) -> bool:
    """Whether an attribute is of this library, and not one that torch's modules have, which no rollout reads."""
    return next(base for base in cls.__mro__ if name in vars(base)).__module__.startswith("rlnb.")


ON_THE_ENV = [
    "_assemble",
    "_is_complete",
    "_step",
    "_step_mdp",
    "maybe_reset",
    "rand_action",
    "read_obs",
    "reset",
    "step",
]


def overriding(name: str, calls: list[str]) -> type[GymEnv]:
    """A subclass in which reading or calling one attribute is noted, and otherwise gives what it gave before."""
    stored = next(vars(base)[name] for base in GymEnv.__mro__ if name in vars(base))
    if isinstance(stored, types.FunctionType):

        def method(self, *args, **kwargs):
            calls.append(name)
            return stored(self, *args, **kwargs)

        return type("Own", (GymEnv,), {name: method})
    if isinstance(stored, (classmethod, staticmethod)):
        return type("Own", (GymEnv,), {name: type(stored)(stored.__func__)})
    if hasattr(type(stored), "__get__"):

        def read(self):
            calls.append(name)
            return stored.__get__(self, type(self))

        setter = (lambda self, value: stored.__set__(self, value)) if hasattr(type(stored), "__set__") else None
        return type("Own", (GymEnv,), {name: property(read, setter)})
    return type("Own", (GymEnv,), {name: stored})


def short_env():
    return GymEnv("CartPole-v1", max_episode_steps=4)


def assert_same_both_ways(make, monkeypatch):
    """Compare a rollout that may fill rows with one that may not: the data, and what was called for it."""
    results = []
    for slow in (False, True):
        calls: list[str] = []
        with monkeypatch.context() as patch:
            if slow:
                patch.setattr(rollout_module, "fills_rows", lambda env, act: False)
            env = make(calls)
            env.set_seed(3)
            results.append(
                (env.rollout(9, break_when_any_done=False), list(calls), env._random_state.state(env.device))
            )
    (data, called, state), (slow_data, slow_called, slow_state) = results
    assert set(data.keys(True, True)) == set(slow_data.keys(True, True))
    assert bool((data == slow_data).all()) and torch.equal(state, slow_state)
    return called, slow_called


@pytest.mark.parametrize("name", [name for name in MEMBERS if is_ours(GymWrapper, name)])
def test_an_override_of_any_attribute_is_honoured(name, monkeypatch):
    called, slow_called = assert_same_both_ways(
        lambda calls: overriding(name, calls)("CartPole-v1", max_episode_steps=4), monkeypatch
    )
    assert called == slow_called


def test_an_override_of_a_method_of_torch_is_stepped_method_by_method():
    methods = [name for name in MEMBERS if not is_ours(GymWrapper, name) and callable(getattr(GymWrapper, name))]
    for name in methods:
        own = overriding(name, [])("CartPole-v1")
        assert overridden(own, GymWrapper) == {name} and not own._fills_rows
    assert "half" in methods


@pytest.mark.parametrize("name", ON_THE_ENV)
def test_a_method_that_is_replaced_on_the_env_is_called(name, monkeypatch):
    def make(calls):
        env = short_env()
        before = getattr(env, name)

        def method(*args, **kwargs):
            calls.append(name)
            return before(*args, **kwargs)

        setattr(env, name, method)
        return env

    called, slow_called = assert_same_both_ways(make, monkeypatch)
    assert called == slow_called and name in called


@pytest.mark.parametrize("kind", ["replaced", "overridden"])
def test_every_reset_of_a_rollout_calls_a_user_defined_reset(kind):
    calls: list[str] = []
    env = overriding("reset", calls)("CartPole-v1", max_episode_steps=4) if kind == "overridden" else short_env()
    if kind == "replaced":
        env.reset = lambda *args, **kwargs: calls.append("reset") or GymEnv.reset(env, *args, **kwargs)
    env.rollout(9, break_when_any_done=False)
    assert calls == ["reset"] * 3  # at the start, and after steps 4 and 8


class Mixin:
    """Overrides a method from the side."""

    def read_reward(self, reward):
        return super().read_reward(2 * reward)


def test_mixins_count_wherever_they_are():
    own = type("Own", (Mixin, GymEnv), {})
    assert overridden(own("CartPole-v1"), GymWrapper) == {"read_reward"}
    assert own("CartPole-v1").rollout(3)["next", "reward"].flatten().tolist() == [2, 2, 2]


def test_construction_and_new_names_may_differ():
    def init(self):
        GymEnv.__init__(self, "CartPole-v1")

    hooks = {name: getattr(GymWrapper, name) for name in CONSTRUCTION if name.startswith("_") and "__" not in name[:2]}
    hooks.pop("_abc_impl")
    own = type("Own", (GymEnv,), {"__init__": init, "extra": lambda self: 1, **hooks})
    env = own()
    assert overridden(env, GymWrapper) == set() and env._fills_rows
    assert GymEnv("CartPole-v1")._fills_rows and not overriding("_assemble", [])("CartPole-v1")._fills_rows


def batch_rollout(env):
    env.set_seed(3)
    return env.rollout(9, break_when_any_done=False)


@pytest.fixture(scope="module")
def by_rows():
    plain = SerialEnv(2, short_env)
    found = batch_rollout(plain)
    assert plain._fills_rows
    return found


def overriding_batch(name):
    """A subclass of SerialEnv that overrides a method, and does in it what it did before."""
    stored = getattr(SerialEnv, name)

    def method(self, *args, **kwargs):
        return stored(self, *args, **kwargs)

    return type("Own", (SerialEnv,), {name: method})


@pytest.mark.parametrize("name", [name for name in OF_BATCHES if is_ours(SerialEnv, name)])
def test_a_batch_that_overrides_a_method_is_stepped_method_by_method(name, by_rows):
    own = overriding_batch(name)(2, short_env)
    assert bool((batch_rollout(own) == by_rows).all())
    assert not own._fills_rows


def test_a_batch_that_overrides_a_method_of_torch_is_stepped_method_by_method():
    for name in OF_BATCHES:
        if not is_ours(SerialEnv, name):
            own = overriding_batch(name)(1, short_env)
            own.start()
            assert not own._fills_rows, name


def test_an_override_in_a_parallel_env_is_honoured():
    class Doubling(ParallelEnv):
        def _step(self, tensordict):
            data = super()._step(tensordict)
            return data.set("reward", 2 * data["reward"])

    with Doubling(2, lambda: GymEnv("CartPole-v1")) as env:
        assert env.rollout(3)["next", "reward"].unique().tolist() == [2]
