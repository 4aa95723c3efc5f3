"""Collectors, which step environments with a policy and yield batches of data."""

from rlnb.collectors.collector import Collector, SyncDataCollector
from rlnb.data.ted.trajectories import split_trajectories
from rlnb.envs.policies import RandomPolicy

__all__ = ["Collector", "RandomPolicy", "SyncDataCollector", "split_trajectories"]
