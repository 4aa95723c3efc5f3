"""TargetReturn, FrameSkipTransform, NoopResetEnv, EndOfLifeTransform and FiniteTensorDictCheck."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import (
    CartPoleEnv,
    ClipTransform,
    Compose,
    DiscreteActionProjection,
    EndOfLifeTransform,
    FiniteTensorDictCheck,
    FrameSkipTransform,
    GridWorldEnv,
    GymEnv,
    InitTracker,
    NoopResetEnv,
    PendulumEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TargetReturn,
    TransformedEnv,
    check_env_specs,
)
from tests.envs.transforms.cases import Agents, Numbers
from tests.envs.transforms.cases_numbers import Lives


def message(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


# TargetReturn -------------------------------------------------------------------------------------------------------


def test_target_return():
    env = TransformedEnv(Agents((2,)), Compose(TargetReturn(5.0), TargetReturn(5.0, "constant", out_keys=["aim"])))
    env.set_seed(0)
    found = env.rollout(20, break_when_any_done=False)
    after, before = found["next", "agents", "target_return"], found["agents", "target_return"]
    torch.testing.assert_close(after, before - found["next", "agents", "reward"])
    fresh = torch.cat([torch.ones(2, 1, 3, 1, dtype=bool), found["next", "done"][:, :-1, None].expand(2, 19, 3, 1)], 1)
    assert (before[fresh] == 5.0).all() and (before[~fresh] != 5.0).any()
    assert (found["aim"] == 5.0).all() and (found["next", "aim"] == 5.0).all()


def test_bad_input_of_target_return():
    with message(ValueError, "There is no mode 'x'. The modes are: reduce, constant."):
        TargetReturn(1.0, "x")
    text = (
        "TargetReturn counts rewards from a reset on, so it works in an env only. Fix: TransformedEnv(env, "
        "TargetReturn(...))."
    )
    with message(NotImplementedError, text):
        TargetReturn(1.0)(TensorDict({"reward": torch.ones(1)}))
    env = TransformedEnv(CartPoleEnv(), TargetReturn(1.0))
    with pytest.raises(ValueError, match="writes 'target_return'"):
        env.append_transform(TargetReturn(1.0))


# FrameSkipTransform -------------------------------------------------------------------------------------------------


def test_frame_skip_is_that_of_the_backend():
    skipping, plain = TransformedEnv(GymEnv("Pendulum-v1"), FrameSkipTransform(4)), GymEnv("Pendulum-v1", frame_skip=4)
    for env in (skipping, plain):
        env.set_seed(0)
    found, expected = skipping.rollout(20), plain.rollout(20)
    assert torch.equal(found["observation"], expected["observation"])
    torch.testing.assert_close(found["next", "reward"], expected["next", "reward"])


def test_the_end_of_an_episode_stops_the_repetition():
    env = TransformedEnv(CartPoleEnv(max_steps=5), FrameSkipTransform(3))
    assert env.rollout(10)["next", "reward"].flatten().tolist() == [3.0, 2.0]


def test_transforms_inside_see_each_step_and_those_outside_one_in_n():
    chain = Compose(StepCounter(step_count_key="frames"), RewardSum(), FrameSkipTransform(3), StepCounter())
    env = TransformedEnv(CartPoleEnv(max_steps=100), chain)
    env.set_seed(0)
    found = env.rollout(3)
    assert found["next", "frames"].flatten().tolist() == [3, 6, 9]
    assert found["next", "step_count"].flatten().tolist() == [1, 2, 3]
    assert found["next", "episode_reward"].flatten().tolist() == [3.0, 6.0, 9.0]


@pytest.mark.parametrize("inside", [True, False])
def test_actions_are_repeated_as_the_env_below_takes_them(inside):
    clip, skip = ClipTransform(in_keys_inv=["action"], low=-0.5, high=0.5), FrameSkipTransform(3)
    env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(*((clip, skip) if inside else (skip, clip))))
    seen = []
    env.base_env._advance = lambda action, step=env.base_env._advance: (seen.append(float(action[0])), step(action))[1]
    env.reset()
    env.step(TensorDict({"action": torch.tensor([1.5])}))
    assert seen == [0.5] * 3


def test_a_random_action_is_drawn_once():
    env = TransformedEnv(GridWorldEnv(), Compose(FrameSkipTransform(5), DiscreteActionProjection(4, 50)))
    seen = []
    step = env.base_env._step
    env.base_env._step = lambda td: (seen.append(td["action"].argmax().item()), step(td))[1]
    td = env.reset()
    td["action"] = torch.eye(50, dtype=env.action_spec.dtype)[49]
    env.step(td)
    assert len(set(seen)) == 1


def test_in_a_batch_the_end_of_one_env_stops_the_repetition_for_all():
    env = TransformedEnv(Numbers((3,)), Compose(StepCounter(step_count_key="frames"), FrameSkipTransform(4)))
    env.set_seed(0)
    found = env.rollout(30, break_when_any_done=False)
    frames = found["next", "frames"] - found["frames"]
    assert (frames == frames[:1]).all()  # each env as often as the others
    full = ~found["next", "done"].any(0, keepdim=True)
    assert (frames[full.expand_as(frames)] == 4).all() and (frames < 4).any()


def test_bad_input_of_frame_skip():
    with message(ValueError, "frame_skip must be a positive integer, got 0."):
        FrameSkipTransform(0)
    with pytest.raises(NotImplementedError, match=r"^FrameSkipTransform steps an env, so it works in an env only."):
        FrameSkipTransform(2)(TensorDict({}))


# NoopResetEnv -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [lambda: CartPoleEnv(), lambda: GymEnv("Pendulum-v1"), lambda: Numbers()])
def test_noops(base):
    env = TransformedEnv(base(), Compose(StepCounter(step_count_key="frames"), NoopResetEnv(4, random=False)))
    env.append_transform(StepCounter()).append_transform(InitTracker())
    env.set_seed(3)
    found = env.rollout(40, break_when_any_done=False)
    assert (found["frames"] - found["step_count"] == 4).all()
    assert not found["done"].any()
    env.set_seed(0)
    check_env_specs(env)


def test_a_random_number_of_noops():
    env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(StepCounter(), NoopResetEnv(3)))
    env.set_seed(0)
    first = [env.reset()["step_count"].item() for _ in range(40)]
    env.set_seed(0)
    assert [env.reset()["step_count"].item() for _ in range(40)] == first
    assert set(first) == {0, 1, 2, 3}


def test_noops_in_each_env_of_a_batch():
    env = SerialEnv(2, lambda: TransformedEnv(GymEnv("CartPole-v1"), Compose(StepCounter(), NoopResetEnv(2, False))))
    env.set_seed(0)
    found = env.rollout(60, break_when_any_done=False)
    assert found["step_count"].min() == 2


def test_bad_input_of_noops():
    with message(ValueError, "noops must be a non-negative integer, got -1."):
        NoopResetEnv(-1)
    with message(
        ValueError,
        "NoopResetEnv takes steps in a single env, and this one has batch size (2,): when some of its envs are reset, "
        "the others must not move. Fix: put it around each env, SerialEnv(n, lambda: TransformedEnv(GymEnv(id), "
        "NoopResetEnv())).",
    ):
        TransformedEnv(CartPoleEnv(batch_size=[2]), NoopResetEnv())
    env = TransformedEnv(CartPoleEnv(max_steps=5), NoopResetEnv(5, random=False))
    with message(
        RuntimeError,
        "NoopResetEnv tried 10 times to take 5 random steps after a reset, and each time the episode ended before. "
        "Fix: fewer noops.",
    ):
        env.reset()
    with pytest.raises(NotImplementedError, match=r"^NoopResetEnv steps an env, so it works in an env only."):
        NoopResetEnv()(TensorDict({}))


# EndOfLifeTransform -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [(), (3,)])
def test_end_of_life(batch_size):
    env = TransformedEnv(Lives(batch_size), EndOfLifeTransform(eol_attribute="lives"))
    env.set_seed(0)
    found = env.rollout(40, break_when_any_done=False)
    lost = found["next", "lives"] < found["lives"]
    assert torch.equal(found["next", "end-of-life"], lost | found["next", "done"])
    assert lost.any() and (lost & ~found["next", "done"]).any() and not found["end-of-life"][..., 0, :].any()
    assert found["lives"].shape == found["done"].shape and found["lives"].dtype == torch.int64


def test_lives_may_be_asked_of_the_backend_by_a_function():
    env = TransformedEnv(GymEnv("CartPole-v1"), EndOfLifeTransform("eol", "left", eol_attribute="unwrapped.ale.lives"))
    unwrapped = env.base_env.unwrapped

    class Game:
        left = 3

        def lives(self):
            return self.left

    unwrapped.ale = Game()
    td = env.reset()
    assert td["left"].tolist() == [3] and td["eol"].tolist() == [False]
    unwrapped.ale.left = 2
    td = env.rand_step(td)["next"]
    assert td["left"].tolist() == [2] and td["eol"].tolist() == [True]
    td = env.rand_step(td)["next"]
    assert td["eol"].tolist() == [False]


def test_losses_are_told():
    class Loss:
        def set_keys(self, **keys):
            self.keys = keys

    loss = Loss()
    EndOfLifeTransform("eol").register_keys(loss)
    assert loss.keys == {"done": "eol", "terminated": "eol"}


def test_bad_input_of_end_of_life():
    with message(
        TypeError,
        "eol_attribute must be the name of an attribute, got a function. Fix: eol_attribute='unwrapped.ale.lives', "
        "which may be a number or a function.",
    ):
        EndOfLifeTransform(eol_attribute=lambda: 3)
    env = TransformedEnv(GymEnv("CartPole-v1"), EndOfLifeTransform())
    with message(
        AttributeError,
        "EndOfLifeTransform looks for 'unwrapped.ale.lives', and unwrapped has no attribute 'ale'. Fix: "
        "EndOfLifeTransform(eol_attribute=...), the path of the number of lives in this env.",
    ):
        env.reset()
    with pytest.raises(KeyError, match="EndOfLifeTransform reads 'over', and the env's end signals are"):
        TransformedEnv(CartPoleEnv(), EndOfLifeTransform(done_key="over"))
    with pytest.raises(ValueError, match=r"^EndOfLifeTransform writes 'end-of-life'"):
        env.append_transform(EndOfLifeTransform(lives_key="more"))
    with pytest.raises(NotImplementedError, match=r"^EndOfLifeTransform reads the number of lives from an env, so it"):
        EndOfLifeTransform()(TensorDict({}))
    Lives.several = [1, 2]
    env = TransformedEnv(Lives((3,)), EndOfLifeTransform(eol_attribute="several"))
    with message(
        ValueError,
        "'several' of the env must be one number of lives for each of its 'done', of shape (3, 1), and has shape (2,).",
    ):
        env.reset()


# FiniteTensorDictCheck ----------------------------------------------------------------------------------------------


class Breaking(PendulumEnv):
    """A pendulum whose velocity is lost in its third step."""

    def _step(self, tensordict):
        out = super()._step(tensordict)
        self.steps += 1
        if self.steps == 3:
            out["thdot"] = torch.full_like(out["thdot"], torch.nan)
        return out

    def _reset(self, tensordict=None, **kwargs):
        self.steps = 0
        return super()._reset(tensordict, **kwargs)


def test_the_check_names_key_index_and_step():
    env = TransformedEnv(Breaking(), FiniteTensorDictCheck())
    assert env.rollout(2).batch_size == (2,)
    with message(
        ValueError,
        "'thdot' of step 3 since the reset is nan at index (), where all numbers must be finite. 1 of its 1 numbers is "
        "not.",
    ):
        env.rollout(5)


def test_the_check_counts_steps_of_each_env():
    env = TransformedEnv(Numbers((3,)), FiniteTensorDictCheck())
    td = env.reset()
    for _ in range(2):
        td = env._step_mdp(env.rand_step(td))
    td["_reset"] = torch.tensor([[False], [True], [False]])
    td = env.rand_action(env.reset(td))
    env.base_env.position[1, 1] = torch.inf
    with message(
        ValueError,
        "'position' of step 1 since the reset is inf at index (1, 1), where all numbers must be finite. 1 of its 6 "
        "numbers is not.",
    ):
        env.step(td)
    env.base_env.position[0] = torch.nan
    with pytest.raises(ValueError, match=r"^'position' of step 4 since the reset is nan at index \(0, 0\)"):
        env.step(td)


def test_the_check_of_resets_and_of_data():
    check = FiniteTensorDictCheck()
    good = TensorDict({"x": torch.ones(2), "n": torch.tensor([1, 2]), "note": "text", "a": {"b": torch.zeros(1)}})
    assert check(good) is good
    bad = TensorDict({"next": {"x": torch.tensor([[1.0, 2.0], [-torch.inf, torch.nan]])}}, [2])
    with message(
        ValueError,
        "('next', 'x') is -inf at index (1, 0), where all numbers must be finite. 2 of its 4 numbers are not.",
    ):
        check(bad)
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(lambda td: td.set("z", td["observation"] / 0), check))
    with pytest.raises(ValueError, match=r"^'z' of a reset is -?inf at index"):
        env.reset()
