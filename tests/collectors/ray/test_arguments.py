"""Collectors and buffers on Ray reject invalid arguments before Ray is started, word for word."""

from __future__ import annotations

import re
import sys
import threading

import pytest

from rlnb.collectors import Collector, MultiSyncCollector, RayCollector
from rlnb.data import LazyTensorStorage, RayReplayBuffer
from tests.collectors.multi.making import constant, counted

CASES = [
    ({"num_collectors": 0}, ValueError, "num_collectors must be a positive integer, got 0. Fix: num_collectors=2."),
    ({"num_collectors": 3}, ValueError, "create_env_fn must have a function for each collector, got 2 with "
     "num_collectors=3. Fix: leave num_collectors out, or create_env_fn=make_env."),
    ({"num_workers_per_collector": 1.5}, ValueError, "num_workers_per_collector must be a positive integer, got 1.5. "
     "Fix: num_workers_per_collector=1."),
    ({"max_restarts": -1}, ValueError, "max_restarts must be a non-negative integer, got -1. Fix: max_restarts=3."),
    ({"max_weight_update_interval": -2}, ValueError, "max_weight_update_interval must be a non-negative integer, or -1 "
     "for no updates, got -2. Fix: max_weight_update_interval=-1."),
    ({"preemptive_threshold": 0.5}, ValueError, "RayCollector has no preemptive_threshold: it takes memory that the "
     "workers share. Fix: leave preemptive_threshold out."),
    ({"mp_start_method": "spawn"}, ValueError, "RayCollector has no mp_start_method: Ray starts the processes. "
     "Fix: leave mp_start_method out."),
    ({"collector_class": int}, TypeError, "collector_class must be Collector, MultiSyncCollector, MultiAsyncCollector "
     "or a class derived from one of them, got int. Fix: collector_class=Collector."),
    ({"remote_configs": [1, 2]}, TypeError, "remote_configs must be a dictionary of options of Ray's actors, or a "
     "list of them, got 1. Fix: remote_configs={'num_cpus': 1}."),
    ({"remote_configs": [{}]}, ValueError, "remote_configs must have one value for each of the 2 collectors, got a "
     "list of 1. Fix: a list of that length, or a single value for all collectors."),
    ({"remote_configs": {"num_cpu": 1}}, ValueError, "remote_configs has 'num_cpu', which is no option of Ray's "
     "actors. Did you mean 'num_cpus'? They take: num_cpus, num_gpus, memory, object_store_memory, resources, "
     "accelerator_type, label_selector, scheduling_strategy, placement_group, placement_group_bundle_index, "
     "placement_group_capture_child_tasks, runtime_env, namespace, max_pending_calls, enable_task_events."),
    ({"remote_configs": {"max_restarts": 1}}, ValueError, "remote_configs has 'max_restarts', which RayCollector "
     "chooses. Fix: RayCollector(..., max_restarts=3)."),
    ({"collector_kwargs": 3}, TypeError, "collector_kwargs must be a dictionary of arguments of the collectors, or a "
     "list of them, got 3. Fix: collector_kwargs={'set_truncated': True}."),
    ({"collector_kwargs": {"total_frames": 3}}, ValueError, "collector_kwargs has 'total_frames', which RayCollector "
     "gives to its collectors. Fix: RayCollector(..., total_frames=...)."),
    ({"collector_kwargs": {"interruptor": [threading.Lock()]}}, TypeError, "The collector_kwargs cannot be sent to a "
     "worker process: collector_kwargs[0]['interruptor'][0], a lock, cannot be pickled (TypeError: cannot pickle "
     "'_thread.lock' object). Fix: make it inside of a function, such as create_env_fn."),
    ({"policy": threading.Lock().acquire}, TypeError, "The policy cannot be sent to a worker process: policy, a "
     "builtin_function_or_method, cannot be pickled (TypeError: cannot pickle '_thread.lock' object). "
     "Fix: policy_factory=make_policy, a function that makes the policy in the worker."),
    ({"cat_results": 0}, ValueError, "cat_results=0 joins the batches of synchronous workers, and RayCollector returns "
     "each alone. Fix: leave cat_results out."),
    ({"frames_per_batch": 0}, ValueError, "frames_per_batch must be a positive integer, got 0. "
     "Fix: frames_per_batch=100."),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _ray_is_installed_and_not_started(missing):
    try:
        import ray
    except ImportError:
        missing("ray", 'install it with `pip install "rlnb[ray]"`', optional=sys.platform != "linux")
    assert not ray.is_initialized()
    yield
    assert not ray.is_initialized(), "a check must come before Ray is started"


@pytest.mark.parametrize(("arguments", "error", "text"), CASES)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        RayCollector(**{"create_env_fn": [counted] * 2, "frames_per_batch": 10, **arguments})


def test_options_of_torchrl_that_mean_something_else():
    with pytest.raises(TypeError, match=r"^RayCollector\(\) has no option 'num_collector'\. Did you mean 'num_coll"):
        RayCollector([counted] * 2, frames_per_batch=10, num_collector=0)
    with pytest.raises(ValueError, match=r"^RayCollector\(trajs_per_batch=3\) is not supported"):
        RayCollector([counted] * 2, frames_per_batch=10, trajs_per_batch=3)
    with pytest.raises(TypeError, match=r"^collector_class must be .*, got RayCollector\. Fix"):
        RayCollector([counted] * 2, frames_per_batch=10, collector_class=RayCollector)
    with pytest.raises(TypeError, match=r"^create_env_fn must be a function .*, got an env of type .*RayCollector\("):
        RayCollector([counted()], frames_per_batch=10, num_workers_per_collector=2)


BUFFERS = [
    ({"transport": "distributed"}, NotImplementedError, "RayReplayBuffer sends its data through Ray's object store, "
     "and has no other transport. Fix: leave transport out."),
    ({"replay_buffer_cls": list}, TypeError, "replay_buffer_cls must be a class of replay buffers, got <class "
     "'list'>. Fix: replay_buffer_cls=TensorDictReplayBuffer."),
    ({"storage": LazyTensorStorage(3), "collate_fn": threading.Lock().acquire}, TypeError, "collate_fn cannot be sent "
     "to the actor of a RayReplayBuffer: it cannot be pickled (TypeError: cannot pickle '_thread.lock' object). "
     "Fix: a function that makes it there, such as storage=partial(LazyTensorStorage, 1000)."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "text"), BUFFERS)
def test_bad_arguments_of_buffers(arguments, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        RayReplayBuffer(**arguments)


@pytest.mark.parametrize("make", [lambda: RayCollector(counted, frames_per_batch=10), RayReplayBuffer])
def test_without_ray_the_error_says_what_to_install(monkeypatch, make):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(ImportError) as caught:
        make()
    name = "RayReplayBuffer" if make is RayReplayBuffer else "RayCollector"
    assert str(caught.value) == (
        f"{name} runs on Ray, which cannot be imported (import of ray halted; None in sys.modules). "
        'Fix: pip install "rlnb[ray]".'
    )


def test_names_are_where_torchrl_has_them():
    from rlnb.collectors import distributed
    from rlnb.data.replay_buffers import ray_buffer

    assert distributed.RayCollector is RayCollector and ray_buffer.RayReplayBuffer is RayReplayBuffer
    assert not issubclass(RayCollector, (Collector, MultiSyncCollector))
    assert constant()  # what the tests of this folder share can be imported
