"""Distributions of actions: normal ones within bounds, points, and categorical ones, with or without a mask."""

from rlnb.modules.distributions.continuous import (
    Delta,
    IndependentNormal,
    NormalParamExtractor,
    TanhDelta,
    TanhNormal,
    TruncatedNormal,
)
from rlnb.modules.distributions.discrete import (
    MaskedCategorical,
    MaskedOneHotCategorical,
    OneHotCategorical,
    ReparamGradientStrategy,
)

__all__ = [
    "Delta", "IndependentNormal", "MaskedCategorical", "MaskedOneHotCategorical", "NormalParamExtractor",
    "OneHotCategorical", "ReparamGradientStrategy", "TanhDelta", "TanhNormal", "TruncatedNormal",
]  # fmt: skip
