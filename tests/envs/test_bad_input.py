"""Wrong batch sizes and shapes: each call names the mismatch, and changes nothing."""

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
def test_a_wrong_batch_size(counter, call, want, got):
    env = counter(want)
    env.reset()
    td = TensorDict({"observation": torch.ones(*got, 1), "action": torch.zeros(got, dtype=torch.int64)}, got)
    before, resets = td.clone(), env.resets
    name = SAYS.get(call, call)
    text = f"{name} got a TensorDict of batch size {got}; the batch size of Counter is {want}. {SIZES[want, got]}"
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        CALLS[call](env, td)
    assert set(td.keys()) == set(before.keys()) and bool((td == before).all()) and env.resets == resets


@pytest.mark.parametrize("way", ["step", "rollout"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("what", ["reward", "done", "both"])
def test_rewards_and_ends_without_their_last_dimension(counter, what, batch, way):
    def step(env, td):
        observation = td["observation"] + 1
        data = {"reward": observation, "done": observation > 9}
        flat = {key: value.squeeze(-1) if what in (key, "both") else value for key, value in data.items()}
        return TensorDict({"observation": observation, **flat}, batch)

    env = counter(batch, step=step)
    key = "done" if what == "both" else what
    text = (
        f"Counter._step returned {key!r} with shape {batch}, and its spec has shape {(*batch, 1)}: it is converted, at "
        f"every step. Fix: return value.reshape({(*batch, 1)})."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(text)}$") as caught:
        td = env.rand_step(env.reset()) if way == "step" else env.rollout(3)
    assert len(caught) == (2 if what == "both" else 1)  # once for each entry, not at every step
    lead = td.batch_size
    assert {key: td["next", key].shape for key in ("reward", "done", "terminated")} == dict.fromkeys(
        ("reward", "done", "terminated"), (*lead, 1)
    )
    assert torch.equal(td["next", "reward"], td["next", "observation"])
