"""Specs from dm_env's, over stand-ins with dm_env's attributes; tests/libs converts the real ones."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
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
from rlnb.envs.libs.dm_env import spec_from_dm_env

INF = float("inf")


def described(shape=(), dtype=np.float64, **rest):
    return SimpleNamespace(shape=shape, dtype=np.dtype(dtype), **rest)


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        (described((3,)), Unbounded((3,), dtype=torch.float64)),
        (described((2,), minimum=-INF, maximum=INF), Unbounded((2,), dtype=torch.float64)),
        (described((2,), minimum=-1.0, maximum=INF), Bounded(-1, INF, (2,), dtype=torch.float64)),
        (described((4, 4, 3), "uint8", minimum=0, maximum=255), Bounded(0, 255, (4, 4, 3), dtype=torch.uint8)),
        (described((2,), "bool", minimum=False, maximum=True), Binary(shape=(2,), dtype=torch.bool)),
        (described((2,), "bool"), Binary(shape=(2,), dtype=torch.bool)),
        (described((), "int32", num_values=5, minimum=0, maximum=4), OneHot(5, dtype=torch.int32)),
        (described((2,), "int32", num_values=np.array([2, 3])), MultiOneHot([2, 3], dtype=torch.int32)),
        (described((), "O"), NonTensor(shape=())),
    ],
    ids=["array", "no bounds", "one bound", "image", "bool", "bool array", "discrete", "multi", "text"],
)
def test_each_kind(given, spec):
    assert spec_from_dm_env(given) == spec


def test_choices_as_integers_and_bounds_by_element():
    one, several = described(dtype="int64", num_values=5), described((2,), "int64", num_values=np.array([2, 3]))
    assert spec_from_dm_env(one, categorical=True) == Categorical(5)
    assert spec_from_dm_env(several, categorical=True) == MultiCategorical([2, 3])
    spec = spec_from_dm_env(described((2,), "float32", minimum=[-1.0, -2.0], maximum=3.0))
    assert spec.low.tolist() == [-1, -2] and spec.high.tolist() == [3, 3]


def test_dictionaries_may_be_nested():
    spec = spec_from_dm_env({"arm": {"angle": described((2,))}, "clock": described()})
    assert isinstance(spec, Composite) and spec["arm", "angle"].shape == (2,) and spec["clock"].shape == ()
