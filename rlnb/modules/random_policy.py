"""Random policy, under the path of modules; its home is :mod:`rlnb.envs.policies`."""

from rlnb.envs.policies import RandomPolicy

__all__ = ["RandomPolicy"]
