"""Distributions over actions of which only some are legal."""

from rlnb.modules.distributions.masked import (
    MaskedCategorical,
    MaskedOneHotCategorical,
    ReparamGradientStrategy,
)

__all__ = ["MaskedCategorical", "MaskedOneHotCategorical", "ReparamGradientStrategy"]
