"""Modules that read and write TensorDicts, under TorchRL's dotted path."""

from rlnb.envs.policies import RandomPolicy
from rlnb.modules import recurrent
from rlnb.modules.recurrent import *  # noqa: F403 - the list of recurrent parts has one home, recurrent.__all__

__all__ = ["RandomPolicy", *recurrent.__all__]
