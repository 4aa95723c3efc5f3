"""Entries that are set without checks end up where TensorDict.set puts them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb._tensordict import set_entry

KEYS = ["a", "new", ("a",), ("b", "c"), ("b", "new"), ("b", "d", "e"), ("longer", "c"), ("no", "c"), (("b", "d"), "e")]


def nested(device: str | None) -> TensorDict:
    return TensorDict(
        {
            "a": torch.zeros(2, 3),
            "b": {"c": torch.zeros(2, 3), "d": {"e": torch.zeros(2, 3)}},
            "longer": TensorDict({"c": torch.zeros(2, 3)}, [2, 3]),
        },
        [2],
        device=device,
    )


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_an_entry_is_set_where_tensordict_sets_it(key: Any, device: str | None) -> None:
    found, wanted, value = nested(device), nested(device), torch.rand(2, 3)
    assert set_entry(found, key, value) is found
    wanted.set(key, value)
    assert list(found.keys(True, True)) == list(wanted.keys(True, True))
    assert (found == wanted).all() and found["longer"].batch_size == (2, 3)


@pytest.mark.parametrize("key", ["a", ("b", "c")])
def test_a_locked_tensordict_refuses_entries(key: Any) -> None:
    data = nested(None).lock_()
    with pytest.raises(RuntimeError, match="lock"):
        set_entry(data, key, torch.rand(2, 3))


def test_an_entry_below_that_is_not_a_tensordict_is_rejected() -> None:
    with pytest.raises(KeyError):
        set_entry(nested(None), ("a", "c"), torch.rand(2, 3))


def test_a_value_too_short_for_what_is_below_is_refused() -> None:
    with pytest.raises(RuntimeError, match="batch"):
        set_entry(nested(None), ("longer", "c"), torch.rand(2))
