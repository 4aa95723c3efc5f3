"""Malformed rollouts: each raises its error, word for word, and leaves the forest unchanged."""

from __future__ import annotations

import pytest
import torch
from tensordict import NonTensorStack, TensorDict, lazy_stack

from rlnb.data import MCTSForest
from tests.data.map.graphs import forest_of, make_rollout, state


def changed(**entries) -> TensorDict:
    """A rollout from 0 over 1 to 9, with some entries replaced at the root."""
    rollout = make_rollout([0, 1, 9])
    for name, value in entries.items():
        rollout[name] = value
    return rollout


def with_next(**entries) -> TensorDict:
    rollout = make_rollout([0, 1, 9])
    for name, value in entries.items():
        rollout["next", name] = value
    return rollout


def wide() -> TensorDict:
    rollout = make_rollout([0, 1, 9])
    for level in (rollout, rollout["next"]):
        level["observation"] = torch.zeros(2, 3, dtype=torch.int64)
    return rollout


def ragged() -> TensorDict:
    steps = [make_rollout([0, 1])[0], make_rollout([1, 9])[0]]
    steps[1]["observation"] = torch.zeros(4)
    return lazy_stack(steps)


MALFORMED = {
    "no observation": (
        lambda: make_rollout([0, 1, 9]).exclude("observation"),
        KeyError,
        "The rollout has no entry 'observation' at the root, which is one of the observation keys of the forest. "
        "The entries at the root are: 'action'. "
        "Fix: name the entries that identify a state, MCTSForest(observation_keys=[...]), or "
        "forest.get_keys_from_env(env) before the first rollout.",
    ),
    "no observation after": (
        lambda: make_rollout([0, 1, 9]).exclude(("next", "observation")).set(("next", "reward"), torch.zeros(2)),
        KeyError,
        "The rollout has no entry 'observation' under \"next\", which is one of the observation keys of the forest. "
        "The entries under \"next\" are: 'reward'. "
        "Fix: name the entries that identify a state, MCTSForest(observation_keys=[...]), or "
        "forest.get_keys_from_env(env) before the first rollout.",
    ),
    "no action": (
        lambda: make_rollout([0, 1, 9]).exclude("action"),
        KeyError,
        "The rollout has no entry 'action' at the root, which is one of the action keys of the forest. "
        "The entries at the root are: 'observation'. "
        "Fix: name the entries that identify an action, MCTSForest(action_keys=[...]), or "
        "forest.get_keys_from_env(env) before the first rollout.",
    ),
    "other shape": (
        wide,
        ValueError,
        "The entry 'observation' had int64 [] per step in earlier rollouts, got int64 [3]. "
        "Fix: give all rollouts of a forest the same shapes, dtypes and device, or use one forest for each kind.",
    ),
    "other dtype": (
        lambda: changed(action=torch.tensor([0.5, 1.5])),
        ValueError,
        "The entry 'action' had int64 [] per step in earlier rollouts, got float32 []. "
        "Fix: give all rollouts of a forest the same shapes, dtypes and device, or use one forest for each kind.",
    ),
    "a string": (
        lambda: changed(action=NonTensorStack("left", "right")),
        ValueError,
        "The entry 'action' had int64 [] per step in earlier rollouts, got a Python object. "
        "Fix: give all rollouts of a forest the same shapes, dtypes and device, or use one forest for each kind.",
    ),
    "one more entry": (
        lambda: changed(logits=torch.zeros(2, 3)),
        KeyError,
        "All rollouts of a forest must have the same entries, but this one also has 'logits'. "
        "Fix: rollout.exclude('logits'), or leave entries out of the forest with MCTSForest(excluded_keys=[...]).",
    ),
    "a cycle": (
        lambda: make_rollout([0, 1, 9, 1]),
        ValueError,
        "Step 2 of the rollout leads back to the state before step 1: a cycle, and a tree has none. "
        "States are told apart by 'observation'. "
        "Fix: add what grows with time to them, such as a step count: "
        'env.append_transform(StepCounter()) and MCTSForest(observation_keys=[..., "step_count"]).',
    ),
    "a state that stays": (
        lambda: make_rollout([0, 9, 9]),
        ValueError,
        "Step 1 of the rollout leads back to the state before step 1: a cycle, and a tree has none. "
        "States are told apart by 'observation'. "
        "Fix: add what grows with time to them, such as a step count: "
        'env.append_transform(StepCounter()) and MCTSForest(observation_keys=[..., "step_count"]).',
    ),
    "a cycle over rollouts": (
        lambda: make_rollout([3, 9, 1]),
        ValueError,
        "Step 1 of the rollout leads to a state that comes before it in rollouts added earlier: a cycle, and a tree "
        "has none. States are told apart by 'observation'. "
        "Fix: add what grows with time to them, such as a step count: "
        'env.append_transform(StepCounter()) and MCTSForest(observation_keys=[..., "step_count"]).',
    ),
    "no rollout": (
        lambda: {"observation": 0},
        TypeError,
        "A forest takes rollouts, which are TensorDicts, got a dict. Fix: forest.extend(env.rollout(100)).",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_rollouts(name):
    make, kind, text = MALFORMED[name]
    forest = forest_of([0, 1, 2, 3], [0, 1, 4])
    before = forest.get_tree(state(0))
    with pytest.raises(kind) as error:
        forest.extend(make())
    assert error.value.args[0] == text
    assert len(forest) == 4
    after = forest.get_tree(state(0))
    assert after.to_string() == before.to_string() and list(after.vertices()) == list(before.vertices())
    with pytest.raises(ValueError, match="no state"):
        forest.get_tree(state(9))
    forest.extend(make_rollout([0, 1, 9]))
    assert forest.get_tree(state(0)).num_children == 3 and forest.get_tree(state(9)).num_vertices() == 1


@pytest.mark.parametrize("name", ["a cycle", "a state that stays", "no observation after"])
def test_a_malformed_first_rollout_leaves_an_empty_forest(name):
    forest = MCTSForest()
    with pytest.raises((KeyError, ValueError)):
        forest.extend(MALFORMED[name][0]())
    assert len(forest) == 0
    other = make_rollout([0, 1]).rename_key_("observation", "board")
    other["next"].rename_key_("observation", "board")
    forest.extend(other)
    assert forest.observation_keys == ["board"] and len(forest) == 1


def test_entries_that_are_missing():
    full = with_next(reward=torch.zeros(2))
    forest = MCTSForest()
    forest.extend(full)
    with pytest.raises(KeyError) as error:
        forest.extend(make_rollout([0, 5]))
    assert error.value.args[0] == (
        "All rollouts of a forest must have the same entries, but this one lacks ('next', 'reward'). "
        "Fix: give all rollouts the same entries, or leave entries out of the forest with "
        "MCTSForest(excluded_keys=[...])."
    )
    assert len(forest) == 2


def test_ragged_rollouts():
    forest = MCTSForest()
    with pytest.raises(ValueError, match="a lazy stack whose entries differ in shape"):
        forest.extend(ragged())
    assert len(forest) == 0


def test_states_that_look_different_before_and_after():
    forest = MCTSForest()
    with pytest.raises(ValueError) as error:
        forest.extend(with_next(observation=torch.tensor([1.0, 9.0])))
    assert str(error.value) == (
        "The entry 'observation' has int64 [] per step at the root and float32 [] under \"next\", so no state could "
        "be recognized after a step. Fix: give both the same shape and dtype."
    )
    assert len(forest) == 0


def unhashable(kind: str) -> TensorDict:
    rollout = make_rollout([0, 1, 9])
    if kind == "action":
        rollout["action"] = NonTensorStack([1], [2])
        return rollout
    for level in (rollout, rollout["next"]):
        level["notes"] = NonTensorStack(["a"], ["b"])
    return rollout


@pytest.mark.parametrize(("kind", "key"), [("action", "action"), ("observation", "notes")])
def test_an_unhashable_key(kind, key):
    forest = MCTSForest(observation_keys=["observation", "notes"] if kind == "observation" else None)
    with pytest.raises(TypeError) as error:
        forest.extend(unhashable(kind))
    assert str(error.value) == (
        f"The entry {key!r} identifies states or actions, but its values have no hash (unhashable type: 'list'). "
        f"Fix: store it as a tensor, a string or a tuple, or take {key!r} out of observation_keys and action_keys."
    )
    assert len(forest) == 0


def test_nothing_to_know_a_state_by():
    rollout = make_rollout([0, 1]).exclude("observation")
    with pytest.raises(KeyError) as error:
        MCTSForest().extend(rollout)
    assert error.value.args[0] == (
        'The forest cannot tell which entries are observations: no entry exists both at the root and under "next". '
        "The entries are: 'action', ('next', 'observation'). Fix: MCTSForest(observation_keys=[...])."
    )
    with pytest.raises(KeyError) as error:
        MCTSForest().extend(make_rollout([0, 1]).rename_key_("action", "move"))
    assert error.value.args[0] == (
        'The forest cannot tell which entries are actions: no entry is called "action". '
        "The entries are: 'observation', ('next', 'observation'), 'move'. Fix: MCTSForest(action_keys=[...])."
    )


def test_roots():
    forest = forest_of([0, 1, 2])
    with pytest.raises(ValueError) as error:
        forest.get_tree(state(7))
    assert str(error.value) == (
        "The forest has no state with these values of 'observation'; it holds 3 states. "
        "Fix: take the root from a rollout that was added, such as forest.get_tree(rollout[0])."
    )
    with pytest.raises(ValueError, match="it holds 0 states"):
        MCTSForest().get_tree(state(0))
    with pytest.raises(ValueError) as error:
        forest.get_tree(make_rollout([0, 1]))
    assert str(error.value) == (
        "The root of a tree must be one state, a TensorDict of batch size [], got batch size [1]. "
        "Fix: pass one row, such as rollout[0]."
    )
    with pytest.raises(ValueError, match=r"had int64 \[\] per step in earlier rollouts, got float32 \[1\]"):
        forest.get_tree(TensorDict({"observation": torch.zeros(1)}))
    with pytest.raises(KeyError, match="The root has no entry 'observation'"):
        forest.get_tree(TensorDict({"action": torch.zeros(1)}))
    with pytest.raises(TypeError, match="got a dict"):
        forest.get_tree({"observation": 0})
