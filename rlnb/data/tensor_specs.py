"""The names of ``torchrl.data.tensor_specs``: specs, their spaces, and the types of their arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rlnb.data.specs import (
    Binary,
    BinaryDiscreteTensorSpec,
    Bounded,
    BoundedContinuous,
    BoundedDiscrete,
    BoundedTensorSpec,
    Categorical,
    Choice,
    Composite,
    CompositeSpec,
    DiscreteTensorSpec,
    LazyStackedCompositeSpec,
    LazyStackedTensorSpec,
    MultiCategorical,
    MultiDiscreteTensorSpec,
    MultiOneHot,
    MultiOneHotDiscreteTensorSpec,
    NonTensor,
    NonTensorSpec,
    OneHot,
    OneHotDiscreteTensorSpec,
    Stacked,
    StackedComposite,
    TensorSpec,
    Unbounded,
    UnboundedContinuous,
    UnboundedContinuousTensorSpec,
    UnboundedDiscrete,
    UnboundedDiscreteTensorSpec,
)
from rlnb.data.specs.boxes import BoxList, CategoricalBox, ContinuousBox

DEVICE_TYPING = torch.device | str | int
INDEX_TYPING = int | torch.Tensor | np.ndarray | slice | Sequence[int]
SHAPE_INDEX_TYPING = int | range | Sequence[int] | np.ndarray | slice | torch.Tensor | None

# The former name of this class.
DiscreteBox = CategoricalBox

__all__ = [
    "DEVICE_TYPING",
    "INDEX_TYPING",
    "SHAPE_INDEX_TYPING",
    "Binary",
    "BinaryDiscreteTensorSpec",
    "Bounded",
    "BoundedContinuous",
    "BoundedDiscrete",
    "BoundedTensorSpec",
    "BoxList",
    "Categorical",
    "CategoricalBox",
    "Choice",
    "Composite",
    "CompositeSpec",
    "ContinuousBox",
    "DiscreteBox",
    "DiscreteTensorSpec",
    "LazyStackedCompositeSpec",
    "LazyStackedTensorSpec",
    "MultiCategorical",
    "MultiDiscreteTensorSpec",
    "MultiOneHot",
    "MultiOneHotDiscreteTensorSpec",
    "NonTensor",
    "NonTensorSpec",
    "OneHot",
    "OneHotDiscreteTensorSpec",
    "Stacked",
    "StackedComposite",
    "TensorSpec",
    "Unbounded",
    "UnboundedContinuous",
    "UnboundedContinuousTensorSpec",
    "UnboundedDiscrete",
    "UnboundedDiscreteTensorSpec",
]
