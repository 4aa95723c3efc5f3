"""Conversion of specs from and to TorchRL, run in an interpreter that has both libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rlnb.data import OneHot, from_torchrl, to_torchrl

ROUND_TRIP = Path(__file__).with_name("torchrl_round_trip.py")
LOSSES = Path(__file__).with_name("torchrl_losses.py")


def test_every_spec_there_and_back(beside_torchrl: Callable[[str], str]) -> None:
    assert beside_torchrl(ROUND_TRIP.read_text(encoding="utf-8")).splitlines()[-1] == "34 specs"


def test_losses_and_modules_of_torchrl_take_our_specs(beside_torchrl: Callable[[str], str]) -> None:
    assert beside_torchrl(LOSSES.read_text(encoding="utf-8")).splitlines()[-1] == "all steps done"


def test_without_torchrl_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchrl", None)
    with pytest.raises(ImportError, match=r"^to_torchrl needs torchrl, .*\. Fix: pip install torchrl$"):
        to_torchrl(OneHot(3))


@pytest.mark.parametrize("value", [torch.zeros(2), None, object()])
def test_from_torchrl_rejects_objects_that_are_not_specs(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^from_torchrl expects a spec of torchrl\.data, got a "):
        from_torchrl(value)


def test_a_spec_of_ours_needs_no_conversion() -> None:
    spec = OneHot(3)
    assert from_torchrl(spec) is spec
