"""Modules: the parts that policies are made of."""

from rlnb.modules.distributions import MaskedCategorical, MaskedOneHotCategorical, ReparamGradientStrategy

__all__ = ["MaskedCategorical", "MaskedOneHotCategorical", "ReparamGradientStrategy"]
