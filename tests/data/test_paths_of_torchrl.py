"""The dotted paths that programs written for TorchRL import from: lists of names defined elsewhere."""

from __future__ import annotations

import importlib
import pickle

import numpy as np
import pytest
import torch

import rlnb.data
from rlnb.data import Bounded, Composite, MultiDiscreteTensorSpec, MultiOneHotDiscreteTensorSpec, OneHot, Unbounded
from rlnb.data.utils import CloudpickleWrapper, _find_action_space, numpy_to_torch_dtype_dict


@pytest.mark.parametrize("module", ["tensor_specs", "utils"])
def test_every_name_is_there_and_has_one_home(module: str) -> None:
    home = importlib.import_module(f"rlnb.data.{module}")
    for name in home.__all__:
        assert getattr(rlnb.data, name, getattr(home, name)) is getattr(home, name)


# As 24 public programs import them.
@pytest.mark.parametrize(
    "name",
    [
        "BinaryDiscreteTensorSpec",
        "BoundedTensorSpec",
        "Categorical",
        "CategoricalBox",
        "Composite",
        "CompositeSpec",
        "ContinuousBox",
        "DEVICE_TYPING",
        "DiscreteBox",
        "DiscreteTensorSpec",
        "LazyStackedCompositeSpec",
        "LazyStackedTensorSpec",
        "MultiDiscreteTensorSpec",
        "MultiOneHotDiscreteTensorSpec",
        "NonTensorSpec",
        "OneHotDiscreteTensorSpec",
        "TensorSpec",
        "UnboundedContinuousTensorSpec",
        "UnboundedDiscreteTensorSpec",
    ],
)
def test_names_that_programs_import_from_tensor_specs(name: str) -> None:
    assert hasattr(importlib.import_module("rlnb.data.tensor_specs"), name)


def test_old_names_have_what_the_new_ones_have() -> None:
    assert MultiDiscreteTensorSpec([2, 3]).nvec.tolist() == [2, 3]
    assert MultiOneHotDiscreteTensorSpec([2, 3]).nvec.tolist() == [2, 3]
    assert MultiDiscreteTensorSpec(nvec=[2, 3], shape=(4, 2)).nvec.shape == (4, 2)


def test_names_of_action_spaces() -> None:
    assert _find_action_space(Composite(action=OneHot(3), log_prob=Unbounded(()))) == "one_hot"
    assert _find_action_space("multi-discrete") == "multi_categorical"
    for other in (Bounded(0, 1, (2,)), "continuous", Composite()):
        with pytest.raises(ValueError, match=r"(?s)^the action space .* has no unique name"):
            _find_action_space(other)


def test_dtypes_and_pickled_functions() -> None:
    assert numpy_to_torch_dtype_dict[np.dtype("float32")] is torch.float32
    factor = 3
    assert pickle.loads(pickle.dumps(CloudpickleWrapper(lambda x: factor * x)))(2) == 6
