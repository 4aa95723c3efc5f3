"""Collector: it collects what a rollout would, cut into batches."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.collectors import Collector, RandomPolicy
from rlnb.data import (
    LazyTensorStorage,
    MultiStep,
    ReplayBuffer,
    SliceSampler,
    TensorDictReplayBuffer,
    Unbounded,
    check_ted,
)
from rlnb.envs import (
    CartPoleEnv,
    GymEnv,
    ParallelEnv,
    PendulumEnv,
    SerialEnv,
    SpreadEnv,
    StepCounter,
    TensorDictPrimer,
    TransformedEnv,
)

ENVS = {
    "gym": lambda: GymEnv("CartPole-v1"),
    "vector": lambda: GymEnv("CartPole-v1", num_envs=3),
    "batched": lambda: CartPoleEnv(batch_size=[4]),
    "serial": lambda: SerialEnv(3, lambda: GymEnv("CartPole-v1")),
    "serial of own": lambda: SerialEnv(2, CartPoleEnv),
    "transformed": lambda: TransformedEnv(GymEnv("CartPole-v1"), StepCounter(11)),
    "agents": lambda: SpreadEnv(2, 3, agent_done=True, max_steps=7, batch_size=[2]),
}
every_env = pytest.mark.parametrize("make", ENVS.values(), ids=ENVS)


def own(batch: TensorDict) -> TensorDict:
    """What the env and the policy gave."""
    return batch.exclude("collector")


@every_env
def test_batches_are_a_rollout_that_was_cut(make):
    env, collector = make(), Collector(make(), frames_per_batch=1, total_frames=-1)
    n = max(env.batch_size.numel(), 1)
    collector = Collector(make(), frames_per_batch=20 * n, total_frames=60 * n)
    env.set_seed(0)
    collector.set_seed(0)
    whole = env.rollout(60, break_when_any_done=False)
    batches = list(collector)
    assert (
        [batch.batch_size for batch in batches]
        == [(*env.batch_size, 20)] * 3
        == [(*env.batch_size, 20)] * len(collector)
    )
    assert all(batch.names[-1] == "time" for batch in batches)
    found = torch.cat([own(batch) for batch in batches], -1)
    assert bool((found == whole).all())
    assert collector.frames == 60 * n
    assert Collector is Collector


@every_env
def test_each_trajectory_has_an_id_of_its_own(make):
    env = make()
    n = max(env.batch_size.numel(), 1)
    collector = Collector(env, frames_per_batch=25 * n, total_frames=100 * n)
    whole = torch.cat(list(collector), -1)
    ids = whole["collector", "traj_ids"].reshape(n, -1)
    done = whole["next", "done"].reshape(n, ids.shape[1], -1).any(-1)
    assert ids.dtype == torch.int64
    changes = ids[:, 1:] != ids[:, :-1]
    assert torch.equal(changes, done[:, :-1])
    per_row = [set(row.tolist()) for row in ids]
    assert sum(map(len, per_row)) == len(set().union(*per_row)), "two envs share an id"
    assert set().union(*per_row) == set(range(len(set().union(*per_row)))), "ids are not counted up one by one"


def test_frames_are_rounded_up_to_whole_steps():
    env = SerialEnv(3, lambda: GymEnv("CartPole-v1"))
    collector = Collector(env, frames_per_batch=22, total_frames=50)
    assert collector.frames_per_batch == 24
    assert [batch.shape for batch in collector] == [(3, 8)] * 3
    endless = Collector(env, frames_per_batch=1, total_frames=-1)
    assert [batch.shape for batch, _ in zip(endless, range(4), strict=False)] == [(3, 1)] * 4
    with pytest.raises(TypeError, match=r"^A Collector with total_frames=-1 has no length: it never ends\.$"):
        len(endless)


net = nn.Linear(4, 2)


class Scores(nn.Module):
    def forward(self, observation, *others):  # a transform may add observations
        return torch.nn.functional.one_hot(net(observation).argmax(-1), 2)


POLICIES = {
    "none": lambda env: None,
    "random": lambda env: RandomPolicy(env.action_spec),
    "rand_step": lambda env: env.rand_step,
    "module": lambda env: Scores(),
    "tensordict module": lambda env: TensorDictModule(Scores(), ["observation"], ["action"]),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("kind", ["gym", "serial", "transformed"])
def test_policies(kind, policy):
    env, other = ENVS[kind](), ENVS[kind]()
    n = max(env.batch_size.numel(), 1)
    collector = Collector(env, policy(env), frames_per_batch=15 * n, total_frames=45 * n)
    collector.set_seed(3)
    torch.manual_seed(3)
    found = torch.cat([own(batch) for batch in collector], -1)
    other.set_seed(3)
    torch.manual_seed(3)
    assert bool((found == other.rollout(45, policy(other), break_when_any_done=False)).all())


def test_random_frames_first():
    class Zero(nn.Module):
        def forward(self, observation):
            return torch.tensor([1, 0])

    collector = Collector(GymEnv("CartPole-v1"), Zero(), frames_per_batch=20, total_frames=100, init_random_frames=30)
    pushed = [bool(batch["action"][:, 1].any()) for batch in collector]
    assert pushed == [True, True, False, False, False]


@pytest.mark.parametrize("batched", [False, True])
def test_random_frames_have_the_entries_that_the_policy_writes(batched):
    def make():
        return GymEnv("CartPole-v1", categorical_action_encoding=True)

    net = TensorDictModule(nn.Linear(4, 2), ["observation"], [("scores", "logits")])
    draw = ProbabilisticTensorDictModule(
        in_keys={"logits": ("scores", "logits")},
        out_keys=["action"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    storage = LazyTensorStorage(60)
    collector = Collector(
        SerialEnv(2, make) if batched else make(),
        TensorDictSequential(net, draw),
        frames_per_batch=20,
        total_frames=60,
        init_random_frames=30,
        postproc=lambda data: data.reshape(-1),
    )
    torch.manual_seed(0)
    rb = ReplayBuffer(storage=storage)
    for batch in collector:
        rb.extend(batch)
    logits = rb[:]["scores", "logits"]
    assert logits.shape == (60, 2) and not logits[:40].any() and logits[40:].all(1).all()
    assert not rb[:]["action_log_prob"][:40].any() and rb[:]["action_log_prob"][40:].all()
    assert set(rb[:]["action"][:40].tolist()) == {0, 1}


def test_a_policy_is_asked_once_what_it_writes_in_random_frames():
    class Counting(nn.Module):
        calls = 0

        def forward(self, observation):
            self.calls += 1
            return torch.tensor([1, 0]), observation.new_full((2, 3), self.calls)

    policy = TensorDictModule(Counting(), ["observation"], ["action", "calls"])
    for env in (GymEnv("CartPole-v1"), GymEnv("CartPole-v1")):  # each collector asks, for envs differ
        policy.module.calls = 0
        collector = Collector(env, policy, frames_per_batch=4, init_random_frames=12)
        batches = [collector.next() for _ in range(4)]
        assert [batch["calls"].shape for batch in batches] == [(4, 2, 3)] * 4
        assert [batch["calls"][:, 0, 0].tolist() for batch in batches] == [[0] * 4] * 3 + [[2, 3, 4, 5]]
    policy.module.calls, collector.frames, collector.env = 0, 0, GymEnv("CartPole-v1")
    collector.reset()
    collector.next()
    assert policy.module.calls == 1, "another env may make the policy write something else"


def test_longest_trajectory_and_restarts():
    collector = Collector(PendulumEnv(), frames_per_batch=20, total_frames=40, max_frames_per_traj=6)
    batch = torch.cat(list(collector))
    assert batch["next", "truncated"].flatten().nonzero().flatten().tolist() == [5, 11, 17, 23, 29, 35]
    collector = Collector(PendulumEnv(), frames_per_batch=5, total_frames=15, reset_at_each_iter=True)
    ids = [batch["collector", "traj_ids"].tolist() for batch in collector]
    assert ids == [[0] * 5, [1] * 5, [2] * 5]


def test_what_is_made_of_batches():
    env = SerialEnv(2, lambda: GymEnv("CartPole-v1"))
    collector = Collector(env, frames_per_batch=40, total_frames=40, postproc=MultiStep(0.9, 3))
    (batch,) = collector
    assert batch["steps_to_next_obs"].max() == 3
    collector = Collector(env, frames_per_batch=80, total_frames=80, split_trajs=True)
    (batch,) = collector
    mask = batch["collector", "mask"] if ("collector", "mask") in batch.keys(True) else batch["mask"]
    assert batch.ndim == 2 and int(mask.sum()) == 80
    for row, valid in zip(batch["collector", "traj_ids"], mask, strict=True):
        assert len(row[valid].unique()) == 1


def test_split_batches_that_a_buffer_cannot_take():
    env = GymEnv("CartPole-v1")
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(1000))
    collector = Collector(env, frames_per_batch=60, total_frames=600, split_trajs=True, replay_buffer=rb)
    collector.set_seed(1)
    with pytest.raises(ValueError) as caught:
        list(collector)
    text = str(caught.value)
    assert text.startswith("The data does not fit what is stored") and text.endswith(
        "\nsplit_trajs=True pads each batch to the longest of its trajectories, so that no two batches have the same "
        "shape. Fix: split_trajs=False, and a sampler that finds the trajectories in the buffer: "
        'SliceSampler(slice_len=8, traj_key=("collector", "traj_ids")).'
    )
    sampler = SliceSampler(slice_len=8, traj_key=("collector", "traj_ids"))
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(1000), sampler=sampler, batch_size=32)
    list(Collector(env, frames_per_batch=60, total_frames=600, replay_buffer=rb))
    ids = rb.sample()["collector", "traj_ids"].reshape(-1, 8)
    assert len(rb) == 600 and (ids == ids[:, :1]).all()


def test_the_same_tensordict_again():
    collector = Collector(GymEnv("CartPole-v1"), frames_per_batch=10, total_frames=30, return_same_td=True)
    batches = list(collector)
    assert batches[0] is batches[1] is batches[2]
    fresh = list(Collector(GymEnv("CartPole-v1"), frames_per_batch=10, total_frames=20))
    assert fresh[0]["observation"].data_ptr() != fresh[1]["observation"].data_ptr()


def test_writing_into_a_buffer():
    class Buffer(list):
        def extend(self, batch):
            self.append(batch)

    buffer = Buffer()
    collector = Collector(GymEnv("CartPole-v1"), frames_per_batch=10, total_frames=30, replay_buffer=buffer)
    assert list(collector) == [None] * 3
    assert [len(batch) for batch in buffer] == [10] * 3


def test_states_of_a_policy_go_on_over_batches():
    class Counting(nn.Module):
        def forward(self, observation, count):
            return torch.tensor([1, 0]), count + 1

    policy = TensorDictModule(Counting(), ["observation", "count"], ["action", ("next", "count")])
    env = TransformedEnv(GymEnv("CartPole-v1"), TensorDictPrimer(count=Unbounded(shape=(1,))))
    batch = torch.cat(list(Collector(env, policy, frames_per_batch=3, total_frames=12)))
    expected, count = [], 0
    for done in batch["next", "done"].flatten().tolist():
        expected.append(count)
        count = 0 if done else count + 1
    assert batch["count"].flatten().tolist() == expected and max(expected) >= 5


def test_auto_resetting_envs():
    class AutoResetting(GymEnv):
        def _step(self, tensordict):
            tensordict = super()._step(tensordict)
            if tensordict["done"].any():
                tensordict.update(super().reset().exclude(*self.done_keys))
            return tensordict

        def _reset(self, tensordict=None):
            restarted = tensordict is not None and "_reset" in tensordict
            return tensordict.copy() if restarted else super()._reset(tensordict)

    env = AutoResetting("CartPole-v1", auto_reset=True, auto_reset_replace=True)
    batch = torch.cat(list(Collector(env, frames_per_batch=25, total_frames=100)))
    done = batch["next", "done"].flatten()
    assert done.any() and torch.equal(batch["next", "observation"].isnan().all(-1), done)
    assert not batch["observation"].isnan().any() and not batch["done"].any()


def test_envs_whose_shapes_change():
    from tests.envs.dynamic import EnvWithDynamicSpec

    collector = Collector(EnvWithDynamicSpec(), frames_per_batch=5, total_frames=10)
    shapes = [row["observation"].shape for batch in collector for row in batch.unbind(-1)]
    assert len(set(shapes)) > 1 and all(shape[0] == 3 and shape[2] == 2 for shape in shapes)


def test_life():
    make = lambda: Collector(GymEnv("CartPole-v1"), Scores(), frames_per_batch=10, total_frames=30)  # noqa: E731
    one, two = make(), make()
    assert one.set_seed(5) == two.set_seed(5) == GymEnv("CartPole-v1").set_seed(5)
    assert bool((next(iter(one)) == next(iter(two))).all())
    three = make()
    three.load_state_dict(one.state_dict())
    assert three.frames == 10 and len(list(three)) == 2
    broken = one.state_dict()
    del broken["frames"]
    with pytest.raises(KeyError, match=r"got one without \['frames'\]"):
        three.load_state_dict(broken)
    assert three.frames == 30
    one.shutdown()
    assert one.env.is_closed
    assert one.next() is not None and not one.env.is_closed  # a reset starts the env again
    one.shutdown()


def test_parallel_envs_end_with_the_collector():
    env = ParallelEnv(2, lambda: GymEnv("CartPole-v1"))
    collector = Collector(env, frames_per_batch=20, total_frames=40)
    assert all(check_ted(batch).ok for batch in collector)
    collector.shutdown()
    assert env.is_closed


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_after_an_interrupted_batch_the_next_one_starts_anew(error):
    steps = 0

    def policy(td):
        nonlocal steps
        steps += 1
        if steps == 7:
            raise error
        return td.set("action", td["observation"].new_zeros(2, dtype=torch.int64).index_fill(0, torch.tensor(0), 1))

    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    collector = Collector(env, policy, frames_per_batch=5)
    before = collector.next()
    with pytest.raises(error):
        collector.next()
    assert (collector.frames, collector.iterations) == (5, 1)
    after = collector.next()
    # The env took a step that nobody saw: to go on from the last batch would join states that do not follow.
    assert after["next", "step_count"].flatten().tolist() == [1, 2, 3, 4, 5] and collector.frames == 10
    assert not set(after["collector", "traj_ids"].tolist()) & set(before["collector", "traj_ids"].tolist())


def test_a_state_that_does_not_fit_the_policy_changes_nothing():
    policy = nn.Sequential(nn.Linear(4, 2), nn.Softmax(-1))
    collector = Collector(
        GymEnv("CartPole-v1"), TensorDictModule(policy, ["observation"], ["action"]), frames_per_batch=5
    )
    before = {key: value.clone() for key, value in collector.policy.state_dict().items()}
    state = collector.state_dict()
    state["policy_state_dict"] = {key: value + 1 for key, value in before.items() if "bias" not in key}
    with pytest.raises(RuntimeError, match="Missing key"):
        collector.load_state_dict({**state, "frames": 100})
    assert collector.frames == 0
    assert all((value == before[key]).all() for key, value in collector.policy.state_dict().items())
