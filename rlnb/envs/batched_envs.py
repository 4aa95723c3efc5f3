"""Batched environments, at the path of TorchRL."""

from rlnb.envs.batched.batched_env import BatchedEnvBase
from rlnb.envs.batched.parallel import ParallelEnv
from rlnb.envs.batched.serial import SerialEnv

__all__ = ["BatchedEnvBase", "ParallelEnv", "SerialEnv"]
