"""Series, curves and returns by value: bounded for any length, and independent of when they are read."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets import TrainingMonitor
from rlnb_widgets._core.display import Columns
from rlnb_widgets.training_monitor.model import CurveModel, Progress, curve_model
from rlnb_widgets.training_monitor.returns import EpisodeReturns
from rlnb_widgets.training_monitor.scene import curve_display, domain
from rlnb_widgets.training_monitor.series import MOST_BUCKETS, Series, at_most, summarize
from tensordict import TensorDict

from rlnb.collectors import Collector
from rlnb.envs import CartPoleEnv, GymEnv, SerialEnv

FIELDS = ("low", "low_at", "high", "high_at", "total", "count", "missing", "start", "end")
VALUES = st.lists(st.one_of(st.floats(-1e3, 1e3), st.sampled_from([math.nan, math.inf])), max_size=700)


def series_of(values, steps=None):
    series = Series()
    for i, value in enumerate(values):
        series.append(i if steps is None else steps[i], value)
    return series


@given(VALUES, st.lists(st.integers(1, 200), max_size=8))
def test_a_summary_does_not_depend_on_when_it_was_asked_for(values, cuts):
    steps, series, done = 3.0 * np.arange(len(values)), Series(), 0
    for cut in cuts:
        for i in range(done, min(done + cut, len(values))):
            series.append(steps[i], values[i])
        done = min(done + cut, len(values))
        series.buckets()
    for i in range(done, len(values)):
        series.append(steps[i], values[i])
    found = series.buckets()
    whole = summarize(steps, np.array(values), found.width)
    assert len(found) <= MOST_BUCKETS
    for name in FIELDS:
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-9, atol=1e-6)


@given(VALUES.filter(lambda values: any(map(math.isfinite, values))), st.integers(3, 200))
def test_the_drawn_points_keep_the_lowest_and_the_highest_value(values, most):
    curve = curve_model("return", series_of(values), most=most)
    finite = [value for value in values if math.isfinite(value)]
    assert np.nanmin(curve.values) == curve.low == min(finite)
    assert np.nanmax(curve.values) == curve.high == max(finite)
    assert len(curve.values) <= 2 * max(most, 2)
    assert (np.diff(curve.steps) > 0).all()
    assert curve.missing_count == len(values) - len(finite)
    for step, value in zip(curve.steps, curve.values, strict=True):
        if math.isfinite(value):
            assert values[int(step)] == value


def test_a_mean_over_fewer_buckets_counts_every_value_once():
    buckets = at_most(summarize(np.arange(7.0), np.arange(7.0), 1), 4)
    assert buckets.total.tolist() == [1, 5, 9, 6] and buckets.count.tolist() == [2, 2, 2, 1]


def test_a_noisy_curve_has_a_moving_mean_and_a_smooth_one_has_none():
    rng = np.random.default_rng(0)
    noisy = curve_model("loss", series_of(rng.normal(size=100)))
    assert noisy.window == 5
    values = rng.normal(size=100)
    curve = curve_model("loss", series_of(values))
    np.testing.assert_allclose(curve.smooth[50], values[46:51].mean())
    assert curve_model("epsilon", series_of(np.linspace(1, 0, 100))).window == 0
    assert curve_model("few", series_of([1.0, 0.0] * 4)).window == 0


def test_what_is_best_depends_on_the_name():
    values = [3.0, 1.0, 2.0]
    best = {name: curve_model(name, series_of(values)).best for name in ("train/loss", "return", "epsilon")}
    assert best == {"train/loss": 1.0, "return": 3.0, "epsilon": None}
    assert curve_model("length", series_of(values), goal=5.0).best is None, "a goal may be above or below"


def test_tensors_of_another_device_are_read_when_the_series_is():
    class Elsewhere:
        reads = 0

        def item(self):
            Elsewhere.reads += 1
            return 7.0

    series = series_of(np.arange(400.0))
    series.append(400, Elsewhere())
    series.append(401, 2.0)
    assert Elsewhere.reads == 0
    assert series.buckets().high[-1] == 399.0 or series.buckets().total.sum() == np.arange(400).sum() + 9
    assert series.read()[1][-2:].tolist() == [7.0, 2.0] and Elsewhere.reads == 1


@pytest.mark.parametrize(
    ("first", "last", "frames", "total", "state", "edges"),
    [
        (0, 900, 900, 50_000, "running", (0, 1000)),
        (10, 900, 900, None, "running", (0, 1000)),
        (10, 49_000, 50_000, 50_000, "finished", (0, 50_000)),
        (10, 3500, 3584, 50_000, "finished", (0, 3584)),  # left with a break
        (10, 2300, 2368, 50_000, "stopped", (0, 2368)),
        (10, 900, 50_000, 50_000, "running", (0, 1000)),  # steps of its own, such as updates
        (100, 900, 900, None, "log", (100, 900)),
        (5, 5, 5, None, "log", (4.5, 5.5)),
    ],
)
def test_the_scale_of_steps_grows_with_the_training(first, last, frames, total, state, edges):
    curve = CurveModel("x", count=9, first_step=first, last_step=last)
    assert domain(curve, Progress(state, frames, total, "frames")) == edges


@pytest.mark.parametrize(("state", "last"), [("running", 4000), ("stopped", 3000), ("finished", 3000)])
def test_a_curve_without_values_has_the_scale_of_the_others(state, last):
    assert domain(CurveModel("x"), Progress(state, 3000, 4000, "frames")) == (0, last)


@pytest.mark.parametrize(("count", "total", "scaled"), [(0, None, False), (0, 50, True), (9, None, True)])
def test_a_curve_without_values_has_no_scale_of_steps_unless_their_number_is_known(count, total, scaled):
    curve = curve_model("x", series_of(np.arange(9.0))) if count else CurveModel("x")
    display = curve_display(curve, 0, Progress("running", 9, total, "frames"), Columns())
    marks = [mark["kind"] for group in display.marks for mark in group.get("marks", [])]
    assert ("axis" in marks) is scaled


# Returns --------------------------------------------------------------------------------------------------------------


def batch_of(reward, done, ids=None):
    reward, done = torch.as_tensor(reward, dtype=torch.float32), torch.as_tensor(done)
    data = {"next": {"reward": reward[..., None], "done": done[..., None]}}
    if ids is not None:
        data["collector"] = {"traj_ids": torch.as_tensor(ids)}
    return TensorDict(data, list(reward.shape))


def episodes_one_by_one(reward, done, ids):
    """Steps of one env after which an episode ends, with its return, as one would write it down by hand."""
    found, total = [], 0.0
    for t in range(len(reward)):
        if t and ids is not None and ids[t] != ids[t - 1]:
            total = 0.0
        total += reward[t]
        if done[t]:
            found.append((t, total))
            total = 0.0
    return found


@given(st.data(), st.integers(1, 3), st.booleans())
def test_returns_of_a_split_rollout_are_those_of_the_whole(data, rows, with_ids):
    steps = data.draw(st.integers(1, 30))
    reward = np.array([[data.draw(st.integers(-3, 3)) for _ in range(steps)] for _ in range(rows)], dtype=float)
    done = np.array([[data.draw(st.booleans()) for _ in range(steps)] for _ in range(rows)])
    ids = np.cumsum([[data.draw(st.sampled_from([0, 0, 0, 1])) for _ in range(steps)] for _ in range(rows)], axis=1)
    ids = ids if with_ids else None
    cuts = sorted({0, steps, *data.draw(st.lists(st.integers(0, steps), max_size=4))})
    returns, found = EpisodeReturns(), []
    for start, stop in pairwise(cuts):
        part = slice(start, stop)
        batch = batch_of(reward[:, part], done[:, part], None if ids is None else ids[:, part])
        assert returns.add(batch, start * rows) == reward[:, part].size
        if data.draw(st.booleans()):
            found += zip(*(array.tolist() for array in returns.read()), strict=True)
    found += zip(*(array.tolist() for array in returns.read()), strict=True)
    wanted = [
        ((t + 1) * rows, row, total)
        for row in range(rows)
        for t, total in episodes_one_by_one(reward[row], done[row], None if ids is None else ids[row])
    ]
    assert found == [(step, total) for step, _, total in sorted(wanted, key=lambda one: one[:2])]


@pytest.mark.parametrize("envs", [0, 3])
def test_returns_of_a_collector_are_those_of_its_episodes(envs):
    def make():
        return GymEnv("CartPole-v1", max_episode_steps=30)

    env = SerialEnv(envs, make) if envs else make()
    env.set_seed(0)
    batches = list(Collector(env, frames_per_batch=40 * max(envs, 1), total_frames=400 * max(envs, 1)))
    monitor = TrainingMonitor()
    for _ in monitor.watch(batches):
        pass
    data = torch.cat(batches, -1)
    rows = data.reshape(-1, data.shape[-1])
    wanted = []
    for row in rows:
        lengths = np.flatnonzero(row["next", "done"].flatten().numpy())
        wanted += [(max(envs, 1) * (t + 1), n) for t, n in zip(lengths, np.diff(lengths, prepend=-1), strict=True)]
    steps, values = monitor["return"]
    assert sorted(zip(steps.tolist(), values.tolist(), strict=True)) == sorted(wanted)
    assert monitor.frames == data.numel()


def test_data_without_one_reward_per_step_has_no_returns():
    monitor = TrainingMonitor()
    env = CartPoleEnv(batch_size=[2])
    td = env.rollout(5)
    for _ in monitor.watch([td.exclude(("next", "reward")), td]):
        pass
    assert "return" in monitor and monitor.frames == 20
    none = TrainingMonitor()
    odd = {"next": torch.zeros(4), "collector": torch.zeros(4)}  # names that mean something to a collector alone
    for _ in none.watch([TensorDict({"x": torch.zeros(4)}, [4]), TensorDict(odd, [4])]):
        pass
    assert "return" not in none and none.frames == 8
