"""The names of ``torchrl.data.tensor_specs``: specs, their spaces, and the types of their arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rlnb.data import specs
from rlnb.data.specs import *  # noqa: F403 - the list of public names has one home, specs.__all__
from rlnb.data.specs.boxes import BoxList, CategoricalBox, ContinuousBox

DEVICE_TYPING = torch.device | str | int
INDEX_TYPING = int | torch.Tensor | np.ndarray | slice | Sequence[int]
SHAPE_INDEX_TYPING = int | range | Sequence[int] | np.ndarray | slice | torch.Tensor | None

# The former name of this class.
DiscreteBox = CategoricalBox

__all__ = [
    "DEVICE_TYPING", "INDEX_TYPING", "SHAPE_INDEX_TYPING", "BoxList", "CategoricalBox", "ContinuousBox", "DiscreteBox",
    *specs.__all__,
]  # fmt: skip
