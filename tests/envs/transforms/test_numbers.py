"""ObservationNorm, the transforms of rewards, ClipTransform and SignTransform."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import Bounded, Unbounded
from rlnb.envs import (
    BinarizeReward,
    CartPoleEnv,
    ClipTransform,
    Compose,
    DoubleToFloat,
    GymEnv,
    ObservationNorm,
    PendulumEnv,
    RewardClipping,
    RewardScaling,
    RewardSum,
    SignTransform,
    TransformedEnv,
    check_env_specs,
)
from rlnb.envs.transforms.clip import clipped_spec, mapped_spec
from tests.envs.transforms.cases import Agents, Numbers

numbers = st.floats(-100, 100, width=32)


def one(value):
    return TensorDict({"observation": torch.tensor(value), "action": torch.tensor(value)})


# ObservationNorm ----------------------------------------------------------------------------------------------------


def test_scale_then_loc_or_standard_normal():
    td = one([3.0])
    assert ObservationNorm(1.0, 2.0, ["observation"])(td.clone())["observation"].item() == 7.0
    assert ObservationNorm(1.0, 2.0, ["observation"], standard_normal=True)(td.clone())["observation"].item() == 1.0


@given(numbers, st.floats(0.125, 10, width=32), numbers, st.booleans())
def test_the_inverse_undoes_it(loc, scale, value, standard):
    norm = ObservationNorm(loc, scale, [], [], ["action"], standard_normal=standard)
    outside = ObservationNorm(loc, scale, ["action"], standard_normal=standard)(one([value]))
    # Rounding errors are those of the larger of the two numbers.
    assert norm.inv(outside)["action"].item() == pytest.approx(value, abs=1e-3)


@given(st.floats(-5, 5, width=32), st.floats(0.125, 5, width=32), st.booleans(), st.booleans())
def test_bounds_of_the_spec_hold_and_are_reached(loc, scale, standard, negative):
    base = Bounded(-1.5, 2.5, shape=(2,))
    norm = ObservationNorm(loc, -scale if negative else scale, ["observation"], standard_normal=standard)
    spec = norm._apply_to_spec(base)
    for value in (base.low, base.high, base.rand()):
        assert spec.is_in(norm._apply_transform(value))
    ends = {norm._apply_transform(base.low)[0].item(), norm._apply_transform(base.high)[0].item()}
    assert {spec.low[0].item(), spec.high[0].item()} == ends


def test_actions_are_offered_normalized():
    env = TransformedEnv(
        GymEnv("Pendulum-v1"), ObservationNorm(0.0, 2.0, [], in_keys_inv=["action"], standard_normal=True)
    )
    assert (env.action_spec.space.low.item(), env.action_spec.space.high.item()) == (-1.0, 1.0)
    check_env_specs(env)
    seen = []
    env.base_env._advance = lambda action, step=env.base_env._advance: (seen.append(float(action[0])), step(action))[1]
    env.reset()
    env.step(TensorDict({"action": torch.tensor([0.75])}))
    assert seen == [1.5]


def test_buffers_move_and_are_saved():
    norm = ObservationNorm(torch.tensor([1.0, 2.0]), 3.0, ["observation"])
    assert set(norm.state_dict()) == {"standard_normal", "loc", "scale"}
    other = ObservationNorm(in_keys=["observation"])
    other.load_state_dict(norm.state_dict())
    assert torch.equal(other.loc, norm.loc) and other.initialized
    assert norm.clone().loc is norm.loc
    assert norm.double().loc.dtype == torch.float64


@pytest.mark.parametrize("standard", [True, False])
def test_a_saved_state_keeps_the_direction(standard):
    norm = ObservationNorm(torch.tensor([1.0, 2.0]), 3.0, ["observation"], standard_normal=standard)
    value = TensorDict({"observation": torch.tensor([5.0, 7.0])})
    expected = norm(value.clone())["observation"]
    state = norm.state_dict()
    loaded = ObservationNorm(in_keys=["observation"], standard_normal=not standard)
    chain = Compose(RewardSum(), ObservationNorm(torch.zeros(2), 1.0, ["observation"]))
    loaded.load_state_dict(state)
    chain.load_state_dict({f"transforms.1.{key}": item for key, item in state.items()})
    for other in (ObservationNorm(in_keys=["observation"], **state), loaded, chain[1]):
        assert torch.equal(other(value.clone())["observation"], expected)
    del state["standard_normal"]  # as older versions saved it
    older = ObservationNorm(in_keys=["observation"], standard_normal=standard)
    older.load_state_dict(state)
    assert torch.equal(older(value.clone())["observation"], expected)


@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize("out", [None, ["normal"]])
def test_init_stats(standard, out):
    norm = ObservationNorm(in_keys=["observation"], out_keys=out, standard_normal=standard)
    env = TransformedEnv(GymEnv("Pendulum-v1"), norm)
    env.set_seed(0)
    assert isinstance(env.observation_spec["observation" if out is None else "normal"], Unbounded)
    norm.init_stats(1000)
    assert norm.loc.shape == norm.scale.shape == (3,)
    env.set_seed(1)
    found = env.rollout(1000, break_when_any_done=False)["observation" if out is None else "normal"]
    assert found.mean(0).abs().max() < 0.3 and (found.std(0) - 1).abs().max() < 0.3
    check_env_specs(env)


def test_init_stats_sees_what_the_transforms_before_give():
    norm = ObservationNorm(in_keys=["observation"], standard_normal=True)
    scaled = ObservationNorm(5.0, 10.0, ["observation"])
    env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(scaled, norm, RewardSum()))
    env.set_seed(0)
    norm.init_stats(300)
    plain = ObservationNorm(in_keys=["observation"], standard_normal=True)
    other = TransformedEnv(GymEnv("Pendulum-v1"), plain)
    other.set_seed(0)
    plain.init_stats(300)
    torch.testing.assert_close(norm.loc, plain.loc * 10 + 5)
    torch.testing.assert_close(norm.scale, plain.scale * 10)


def test_init_stats_of_a_batch_and_of_rewards():
    norm = ObservationNorm(in_keys=["reward"], standard_normal=True)
    env = TransformedEnv(Numbers((4,)), norm)
    norm.init_stats(50, reduce_dim=(0, 1), cat_dim=1, keep_dims=(0,))
    assert norm.loc.shape == (1, 1)
    assert env.rollout(5, break_when_any_done=False).batch_size == (4, 5)


def test_init_stats_divides_by_eps_at_least():
    norm = ObservationNorm(in_keys=["reward"], standard_normal=True, eps=0.5)
    env = TransformedEnv(CartPoleEnv(), norm)
    env.transform.init_stats(5)
    assert (norm.loc.item(), norm.scale.item()) == (1.0, 0.5)


def message(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def test_bad_input_of_observation_norm():
    with message(
        ValueError, "ObservationNorm has no keys to normalize. Fix: ObservationNorm(in_keys=['observation'])."
    ):
        ObservationNorm(0.0, 1.0)
    with message(ValueError, "ObservationNorm needs both loc and scale or neither, and scale is None."):
        ObservationNorm(1.0, in_keys=["observation"])
    with message(ValueError, "ObservationNorm cannot scale by 0, got scale=0.0."):
        ObservationNorm(1.0, 0.0, ["observation"])
    with message(TypeError, "ObservationNorm takes a number or a tensor for loc, and got a str."):
        ObservationNorm("1", 1.0, ["observation"])
    with message(
        RuntimeError,
        "ObservationNorm has no loc and scale yet. Fix: env.transform.init_stats(num_iter=1000), which estimates "
        "them from random steps, or ObservationNorm(loc, scale, in_keys=[...]).",
    ):
        ObservationNorm(in_keys=["observation"])(one([1.0]))
    scales = "ObservationNorm scales floating-point numbers, and got "
    rest = (
        "; its keys are ['observation'] and []. Fix: cast it first, DTypeCastTransform(dtype, torch.float32, "
        "in_keys=[...]), or leave its key out."
    )
    with message(TypeError, f"{scales}a value of dtype torch.int64{rest}"):
        ObservationNorm(0.0, 1.0, ["observation"])(one([1]))
    with message(TypeError, f"{scales}a spec of dtype torch.int64{rest}"):
        TransformedEnv(GymEnv("FrozenLake-v1"), ObservationNorm(0.0, 1.0, ["observation"]))
    with message(
        ValueError,
        "ObservationNorm has loc of shape (3,) and scale of shape (), which do not broadcast to a value of shape (4,). "
        "Fix: give them the shape of the features, such as (4,), or numbers.",
    ):
        TransformedEnv(GymEnv("CartPole-v1"), ObservationNorm(torch.zeros(3), 1.0, ["observation"]))


def test_bad_input_of_init_stats():
    norm = ObservationNorm(in_keys=["observation"])
    with message(
        RuntimeError,
        "ObservationNorm takes random steps to estimate loc and scale, so it works in an env only. Fix: "
        "TransformedEnv(env, ObservationNorm(...)).",
    ):
        norm.init_stats(10)
    env = TransformedEnv(CartPoleEnv(batch_size=[2]), norm)
    with message(
        ValueError,
        "init_stats got reduce_dim=0 and cat_dim=None for data of 3 dimensions. Dimension 1 is time: reduce_dim must "
        "contain it, or each step would get its own mean, and cat_dim must be one of reduce_dim. Fix: "
        "init_stats(num_iter, reduce_dim=(0, 1), cat_dim=1).",
    ):
        norm.init_stats(10)
    with message(ValueError, "init_stats got key='reward', which is not among in_keys=['observation']."):
        norm.init_stats(10, (0, 1), 1, key="reward")
    assert not norm.initialized
    norm.init_stats(10, (0, 1), 1)
    with message(
        RuntimeError,
        "This ObservationNorm already has loc and scale, and init_stats would replace them. Fix: make a new one, "
        "ObservationNorm(in_keys=[...]), without loc and scale.",
    ):
        env.transform.init_stats(10)
    two = ObservationNorm(in_keys=["observation", "reward"])
    three = TransformedEnv(CartPoleEnv(), two)
    with message(ValueError, "init_stats reads one entry, and in_keys is ['observation', 'reward']. Fix: pass key=."):
        two.init_stats(10)
    missing = ObservationNorm(in_keys=["nothing"])
    four = TransformedEnv(CartPoleEnv(), missing)
    with pytest.raises(KeyError, match="nothing"):
        missing.init_stats(10)
    assert three.transform is two and four.transform is missing


# Rewards ------------------------------------------------------------------------------------------------------------


def rewards(transform, base):
    env = TransformedEnv(base, transform)
    env.set_seed(0)
    found = env.rollout(40, break_when_any_done=False)
    for key in env.reward_keys:
        assert env.full_reward_spec[key].is_in(found["next"].get(key).movedim(len(base.batch_size), 0)[0])
    return found


def test_binarize():
    found = BinarizeReward()(TensorDict({"reward": torch.tensor([[-2.0], [0.0], [0.1]])}, [3]))["reward"]
    assert found.flatten().tolist() == [0.0, 0.0, 1.0] and found.dtype == torch.float32
    env = TransformedEnv(PendulumEnv(), BinarizeReward())
    assert env.reward_spec.is_in(torch.ones(1)) and not env.reward_spec.is_in(torch.tensor([0.5]))


def test_clipping_and_scaling_of_all_rewards_of_an_env():
    base = Agents((2,))
    plain = rewards(Compose(), Agents((2,)))["next", "agents", "reward"]
    assert torch.equal(rewards(RewardClipping(0.25, 0.5), base)["next", "agents", "reward"], plain.clamp(0.25, 0.5))
    found = rewards(RewardScaling(-1.0, 4.0), Agents((2,)))["next", "agents", "reward"]
    assert torch.equal(found, plain * 4 - 1)
    found = rewards(RewardScaling(-1.0, 4.0, standard_normal=True), Agents((2,)))["next", "agents", "reward"]
    assert torch.equal(found, (plain + 1) / 4)


def test_specs_of_clipped_numbers():
    spec = clipped_spec(Unbounded(shape=(1,)), -1.0, None)
    assert (spec.low.item(), spec.high.item()) == (-1.0, float("inf"))
    spec = clipped_spec(Unbounded(shape=(1,), dtype=torch.int16), None, 7)
    assert (spec.low.item(), spec.high.item(), spec.dtype) == (-(2**15), 7, torch.int16)
    spec = clipped_spec(Bounded(2, 9, shape=(1,)), 0.0, 5.0)
    assert (spec.low.item(), spec.high.item()) == (2.0, 5.0)
    assert isinstance(mapped_spec(Unbounded(shape=(2,)), torch.neg), Unbounded)


def test_bad_input_of_rewards():
    with message(
        TypeError,
        "RewardClipping needs a bound. Fix: RewardClipping(clamp_min=-1.0, clamp_max=1.0), or one of the two.",
    ):
        RewardClipping()
    with message(ValueError, "clamp_min must be below clamp_max, got 1.0 and 0.0."):
        RewardClipping(1.0, 0.0)
    with message(TypeError, "clamp_min must be a number, got a str."):
        RewardClipping("1")
    with message(TypeError, "RewardScaling takes a number or a tensor for scale, and got a NoneType."):
        RewardScaling(0.0, None)
    with pytest.raises(KeyError, match="reward"):
        RewardScaling(0.0, 1.0)(TensorDict({}))


# Clip and sign ------------------------------------------------------------------------------------------------------


@given(st.lists(numbers, min_size=1), numbers, numbers)
def test_clip(values, first, second):
    low, high = sorted((first, second))
    if low == high:
        return
    clip = ClipTransform(["observation"], in_keys_inv=["action"], low=low, high=high)
    expected = [min(max(value, low), high) for value in values]
    assert clip(one(values))["observation"].tolist() == expected
    assert clip.inv(one(values))["action"].tolist() == expected
    above = ClipTransform(["observation"], low=low)(one(values))["observation"]
    assert above.tolist() == [max(value, low) for value in values]


def test_clip_reaches_the_env():
    env = TransformedEnv(GymEnv("Pendulum-v1"), ClipTransform(in_keys_inv=["action"], low=-0.5, high=0.5))
    seen = []
    env.base_env._advance = lambda action, step=env.base_env._advance: (seen.append(float(action[0])), step(action))[1]
    env.reset()
    env.step(TensorDict({"action": torch.tensor([1.5])}))
    assert seen == [0.5]


@pytest.mark.parametrize(
    ("dtype", "expected"), [(torch.float32, [-1, 0, 1]), (torch.int64, [-1, 0, 1]), (torch.uint8, [1, 0, 1])], ids=str
)
def test_sign(dtype, expected):
    value = torch.tensor([-3, 0, 7]).to(dtype)
    sign = SignTransform(["observation"], in_keys_inv=["action"])
    td = TensorDict({"observation": value, "action": value})
    assert sign(td.clone())["observation"].tolist() == expected
    assert sign.inv(td)["action"].tolist() == expected
    spec = sign._apply_to_spec(Unbounded(shape=(3,), dtype=dtype))
    assert spec.is_in(value.sign()) and spec.high.tolist() == [1] * 3
    if dtype != torch.uint8:
        assert sign._apply_to_spec(Bounded(2, 5, shape=(1,), dtype=dtype)).low.item() == 1


def test_bad_input_of_clip_and_sign():
    with message(TypeError, "ClipTransform needs a bound. Fix: ClipTransform(low=-1.0, high=1.0), or one of the two."):
        ClipTransform("observation")
    with message(ValueError, "low must be below high, got 1 and 1."):
        ClipTransform("observation", low=1, high=1)
    flags = (
        " takes numbers, and got a value of dtype torch.bool; its keys are ['observation'] and []. "
        "Fix: leave its key out."
    )
    for transform in (ClipTransform("observation", low=0), SignTransform("observation")):
        with message(TypeError, f"{type(transform).__name__}{flags}"):
            transform(one([True]))
    with message(
        TypeError,
        "ClipTransform would clip values of dtype torch.int64 to high=0.5, which is not an integer. Fix: cast "
        "them first, "
        "DTypeCastTransform(torch.int64, torch.float32, in_keys=[...]).",
    ):
        ClipTransform("observation", high=0.5)(one([1]))


def test_the_chain_of_the_benchmark():
    from rlnb.envs import StepCounter

    env = TransformedEnv(
        GymEnv("CartPole-v1"),
        Compose(StepCounter(9), RewardSum(), ObservationNorm(1.0, 2.0, in_keys=["observation"]), DoubleToFloat()),
    )
    plain = GymEnv("CartPole-v1")
    for each in (env, plain):
        each.set_seed(0)
    found, expected = env.rollout(9), plain.rollout(9)
    assert torch.equal(found["observation"], expected["observation"][: len(found)] * 2 + 1)
    check_env_specs(env)
