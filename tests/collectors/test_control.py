"""Methods that control a collector: partial resets, policy versions, models, fake batches, unsupported calls."""

from __future__ import annotations

import pytest
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, ReplayBuffer
from rlnb.envs import GymEnv, SerialEnv, SpreadEnv, StepCounter, TransformedEnv


def counted():
    return TransformedEnv(GymEnv("Pendulum-v1"), StepCounter())


def linear():
    return TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["action"])


def counts_and_ids(batch):
    return batch["step_count"].squeeze(-1).tolist(), batch["collector", "traj_ids"].tolist()


# Resets ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [1, -1, [1], slice(1, 2), torch.tensor([False, True]), torch.tensor([1])])
def test_some_envs_are_reset(index):
    collector = Collector(SerialEnv(2, counted), linear(), frames_per_batch=6)
    first = collector.next()
    assert counts_and_ids(first) == ([[0, 1, 2]] * 2, [[0] * 3, [1] * 3])
    assert collector.reset(index) is None
    second = collector.next()
    assert counts_and_ids(second) == ([[3, 4, 5], [0, 1, 2]], [[0] * 3, [2] * 3])
    assert (second["observation"][0, 0] == first["next", "observation"][0, -1]).all()
    assert (second["observation"][1, 0] != first["next", "observation"][1, -1]).any()
    assert counts_and_ids(collector.next())[1] == [[0] * 3, [2] * 3]


@pytest.mark.parametrize(("n", "index"), [(0, None), (0, 0), (2, None), (2, [0, 1])])
def test_all_envs_are_reset(n, index):
    collector = Collector(SerialEnv(n, counted) if n else counted(), frames_per_batch=4)
    collector.reset(index)  # before the first batch, which starts with a reset of its own
    before = collector.next()["collector", "traj_ids"].unique()
    collector.reset(index)
    after = collector.next()
    assert (after["step_count"][..., 0, :] == 0).all()
    assert after["collector", "traj_ids"].unique().tolist() == (before + max(n, 1)).tolist()


def test_an_empty_mask_resets_nothing():
    collector = Collector(SerialEnv(2, counted), frames_per_batch=4)
    collector.next()
    collector.reset(torch.tensor([False, False]))
    assert counts_and_ids(collector.next()) == ([[2, 3]] * 2, [[0, 0], [1, 1]])


@pytest.mark.parametrize("index", [5, "first", [0, 2], torch.ones(3, dtype=torch.bool)])
def test_an_index_without_an_env_resets_nothing(index):
    collector = Collector(SerialEnv(2, counted), frames_per_batch=4)
    collector.next()
    with pytest.raises(IndexError, match=r"^index must select envs of a batch of size \(2,\), got .*\. Fix: "):
        collector.reset(index)
    assert counts_and_ids(collector.next()) == ([[2, 3]] * 2, [[0, 0], [1, 1]])


def test_agents_with_end_signals_of_their_own_are_reset():
    make = lambda: TransformedEnv(SpreadEnv(), StepCounter())  # noqa: E731 - a factory for the next line
    collector = Collector(SerialEnv(2, make), frames_per_batch=4)
    count = next(key for key in collector.env.observation_keys if "step_count" in key)
    collector.next()
    collector.reset(0)
    batch = collector.next()
    assert (batch[count][0, 0] == 0).all() and (batch[count][1, 0] == 2).all()
    assert batch["collector", "traj_ids"].tolist() == [[2, 2], [1, 1]]


@pytest.mark.parametrize("index", [None, 0])
def test_keywords_go_to_the_reset_of_the_env_once(index, monkeypatch):
    env, seen = SerialEnv(2, counted), []
    collector = Collector(env, frames_per_batch=4)
    collector.next()
    whole = type(env).reset

    def reset(self, *args, **kwargs):
        seen.append(kwargs.get("options"))
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(type(env), "reset", reset)
    collector.reset(index, options={"x_init": 0.1})
    collector.next()
    collector.reset()
    collector.next()
    assert seen == [{"x_init": 0.1}, None]


def test_after_a_reset_that_failed_every_env_starts_anew(monkeypatch):
    env = SerialEnv(2, counted)
    collector = Collector(env, frames_per_batch=4)
    collector.next()
    with monkeypatch.context() as patched:
        patched.setattr(type(env), "_reset", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            collector.reset(0)
    assert counts_and_ids(collector.next()) == ([[0, 1]] * 2, [[2, 2], [3, 3]])


# The policy -----------------------------------------------------------------------------------------------------------


def test_the_version_of_the_policy_that_acted():
    collector = Collector(SerialEnv(2, counted), linear(), frames_per_batch=4, track_policy_version=True)
    versions = []
    for change in (lambda: None, collector.increment_version, collector.update_policy_weights_):
        assert change() is None
        batch = collector.next()
        assert (batch["policy_version"] == batch["next", "policy_version"]).all()
        assert batch["policy_version"].dtype == torch.int64 and batch["policy_version"].shape == (2, 2)
        versions.append(batch["policy_version"].unique().tolist())
    assert versions == [[0], [1], [2]] and collector.policy_version == collector.get_policy_version() == 2
    with pytest.raises(RuntimeError, match="do not fit"):
        collector.update_policy_weights_({"module.weight": torch.zeros(1)})
    assert collector.policy_version == 2
    other = Collector(counted(), linear(), frames_per_batch=4, track_policy_version=True)
    state = {**collector.state_dict(), "env_state_dict": other.env.state_dict()}
    other.load_state_dict(state)
    assert other.policy_version == 2


def test_versions_that_are_not_tracked():
    collector = Collector(counted(), linear(), frames_per_batch=4)
    collector.increment_version()
    assert collector.get_policy_version() is None and collector.next().get("policy_version", None) is None
    with pytest.raises(TypeError, match=r"^track_policy_version must be True or False, got a str\."):
        Collector(counted(), frames_per_batch=4, track_policy_version="uuid")


def test_models_by_name():
    policy = linear()
    collector = Collector(counted(), policy, frames_per_batch=4)
    assert collector.get_model("policy") is policy and collector.get_model("policy.module") is policy.module
    assert collector.get_model("env.transform") is collector.env.transform
    for missing in ("value_net", "frames_per_batch", "policy.modules"):
        with pytest.raises(ValueError, match=rf"^The collector has no model '{missing}'"):
            collector.get_model(missing)
    with pytest.raises(ValueError, match=r"^The collector has no model 'policy'"):
        Collector(counted(), frames_per_batch=4).get_model("policy")
    assert collector.init_updater(1, name=2) is None


# Fake batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize(
    "options",
    [{}, {"split_trajs": True}, {"track_traj_ids": False}, {"track_policy_version": True, "init_random_frames": 4}],
    ids=str,
)
def test_a_fake_batch_is_like_a_real_one(n, options):
    hidden = TensorDictModule(torch.nn.Linear(3, 4), ["observation"], ["hidden"])
    policy = TensorDictSequential(hidden, TensorDictModule(torch.nn.Linear(4, 1), ["hidden"], ["action"]))
    collector = Collector(SerialEnv(n, counted) if n else counted(), policy, frames_per_batch=6, **options)
    fake, real = collector.fake_tensordict(), collector.next()
    dtypes = [{key: value.dtype for key, value in data.items(True, True)} for data in (fake, real)]
    assert dtypes[0] == dtypes[1] and collector.frames == 6
    if "split_trajs" in options:
        assert fake.pop(("collector", "mask")).all()
    else:
        assert fake.names == real.names
    assert fake.shape == real.shape
    for key, value in fake.items(True, True):
        assert value.shape == real[key].shape and not value.any() and not value.requires_grad, key


def test_a_fake_batch_is_processed_and_changes_nothing():
    buffer = ReplayBuffer(storage=LazyTensorStorage(100))
    collector = Collector(
        SerialEnv(2, counted),
        linear(),
        frames_per_batch=6,
        replay_buffer=buffer,
        set_truncated=True,
        postproc=lambda batch: batch.set("half", batch["next", "reward"] / 2),
    )
    torch.manual_seed(0)
    fake = collector.fake_tensordict()
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert fake["half"].shape == (2, 3, 1) and drawn == torch.rand(1)
    for name in ("truncated", "done"):
        assert fake["next", name].squeeze(-1).tolist() == [[False, False, True]] * 2
    assert len(buffer) == 0 and collector.frames == 0
    collector.next()
    assert buffer.write_count == 2


# Batches that end early -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 2])
def test_an_interruptor_ends_a_batch_early(n):
    class After:
        asked = 0

        def collection_stopped(self):
            self.asked += 1
            return self.asked in (3, 23)

    collector = Collector(SerialEnv(n, counted) if n else counted(), frames_per_batch=40, interruptor=After())
    steps = 40 // max(n, 1) // 20
    batches = [collector.next() for _ in range(3)]
    assert [batch.shape[-1] for batch in batches] == [3 * steps, 20 * steps, steps]
    whole = torch.cat(batches, -1).reshape(max(n, 1), -1)
    assert whole["step_count"][..., 0].tolist() == [list(range(24 * steps))] * max(n, 1)
    assert (whole["collector", "traj_ids"] == whole["collector", "traj_ids"][:, :1]).all()
    assert collector.frames == whole.numel()


# What it cannot do ----------------------------------------------------------------------------------------------------


def test_a_profile_is_not_its_task():
    collector = Collector(counted(), frames_per_batch=4)
    with pytest.raises(NotImplementedError, match=r"^Collector\.enable_profile\(\) is not supported: .* Fix: "):
        collector.enable_profile()
    assert collector.is_running() is False and collector.next().shape == (4,)
