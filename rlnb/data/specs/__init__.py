"""Specs of tensors and TensorDicts, and their conversion from and to Gymnasium spaces and TorchRL."""

from __future__ import annotations

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded, BoundedContinuous, BoundedDiscrete
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.choice import Choice
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.helpers import (
    check_no_exclusive_keys,
    consolidate_spec,
    contains_lazy_spec,
    make_composite_from_td,
)
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.spaces import space_from_spec, spec_from_space
from rlnb.data.specs.stacked import Stacked
from rlnb.data.specs.stacked_composite import StackedComposite
from rlnb.data.specs.torchrl import from_torchrl, to_torchrl
from rlnb.data.specs.unbounded import Unbounded, UnboundedContinuous, UnboundedDiscrete
from rlnb.data.specs.violations import Violation, violations

# Former names of these classes, which the documentation still mentions.
BoundedTensorSpec = Bounded
UnboundedContinuousTensorSpec = UnboundedContinuous
UnboundedDiscreteTensorSpec = UnboundedDiscrete
DiscreteTensorSpec = Categorical
OneHotDiscreteTensorSpec = OneHot
MultiDiscreteTensorSpec = MultiCategorical
MultiOneHotDiscreteTensorSpec = MultiOneHot
BinaryDiscreteTensorSpec = Binary
NonTensorSpec = NonTensor
CompositeSpec = Composite
LazyStackedTensorSpec = Stacked
LazyStackedCompositeSpec = StackedComposite

__all__ = [
    "Binary", "BinaryDiscreteTensorSpec", "Bounded", "BoundedContinuous", "BoundedDiscrete", "BoundedTensorSpec",
    "Categorical", "Choice", "Composite", "CompositeSpec", "DiscreteTensorSpec", "LazyStackedCompositeSpec",
    "LazyStackedTensorSpec", "MultiCategorical", "MultiDiscreteTensorSpec", "MultiOneHot",
    "MultiOneHotDiscreteTensorSpec", "NonTensor", "NonTensorSpec", "OneHot", "OneHotDiscreteTensorSpec", "Stacked",
    "StackedComposite", "TensorSpec", "Unbounded", "UnboundedContinuous", "UnboundedContinuousTensorSpec",
    "UnboundedDiscrete", "UnboundedDiscreteTensorSpec", "Violation", "check_no_exclusive_keys", "consolidate_spec",
    "contains_lazy_spec", "from_torchrl", "make_composite_from_td", "space_from_spec", "spec_from_space", "to_torchrl",
    "violations",
]  # fmt: skip
