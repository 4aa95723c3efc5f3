"""Base classes of environments, under TorchRL's dotted path."""

from rlnb.envs.base import EnvBase
from rlnb.envs.check import check_env_specs
from rlnb.envs.gym_like import GymLikeEnv
from rlnb.envs.metadata import EnvMetaData

__all__ = ["EnvBase", "EnvMetaData", "GymLikeEnv", "check_env_specs"]
