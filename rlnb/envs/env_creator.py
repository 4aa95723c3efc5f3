"""EnvCreator, under TorchRL's dotted path."""

from rlnb.envs.batched.creator import EnvCreator

__all__ = ["EnvCreator"]
