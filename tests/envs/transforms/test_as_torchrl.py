"""Uses of transforms that run on TorchRL, and the results that it gives."""

from __future__ import annotations

import math

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Composite, OneHot, Unbounded
from rlnb.envs import EnvBase, check_env_specs
from rlnb.envs.transforms import (
    ActionMask,
    CatFrames,
    ClipTransform,
    Compose,
    FlattenObservation,
    InitTracker,
    ObservationNorm,
    ObservationTransform,
    RenameTransform,
    RewardSum,
    StepCounter,
    TensorDictPrimer,
    Transform,
    TransformedEnv,
    UnsqueezeTransform,
    VecGymEnvTransform,
    VecNorm,
)
from tests.envs.transforms.test_own_transforms import Count, still


def steps(env, n=6):
    return env.rollout(n, still, break_when_any_done=False)


# Statistics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1e3, 1e4, 1e5])
def test_vec_norm_far_from_zero(offset):
    torch.manual_seed(0)
    data = offset + torch.randn(4000, 1, dtype=torch.float64)
    norm = VecNorm(["x"], decay=1.0)
    norm(TensorDict({"x": data.float()}, [4000]))
    assert abs(norm.scale["x"].item() - data.float().double().std().item()) < 1e-3
    assert norm.scale["x"].dtype == torch.float32


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_vec_norm_recovers_from_a_nan(bad):
    norm, clean = VecNorm(["x"]), VecNorm(["x"])
    torch.manual_seed(0)
    for t in range(20):
        x = torch.randn(8, 2)
        clean(TensorDict({"x": x[1:] if t == 3 else x}, [len(x) - (t == 3)]))
        if t == 3:
            x = x.clone()
            x[0, 1] = bad
            with pytest.warns(RuntimeWarning, match="leaves NaN and infinite values of 'x' out"):
                found = norm(TensorDict({"x": x}, [8]))["x"]
            assert not found[0, 1].isfinite() and found[1:].isfinite().all()
        else:
            assert norm(TensorDict({"x": x}, [8]))["x"].isfinite().all()
    torch.testing.assert_close(norm.loc["x"], clean.loc["x"])
    torch.testing.assert_close(norm.scale["x"], clean.scale["x"])


def test_vec_norm_shapes():
    norm = VecNorm(["x"], shapes=[(3,)])
    assert {value.shape for value in norm.state_dict().values()} == {(3,), (1,)}
    with pytest.raises(NotImplementedError, match="VecNormV2"):
        VecNorm(["x"], new_api=True)


@pytest.mark.parametrize(
    ("dims", "batch", "shape"),
    [
        ({"reduce_dim": [-2], "cat_dim": 0}, (), (2,)),
        ({"reduce_dim": -2, "cat_dim": -2}, (), (2,)),
        ({"reduce_dim": (-3, -2), "cat_dim": -2}, (2,), (2,)),
        ({"reduce_dim": [-2, 0], "cat_dim": 0}, (2,), (2,)),
        ({"reduce_dim": [-1, -2], "cat_dim": 0}, (), ()),
        ({"reduce_dim": [-1, -2], "cat_dim": 0, "keep_dims": [-1]}, (), (1,)),
    ],
)
def test_init_stats_with_negative_dims(dims, batch, shape):
    env = TransformedEnv(Count(batch), ObservationNorm(in_keys=["observation"], standard_normal=True))
    env.transform.init_stats(20, **dims)
    assert env.transform.loc.shape == shape
    torch.testing.assert_close(env.transform.loc.flatten()[0].item(), 2.0, atol=0.6, rtol=0)
    env.rollout(2)


def test_init_stats_as_torchrl():
    env = TransformedEnv(Steady(), ObservationNorm(in_keys=["observation"], standard_normal=True))
    env.transform.init_stats(20)
    assert env.transform.loc.tolist() == [2.0, 2.0]
    torch.testing.assert_close(env.transform.scale, torch.full((2,), math.sqrt(2 * 20 / 19)))  # unbiased


class Steady(Count):
    """Actions have no effect."""

    def _observe(self, action):
        return self.count.expand(*self.batch_size, 2).clone()


@pytest.mark.parametrize("dims", [{"reduce_dim": [-1], "cat_dim": 0}, {"reduce_dim": [0, -2], "cat_dim": 0}])
def test_init_stats_rejects_invalid_statistics(dims):
    env = TransformedEnv(Count(), ObservationNorm(in_keys=["observation"]))
    with pytest.raises(ValueError, match="init_stats got"):
        env.transform.init_stats(20, **dims)


# Specs of one value ---------------------------------------------------------------------------------------------------


def test_spec_methods_take_a_leaf():
    leaf = Bounded(-1, 1, shape=(3,))
    norm = ObservationNorm(1.0, 2.0, in_keys=["x"])
    assert norm.transform_observation_spec(leaf).high.eq(3).all()
    assert CatFrames(3, -1, in_keys=["x"]).transform_observation_spec(leaf).shape == (9,)
    assert UnsqueezeTransform(-1, in_keys=["x"]).transform_observation_spec(leaf).shape == (3, 1)
    assert Compose(norm, CatFrames(3, -1, in_keys=["x"])).transform_observation_spec(leaf).shape == (9,)
    clipped = ClipTransform(["x"], low=0, high=0.5).transform_observation_spec(leaf)
    assert clipped.low.eq(0).all() and clipped.high.eq(0.5).all()
    inverse = ObservationNorm(0.0, 2.0, in_keys=[], in_keys_inv=["x"])
    assert inverse.transform_action_spec(leaf).shape == (3,)
    for adding in (StepCounter(), RewardSum(), TensorDictPrimer(h=Unbounded((3,)))):
        with pytest.raises(ValueError, match="takes a Composite"):
            adding.transform_observation_spec(leaf)


def test_an_input_that_is_renamed_has_one_name():
    norm = ObservationNorm(0.0, 2.0, in_keys=[], in_keys_inv=["action"], out_keys_inv=["act"])
    env = TransformedEnv(Count(), norm)
    assert env.action_keys == ["act"]
    assert env.rollout(2)["act"].shape == (2, 2)


def test_kinds():
    assert issubclass(ObservationNorm, ObservationTransform)
    assert issubclass(FlattenObservation, ObservationTransform)


# Envs -----------------------------------------------------------------------------------------------------------------


def test_the_device_of_a_transformed_env():
    base = Count()
    env = TransformedEnv(base, StepCounter(), device="cpu")
    assert env.device == base.device == torch.device("cpu")
    assert env.base_env is base
    env.rollout(2, still)


class Taxi(EnvBase):
    """A mask of legal actions in int8, as Gymnasium's Taxi gives it."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(action_mask=Bounded(0, 1, shape=(4,), dtype=torch.int8))
        self.action_spec = OneHot(4)
        self.reward_spec = Unbounded((1,))
        self.turn = 0

    def _mask(self):
        self.turn += 1
        return torch.nn.functional.one_hot(torch.tensor(self.turn % 4), 4).to(torch.int8)

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"action_mask": self._mask()})

    def _step(self, tensordict):
        end = torch.zeros(1, dtype=torch.bool)
        return TensorDict({"action_mask": self._mask(), "reward": torch.zeros(1), "done": end, "terminated": end})

    def _set_seed(self, seed):
        pass


def test_masks_of_integers():
    env = TransformedEnv(Taxi(), ActionMask())
    data = env.rollout(12)
    assert torch.equal(data["action"].bool(), data["action_mask"].bool())
    assert env.transform.action_spec.mask.dtype == torch.bool


def test_two_step_counters():
    data = steps(TransformedEnv(Count(), Compose(StepCounter(4), StepCounter(2))))
    assert data["next", "step_count"].flatten().tolist() == [1, 2] * 3
    assert data["next", "truncated"].flatten().tolist() == [False, True] * 3
    check_env_specs(TransformedEnv(Count(), Compose(StepCounter(4), StepCounter(2))))


def test_a_step_counter_that_writes_done():
    env = TransformedEnv(Count(), StepCounter(4, truncated_key="done"))
    data = steps(env)
    assert data["next", "step_count"].flatten().tolist() == [1, 2, 3, 4, 1, 2]
    assert data["next", "done"].flatten().tolist() == [False] * 3 + [True] + [False] * 2
    assert "truncated" not in env.done_keys


def test_keys_of_step_counter_and_init_tracker():
    env = TransformedEnv(Count(), Compose(StepCounter(4), InitTracker()))
    counter, tracker = env.transform
    assert counter.step_count_keys == ["step_count"] and counter.truncated_keys == ["truncated"]
    assert counter.done_keys == ["done"] and counter.terminated_keys == ["terminated"]
    assert counter.reset_keys == tracker.reset_keys == ["_reset"]
    assert tracker.init_keys == ["is_init"]


def test_hooks():
    calls = []

    class Recorder(Transform):
        def dump(self, **kwargs):
            calls.append(("dump", kwargs))

        def close(self):
            calls.append("close")

    env = TransformedEnv(Count(), Compose(StepCounter(), Recorder()))
    env.transform.dump(suffix="x")
    env.close()
    assert calls == [("dump", {"suffix": "x"}), "close"]
    with pytest.raises(NotImplementedError, match="collector is not supported"):
        _ = env.transform[0].collector


def test_the_inverse_of_what_a_reset_is_given():
    class Marked(Transform):
        seen = 0

        def _inv_call(self, tensordict):
            self.seen += 1
            return tensordict

    transform = Marked()
    env = TransformedEnv(Count(), transform)
    env.reset(TensorDict({"hint": 1}))
    assert transform.seen == 0
    transform.enable_inv_on_reset = True
    env.reset(TensorDict({"hint": 1}))
    assert transform.seen == 1


# Rewards --------------------------------------------------------------------------------------------------------------

ROLLOUT = TensorDict(
    {
        "next": {
            "reward": torch.arange(1.0, 7).reshape(2, 3, 1),
            "done": torch.tensor([0, 1, 0, 0, 0, 1]).bool().reshape(2, 3, 1),
        }
    },
    [2, 3],
    names=[None, "time"],
)


@pytest.mark.parametrize("out_key", ["sum", ("next", "sum")])
def test_rewards_under_next(out_key):
    found = RewardSum(in_keys=[("next", "reward")], out_keys=[out_key])(ROLLOUT.clone())
    assert found[out_key].flatten().tolist() == [1, 3, 3, 4, 9, 15]  # the end of one env is no end of the other's
    env = TransformedEnv(Count(), RewardSum(in_keys=[("next", "reward")], out_keys=["sum"]))
    check_env_specs(env)
    assert steps(env)["next", "sum"].flatten().tolist() == [1, 3, 6, 10, 15, 1]


def test_one_reset_key_for_several_rewards():
    double = Compose(RenameTransform("reward", "reward2", create_copy=True))
    env = TransformedEnv(Count(), double)
    env.append_transform(RewardSum(["reward", "reward2"], ["sum", "sum2"], reset_keys=["_reset"]))
    data = steps(env)
    assert torch.equal(data["next", "sum"], data["next", "sum2"])
    assert data["next", "sum"].flatten().tolist() == [1, 3, 6, 10, 15, 1]


def test_sums_among_the_rewards():
    env = TransformedEnv(Count(), RewardSum(reward_spec=True))
    assert set(env.reward_keys) == {"reward", "episode_reward"} and "episode_reward" not in env.observation_keys
    assert steps(env)["next", "episode_reward"].flatten().tolist() == [1, 3, 6, 10, 15, 1]


# Names ----------------------------------------------------------------------------------------------------------------


def test_rename_keeps_the_old_name_backwards():
    rename = RenameTransform(["observation"], ["o"], ["action"], ["act"], create_copy=True)
    back = rename.inv(TensorDict({"act": torch.ones(2)}))
    assert sorted(back.keys()) == ["act", "action"]
    env = TransformedEnv(Count(), rename)
    assert sorted(env.action_keys) == ["act", "action"]
    assert env.step(env.rand_action(env.reset()))["next", "o"].shape == (2,)


@pytest.mark.parametrize(
    "transform",
    [
        lambda: RenameTransform([("observation",)], [("o",)]),
        lambda: ClipTransform(in_keys=[("observation",)], low=0.0),
        lambda: RewardSum(in_keys=[("reward",)], out_keys=[("sum",)]),
        lambda: TensorDictPrimer({("h",): Unbounded((3,))}),
        lambda: StepCounter(3, step_count_key=("count",), truncated_key=("truncated",)),
    ],
)
def test_keys_of_one_entry(transform):
    env = TransformedEnv(Count(), transform())
    check_env_specs(env)
    keys = {*env.observation_keys, *env.reward_keys, *env.done_keys}
    assert all(isinstance(key, str) for key in keys)


# Modules --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"random": True}, {"default_value": None}])
def test_a_primer_whose_spec_has_the_batch(how):
    primer = TensorDictPrimer(a=Unbounded((4, 2)), **how)
    assert primer(TensorDict({}, [4]))["a"].shape == (4, 2)
    assert primer(TensorDict({}, [3]))["a"].shape == (3, 4, 2)


def test_a_primer_before_the_reset():
    class Reads(Count):
        given = None

        def _reset(self, tensordict=None, **kwargs):
            self.given = None if tensordict is None else tensordict.get("a", None)
            return super()._reset(tensordict)

    env = TransformedEnv(Reads(), TensorDictPrimer(a=Unbounded((2,)), default_value=3.0, call_before_env_reset=True))
    check_env_specs(env)
    assert env.reset()["a"].tolist() == env.base_env.given.tolist() == [3.0, 3.0]


def test_unsqueezed_inputs_that_lack_the_dimension():
    transform = UnsqueezeTransform(-1, in_keys=["o"], in_keys_inv=["o"])
    assert transform.inv(TensorDict({"o": torch.zeros(3)}, [3]))["o"].shape == (3,)
    assert transform.inv(TensorDict({"o": torch.zeros(3, 4)}, [3, 4]))["o"].shape == (3, 4)
    assert transform.inv(TensorDict({"o": torch.zeros(3, 4, 1)}, [3, 4]))["o"].shape == (3, 4)
    assert transform.inv(TensorDict({"o": torch.zeros(3, 4)}, [3]))["o"].shape == (3, 4)


# Frames ---------------------------------------------------------------------------------------------------------------

FRAMES = TensorDict(
    {
        "x": torch.arange(1.0, 7).reshape(6, 1),
        "next": {"done": torch.tensor([0, 0, 1, 0, 0, 1]).bool().reshape(6, 1)},
    },
    [6],
)
PAST = [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
AFTER = [[0, 0, 0], [0, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("options", "found", "mask"),
    [
        ({"padding": "same"}, [[1, 1, 1], [1, 1, 2], [1, 2, 3], [4, 4, 4], [4, 4, 5], [4, 5, 6]], PAST),
        ({"padding": "zeros"}, [[0, 0, 1], [0, 1, 2], [1, 2, 3], [0, 0, 4], [0, 4, 5], [4, 5, 6]], PAST),
        ({"future": True}, [[1, 2, 3], [2, 3, 3], [3, 3, 3], [4, 5, 6], [5, 6, 6], [6, 6, 6]], AFTER),
        (
            {"future": True, "padding": "constant", "padding_value": 9},
            [[1, 2, 3], [2, 3, 9], [3, 9, 9], [4, 5, 6], [5, 6, 9], [6, 9, 9]],
            AFTER,
        ),
    ],
)
def test_options_of_cat_frames(options, found, mask):
    frames = CatFrames(3, -1, in_keys=["x"], out_keys=["y"], mask_key="padded", **options)
    data = frames.unfolding(FRAMES.clone())
    assert data["y"].tolist() == found
    assert data["padded"].int().tolist() == mask * 2
    both = frames(torch.stack([FRAMES, FRAMES]))
    assert both["y"][1].tolist() == found and both["padded"].shape == (2, 6, 3)


@pytest.mark.parametrize("option", [{"future": True}, {"mask_key": "padded"}])
def test_options_of_cat_frames_that_need_whole_episodes(option):
    with pytest.raises(RuntimeError, match="needs whole episodes"):
        TransformedEnv(Count(), CatFrames(3, -1, in_keys=["observation"], **option))
    if "future" in option:
        with pytest.raises(NotImplementedError, match="under 'next'"):
            CatFrames(3, -1, in_keys=["x", ("next", "x")], **option)


@pytest.mark.parametrize("time", [0, 3])
def test_frames_of_no_rows(time):
    data = FRAMES[:time].expand(0, time).clone()
    assert CatFrames(3, -1, in_keys=["x"])(data)["x"].shape == (0, time, 3)


def test_what_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="native_autoreset=True"):
        VecGymEnvTransform(native_autoreset=True)
