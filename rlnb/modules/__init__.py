"""Modules: the parts that policies are made of."""

from rlnb.modules import recurrent
from rlnb.modules.distributions import MaskedCategorical, MaskedOneHotCategorical, ReparamGradientStrategy
from rlnb.modules.recurrent import *  # noqa: F403 - the list of recurrent parts has one home, recurrent.__all__
from rlnb.modules.utils import get_primers_from_module

__all__ = [
    "MaskedCategorical",
    "MaskedOneHotCategorical",
    "ReparamGradientStrategy",
    "get_primers_from_module",
    *recurrent.__all__,
]
