"""EnvBase: specs and keys, end signals, partial resets, and what happens after close."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs import EnvBase

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


def test_a_spec_that_is_none_is_refused(counter):
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


# Partial resets -------------------------------------------------------------------------------------------------------


def test_only_marked_rows_are_reset(counter):
    env = counter((3,))
    td = TensorDict({"observation": torch.tensor([[1.5], [2.5], [3.5]]), "_reset": flag(F, T, F)}, [3])
    out = env.reset(td)
    assert out["observation"].flatten().tolist() == [1.5, 0, 3.5]
    assert "_reset" not in out


def test_nobody_is_reset_when_no_row_is_marked(counter):
    env = counter((2,))
    td = TensorDict({"observation": torch.ones(2, 1), "_reset": flag(F, F)}, [2])
    assert env.reset(td)["observation"].flatten().tolist() == [1, 1]
    assert env.resets == 0 and "_reset" not in td


class Agents(EnvBase):
    """Zeros after a reset, with end signals for each of two agents, and for all."""

    def __init__(self, root_done: bool) -> None:
        super().__init__()
        bools = Categorical(2, shape=(2,), dtype=torch.bool)
        agents = ("agent0", "agent1")
        self.observation_spec = Composite({(a, "val"): Unbounded(shape=(2,)) for a in agents})
        self.action_spec = Categorical(2)
        levels = [(a, "done") for a in agents] + (["done"] if root_done else [])
        self.done_spec = Composite({level: bools.clone() for level in levels})

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({("agent0", "val"): torch.zeros(2), ("agent1", "val"): torch.zeros(2)})

    def _step(self, tensordict):
        raise AssertionError("not stepped here")

    def _set_seed(self, seed):
        pass


def agents_data(**root) -> TensorDict:
    return TensorDict(
        {
            ("agent0", "val"): torch.tensor([1.0, 1.0]),
            ("agent0", "_reset"): torch.tensor([F, T]),
            ("agent1", "val"): torch.tensor([2.0, 2.0]),
            ("agent1", "_reset"): torch.tensor([T, F]),
            **root,
        }
    )


def test_nested_resets():
    data = Agents(root_done=False).reset(agents_data())
    assert data["agent0", "val"].tolist() == [1, 0] and data["agent1", "val"].tolist() == [0, 2]
    assert not any("_reset" in key for key in data.keys(True, True))


def test_a_reset_at_the_root_overrides_those_below():
    data = Agents(root_done=True).reset(agents_data(_reset=torch.tensor([T, T])))
    assert data["agent0", "val"].tolist() == [0, 0] and data["agent1", "val"].tolist() == [0, 0]


def test_a_reset_without_a_done_beside_it_is_refused():
    text = (
        "The entry '_reset' has no 'done' beside it, so there is nothing that it could reset. "
        "This env can be reset at: [('agent0', '_reset'), ('agent1', '_reset')]."
    )
    data = agents_data(_reset=torch.tensor([T, T]))
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        Agents(root_done=False).reset(data)
    assert data["agent0", "val"].tolist() == [1, 1]


def test_a_mask_of_the_wrong_shape_is_refused(counter):
    env = counter((2,))
    td = TensorDict({"observation": torch.ones(2, 1), "_reset": torch.tensor([T, F])}, [2])
    text = (
        "The mask '_reset' must have the shape and dtype of 'done', (2, 1) and torch.bool, and has (2,) and torch.bool."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.reset(td)


def test_maybe_reset_touches_only_what_is_done(counter):
    env = counter((2,))
    td = env.reset()
    td["observation"] = torch.tensor([[5.0], [6.0]])
    td["done"] = flag(T, F)
    out = env.maybe_reset(td)
    assert out["observation"].flatten().tolist() == [0, 6] and not out["done"].any()
    assert "_reset" not in td and td["done"].any()
    assert env.maybe_reset(out) is out


# Misuse ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["reset", "step"])
def test_a_closed_env_says_so(counter, what):
    env = counter()
    td = env.rand_action(env.reset())
    env.close()
    text = f"{what} was called on a closed Counter. An env cannot be reopened: make a new one."
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        getattr(env, what)(td)
    assert "next" not in td


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
    env = counter()
    env.batch_locked = False
    td = TensorDict({"observation": torch.zeros(4, 1)}, [4])
    after = env.rand_step(td)
    assert after["action"].shape == (4,) and after["next", "done"].shape == (4, 1)


def test_private_methods_must_return_a_new_tensordict(counter):
    env = counter(step=lambda env, td: td)
    text = (
        "Counter._step returned the TensorDict that it was given. It must return a new one, with the data at its root; "
        'it comes to its place (under "next" for a step) by itself. Fix: return TensorDict({...}, self.batch_size).'
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


def test_a_partial_reset_that_cannot_be_done_changes_nothing(counter):
    def reset(env):
        return TensorDict({"observation": torch.zeros(2, 1), "note": "fresh"}, [2])

    env = counter((2,), reset=reset)
    td = env.reset()
    td["observation"] = torch.ones(2, 1)
    td["_reset"] = flag(T, F)
    text = (
        "The entry 'note' is no tensor, so it cannot be reset for some envs of the batch and not for others. "
        "Reset the whole batch, or encode the entry as a tensor."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        env.reset(td)
    assert td["observation"].flatten().tolist() == [1, 1] and "_reset" in td
