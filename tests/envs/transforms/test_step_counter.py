"""StepCounter: counts per env and level, truncation, and counts that other transforms remove."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import (
    CartPoleEnv,
    Compose,
    ExcludeTransform,
    GymEnv,
    InitTracker,
    PendulumEnv,
    RenameTransform,
    SelectTransform,
    StepCounter,
    TransformedEnv,
)
from tests.envs.transforms.cases import Agents, Numbers


def test_the_documented_rollout():
    env = TransformedEnv(GymEnv("Pendulum-v1"), StepCounter(max_steps=20))
    rollout = env.rollout(max_steps=1000)
    assert rollout.shape == (20,) and rollout.names == ["time"]
    assert rollout["step_count"].dtype == torch.int64 and rollout["step_count"].shape == (20, 1)
    assert torch.equal(rollout["next", "step_count"].flatten(), torch.arange(1, 21))
    assert rollout["next", "truncated"].flatten().tolist() == [False] * 19 + [True]
    assert not rollout["next", "terminated"].any() and rollout["next", "done"][-1].item()


@pytest.mark.parametrize("update_done", [True, False])
@pytest.mark.parametrize("key", ["truncated", "over"])
def test_what_is_written_at_the_limit(counter, key, update_done):
    env = TransformedEnv(counter(length=100), StepCounter(2, truncated_key=key, update_done=update_done))
    env.reset()
    after = env.rollout(5)["next"][1]
    written = {name: bool(after[name]) for name in ("done", "terminated", "truncated", "over") if name in after}
    expected = {"done": update_done, "terminated": False, key: True}
    if update_done:
        expected["truncated"] = True
    assert written == expected
    assert ("over" in env.observation_keys) is (key == "over")
    assert ("truncated" in env.done_keys) is (update_done or key == "truncated")


def test_without_a_limit_only_the_count_is_added(counter):
    env = TransformedEnv(counter(length=2), StepCounter(step_count_key="n"))
    assert env.done_keys == ["done", "terminated"] and env.observation_keys == ["observation", "n"]
    assert env.rollout(5)["next", "n"].flatten().tolist() == [1, 2]


def test_an_end_of_the_env_stays_an_end(counter):
    env = TransformedEnv(counter((2,), length=2), StepCounter(2))
    after = env.rollout(5)["next"][:, -1]
    assert after["terminated"].all() and after["truncated"].all() and after["done"].all()


def test_each_env_of_a_batch_counts_by_itself():
    env = TransformedEnv(CartPoleEnv(batch_size=(2, 2), seed=0), StepCounter(50))
    found = env.rollout(60, break_when_any_done=False)
    count, done = found["next", "step_count"], found["next", "done"]
    assert count.shape == (2, 2, 60, 1)
    expected = torch.zeros(2, 2, 1, dtype=torch.int64)
    for t in range(60):
        expected = expected + 1
        assert torch.equal(count[:, :, t], expected)
        expected = expected.masked_fill(done[:, :, t], 0)
    assert len(count[:, :, -1].unique()) > 1, "they end at different times"


def test_each_level_counts_by_itself():
    env = TransformedEnv(Agents((2,)), StepCounter(3))
    env.set_seed(0)
    found = env.rollout(20, break_when_any_done=False)["next"]
    assert found["step_count"].shape == (2, 20, 1) and found["agents", "step_count"].shape == (2, 20, 3, 1)
    assert found["step_count"].max() == 3
    for level in (found, found["agents"]):
        assert torch.equal(level["done"], level["terminated"] | level["truncated"])
        assert torch.equal(level["truncated"], level["step_count"] >= 3)


def test_a_stateless_env_counts_in_its_data():
    env = TransformedEnv(PendulumEnv(), StepCounter(4))
    td = env.reset(env.gen_params(batch_size=[3]))
    assert td["step_count"].shape == (3, 1)
    early = env.rand_action(td)
    late = env.rand_action(td.clone().set("step_count", torch.tensor([[0], [2], [3]])))
    assert env.step(late)["next", "step_count"].flatten().tolist() == [1, 3, 4]
    assert env.step(early)["next", "step_count"].flatten().tolist() == [1, 1, 1]
    assert late["next", "done"].flatten().tolist() == [False, False, True]


@pytest.mark.parametrize(
    "away", [ExcludeTransform("step_count"), SelectTransform("position"), RenameTransform("step_count", "count")]
)
def test_a_count_that_is_out_of_sight_goes_on(away):
    env = TransformedEnv(Numbers((2,)), Compose(StepCounter(3), away.clone(), InitTracker()))
    env.set_seed(2)
    found = env.rollout(12, break_when_any_done=False)
    since = torch.zeros(2, dtype=torch.int64)
    for t in range(12):
        since = since.masked_fill(found["is_init"][:, t, 0], 0) + 1
        assert torch.equal(found["next", "truncated"][:, t, 0], since >= 3)
        assert bool((found["next", "done"][:, t, 0] | (since < 3)).all())


def test_a_clone_does_not_remember():
    counter = StepCounter()
    env = TransformedEnv(Numbers(), counter)
    env.rollout(3)
    cloned = TransformedEnv(Numbers(), counter.clone())
    td = cloned.base_env.rand_action(cloned.base_env.reset())
    assert cloned.step(td)["next", "step_count"].item() == 1


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "ten"])
def test_max_steps(bad):
    with pytest.raises(ValueError) as raised:
        StepCounter(bad)
    assert str(raised.value) == f"max_steps must be a positive integer, or None for no limit, got {bad!r}."


def test_alone():
    for name, transform, what in (
        ("StepCounter", StepCounter(), "counts steps from a reset on"),
        ("InitTracker", InitTracker(), "marks what follows a reset"),
    ):
        with pytest.raises(NotImplementedError) as raised:
            transform(TensorDict({"done": torch.zeros(1, dtype=torch.bool)}))
        assert str(raised.value) == (
            f"{name} {what}, so it works in an env only. Fix: TransformedEnv(env, {name}(...))."
        )


def test_init_tracker():
    env = TransformedEnv(Agents((2,)), InitTracker("first"))
    env.set_seed(0)
    found = env.rollout(15, break_when_any_done=False)
    assert found["first"].shape == (2, 15, 1) and found["agents", "first"].shape == (2, 15, 3, 1)
    assert (
        found["first"][:, 0].all() and not found["next", "first"].any() and not found["next", "agents", "first"].any()
    )
    assert torch.equal(found["first"][:, 1:], found["next", "done"][:, :-1])
    assert found["first"][:, 1:].any() and not found["first"][:, 1:].all()
    with pytest.raises(ValueError) as raised:
        InitTracker(("agents", "first"))
    assert str(raised.value) == (
        "init_key must be a string, the name of a flag beside each 'done' of the env, got ('agents', 'first')."
    )
