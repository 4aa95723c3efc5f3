"""Several tasks in one batch, and specs that do not match."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict

from rlnb.data import Composite, Unbounded
from rlnb.envs import GymEnv, GymWrapper, ParallelEnv, RenameTransform, SerialEnv, TransformedEnv
from rlnb.envs.batched import WorkerError
from tests.envs.batched.kinds import Counter

BATCHES = {
    "serial": SerialEnv,
    "parallel": ParallelEnv,
    "one process": lambda n, fn, **kw: ParallelEnv(n, fn, num_processes=1, **kw),
}
each_batch = pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)


@each_batch
def test_tasks_alike(batch):
    tasks = [lambda: GymEnv("Pendulum-v1", g=1.0), lambda: GymEnv("Pendulum-v1", g=20.0)]
    with batch(2, tasks) as env:
        assert env.g == [1.0, 20.0]
        rollout = env.rollout(10)
        assert rollout.batch_size == (2, 10) and rollout[0].batch_size == (10,)
        assert not isinstance(rollout, LazyStackedTensorDict)


@each_batch
def test_tasks_of_different_shapes(batch):
    tasks = [lambda: GymEnv("CartPole-v1"), lambda: GymEnv("Acrobot-v1")]
    with batch(2, tasks) as env:
        env.set_seed(0)
        td = env.reset()
        assert isinstance(td, LazyStackedTensorDict)
        assert td[0]["observation"].shape == (4,) and td[1]["observation"].shape == (6,)
        for _ in range(30):
            step, td = env.step_and_maybe_reset(env.rand_action(td))
        assert step[0]["action"].shape == (2,) and step[1]["action"].shape == (3,)


@each_batch
def test_rollouts_of_different_shapes(batch):
    with batch(2, [lambda: GymEnv("MountainCar-v0"), lambda: GymEnv("Acrobot-v1")]) as env:
        rollout = env.rollout(5, return_contiguous=False)
        assert rollout.batch_size == (2, 5) and rollout["action"].shape == (2, 5, 3)
        assert rollout[0]["observation"].shape == (5, 2) and rollout[1]["next", "observation"].shape == (5, 6)
        with pytest.raises(RuntimeError, match=r"Fix: rollout\(\.\.\., return_contiguous=False\)\.$"):
            env.rollout(5)


def test_tasks_of_different_shapes_give_the_same_data():
    tasks = [lambda: GymEnv("CartPole-v1"), lambda: GymEnv("Acrobot-v1")]
    found = []
    for batch in (SerialEnv, ParallelEnv):
        with batch(2, tasks) as env:
            env.set_seed(0)
            td = env.reset()
            steps = []
            for _ in range(25):
                step, td = env.step_and_maybe_reset(env.rand_action(td))
                steps.append(step)
            found.append(steps)
    for a, b in zip(*found, strict=True):
        for i in range(2):
            assert (a[i] == b[i]).all()


@each_batch
def test_entries_that_one_task_lacks(batch):
    def renamed():
        return TransformedEnv(GymEnv("CartPole-v1"), RenameTransform(["observation"], ["seen"]))

    with pytest.raises(RuntimeError) as caught:
        batch(2, [lambda: GymEnv("CartPole-v1"), renamed]).reset()
    assert str(caught.value) == (
        "The envs of a batch must have the same entries, and those in observation_spec differ: only env 1 "
        "(TransformedEnv) has ['seen'], only env 0 (GymEnv) has ['observation']. Fix: put a SelectTransform or "
        "ExcludeTransform around one of them, or give entries the same names with RenameTransform."
    )


@each_batch
def test_batch_sizes_that_differ(batch):
    with pytest.raises(RuntimeError) as caught:
        batch(2, [lambda: GymEnv("CartPole-v1"), lambda: GymEnv("CartPole-v1", num_envs=2)]).reset()
    assert str(caught.value) == (
        "The envs of a batch must have the same batch size, got (2,) from env 1 (GymEnv) and () from env 0 (GymEnv)."
    )


@each_batch
def test_buffers_for_shapes_that_vary(batch):
    tasks = [lambda: GymEnv("CartPole-v1"), lambda: GymEnv("Acrobot-v1")]
    with pytest.raises(RuntimeError) as caught:
        batch(2, tasks, use_buffers=True).reset()
    assert str(caught.value) == (
        "use_buffers=True needs entries of fixed shape and dtype, which these lack: ['action', 'observation']. "
        "Fix: leave use_buffers out; the data then goes through messages, which is slower."
    )


# Data that breaks its spec --------------------------------------------------------------------------------------------


class Growing(Counter):
    """Gives an observation of a wrong shape at its second step."""

    def __init__(self, wrong=None):
        super().__init__()
        self.wrong = wrong

    def _step(self, tensordict):
        data = super()._step(tensordict)
        if self.t == 2 and self.wrong is not None:
            data["count"] = self.wrong
        return data


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (torch.zeros(2), "shape (2,) and dtype torch.float32"),
        (torch.zeros(1, dtype=torch.int64), "shape (1,) and dtype torch.int64"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"num_processes": 1}])
def test_a_wrong_spec_names_key_and_worker(wrong, got, options):
    with ParallelEnv(2, Growing, create_env_kwargs=[{}, {"wrong": wrong}], **options) as env:
        td = env.rand_step(env.reset())
        with pytest.raises(WorkerError) as caught:
            env.rand_step(env._step_mdp(td))
        assert str(caught.value).startswith(
            "Worker 1 of 2 failed in step: RuntimeError: The step must return 'count' with the shape (1,) and dtype "
            f"torch.float32 of its spec, got {got}. rlnb.envs.utils.check_env_specs(env) lists all differences. "
            "Fix: correct the spec; a dimension that varies has size -1 in it.\n\nIn the worker:\nTraceback"
        )
        assert env._block.next_row(0)["count"].tolist() == [[2.0], [1.0]]  # worker 1 wrote nothing
        assert env.rollout(1).batch_size == (2, 1)


class Lying(gymnasium.Env):
    """Announces an observation of three numbers."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)
    size = 3

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.ones(self.size if self.t == 2 else 3, np.float32), 0.0, False, False, {}


class LyingMore(Lying):
    size = 4


@each_batch
def test_a_wrong_space_names_key_and_worker(batch):
    with batch(2, [lambda: GymWrapper(Lying()), lambda: GymWrapper(LyingMore())]) as env:
        td = env.rand_step(env.reset())
        with pytest.raises((WorkerError, RuntimeError, ValueError)) as caught:
            env.rand_step(env._step_mdp(td))
        text = str(caught.value)
        assert batch is SerialEnv or text.startswith("Worker 1 of 2 failed in step: ")
        assert "observation" in text and "expected shape [3]" in text and "shape [4]" in text
        assert env.rollout(1).batch_size == (2, 1)


class Wide(Counter):
    """Gives more than it announces."""

    def __init__(self, at=0):
        super().__init__()
        self.observation_spec = Composite(count=Unbounded((1,)), more=Unbounded((2,)))

    def _reset(self, tensordict=None, **kwargs):
        return super()._reset().set("more", torch.zeros(2))

    def _step(self, tensordict):
        data = super()._step(tensordict)
        return data if self.t == 1 else data.set("more", torch.zeros(2))


@each_batch
def test_a_missing_entry(batch):
    with batch(1, Wide) as env:
        td = env.reset()
        with pytest.raises((WorkerError, RuntimeError, KeyError), match="more"):
            env.step(env.rand_action(td))


@each_batch
def test_actions_that_do_not_fit(batch):
    with batch(2, lambda: GymEnv("CartPole-v1")) as env:
        td = env.reset()
        with pytest.raises(ValueError, match=r"The action .* is not one-hot"):
            env.step(td.set("action", torch.ones(2, 2, dtype=torch.int64)))
        with pytest.raises(KeyError):
            env.step(env.reset())
        with pytest.raises(RuntimeError):
            env.step(TensorDict({"action": torch.zeros(3, 2)}, [3]))
        assert env.rollout(2).batch_size == (2, 2)
