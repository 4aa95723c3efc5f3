"""Distributions of actions, beside those of torch."""

from rlnb.modules.distributions.masked_categorical import MaskedCategorical
from rlnb.modules.distributions.masked_one_hot import MaskedOneHotCategorical, ReparamGradientStrategy

__all__ = ["MaskedCategorical", "MaskedOneHotCategorical", "ReparamGradientStrategy"]
