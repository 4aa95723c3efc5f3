"""Loops over environments, and what becomes of the batches that they collect."""

from rlnb.collectors.collector import Collector, SyncDataCollector
from rlnb.collectors.utils import split_trajectories
from rlnb.envs.policies import RandomPolicy

__all__ = ["Collector", "RandomPolicy", "SyncDataCollector", "split_trajectories"]
