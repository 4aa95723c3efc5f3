"""Attributes and specs of every env, over envs of every kind."""

from __future__ import annotations

import gc
import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, Unbounded
from rlnb.data.ted.keys import by_depth
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import GymEnv, PendulumEnv, SpreadEnv, StepCounter, TransformedEnv
from tests.envs.kinds import KINDS, make

EVERY = pytest.mark.parametrize("kind", KINDS)
WHATS = ["action", "observation", "reward", "done", "state"]


def leaves_of(spec: Composite) -> set:
    return set(spec.keys(True, True))


# Attributes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_constructor(counter, device):
    env = counter((2,), device=device, run_type_checks=True, allow_done_after_reset=True)
    assert (env.batch_size, env.run_type_checks, env.allow_done_after_reset) == (torch.Size([2]), True, True)
    assert env.device == (None if device is None else torch.device("cpu"))
    plain = counter()
    assert (plain.batch_size, plain.device, plain.run_type_checks) == (torch.Size([]), None, False)
    assert not plain.allow_done_after_reset and not plain.is_closed


@pytest.mark.parametrize("what", WHATS)
def test_specs_are_cast_to_the_device(counter, what):
    env = counter(device="meta")
    setattr(env, f"{what}_spec", Composite({what: Categorical(2, shape=(1,), device="cpu")}))
    assert getattr(env, f"full_{what}_spec")[what].device == torch.device("meta")
    assert {group.device for group in (env.input_spec, env.output_spec, env.specs)} == {torch.device("meta")}


@EVERY
def test_batch_size_under_all_its_names(kind):
    env = make(kind)
    assert isinstance(env.batch_size, torch.Size) and env.shape == env.batch_size == env.reset().batch_size
    assert env.batch_dims == env.ndim == len(env.batch_size)


@EVERY
def test_batch_locked_belongs_to_the_class(kind):
    env = make(kind)
    assert env.batch_locked == (kind != "stateless")
    name = type(env).__name__
    text = (
        f"batch_locked belongs to the class {name}, whose _step takes any batch size or does not. Only __init__ can "
        f"set it. Fix: class MyEnv({name}): batch_locked = False."
    )
    with pytest.raises(AttributeError, match=f"^{re.escape(text)}$"):
        env.batch_locked = False
    assert env.batch_locked == (kind != "stateless")


@EVERY
@pytest.mark.parametrize("call", ["reset", "step"])
def test_other_batch_sizes_are_for_stateless_envs(kind, call):
    env = make(kind)
    if env.batch_locked:
        td = TensorDict({}, [7])
        text = f"{call} got a TensorDict of batch size (7,); the batch size of {type(env).__name__} is "
        with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
            getattr(env, call)(td)
        assert td.is_empty()
    else:
        td = env.reset(TensorDict({}, [7, 2]))
        assert td.batch_size == (7, 2)
        assert env.rand_step(td)["next", "reward"].shape == (7, 2, 1)


@EVERY
@pytest.mark.parametrize("device", [None, "cpu"])
def test_data_comes_on_the_device_that_the_env_names(kind, device):
    env = make(kind)
    if device is not None:
        env.to(device)
    wanted = env.device
    assert wanted == (torch.device("cpu") if device or kind == "gym on a device" else None)
    data = env.rollout(2)
    assert env.reset().device == data.device == data["next"].device == wanted
    assert {data[key].device.type for key in leaf_keys(data)} == {"cpu"}


# Specs --------------------------------------------------------------------------------------------------------------


@EVERY
def test_all_specs_start_with_the_batch_size(kind):
    env = make(kind)
    shapes = [spec.shape for spec in env.specs.values(True, True)]
    assert len(shapes) >= 5 and all(shape[: env.ndim] == env.batch_size for shape in shapes)


@pytest.mark.parametrize("spec", [Unbounded(shape=(3,)), Composite(x=Unbounded(shape=(4, 3)))], ids=["leaf", "whole"])
@pytest.mark.parametrize("what", WHATS)
def test_a_spec_without_the_batch_size_is_refused(counter, what, spec):
    env = counter((4,))
    before = env.specs.clone()
    text = f"{what}_spec has shape {tuple(spec.shape)}, and the env's batch size is (4,): the shape of a spec starts"
    for name in (f"{what}_spec", f"full_{what}_spec"):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
            setattr(env, name, spec)
    assert env.specs == before


@EVERY
def test_observations_are_all_that_is_neither_reward_nor_end(kind):
    env = make(kind)
    td = env.rand_step(env.reset())
    others = {*env.reward_keys, *env.done_keys}
    assert leaves_of(env.observation_spec) == set(leaf_keys(td["next"])) - others
    assert env.observation_spec == env.full_observation_spec == env.output_spec["full_observation_spec"]
    assert isinstance(env.observation_spec, Composite)


def test_infos_and_results_of_transforms_are_observations():
    env = GymEnv("Taxi-v4", categorical_action_encoding=True).set_info_dict_reader()
    env = TransformedEnv(env, StepCounter())
    assert {"observation", "prob", "action_mask", "step_count"} <= set(env.observation_spec.keys())


@EVERY
def test_states_are_what_stateless_envs_take(kind):
    env = make(kind)
    wanted = {"th", "thdot", *leaf_keys(PendulumEnv.gen_params())}
    assert set(env.state_keys) == leaves_of(env.state_spec) == (wanted if kind == "stateless" else set())
    assert env.state_keys == by_depth(env.state_keys)
    assert env.state_spec == env.full_state_spec == env.input_spec["full_state_spec"]


def test_a_state_that_is_a_leaf_is_called_state(counter):
    env = counter()
    env.state_spec = Unbounded(shape=(4,))
    assert env.state_keys == ["state"] and env.full_state_spec["state"].shape == (4,)


BOOL = Categorical(2, shape=(1,), dtype=torch.bool)


@pytest.mark.parametrize("what", ["action", "reward", "done"])
def test_a_leaf_a_nested_leaf_and_several(counter, what):
    env = counter()
    leaf = BOOL if what == "done" else Unbounded(1)
    twins = [("done", "terminated")] if what == "done" else [(what,)]  # a lone end signal gets its twin

    def read():
        return getattr(env, f"{what}_spec"), getattr(env, f"full_{what}_spec")

    def keys_at(*level):
        return [(*level, name) if level else name for names in twins for name in names]

    setattr(env, f"{what}_spec", leaf)
    spec, full = read()
    assert list(full.keys(True, True)) == keys_at() and full[what] == leaf
    assert spec == (full if what == "done" else leaf)

    setattr(env, f"{what}_spec", Composite({"nested": {what: leaf}}))
    spec, full = read()
    assert set(full.keys(True, True)) == set(keys_at("nested")) and full["nested", what] == leaf
    assert spec == (full if what == "done" else leaf)

    several = Composite(
        {"nested": {what: leaf, f"another_{what}": BOOL if what == "done" else Categorical(1, shape=(1,))}}
    )
    setattr(env, f"full_{what}_spec", several)  # the full one is set alike
    spec, full = read()
    assert spec is full and set(full.keys(True, True)) == {*keys_at("nested"), ("nested", f"another_{what}")}
    group = env.input_spec if what == "action" else env.output_spec
    assert group[f"full_{what}_spec"] == full


@EVERY
def test_one_leaf_is_given_bare(kind):
    env = make(kind)
    assert env.action_spec == env.full_action_spec[env.action_key] and not isinstance(env.action_spec, Composite)
    assert env.reward_spec == env.full_reward_spec[env.reward_key] and not isinstance(env.reward_spec, Composite)
    assert env.done_spec == env.full_done_spec and leaves_of(env.full_done_spec) == set(env.done_keys)
    assert leaves_of(env.full_action_spec) == set(env.action_keys)
    assert leaves_of(env.full_reward_spec) == set(env.reward_keys)


@pytest.mark.parametrize("spec", [Unbounded(shape=()), Composite({"nested": {"reward": Unbounded(shape=())}})])
def test_rewards_and_ends_have_a_dimension(counter, spec):
    env = counter()
    before = env.reward_spec
    key = next(iter(spec.keys(True, True))) if isinstance(spec, Composite) else "reward"
    text = (
        f"The entry {key!r} of reward_spec has shape (), and rewards and end signals have at least one dimension. "
        "Fix: Unbounded(..., shape=(1,))."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.reward_spec = spec
    with pytest.raises(RuntimeError, match=r"^The entry 'done' of done_spec has shape \(\)"):
        env.done_spec = Categorical(2, dtype=torch.bool)
    assert env.reward_spec is before and env.rollout(2).shape == (2,)


def test_fake_data_from_the_end_signals():
    env = SpreadEnv(2, agent_done=True, batch_size=[3])
    fake = env.full_done_spec.zero()
    real = env.rand_step(env.reset())["next"]
    assert set(leaf_keys(fake)) == set(env.done_keys) and len(env.done_keys) == 6
    assert all(fake[key].shape == real[key].shape and not fake[key].any() for key in env.done_keys)


@EVERY
def test_groups_hold_the_specs_and_are_locked(kind):
    env = make(kind)
    assert set(env.input_spec.keys()) == {"full_action_spec", "full_state_spec"}
    assert set(env.output_spec.keys()) == {"full_observation_spec", "full_reward_spec", "full_done_spec"}
    assert set(env.specs.keys()) == {"input_spec", "output_spec"}
    assert env.specs["input_spec"] == env.input_spec and env.specs["output_spec"] == env.output_spec
    for group in (env.input_spec, env.output_spec, env.specs, env.full_action_spec, env.full_done_spec):
        assert group.is_locked
        with pytest.raises(RuntimeError, match="lock"):
            group["new"] = Unbounded(shape=(*env.batch_size, 1))


@EVERY
def test_specs_outlive_the_env(kind):
    env = make(kind)
    wanted = set(env.observation_keys)
    specs = env.specs
    env.close()
    del env
    gc.collect()
    assert leaves_of(specs["output_spec", "full_observation_spec"]) == wanted
    assert specs["input_spec", "full_action_spec"].is_in(specs["input_spec", "full_action_spec"].rand())


ENTRIES = ["action", "done", "observation", "reward", "state"]
UNBATCHED = [
    *(f"{name}_spec" for name in ENTRIES),
    *(f"full_{name}_spec" for name in ENTRIES),
    "input_spec",
    "output_spec",
]


@EVERY
@pytest.mark.parametrize("name", UNBATCHED)
def test_specs_of_one_env_of_the_batch(kind, name):
    env = make(kind)
    whole, single = getattr(env, name), getattr(env, f"single_{name}")
    assert single == getattr(env, f"{name}_unbatched") and type(single) is type(whole)
    assert single.shape == whole.shape[env.ndim :]
    if isinstance(whole, Composite):
        for key in leaves_of(whole):
            assert single[key].shape == whole[key].shape[env.ndim :] and single[key].dtype == whole[key].dtype
