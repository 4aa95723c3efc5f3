"""Reshaping of lazy stacks: each row of the result is the right row of the stack."""

from __future__ import annotations

import itertools
import math
import re

import pytest
import torch

from rlnb.data import Bounded, Categorical, Composite, OneHot, StackedComposite, Unbounded


def bounds(high, shape=()):
    return Bounded(-1, float(high), shape=shape)


STACKS = {
    "numbers": torch.stack([Categorical(n) for n in range(2, 8)]),
    "same shape": torch.stack([bounds(n, (2,)) for n in range(1, 7)]),
    "ragged": torch.stack([Unbounded((n,)) for n in range(1, 7)]),
    "encoded": torch.stack([OneHot(n) for n in range(2, 8)]),
    "behind the batch": torch.stack([Categorical(n, shape=(2,)) for n in (3, 4, 5)], 1),
    "in front of the batch": torch.stack([Categorical(n, shape=(2,)) for n in (3, 4, 5)], 0),
    "composites": torch.stack([Composite({key: Unbounded(3)}) for key in "abcdef"]),
    "batched composites": torch.stack([Composite({key: Unbounded((2, 3))}, shape=(2,)) for key in "abc"], 1),
}
LAYOUTS = [(6,), (1, 6), (6, 1), (-1,)]
SPLITS = [(2, 3), (3, 2), (3, -1), (1, 2, 3)]


def rows(spec, lead):
    return [spec[index] for index in itertools.product(*map(range, lead))]


def parts(name):
    """The stack, its leading dims, of which there are six entries, and the dims behind them."""
    spec = STACKS[name]
    count = next(k for k in range(1, spec.ndim + 1) if math.prod(spec.shape[:k]) == 6)
    return spec, spec.shape[:count], spec.shape[count:]


@pytest.mark.parametrize(
    ("name", "lead"),
    [(n, lead) for n in STACKS for lead in LAYOUTS]
    + [(n, lead) for n in STACKS if n not in ("ragged", "encoded") for lead in SPLITS],
)
def test_rows_stay_what_they_are(name, lead):
    spec, old, behind = parts(name)
    new = spec.reshape(*lead, *behind)
    filled = [6 // abs(math.prod(lead)) if size == -1 else size for size in lead]
    assert new.shape == (*filled, *behind) and new == spec.view(*lead, *behind)
    assert rows(new, filled) == rows(spec, old)
    torch.manual_seed(0)
    assert new.is_in(new.rand())


@pytest.mark.parametrize("name", [name for name in STACKS if "batch" in name])
def test_flattening_and_unflattening_are_inverse(name):
    spec, old, _ = parts(name)
    flat = spec.flatten(0, 1)
    assert flat.shape[0] == 6 and rows(flat, (6,)) == rows(spec, old)
    assert rows(flat.unflatten(0, old), old) == rows(spec, old)


def test_dims_behind_the_stack_are_each_members_matter():
    spec = torch.stack([bounds(1, (2, 3)), bounds(2, (2, 3))])
    assert [member.shape for member in spec.flatten(1, 2).specs] == [(6,), (6,)]
    assert spec.unflatten(2, (3, 1)).shape == (2, 2, 3, 1)
    ragged = torch.stack([Unbounded((2, 3)), Unbounded((2, 4))])
    assert [member.shape for member in ragged.flatten(1, 2).specs] == [(6,), (8,)]


def test_keys_of_a_reshaped_composite_are_where_they_were():
    new = STACKS["composites"].reshape(2, 3)
    assert isinstance(new, StackedComposite)
    assert list(new[1, 2].keys()) == ["f"] and list(new[0, 1].keys()) == ["b"]


REFUSED = {
    "a Stacked of shape [6, any] does not reshape to [21]: its members differ. Give a shape with the same number of "
    "entries that ends with the dims in which they differ.": lambda: STACKS["ragged"].reshape(21),
    "a StackedComposite of shape [6] does not reshape to [4]: its members differ. Give a shape with the same number of "
    "entries that ends with the dims in which they differ.": lambda: STACKS["composites"].reshape(4),
    "Stacked.flatten: the members differ along a dim that would be merged. Unbind the stack first.": lambda: STACKS[
        "ragged"
    ].flatten(),
    "Stacked.flatten: start_dim 1 comes after end_dim 0. Swap them.": lambda: STACKS["same shape"].flatten(1, 0),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_laid_out_says_why(text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        REFUSED[text]()
