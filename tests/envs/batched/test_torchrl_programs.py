"""Small programs on batched envs and collectors written for TorchRL, with the numbers that it gives."""

from __future__ import annotations

import pytest
import torch
from tensordict.nn import TensorDictModule

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
from rlnb.envs import (
    Compose,
    DoubleToFloat,
    EnvCreator,
    GymEnv,
    ParallelEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
)


def pendulum(max_steps=None):
    return TransformedEnv(GymEnv("Pendulum-v1"), StepCounter(max_steps))


def three():
    return pendulum(3)


def five():
    return pendulum(5)


def numbers(data, *key):
    return data[key].squeeze(-1).tolist()


@pytest.fixture(params=[SerialEnv, ParallelEnv])
def batch(request):
    """Make batches that are closed when the test ends."""
    made = []

    def make(*args, **kwargs):
        made.append(request.param(*args, **kwargs))
        return made[-1]

    yield make
    for env in made:
        env.close(raise_if_closed=False)


# Batched envs ---------------------------------------------------------------------------------------------------------


def test_specs_have_the_size_of_the_batch(batch):
    env = batch(2, lambda: GymEnv("CartPole-v1"))
    assert env.batch_size == (2,) and env.action_spec.shape == (2, 2)
    assert env.observation_spec["observation"].shape == (2, 4)
    assert env.reward_spec.shape == env.full_done_spec["done"].shape == (2, 1)
    check_env_specs(env)


def test_a_rollout_ends_with_the_first_episode_or_not_at_all(batch):
    env = batch(2, three)
    assert env.rollout(300).shape == (2, 3)
    data = env.rollout(5, break_when_any_done=False)
    assert numbers(data, "next", "truncated") == [[False, False, True, False, False]] * 2
    assert numbers(data, "step_count") == [[0, 1, 2, 0, 1]] * 2


def test_a_loop_of_step_and_maybe_reset(batch):
    env = batch(2, five)
    root, counts = env.reset(), []
    for _ in range(8):
        data, root = env.step_and_maybe_reset(env.rand_action(root))
        counts.append((data["next", "step_count"][0].item(), root["step_count"][0].item()))
    assert counts == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 0), (1, 1), (2, 2), (3, 3)]


def test_a_reset_of_some_envs(batch):
    env = batch(3, pendulum)
    data = env.rollout(3)[..., -1]["next"].exclude("reward")
    data["_reset"] = torch.tensor([[True], [False], [True]])
    data = env.reset(data)
    assert numbers(data, "step_count") == [0, 3, 0] and "_reset" not in data


def test_a_step_of_some_envs(batch):
    env = batch(3, pendulum)
    data = env.rand_action(env.reset())
    data["_step"] = torch.tensor([True, False, True])
    after = env.step(data)["next"]
    assert numbers(after, "step_count") == [1, 0, 1] and after["reward"][1] == 0 and after["reward"][0] != 0
    assert (after["observation"][1] == data["observation"][1]).all() and not after["done"].any()


def test_some_envs_of_a_batch(batch):
    env = batch(3, pendulum)
    env.reset()
    assert env[1:].rollout(2).shape == env[[0, 2]].rollout(2).shape == (2, 2) and env[0].batch_size == (1,)


def test_a_creator_with_arguments_for_each_env(batch):
    make = EnvCreator(lambda g=10.0: GymEnv("Pendulum-v1", g=g))
    env = batch(2, make, create_env_kwargs=[{"g": 9.0}, {"g": 8.0}])
    assert env.g == [9.0, 8.0] and env.rollout(2).shape == (2, 2)


def test_transforms_around_a_batch(batch):
    inner = batch(2, lambda: GymEnv("Pendulum-v1"))
    env = TransformedEnv(inner, Compose(RewardSum(), StepCounter(4), DoubleToFloat()))
    data = env.rollout(10)
    assert data.shape == (2, 4) and numbers(data, "next", "step_count") == [[1, 2, 3, 4]] * 2
    assert numbers(data, "next", "truncated") == [[False, False, False, True]] * 2
    torch.testing.assert_close(data["next", "episode_reward"], data["next", "reward"].cumsum(1))


def test_a_seed_gives_each_env_a_stream_of_its_own(batch):
    env = batch(2, pendulum)
    env.set_seed(3)
    first = env.reset()["observation"]
    env.set_seed(3)
    assert (env.reset()["observation"] == first).all() and (first[0] != first[1]).any()


def test_a_closed_batch_starts_again(batch):
    env = batch(2, pendulum)
    env.rollout(2)
    env.close()
    assert env.is_closed and env.rollout(2).shape == (2, 2) and not env.is_closed


# Collectors -----------------------------------------------------------------------------------------------------------


def test_episodes_go_on_from_batch_to_batch(batch):
    collector = Collector(batch(2, five), None, frames_per_batch=16, total_frames=32)
    first, second = (data["collector", "traj_ids"].tolist() for data in collector)
    assert first == [[0] * 5 + [2] * 3, [1] * 5 + [3] * 3]
    assert second == [[2] * 2 + [4] * 5 + [6], [3] * 2 + [5] * 5 + [7]]


def test_a_loop_of_batches_and_updates(batch):
    net = TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["action"])
    collector = Collector(batch(2, pendulum), net, frames_per_batch=7, total_frames=20)
    shapes = []
    for data in collector:
        shapes.append(tuple(data.shape))
        assert not data["action"].requires_grad
        collector.update_policy_weights_()
    # Seven frames of two envs are rounded up to eight.
    assert shapes == [(2, 4)] * 3 and len(collector) == 3


def test_trajectories_of_a_batch(batch):
    (data,) = Collector(batch(2, five), None, frames_per_batch=24, total_frames=24, split_trajs=True)
    assert data.shape == (6, 5) and data["collector", "mask"].sum(-1).tolist() == [5, 5, 2, 5, 5, 2]


def test_a_buffer_of_two_dimensions_is_filled(batch):
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100, ndim=2), batch_size=4)
    collector = Collector(batch(2, pendulum), None, frames_per_batch=10, total_frames=30, replay_buffer=buffer)
    assert list(collector) == [None] * 3 and len(buffer) == 30 and buffer[:].shape == (15, 2)


def test_random_frames_first(batch):
    zero = TensorDictModule(lambda seen: torch.zeros(*seen.shape[:-1], 1), ["observation"], ["action"])
    collector = Collector(batch(2, pendulum), zero, frames_per_batch=10, total_frames=30, init_random_frames=10)
    assert [bool((data["action"] == 0).all()) for data in collector] == [False, True, True]


def test_limits_of_trajectories(batch):
    env = batch(2, lambda: GymEnv("Pendulum-v1"))
    data = Collector(env, None, frames_per_batch=20, total_frames=20, max_frames_per_traj=4).next()
    assert numbers(data, "step_count") == [[0, 1, 2, 3, 0, 1, 2, 3, 0, 1]] * 2
    assert numbers(data, "next", "truncated") == [[n == 3 for n in [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]]] * 2


def test_batches_as_whole_episodes(batch):
    options = {"set_truncated": True, "reset_at_each_iter": True, "postproc": lambda data: data.set("x", data["done"])}
    for data in Collector(batch(2, pendulum), None, frames_per_batch=8, total_frames=16, **options):
        assert numbers(data, "next", "done") == [[False, False, False, True]] * 2
        assert data["x"].shape == (2, 4, 1) and numbers(data, "step_count") == [[0, 1, 2, 3]] * 2
