"""Specs of every kind with small domains."""

from __future__ import annotations

import pytest
import torch

from rlnb.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Unbounded,
)


def make_nested() -> Composite:
    """Two groups over a batch of four, with a leaf of each kind."""
    agents = {
        "position": Bounded(torch.tensor([[-1.0, 0.0]] * 4), torch.tensor([[1.0, 5.0]] * 4), shape=(4, 2)),
        "goal": Unbounded((4, 2)),
        "action": OneHot(3, shape=(4, 3)),
        "gears": MultiCategorical([2, 3], shape=(4, 2)),
        "keys": MultiOneHot([2, 3], shape=(4, 5)),
        "bits": Binary(shape=(4, 2)),
        "say": NonTensor(shape=(4,), example_data="hi"),
    }
    return Composite({"agents": agents, "step": Categorical(5, shape=(4, 1)), "nothing": None}, shape=(4,))


@pytest.fixture
def nested() -> Composite:
    """See :func:`make_nested`."""
    return make_nested()
