"""Collectors on several processes reject invalid arguments before a process starts, word for word."""

from __future__ import annotations

import functools
import multiprocessing
import re
import threading

import pytest
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import MultiAsyncCollector, MultiCollector, MultiSyncCollector
from rlnb.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer
from rlnb.envs import GymEnv
from tests.collectors.multi.making import constant, counted, shut

BUFFER = ReplayBuffer(storage=LazyTensorStorage(10))
CASES = [
    ({"create_env_fn": []}, ValueError, "create_env_fn must have a function for each worker, got 0 with "
     "num_workers=None. Fix: leave num_workers out, or create_env_fn=make_env."),
    ({"num_workers": 3}, ValueError, "create_env_fn must have a function for each worker, got 2 with num_workers=3. "
     "Fix: leave num_workers out, or create_env_fn=make_env."),
    ({"num_workers": 0}, ValueError, "num_workers must be a positive integer, got 0. Fix: num_workers=2."),
    ({"create_env_fn": ["CartPole-v1"]}, TypeError, "create_env_fn must be a function that makes an env, or a list of "
     "them, got 'CartPole-v1'. It is called in each worker process. "
     "Fix: MultiSyncCollector([lambda: GymEnv('CartPole-v1')] * 2, ...)."),
    ({"frames_per_batch": [1, 2, 3]}, ValueError, "frames_per_batch must be an integer, or have one for each of the 2 "
     "workers, got [1, 2, 3]. Fix: frames_per_batch=[100, 100]."),
    ({"frames_per_batch": 0}, ValueError, "frames_per_batch must be a positive integer, got 0. "
     "Fix: frames_per_batch=100."),
    ({"total_frames": 1.5}, ValueError, "total_frames must be a positive integer, or -1 for no end, got 1.5. "
     "Fix: total_frames=-1."),
    ({"cat_results": "time"}, ValueError, "cat_results must be 'stack' or a dimension, got 'time'. "
     "Fix: cat_results='stack'."),
    ({"preemptive_threshold": 1.5, "cat_results": 0}, ValueError, "preemptive_threshold must be a number from 0 to 1, "
     "the share of workers that finish their batch, got 1.5. Fix: preemptive_threshold=0.5."),
    ({"preemptive_threshold": 0.5}, ValueError, "preemptive_threshold=0.5 makes batches of different lengths, which "
     "only a MultiSyncCollector can join, along time. Fix: MultiSyncCollector(..., cat_results=-1)."),
    ({"preemptive_threshold": 0.5, "cat_results": 0, "use_buffers": False}, ValueError, "preemptive_threshold=0.5 "
     "stops workers through shared memory, which use_buffers=False does without. Fix: leave use_buffers out."),
    ({"split_trajs": True, "track_traj_ids": False}, ValueError, "split_trajs=True splits batches by their trajectory "
     "ids, which track_traj_ids=False leaves out. Fix: leave track_traj_ids out."),
    ({"extend_buffer": False}, ValueError, "extend_buffer=False writes single steps to a replay buffer, got no "
     "replay_buffer. Fix: replay_buffer=ReplayBuffer(storage=LazyTensorStorage(1000))."),
    ({"extend_buffer": False, "replay_buffer": BUFFER, "split_trajs": True}, ValueError, "extend_buffer=False "
     "writes single steps, and split_trajs=True whole trajectories. Fix: leave one of them out."),
    ({"device": ["cpu"] * 3}, ValueError, "storing_device must have one value for each of the 2 workers, "
     "got a list of 3. Fix: a list of that length, or a single value for all workers."),
    ({"policy": constant(), "policy_factory": constant}, TypeError, "MultiSyncCollector takes a policy or a "
     "policy_factory, got both. Fix: leave one out."),
    ({"sync": False}, ValueError, "MultiSyncCollector has sync=True, got sync=False. Fix: leave sync out."),
    ({"compile_policy": True}, ValueError, "MultiSyncCollector(compile_policy=True) is not supported: it does not "
     "compile. Fix: give a compiled policy: torch.compile(policy)."),
    ({"storing_device": ["cpu", None]}, ValueError, "MultiSyncCollector joins the batches of its workers on one "
     "device, got storing_device=['cpu', None]. Fix: storing_device='cpu'."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "text"), CASES)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        MultiSyncCollector(**{"create_env_fn": [counted] * 2, "frames_per_batch": 10, **arguments})
    assert not multiprocessing.active_children()


def test_other_bad_arguments():
    with pytest.raises(ValueError) as caught:
        MultiAsyncCollector([counted] * 2, frames_per_batch=10, cat_results=0)
    assert str(caught.value) == (
        "cat_results=0 joins the batches of synchronous workers, and MultiAsyncCollector returns each alone. "
        "Fix: leave cat_results out."
    )
    with pytest.raises(TypeError) as missing:
        MultiCollector([counted] * 2, frames_per_batch=10)
    assert str(missing.value) == (
        "MultiCollector makes a synchronous or an asynchronous collector, got no sync. "
        "Fix: MultiCollector(..., sync=True)."
    )
    with pytest.raises(TypeError, match=r"^MultiSyncCollector\(\) has no option 'cat_result'\. Did you mean 'cat"):
        MultiSyncCollector([counted] * 2, frames_per_batch=10, cat_result=0)
    env = GymEnv("Pendulum-v1")
    with pytest.raises(TypeError, match=r"^create_env_fn must be a function .*, got an env of type GymEnv\. It"):
        MultiSyncCollector([env], frames_per_batch=10)


class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


lock = threading.Lock()
PICKLES = [
    ("policy", {"policy": TensorDictModule(Locked(), ["observation"], ["action"])}, "policy.module.lock, a lock",
     "policy_factory=make_policy, a function that makes the policy in the worker"),
    ("policy", {"policy": functools.partial(print, lock)}, "policy.args[0], a lock",
     "policy_factory=make_policy, a function that makes the policy in the worker"),
    ("create_env_kwargs", {"create_env_kwargs": {"options": [1, lock]}}, "create_env_kwargs['options'][1], a lock",
     "make it inside of the function, which runs in the worker"),
    ("init_fn", {"init_fn": (lambda held: lambda: held)(lock)}, "init_fn's variable 'held', a lock",
     "make it inside of the function, which runs in the worker"),
    ("postproc", {"postproc": lock.acquire, "replay_buffer": ReplayBuffer(storage=LazyMemmapStorage(10))},
     "postproc, a builtin_function_or_method",
     "post_collect_hook=lambda batch: None, with which it stays in this process"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "part", "fix"), PICKLES)
def test_what_cannot_be_sent_is_named(name, arguments, part, fix):
    with pytest.raises(TypeError) as caught:
        MultiSyncCollector([counted] * 2, **{"frames_per_batch": 10, **arguments})
    assert str(caught.value) == (
        f"The {name} cannot be sent to a worker process: {part}, cannot be pickled (TypeError: cannot pickle "
        f"'_thread.lock' object). Fix: {fix}."
    )
    assert not multiprocessing.active_children()


def test_a_function_of_the_worker_may_make_what_cannot_be_sent():
    def make_policy():
        held = threading.Lock()
        net = constant(0.5)

        def policy(td):
            with held:
                return net(td)

        return policy

    with shut(MultiSyncCollector([counted] * 2, policy_factory=make_policy, frames_per_batch=4)) as collector:
        assert collector.next()["action"].unique().tolist() == [0.5]
