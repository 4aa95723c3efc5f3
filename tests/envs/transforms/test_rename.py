"""RenameTransform: all kinds of entries under other names, in data and specs, and back."""

from __future__ import annotations

import re

import gymnasium
import pytest
import torch
from tensordict import TensorDict

from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import GymWrapper, RenameTransform, TransformedEnv, check_env_specs
from tests.envs.transforms.cases import ENDS, Agents, Numbers


def test_the_documented_nested_reward():
    env = TransformedEnv(GymWrapper(gymnasium.make("Pendulum-v1")), RenameTransform("reward", ("nested", "reward")))
    assert env.full_reward_spec.keys(True, True) == [("nested", "reward")]
    assert env.reward_key == ("nested", "reward") and env.reward_spec.shape == (1,)
    found = env.rollout(3)
    assert found["next", "nested", "reward"].shape == (3, 1)
    assert "reward" not in found["next"] and "nested" not in found
    check_env_specs(env)


def test_an_action_under_another_name():
    env = TransformedEnv(Numbers(), RenameTransform([], [], ["action"], [("push", "force")]))
    assert env.action_keys == [("push", "force")] and env.base_env.action_keys == ["action"]
    td = env.rand_action(env.reset())
    env.step(td)
    assert "action" not in td, "the inverse works on a copy"
    data = TensorDict({"push": {"force": 1}, "other": 2})
    assert env.transform.inv(data).to_dict() == {"other": 2, "action": 1}
    assert set(leaf_keys(data)) == {("push", "force"), "other"}


def test_two_that_change_places():
    swap = RenameTransform(["position", "velocity"], ["velocity", "position"])
    env = TransformedEnv(Numbers(), swap)
    assert (env.observation_spec["position"].shape, env.observation_spec["velocity"].shape) == ((1,), (2,))
    check_env_specs(env)
    assert swap(TensorDict({"position": 1, "velocity": 2})).to_dict() == {"velocity": 1, "position": 2}


def test_copies():
    env = TransformedEnv(Numbers(), RenameTransform(["position", "reward"], ["p", "r"], create_copy=True))
    assert env.reward_keys == ["r", "reward"]
    found = env.rollout(3)
    assert torch.equal(found["p"], found["position"])
    assert torch.equal(found["next", "r"], found["next", "reward"])


def test_a_tensordict_that_is_empty_then_goes():
    env = TransformedEnv(Agents(), RenameTransform(("agents", "reward"), "reward"))
    assert env.full_reward_spec.keys() == ["reward"] and ("agents", "done") in env.done_keys
    moved = RenameTransform(("a", "b", "c"), "c")(TensorDict({"a": {"b": {"c": 1}}, "d": 2}))
    assert list(moved.keys()) == ["d", "c"]


def test_ends_at_another_level():
    env = TransformedEnv(Numbers((3,)), RenameTransform(list(ENDS), [("all", key) for key in ENDS]))
    assert env.reset_keys == [("all", "_reset")] and env.done_keys_groups == [[("all", key) for key in ENDS]]
    env.set_seed(0)
    found = env.rollout(20, break_when_any_done=False)
    assert found["next", "all", "done"].any() and "done" not in found
    anew = found["position"][:, 1:, 0] != found["next", "position"][:, :-1, 0]
    assert torch.equal(anew, found["next", "all", "done"][:, :-1, 0])


def test_one_end_alone_gets_its_twins():
    env = TransformedEnv(Numbers(), RenameTransform("done", ("all", "done"), create_copy=True))
    assert set(env.done_keys) == {*ENDS, ("all", "done"), ("all", "terminated")}
    env.set_seed(0)
    found = env.rollout(20, break_when_any_done=False)
    assert torch.equal(found["next", "all", "done"], found["next", "done"])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: RenameTransform("reward", ["a", "b"]),
            "RenameTransform got 1 in_keys and 2 out_keys: they must pair up one by one. A nested key is one key: "
            "write [('nested', 'reward')] for a list of one.",
        ),
        (
            lambda: RenameTransform(["a", "b"], ["c", "c"]),
            "RenameTransform has 'c' twice in out_keys, but an entry has only one key.",
        ),
        (
            lambda: TransformedEnv(Numbers(), RenameTransform("done", "over")),
            "RenameTransform renames the end signal 'done' to 'over', but end signals must be named 'done', "
            "'terminated', 'truncated', at any level. Fix: a key such as ('agents', 'done').",
        ),
        (
            lambda: TransformedEnv(Numbers(), RenameTransform("position", "velocity")),
            "RenameTransform writes 'velocity' (in observation_spec), which the env already has and which is not "
            "among its in_keys: one would overwrite the other. Fix: give it another out_key, or rename the env's "
            "entry first "
            "with RenameTransform.",
        ),
    ],
)
def test_refused(make, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        make()


def test_on_a_data_set():
    data = TensorDict({"done": torch.zeros(4, 1), "next": {"done": torch.ones(4, 1), "x": torch.ones(4)}}, [4])
    out = RenameTransform(["done", ("next", "done")], ["terminal", ("next", "terminal")])(data)
    assert set(leaf_keys(out)) == {"terminal", ("next", "terminal"), ("next", "x")}
    text = TensorDict({"note": "hello"})
    assert RenameTransform("note", "text")(text)["text"] == "hello"
