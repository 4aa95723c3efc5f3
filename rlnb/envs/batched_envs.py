"""Batched environments, under TorchRL's dotted path."""

from rlnb.envs.batched.batched_env import BatchedEnvBase
from rlnb.envs.batched.parallel import ParallelEnv
from rlnb.envs.batched.serial import SerialEnv

__all__ = ["BatchedEnvBase", "ParallelEnv", "SerialEnv"]
