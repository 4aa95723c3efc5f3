"""Loops over environments, and what becomes of the batches that they collect."""

from rlnb.collectors.utils import split_trajectories
from rlnb.envs.policies import RandomPolicy

__all__ = ["RandomPolicy", "split_trajectories"]
