"""Batched environments: several envs stepped as one, in this process or in worker processes."""

from rlnb.envs.batched.creator import EnvCreator
from rlnb.envs.batched.parallel import ParallelEnv
from rlnb.envs.batched.serial import SerialEnv
from rlnb.envs.batched.worker_pool import WorkerError

__all__ = ["EnvCreator", "ParallelEnv", "SerialEnv", "WorkerError"]
