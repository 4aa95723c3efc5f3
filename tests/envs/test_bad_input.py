"""Batch sizes and shapes that are not the env's: each call says which, and fails whole."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict

CALLS = {
    "reset": lambda env, td: env.reset(td),
    "step": lambda env, td: env.step(td),
    "maybe_reset": lambda env, td: env.maybe_reset(td),
    "rollout": lambda env, td: env.rollout(2, tensordict=td),
    "rollout that goes on": lambda env, td: env.rollout(2, auto_reset=False, tensordict=td),
}
SAYS = {"rollout": "reset", "rollout that goes on": "maybe_reset"}
SIZES = {  # of the env, of the input: what is said
    ((3, 2), (3, 4)): "Dimension 1 is 4 and must be 2.",
    ((3,), (2,)): "Dimension 0 is 2 and must be 3.",
    ((3,), (3, 5)): "It has one dimension too many at the end: is it a rollout? One step of it is td[..., t].",
    ((), (3,)): "It has one dimension too many at the end: is it a rollout? One step of it is td[..., t].",
    ((3,), ()): "Start from what env.reset() returns.",
}


@pytest.mark.parametrize(("want", "got"), SIZES)
@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_batch_size(counter, call, want, got):  # EN-05, RS-01, RS-03, RS-11, RS-15
    env = counter(want)
    env.reset()
    td = TensorDict({"observation": torch.ones(*got, 1), "action": torch.zeros(got, dtype=torch.int64)}, got)
    before, resets = td.clone(), env.resets
    name = SAYS.get(call, call)
    text = f"{name} got a TensorDict of batch size {got}; the batch size of Counter is {want}. {SIZES[want, got]}"
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        CALLS[call](env, td)
    assert set(td.keys()) == set(before.keys()) and bool((td == before).all()) and env.resets == resets


COLUMN = {
    (): "expected shape [1], got []. A leading dimension is missing: value.unsqueeze(0).",
    (2,): "expected shape [2, 1], got [2]. A trailing dimension of size 1 is missing: value.unsqueeze(-1).",
    (2, 3): "expected shape [2, 3, 1], got [2, 3]. A trailing dimension of size 1 is missing: value.unsqueeze(-1).",
}


@pytest.mark.parametrize("way", ["step", "rollout"])
@pytest.mark.parametrize("batch", COLUMN)
@pytest.mark.parametrize("what", ["reward", "done", "both"])
def test_rewards_and_ends_without_their_last_dimension(counter, what, batch, way):  # EN-07, RS-05
    def step(env, td):
        observation = td["observation"] + 1
        data = {"reward": observation, "done": observation > 9}
        flat = {key: value.squeeze(-1) if what in (key, "both") else value for key, value in data.items()}
        return TensorDict({"observation": observation, **flat}, batch)

    env = counter(batch, step=step)
    td = env.rand_action(env.reset())
    wrong = [*(["done", "terminated"] if what != "reward" else []), *(["reward"] if what != "done" else [])]
    rows = "".join(f"  - {key}: {COLUMN[batch]}\n" for key in wrong)
    text = (
        f"The data of Counter's first step does not fit its specs:\n{rows}"
        "rlnb.envs.utils.check_env_specs(env) tells all about it, and proposes specs that fit."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.step(td) if way == "step" else env.rollout(3)
    assert "next" not in td
