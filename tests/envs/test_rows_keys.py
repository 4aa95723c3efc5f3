"""Keys, end signals, derived properties and seeds, over envs of every kind."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.data.ted.keys import END_KEYS, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import CartPoleEnv, EnvBase, StepCounter, TransformedEnv
from tests.envs.kinds import KINDS, make

EVERY = pytest.mark.parametrize("kind", KINDS)
BOOL = Categorical(2, shape=(1,), dtype=torch.bool)


@pytest.mark.parametrize("what", ["action", "reward", "done"])
def test_keys_and_the_only_key(counter, what):
    env = counter()
    leaf = BOOL if what == "done" else Unbounded(1)
    assert getattr(env, f"{what}_key") == what
    setattr(env, f"{what}_spec", Composite({"b": {"a": {what: leaf}}}))
    assert getattr(env, f"{what}_key") == ("b", "a", what)
    setattr(env, f"{what}_spec", Composite({"b": {"a": {what: leaf}, what: leaf}, what: leaf}))
    keys = getattr(env, f"{what}_keys")
    assert [key for key in keys if as_tuple(key)[-1] == what] == [what, ("b", what), ("b", "a", what)]
    assert keys == sorted(keys, key=lambda key: len(as_tuple(key)))
    with pytest.raises(KeyError, match=rf"env\.{what}_key is the key of the only {what}, and this env has 3: .*Use"):
        getattr(env, f"{what}_key")


@EVERY
def test_every_level_of_ends_has_its_reset_key(kind):
    env = make(kind)
    levels = [(), ("agents",)] if kind == "agents" else [()]
    names = END_KEYS[:2] if kind == "stateless" else END_KEYS
    groups = [[(*level, name) if level else name for name in names] for level in levels]
    assert env.done_keys_groups == groups and env.done_keys == [key for group in groups for key in group]
    assert env.reset_keys == [(*level, "_reset") if level else "_reset" for level in levels]


@pytest.mark.parametrize("given", END_KEYS)
@pytest.mark.parametrize("level", [(), ("a",), ("a", "b")])
def test_done_and_terminated_flank_each_other(counter, given, level):
    env = counter()
    env.done_spec = Composite({(*level, given): BOOL})
    at = [as_tuple(key) for key in env.done_keys]
    assert set(at) == {(*level, name) for name in ("done", "terminated", given)}
    assert len({env.full_done_spec[key].shape for key in env.done_keys}) == 1


def test_a_single_end_signal_is_read_as_terminated(counter):
    data = counter(length=2).rollout(5)
    assert data["next", "terminated"].flatten().tolist() == [False, True]


@EVERY
def test_done_is_the_union_of_all_ends(kind):
    env = make(kind)
    data = env.rollout(60, break_when_any_done=False)["next"]
    for group in env.done_keys_groups:
        done, *reasons = [data[key] for key in group]
        assert torch.equal(done, torch.stack(reasons).any(0))
    assert data["done"].any() == (kind not in ("stateless", "gym on a device"))


@EVERY
def test_add_truncated_keys(kind):
    env = make(kind)
    levels = [as_tuple(key)[:-1] for key in env.reset_keys]
    assert env.add_truncated_keys() is env
    for level in levels:
        assert env.full_done_spec[(*level, "truncated")] == env.full_done_spec[(*level, "done")]
    last = env.rollout(3, set_truncated=True)[..., -1]["next"]
    assert all(last[(*level, "truncated")].all() for level in levels)


@EVERY
def test_fake_data_is_like_a_step(kind):
    env = make(kind)
    fake, real = env.fake_tensordict(), env.rand_step(env.reset())
    assert set(leaf_keys(fake)) == set(leaf_keys(real))
    assert (fake.batch_size, fake.device) == (real.batch_size, real.device)
    for key in leaf_keys(real):
        assert (fake[key].shape, fake[key].dtype) == (real[key].shape, real[key].dtype), key
    assert all(not fake[key].any() for key in ("next", *env.done_keys) if key != "next")


def test_empty_cache_forgets_lists_of_keys():
    base = CartPoleEnv()
    env = TransformedEnv(base, StepCounter())
    assert env.observation_keys == ["observation", "step_count"]
    base.observation_spec = Composite(other=Bounded(-1, 1, shape=(4,)))
    assert env.empty_cache() is None
    assert env.observation_keys == ["other", "step_count"]


@EVERY
def test_appending_a_transform_brings_new_keys(kind):
    env = make(kind)
    before = list(env.observation_keys)
    wrapped = env.append_transform(StepCounter(step_count_key="age"))
    assert isinstance(wrapped, TransformedEnv) and isinstance(wrapped, EnvBase)
    assert [key for key in wrapped.observation_keys if as_tuple(key)[-1] != "age"] == before
    assert "age" in wrapped.observation_keys
    assert wrapped.rollout(3)["next", "age"].flatten().tolist()[:1] == [1]


@EVERY
def test_seeds_make_chains_and_repeat(kind):
    env, other = make(kind, None), make(kind, None)
    second = env.set_seed(5)
    assert isinstance(second, int) and second == other.set_seed(5) != 5
    assert other.set_seed(5, static_seed=True) == 5
    first = env.rollout(12, break_when_any_done=False)
    assert bool((other.rollout(12, break_when_any_done=False) == first).all())
    other.set_seed(second)
    assert not bool((other.rollout(12, break_when_any_done=False) == first).all())


def test_the_reset_of_an_own_env_needs_no_seed_argument(counter):
    class Plain(counter):
        def _reset(self, tensordict):
            return TensorDict({"observation": torch.zeros(1)})

    env = Plain()
    assert env.set_seed(3) == env.set_seed(3) != 3
    assert env.reset()["observation"].item() == 0 and env.rollout(2).batch_size == (2,)
