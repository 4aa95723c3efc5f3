"""CatFrames and TimeMaxPool: online and on a rollout, per episode and per row, and what comes after them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import Bounded
from rlnb.envs import (
    CatFrames,
    Compose,
    ExcludeTransform,
    RenameTransform,
    RewardSum,
    SpreadEnv,
    TimeMaxPool,
    TransformedEnv,
    check_env_specs,
)
from tests.envs.transforms.cases import Double, Numbers
from tests.envs.transforms.cases_images import AgentPictures, Pictures


def rollout_of(env, steps=20, seed=1):
    env.set_seed(seed)
    torch.manual_seed(seed)
    return env.rollout(steps, break_when_any_done=False)


def both(key):
    """A key at the root and under "next"."""
    return [key, ("next", *((key,) if isinstance(key, str) else key))]


MAKERS = {
    "same": lambda keys, **more: CatFrames(3, -1, in_keys=keys, **more),
    "constant": lambda keys, **more: CatFrames(4, -1, in_keys=keys, padding="constant", padding_value=7, **more),
    "one": lambda keys, **more: CatFrames(1, -1, in_keys=keys, **more),
    "max": lambda keys, **more: TimeMaxPool(keys, T=3, **more),
}
PLACES = [(Numbers, "position"), (Pictures, "pixels"), (AgentPictures, ("agents", "pixels"))]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(("env", "key"), PLACES, ids=lambda x: getattr(x, "__name__", None))
@pytest.mark.parametrize("batch_size", [(), (3,)], ids=str)
def test_a_rollout_gets_the_frames_that_the_env_gives(make, env, key, batch_size):
    found = rollout_of(TransformedEnv(env(batch_size), make([key])))
    plain = rollout_of(env(batch_size))
    assert torch.equal(found["action"] if "action" in found else found["agents", "action"],
                       plain["action"] if "action" in plain else plain["agents", "action"])  # fmt: skip
    assert plain["next", "done"].sum() > 1
    out = make(both(key))(plain.clone())
    for each in both(key):
        assert torch.equal(out[each], found[each])
    if not isinstance(make([key]), CatFrames):
        return
    inverse = make(both(key), as_inverse=True)
    assert inverse(plain.clone())[key].equal(plain[key]), "forwards, it does nothing"
    written = inverse.inv(plain)
    assert torch.equal(written[key], found[key]) and torch.equal(written["next"][key], found["next"][key])


def test_time_is_the_dimension_of_that_name():
    plain = rollout_of(Numbers((3,)))
    expected = CatFrames(3, -1, both("position"))(plain.clone())
    turned = plain.transpose(0, 1).clone()
    turned.names = ["time", None]
    out = CatFrames(3, -1, both("position"))(turned)
    assert torch.equal(out["position"], expected["position"].transpose(0, 1))
    assert torch.equal(out["next", "position"], expected["next", "position"].transpose(0, 1))


@given(
    n=st.integers(1, 5),
    done=st.lists(st.booleans(), min_size=1, max_size=9),
    padding=st.sampled_from(["same", "constant"]),
)
def test_frames_are_those_of_the_episode(n, done, padding):
    length = len(done)
    value = torch.arange(length).unsqueeze(-1)
    td = TensorDict({"x": value, "next": {"done": torch.tensor(done).unsqueeze(-1)}}, [length])
    out = CatFrames(n, -1, "x", padding=padding, padding_value=-5)(td)["x"].tolist()
    start = 0
    for t in range(length):
        start = t if t and done[t - 1] else start
        pad = start if padding == "same" else -5
        assert out[t] == [pad if t - back < start else t - back for back in range(n - 1, -1, -1)]


# Memory -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "after",
    [
        lambda: Double("position"),
        lambda: RenameTransform("position", "moved"),
        lambda: ExcludeTransform("position"),
        lambda: lambda td: td.set("position", td["position"] * 0),
    ],
    ids=["changed", "renamed", "removed", "by a function"],
)
def test_what_comes_after_does_not_come_back(after):
    plain = TransformedEnv(Numbers((2,)), CatFrames(3, -1, "position", "frames"))
    frames = CatFrames(3, -1, "position", "frames")
    keep = CatFrames(3, -1, "position")
    env = TransformedEnv(Numbers((2,)), Compose(frames, keep, RecordPosition(), after()))
    expected, found = rollout_of(plain), rollout_of(env)
    assert torch.equal(found["frames"], expected["frames"])
    assert torch.equal(found["seen"], expected["frames"])


class RecordPosition(Double):
    """Copies "position" as it is at this place."""

    def __init__(self):
        super().__init__(["position"], ["seen"])

    def _apply_transform(self, value):
        return value.clone()


def test_a_step_may_be_taken_again_from_before():
    env = TransformedEnv(Numbers(), CatFrames(3, -1, "position"))
    env.set_seed(0)
    first = env.reset()
    second = env._step_mdp(env.rand_step(first))
    env.rand_step(second)
    again = env.rand_step(first.exclude("next"))
    assert torch.equal(again["next", "position"][:4], first["position"][2:])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_copies_remember(copied):
    env = TransformedEnv(Numbers((2,)), CatFrames(3, -1, "position"))
    env.set_seed(0)
    td = env._step_mdp(env.rand_step(env.reset()))
    other = copied(env)
    action = env.rand_action(td.clone())
    lost = action.exclude("position")
    assert torch.equal(other.step(lost)["next", "position"], env.step(action.clone())["next", "position"])


def test_a_reset_key_of_its_own():
    env = TransformedEnv(Numbers((2,)), CatFrames(2, -1, "position", "frames", reset_key="_reset"))
    env.set_seed(0)
    td = env._step_mdp(env.rand_step(env.reset()))
    before = td.clone()
    td["_reset"] = torch.tensor([[True], [False]])
    after = env.reset(td)
    assert torch.equal(after["frames"][1], before["frames"][1])
    assert torch.equal(after["frames"][0], after["position"][0].repeat(2))


def test_one_agent_starts_anew():
    chain = Compose(RewardSum(), CatFrames(2, -1, ("agents", "observation"), ("agents", "frames")))
    env = TransformedEnv(SpreadEnv(2, 3, agent_done=True, max_steps=30), chain)
    env.set_seed(0)
    before = env._step_mdp(env.rollout(3)[-1])
    after = env.reset(before.clone().set(("agents", "_reset"), torch.tensor([[True], [False]])))
    frames, total = after["agents", "frames"], after["agents", "episode_reward"]
    assert torch.equal(frames[0], after["agents", "observation"][0].repeat(2)) and total[0] == 0
    assert torch.equal(frames[1], before["agents", "frames"][1])
    assert total[1] == before["agents", "episode_reward"][1] != 0
    lost = env.rand_action(after).exclude(("agents", "frames"), ("agents", "episode_reward"))
    found = env.step(lost)["next", "agents"]
    assert torch.equal(found["episode_reward"], total + found["reward"]), "the transform remembers it likewise"
    assert torch.equal(found["frames"], torch.cat([frames[:, 8:], found["observation"]], -1))


# Specs --------------------------------------------------------------------------------------------------------------


def test_bounds_take_in_the_padding():
    env = TransformedEnv(Numbers(), CatFrames(2, -1, "velocity", padding="constant", padding_value=99))
    spec = env.observation_spec["velocity"]
    assert isinstance(spec, Bounded) and spec.high.tolist() == [99, 10] and spec.low.tolist() == [-10, -10]
    check_env_specs(env)
    pooled = TransformedEnv(Numbers(), TimeMaxPool("velocity", T=2)).observation_spec["velocity"]
    assert pooled == Numbers().observation_spec["velocity"]


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CatFrames(0, -1), "CatFrames takes N, the number of frames, as a positive integer and got 0."),
        (
            lambda: CatFrames(4, 1),
            "CatFrames got dim=1, counted from the front, where batch and time dimensions come and go. Fix: count from "
            "the end; -1 is the last dimension.",
        ),
        (
            lambda: CatFrames(4, -1, padding="mirror"),
            "CatFrames has no padding 'mirror'. Legal: 'same', 'constant', 'zeros'.",
        ),
        (
            lambda: TimeMaxPool(T=0),
            "TimeMaxPool takes T, the number of observations, as a positive integer and got 0.",
        ),
        (
            lambda: TransformedEnv(Numbers(), CatFrames(4, -3, "position")),
            "CatFrames concatenates along dimension -3, and 'position' has shape (2,), whose first 0 are batch "
            "dimensions. Fix: a dim from -1 to -1, or UnsqueezeTransform(dim=-3, in_keys=['position']) before it.",
        ),
        (
            lambda: TransformedEnv(Numbers(), CatFrames(4, -1, "position", as_inverse=True)),
            "CatFrames(as_inverse=True) concatenates data that is written to a buffer, and this is an env. Fix: "
            "TransformedEnv(env, CatFrames(...)) without as_inverse.",
        ),
        (
            lambda: CatFrames(4, -1, "x")(TensorDict({"x": torch.zeros(2), "next": {"done": torch.ones(1).bool()}})),
            "CatFrames looks back in time, and this data has no time dimension: its batch size is []. Fix: pass "
            "a rollout, in which the last batch dimension or the one named 'time' is time, or use CatFrames in an env: "
            "TransformedEnv(env, CatFrames(...)).",
        ),
    ],
    ids=range(7),
)
def test_what_is_refused(make, text):
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == text


def test_episodes_must_be_told_apart():
    td = TensorDict({"x": torch.zeros(2, 1), "next": {"over": torch.zeros(2, 1).bool()}}, [2])
    with pytest.raises(KeyError, match=r"\('next', 'done'\).*the data that CatFrames reads"):
        CatFrames(2, -1, "x")(td)
    assert CatFrames(2, -1, "x", done_key="over")(td)["x"].shape == (2, 2)
