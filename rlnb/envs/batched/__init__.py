"""Batched environments: several envs stepped as one, in this process or each in its own."""

from rlnb.envs.batched.creator import EnvCreator
from rlnb.envs.batched.crew import WorkerError
from rlnb.envs.batched.parallel import ParallelEnv
from rlnb.envs.batched.serial import SerialEnv

__all__ = ["EnvCreator", "ParallelEnv", "SerialEnv", "WorkerError"]
