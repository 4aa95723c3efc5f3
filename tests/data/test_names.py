"""The names that the data page promises are there, and are the same objects under each of their paths."""

from __future__ import annotations

import importlib

import pytest

NAMES = {
    "MultiStep": "rlnb.data.postprocs",  # DU-01
    "consolidate_spec": "rlnb.data.specs",  # DU-02
    "check_no_exclusive_keys": "rlnb.data.specs",  # DU-03
    "contains_lazy_spec": "rlnb.data.specs",  # DU-04
    "Nested2TED": "rlnb.data.ted",  # DU-05
    "Flat2TED": "rlnb.data.ted",  # DU-06
    "H5Combine": "rlnb.data.ted",  # DU-07
    "H5Split": "rlnb.data.ted",  # DU-08
    "TED2Flat": "rlnb.data.ted",  # DU-09
    "TED2Nested": "rlnb.data.ted",  # DU-10
}


def test_the_transforms_of_buffers():  # DU-11
    home = importlib.import_module("rlnb.envs.transforms.rb_transforms")
    assert home.MultiStepTransform is importlib.import_module("rlnb.envs").MultiStepTransform


@pytest.mark.parametrize("name", NAMES)
def test_one_object_under_each_path(name):
    assert getattr(importlib.import_module("rlnb.data"), name) is getattr(importlib.import_module(NAMES[name]), name)
