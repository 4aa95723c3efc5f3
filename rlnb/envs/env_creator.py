"""EnvCreator, under the path that TorchRL's users know."""

from rlnb.envs.batched.creator import EnvCreator

__all__ = ["EnvCreator"]
