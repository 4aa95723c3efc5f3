"""Batched environments: several envs stepped as one, in this process or each in its own."""

from rlnb.envs.batched.parallel import ParallelEnv
from rlnb.envs.batched.serial import SerialEnv

__all__ = ["ParallelEnv", "SerialEnv"]
