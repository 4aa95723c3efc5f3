"""Collectors, which step environments with a policy and yield batches of data."""

from rlnb.collectors.collector import Collector, SyncDataCollector
from rlnb.collectors.multi import (
    AsyncCollector,
    MultiAsyncCollector,
    MultiaSyncDataCollector,
    MultiCollector,
    MultiSyncCollector,
    MultiSyncDataCollector,
    aSyncDataCollector,
)
from rlnb.collectors.ray import RayCollector
from rlnb.data.ted.trajectories import split_trajectories
from rlnb.envs.policies import RandomPolicy

__all__ = [
    "AsyncCollector",
    "Collector",
    "MultiAsyncCollector",
    "MultiCollector",
    "MultiSyncCollector",
    "MultiSyncDataCollector",
    "MultiaSyncDataCollector",
    "RandomPolicy",
    "RayCollector",
    "SyncDataCollector",
    "aSyncDataCollector",
    "split_trajectories",
]
