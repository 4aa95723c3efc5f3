"""Suggestions for keys that are not in the data, and for TensorDicts unpacked like Gymnasium's tuples."""

from __future__ import annotations

import pytest
import torch
from tensordict import NonTensorData, TensorDict

from rlnb.data.ted import explain_missing_key, explain_unpacking
from rlnb.envs import CartPoleEnv, GymEnv, SpreadEnv

ROLLOUT = GymEnv("CartPole-v1").rollout(3)
RESET = GymEnv("CartPole-v1").reset()
AGENTS = SpreadEnv(2, 4, batch_size=[3]).rollout(2)


@pytest.mark.parametrize(
    ("td", "key", "fix"),
    [
        (ROLLOUT, "reward", 'td["next", "reward"]'),
        (ROLLOUT, "rewards", 'td["next", "reward"]'),
        (ROLLOUT, "obs", 'td["observation"]'),
        (ROLLOUT, "next_obs", 'td["next", "observation"]'),
        (ROLLOUT, ("next", "obs"), 'td["next", "observation"]'),
        (ROLLOUT, "observations", 'td["observation"]'),
        (ROLLOUT, ("next", "action"), 'td["action"]'),
        (RESET, "reward", 'td = env.step(td), then td["next", "reward"]'),
        (RESET, ("next", "observation"), 'td = env.step(td), or td["observation"] for the entry at the root'),
        (RESET, "action", "td = env.rand_action(td), or td = policy(td)"),
        (AGENTS, "observation", 'td["agents", "observation"]'),
        (AGENTS, ("agents", "reward"), 'td["next", "agents", "reward"]'),
        (TensorDict({'a"b': 1.0}), 'a"', 'td["a\\"b"]'),
    ],
)
def test_a_missing_key_is_answered_with_the_entry_that_was_meant(td, key, fix):
    text = explain_missing_key(td, key)
    assert f"Fix: {fix}." in text and text.startswith(f"No entry {key!r}. ")


def test_a_name_like_no_other_lists_the_entries():
    text = explain_missing_key(TensorDict({"observation": [0.0]}), "zebra")
    assert text == "No entry 'zebra'. Fix: read one of the entries that are there.\nEntries: 'observation'."


def test_a_long_list_of_entries_is_cut():
    text = explain_missing_key(TensorDict({f"entry{i}": 0.0 for i in range(100)}), "zebra")
    assert text.endswith("and 88 more.") and len(text) < 400


@pytest.mark.parametrize("key", [3, ("a", 1), (), None, 1.5])
def test_what_is_not_a_key_is_called_so(key):
    assert explain_missing_key(RESET, key).startswith(f"{key!r} is not a key")


@pytest.mark.parametrize(
    "td", [TensorDict({}), TensorDict({}, [2]), TensorDict({"a": NonTensorData("x")}), torch.stack([RESET, RESET])]
)
def test_any_data_can_be_explained(td):
    assert explain_missing_key(td, "reward") and explain_missing_key(td, ("next", "x")) and explain_unpacking(td)


def test_every_proposal_for_a_rollout_can_be_read():
    for name in ("rew", "rewards", "next_obs", "act", "dones", "terminal", "truncation", "state"):
        line = explain_missing_key(ROLLOUT, name).split("Fix: ")[1].split(".\n")[0]
        assert isinstance(eval(line, {"td": ROLLOUT}), torch.Tensor), name


def test_unpacking_a_reset_and_a_step_are_told_apart():
    env = CartPoleEnv()
    assert explain_unpacking(env.reset()).endswith('Fix: td = env.reset(), then td["observation"].')
    stepped = 'Fix: td = env.step(td), then td["next", "observation"] and td["next", "reward"].'
    assert explain_unpacking(env.rand_step(env.reset())).endswith(stepped)
