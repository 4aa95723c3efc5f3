"""EnvBase: specs and keys, end signals, partial resets, and behaviour after close."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded

T, F = True, False


def flag(*values: bool) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(-1) if len(values) > 1 else torch.tensor(values)


# Specs and keys -----------------------------------------------------------------------------------------------------


def test_a_leaf_gets_the_customary_key(counter):
    env = counter((2,))
    env.reward_spec = Unbounded(shape=(2, 1))
    env.observation_spec = Unbounded(shape=(2, 5))
    assert list(env.full_reward_spec.keys()) == ["reward"] and env.observation_keys == ["observation"]
    assert env.reward_spec == env.output_spec["full_reward_spec", "reward"]


def test_one_nested_leaf_is_given_bare_and_several_as_composite(counter):
    env = counter()
    env.action_spec = Composite(agents=Composite(action=Categorical(3)))
    assert env.action_spec == Categorical(3) and env.action_key == ("agents", "action")
    env.action_spec = Composite(agents=Composite(action=Categorical(3)), other=Categorical(2))
    assert isinstance(env.action_spec, Composite)
    assert env.action_keys == ["other", ("agents", "action")]
    text = "env.action_key is the key of the only action, and this env has 2: ['other', ('agents', 'action')]. "
    with pytest.raises(KeyError, match=re.escape(text + "Use env.action_keys.")):
        _ = env.action_key


@pytest.mark.parametrize("given", ["done", "terminated", "truncated"])
def test_done_and_terminated_come_together(counter, given):
    env = counter()
    env.done_spec = Composite({("a", given): Categorical(2, shape=(1,), dtype=torch.bool)})
    names = {"done", "terminated", given}
    assert env.done_keys == [("a", name) for name in sorted(names)]
    assert env.reset_keys == [("a", "_reset")]
    assert env.done_keys_groups == [env.done_keys]
    assert env.done_key == ("a", "done")


def test_groups_of_specs(counter):
    env = counter((2,))
    assert set(env.input_spec.keys()) == {"full_action_spec", "full_state_spec"}
    assert set(env.output_spec.keys()) == {"full_observation_spec", "full_reward_spec", "full_done_spec"}
    assert env.specs["input_spec"] == env.input_spec
    assert env.input_spec.is_locked and env.output_spec.is_locked and env.specs.is_locked
    env.reward_spec = Bounded(0, 1, shape=(2, 1))
    assert env.output_spec["full_reward_spec", "reward"] == env.reward_spec


def test_a_spec_without_the_batch_dimension_is_refused_and_nothing_changes(counter):
    env = counter((4,))
    before = env.observation_spec.clone()
    text = (
        "observation_spec has shape (3,), and the env's batch size is (4,): the shape of a spec starts with the batch "
        "size. Fix: give it shape=(4, 3), or call spec.expand(4, 3)."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.observation_spec = Unbounded(shape=(3,))
    with pytest.raises(ValueError, match="the shape of a spec starts with the batch size"):
        env.observation_spec = Composite(observation=Unbounded(shape=(4, 3)))
    assert env.observation_spec == before


def test_an_object_that_is_not_a_spec_is_rejected(counter):
    text = (
        "action_spec must be a TensorSpec and is a int. Wrap it, for example: env.action_spec = Unbounded(shape=(3,))."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        counter().action_spec = 3


def test_specs_move_to_the_device(counter):
    env = counter(device="cpu").to("meta")
    assert env.device.type == "meta"
    assert env.observation_spec["observation"].device.type == "meta"
    assert env.full_done_spec["done"].device.type == "meta"


def test_fake_tensordict_looks_like_a_step(counter):
    env = counter((2,))
    real = env.rand_step(env.reset())
    fake = env.fake_tensordict()
    assert set(fake.keys(True, True)) == set(real.keys(True, True))
    for key in real.keys(True, True):
        assert (fake[key].shape, fake[key].dtype) == (real[key].shape, real[key].dtype)
        assert not fake[key].any()


# Reset, step, end signals -------------------------------------------------------------------------------------------

SIGNALS = {  # what the env gives -> done, terminated, truncated
    "done": ({"done": T}, (T, T, F)),
    "not done": ({"done": F}, (F, F, F)),
    "terminated": ({"terminated": T}, (T, T, F)),
    "truncated": ({"truncated": T}, (T, F, T)),
    "not truncated": ({"truncated": F}, (F, F, F)),
    "truncated and not terminated": ({"terminated": F, "truncated": T}, (T, F, T)),
    "both": ({"terminated": T, "truncated": T}, (T, T, T)),
    "done by truncation": ({"done": T, "truncated": T}, (T, F, T)),
    "done by termination": ({"done": T, "terminated": T}, (T, T, F)),
    "done and not terminated": ({"done": T, "terminated": F}, (T, F, T)),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_missing_end_signals_are_derived(counter, name):
    given, expected = SIGNALS[name]

    def step(env, td):
        data = {key: flag(value) for key, value in given.items()}
        return TensorDict({"observation": td["observation"], "reward": torch.ones(1), **data})

    env = counter(step=step)
    env.add_truncated_keys()
    after = env.rand_step(env.reset())["next"]
    assert tuple(after[key].item() for key in ("done", "terminated", "truncated")) == expected


def test_end_signals_do_not_share_memory(counter):
    after = counter().rand_step(counter().reset())["next"]
    after["done"].fill_(True)
    assert not after["terminated"].any()


def test_step_writes_under_next_and_nowhere_else(counter):
    env = counter()
    td = env.rand_action(env.reset())
    root = td.clone()
    out = env.step(td)
    assert out is td
    assert bool((td.exclude("next") == root).all())


def test_what_stands_under_next_overrides_the_step(counter):
    env = counter()
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({"reward": torch.tensor([42.0])})
    after = env.step(td)["next"]
    assert after["reward"].item() == 42 and after["observation"].item() == 1


def test_reset_writes_into_what_it_is_given(counter):
    td = TensorDict({"extra": torch.ones(1), "observation": torch.ones(1)})
    assert counter().reset(td) is td
    assert td["observation"].item() == 0 and td["extra"].item() == 1


def test_set_seed_chains(counter):
    env = counter()
    second = env.set_seed(1)
    assert env.seed == 1 and second == env.set_seed(1) != 1
    assert env.set_seed(second) not in (1, second)
    assert env.set_seed(7, static_seed=True) == 7


# Misuse ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["reset", "step"])
def test_a_closed_env_says_so(counter, what):
    env = counter()
    td = env.rand_action(env.reset())
    env.close()
    if what == "step":
        text = "step was called on a closed Counter. Fix: td = env.reset(), which starts it again."
        with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
            env.step(td)
        assert "next" not in td
    env.reset()
    assert not env.is_closed and env.step(td)["next", "observation"].item() == 1


BATCH_SIZES = {
    (2,): "Dimension 0 is 2 and must be 3.",
    (3, 7): "It has one dimension too many at the end: is it a rollout? One step of it is td[..., t].",
    (): "Start from what env.reset() returns.",
}


@pytest.mark.parametrize("batch", BATCH_SIZES)
def test_a_wrong_batch_size(counter, batch):
    env = counter((3,))
    text = f"step got a TensorDict of batch size {batch}; the batch size of Counter is (3,). {BATCH_SIZES[batch]}"
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.step(TensorDict({}, batch))


def test_an_env_of_any_batch_size(counter):
    env = type("Stateless", (counter,), {"batch_locked": False})()
    td = TensorDict({"observation": torch.zeros(4, 1)}, [4])
    after = env.rand_step(td)
    assert after["action"].shape == (4,) and after["next", "done"].shape == (4, 1)


def test_private_methods_must_return_a_new_tensordict(counter):
    env = counter(step=lambda env, td: td)
    text = (
        "Counter._step returned the TensorDict that it was given. It must return a new one, with the data at its root; "
        'the env puts it where it belongs (under "next" for a step). Fix: return TensorDict({...}, self.batch_size).'
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        env.rand_step(env.reset())
    with pytest.raises(TypeError, match=r"^Counter\._reset must return a TensorDict and returned a int\.$"):
        counter(reset=lambda env: 3).reset()


def test_done_after_reset(counter):
    def reset(env):
        return TensorDict({"observation": torch.zeros(1), "done": flag(T)})

    text = (
        "Counter is done right after its reset ('done' is True), so it could never take a step. "
        "If that is meant, make the env with allow_done_after_reset=True."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        counter(reset=reset).reset()
    assert counter(reset=reset, allow_done_after_reset=True).reset()["done"].item()


def test_done_after_a_reset_leaves_the_input_alone(counter):
    env = counter(reset=lambda env: TensorDict({"observation": torch.full((1,), 5.0), "done": flag(T)}))
    td = TensorDict({"observation": torch.ones(1)})
    with pytest.raises(RuntimeError, match="done right after its reset"):
        env.reset(td)
    assert td["observation"].item() == 1 and set(td.keys()) == {"observation"}


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True])
def test_a_bad_seed_changes_nothing(counter, seed):
    env = counter()
    env.set_seed(4)
    text = f"A seed must be an integer from 0 to 2**64 - 1 and is {seed!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.set_seed(seed)
    assert env.seed == 4


def test_a_seed_is_local(counter):
    env = counter()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    assert env.set_seed(np.int64(3)) == env.set_seed(3)
    first = [env.rand_action()["action"].item() for _ in range(20)]
    assert torch.equal(before, torch.get_rng_state())
    env.set_seed(3)
    assert [env.rand_action()["action"].item() for _ in range(20)] == first and len(set(first)) == 2
    env.set_seed(None)
    torch.manual_seed(3)
    assert [env.rand_action()["action"].item() for _ in range(20)] == first


def test_random_actions_have_the_batch_size_of_their_level(counter):
    env = counter()
    env.action_spec = Composite(agents=Composite(action=Categorical(3, shape=(2,)), shape=(2,)))
    assert env.rand_action()["agents"].batch_size == (2,)
    assert env.rand_action(TensorDict({"x": torch.ones(1)}))["agents", "action"].shape == (2,)


def test_an_overriding_done_decides_about_terminated(counter):
    env = counter()
    env.add_truncated_keys()
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({"done": flag(T)})
    after = env.step(td)["next"]
    assert (after["terminated"].item(), after["truncated"].item()) == (T, F)
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({"truncated": flag(T)})
    after = env.step(td)["next"]
    assert (after["done"].item(), after["terminated"].item()) == (T, F)


NO_TENSORDICT = {
    "step takes a TensorDict and got a NoneType. An action is an entry of it. Fix: td = env.reset(); td['action'] = "
    "...; td = env.step(td).": lambda env: env.step(None),
    "step takes a TensorDict and got an int. An action is an entry of it. Fix: td = env.reset(); td['action'] = ...; "
    "td = env.step(td).": lambda env: env.step(1),
    "step takes a TensorDict and got a dict. Fix: TensorDict(your_dict, batch_size=[]).": lambda env: env.step({}),
    "reset takes a TensorDict and got a dict. Fix: TensorDict(your_dict, batch_size=[]).": lambda env: env.reset({}),
    "rollout(tensordict=...) takes a TensorDict and got an int. See env.reset().": lambda env: env.rollout(
        3, tensordict=3
    ),
}


@pytest.mark.parametrize("text", NO_TENSORDICT)
def test_an_object_that_is_not_a_tensordict_is_rejected(counter, text):
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        NO_TENSORDICT[text](counter())


@pytest.mark.parametrize("lost", ["observation", "reward"])
def test_an_entry_that_goes_missing_later(counter, lost):
    def step(env, td):
        data = {"observation": td["observation"] + 1, "reward": torch.ones(1), "done": flag(F)}
        return TensorDict(data).exclude(*([lost] if td["observation"].item() == 2 else []))

    with pytest.raises(RuntimeError, match=f"^The data of Counter's step does not fit its specs:\n  - {lost}: missing"):
        counter(step=step).rollout(5)


def test_every_step_is_checked_where_that_is_wanted(counter):
    def step(env, td):
        n = 1 if td["observation"][0].item() < 2 else 2
        return TensorDict(
            {"observation": td["observation"][:1].repeat(n) + 1, "reward": torch.ones(1), "done": flag(F)}
        )

    env = counter(step=step, run_type_checks=True)
    with pytest.raises(RuntimeError, match=r"^The data of Counter's step does not .*\n  - observation: expected shape"):
        env.rollout(5)


def test_the_first_check_is_due_again_after_a_spec_was_set(counter):
    env = counter()
    env.rollout(2)
    env.observation_spec = Unbounded(shape=(5,))
    with pytest.raises(
        RuntimeError, match=r"first reset does not fit its specs:\n  - observation: expected shape \[5\]"
    ):
        env.rollout(2)


def test_a_wrong_batch_size_from_the_env(counter):
    text = (
        "Counter._reset returned a TensorDict of batch size (), and it must be (2,). "
        "Fix: TensorDict({...}, batch_size=[2])."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        counter((2,), reset=lambda env: TensorDict({"observation": torch.zeros(2, 1)})).reset()


COLLISIONS = {
    "The entry 'reward' is in observation_spec and in reward_spec: one would overwrite the other. "
    "Fix: give one of them another name.": "reward",
    "The entry 'done' is in observation_spec and in done_spec: one would overwrite the other. "
    "Fix: give one of them another name.": "done",
    "observation_spec has an entry 'next', and 'next' and '_reset' are the names of places that every env has. "
    "Fix: give the entry another name.": "next",
}


@pytest.mark.parametrize("text", COLLISIONS)
def test_two_things_in_one_place(counter, text):
    env = counter()
    env.observation_spec = Composite({COLLISIONS[text]: Unbounded(shape=(1,))})
    # the order in which the specs are named follows the specs, so either may come first
    with pytest.raises(ValueError, match="another name") as caught:
        env.reset()
    said = str(caught.value)
    assert said == text or {*said.split()} == {*text.split()}


def test_state_and_observation_may_share_entries(counter):
    env = counter()
    env.state_spec = env.observation_spec.clone()
    assert env.rollout(3)["next", "observation"].flatten().tolist() == [1, 2, 3]
    assert env.state_keys == ["observation"] and "observation" in env.fake_tensordict()
