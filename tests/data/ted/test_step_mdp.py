"""step_mdp: which entries move to the root, which are dropped, and invalid input."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import LazyStackedTensorDict, TensorDict, lazy_stack

from rlnb.envs.utils import step_mdp


def step(**root) -> TensorDict:
    return TensorDict(
        {
            "observation": torch.tensor([0.0]),
            "action": torch.tensor([1]),
            "done": torch.tensor([False]),
            "hidden": torch.tensor([7.0]),
            "next": {
                "observation": torch.tensor([0.5]),
                "reward": torch.tensor([1.0]),
                "done": torch.tensor([True]),
            },
            **root,
        }
    )


def test_next_becomes_root_and_the_rest_of_the_root_is_kept():
    data = step_mdp(step())
    assert data.to_dict() == {
        "observation": torch.tensor([0.5]),
        "done": torch.tensor([True]),
        "hidden": torch.tensor([7.0]),
    }


@pytest.mark.parametrize(
    ("argument", "keys"),
    [
        ({"keep_other": False}, {"observation", "done"}),
        ({"exclude_reward": False}, {"observation", "done", "hidden", "reward"}),
        ({"exclude_done": True}, {"observation", "hidden"}),
        ({"exclude_action": False}, {"observation", "done", "hidden", "action"}),
        ({"reward_keys": "other"}, {"observation", "done", "hidden", "reward"}),
        ({"action_keys": ["action", "hidden"]}, {"observation", "done"}),
    ],
)
def test_arguments(argument, keys):
    assert set(step_mdp(step(), **argument).keys()) == keys


def test_nested_keys():
    data = TensorDict(
        {
            "agents": {"observation": torch.zeros(3), "action": torch.ones(3), "memory": torch.ones(3)},
            "next": {"agents": {"observation": torch.ones(3), "reward": torch.ones(3)}, "done": torch.tensor([False])},
        }
    )
    after = step_mdp(data, reward_keys=[("agents", "reward")], action_keys=[("agents", "action")])
    assert set(after.keys(True, True)) == {("agents", "observation"), ("agents", "memory"), "done"}
    assert after["agents", "observation"].tolist() == [1, 1, 1]


def test_a_branch_left_with_actions_only_is_gone():
    data = TensorDict({"agents": {"action": torch.ones(3)}, "next": {"observation": torch.ones(1)}})
    assert set(step_mdp(data, action_keys=[("agents", "action")]).keys()) == {"observation"}


def test_shares_tensors_and_leaves_its_input_alone():
    data = step()
    before = set(data.keys(True, True))
    after = step_mdp(data)
    assert after["observation"] is data["next", "observation"]
    assert set(data.keys(True, True)) == before


def test_writes_into_next_tensordict():
    target = TensorDict({"kept": torch.tensor([3.0])})
    assert step_mdp(step(), target) is target
    assert set(target.keys()) == {"kept", "observation", "done", "hidden"}


def test_non_tensor_data_is_kept():
    data = TensorDict({"note": "old", "next": {"note": "new", "observation": torch.zeros(1)}})
    assert step_mdp(data)["note"] == "new"


def test_lazy_stack_with_uneven_shapes():
    rows = [TensorDict({"action": torch.zeros(1), "next": {"observation": torch.full((n,), 1.0)}}) for n in (2, 3)]
    after = step_mdp(lazy_stack(rows))
    assert isinstance(after, LazyStackedTensorDict)
    assert [row["observation"].shape for row in after.unbind(0)] == [(2,), (3,)]


def test_keeps_batch_size_device_and_names():
    data = TensorDict({"next": {"observation": torch.zeros(2, 4)}}, [2, 4], device="cpu", names=["env", "time"])
    after = step_mdp(data)
    assert (after.batch_size, after.device, after.names) == ((2, 4), torch.device("cpu"), ["env", "time"])


def test_without_next_it_says_what_to_do():
    text = (
        "step_mdp needs an entry 'next' and found only ['observation']. 'next' is written by env.step(tensordict): "
        "call it first, or, if this is already the output of step_mdp, use it as it is."
    )
    with pytest.raises(KeyError, match=re.escape(text)):
        step_mdp(TensorDict({"observation": torch.zeros(1)}))


@given(root=st.sets(st.sampled_from("abcde")), after=st.sets(st.sampled_from("abcde")), keep_other=st.booleans())
def test_law_every_key_comes_from_one_place(root, after, keep_other):
    data = TensorDict({k: torch.tensor([0.0]) for k in root} | {"next": {k: torch.tensor([1.0]) for k in after}})
    result = step_mdp(data, keep_other=keep_other)
    expected = {k: 0.0 for k in root if keep_other} | dict.fromkeys(after, 1.0)
    assert {k: v.item() for k, v in result.items()} == expected


def test_an_action_can_be_kept_alone():
    assert set(step_mdp(step(), keep_other=False, exclude_action=False).keys()) == {"observation", "done", "action"}
    data = TensorDict({"a": {"action": torch.ones(1), "x": torch.ones(1)}, "next": {"y": torch.ones(1)}})
    after = step_mdp(data, keep_other=False, exclude_action=False, action_keys=[("a", "action")])
    assert set(after.keys(True, True)) == {("a", "action"), "y"}


def test_an_action_below_next_is_left_behind_too():
    step = TensorDict({"x": 0, "action": 1, "next": {"x": 2, "action": 3, "reward": 4}})
    assert step_mdp(step).to_dict() == {"x": 2}
    assert step_mdp(step, keep_other=False).to_dict() == {"x": 2}
    assert step_mdp(step, exclude_action=False).to_dict() == {"x": 2, "action": 3}


def test_nested_entries_that_are_emptied_go():
    step = TensorDict(
        {"x": 0, "agents": {"action": 1}, "e": {"f": {}}, "next": {"x": 2, "agents": {"reward": 3}, "e": {"f": {}}}}
    )
    keys = {"action_keys": ("agents", "action"), "reward_keys": ("agents", "reward")}
    assert set(step_mdp(step, **keys).keys(True)) == {"x"}
    del step["next", "agents"]
    assert set(step_mdp(step, **keys).keys(True)) == {"x"}


def agents() -> TensorDict:
    entries = {
        "observation": torch.zeros(3),
        "action": torch.ones(3),
        "reward": torch.ones(3),
        "done": torch.ones(3) > 0,
    }
    after = {key: value for key, value in entries.items() if key != "action"}
    return TensorDict({"agents": {**entries, "memory": torch.ones(3)}, "next": {"agents": after}})


@pytest.mark.parametrize("exclude", [True, False])
def test_nested_end_signals_are_left_out_on_request(exclude):
    keys = {name: [("agents", name.partition("_")[0])] for name in ("reward_keys", "done_keys", "action_keys")}
    found = step_mdp(agents(), exclude_done=exclude, **keys)
    assert set(found["agents"].keys()) == {"observation", "memory"} | (set() if exclude else {"done"})


@pytest.mark.parametrize(
    "options", [{}, {"keep_other": False}, {"exclude_reward": False, "reward_keys": ("agents", "reward")}]
)
def test_what_is_written_into_a_tensordict_is_what_is_returned_without_one(options):
    target = TensorDict({"agents": {"memory": torch.zeros(3)}, "other": torch.ones(1)})
    found = step_mdp(agents(), target, **options)
    assert found is target
    for key, value in step_mdp(agents(), **options).items(True, True):
        assert torch.equal(target[key], value)
    assert target["other"] == 1
