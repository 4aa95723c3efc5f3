"""The names in the data documentation exist, and are the same objects under each of their paths."""

from __future__ import annotations

import importlib

import pytest

NAMES = {
    "MultiStep": "rlnb.data.postprocs",
    "consolidate_spec": "rlnb.data.specs",
    "check_no_exclusive_keys": "rlnb.data.specs",
    "contains_lazy_spec": "rlnb.data.specs",
    "Nested2TED": "rlnb.data.ted",
    "Flat2TED": "rlnb.data.ted",
    "H5Combine": "rlnb.data.ted",
    "H5Split": "rlnb.data.ted",
    "TED2Flat": "rlnb.data.ted",
    "TED2Nested": "rlnb.data.ted",
}


def test_the_transforms_of_buffers():
    home = importlib.import_module("rlnb.envs.transforms.rb_transforms")
    assert home.MultiStepTransform is importlib.import_module("rlnb.envs").MultiStepTransform


@pytest.mark.parametrize("name", NAMES)
def test_one_object_under_each_path(name):
    assert getattr(importlib.import_module("rlnb.data"), name) is getattr(importlib.import_module(NAMES[name]), name)
