"""Environments whose steps a learned world model computes."""

from rlnb.envs.model_based.common import ModelBasedEnvBase
from rlnb.envs.model_based.dreamer import DreamerDecoder, DreamerEnv

__all__ = ["DreamerDecoder", "DreamerEnv", "ModelBasedEnvBase"]
