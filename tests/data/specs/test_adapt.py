"""``spec.adapt``: another dtype or a last dim of size 1 where no number changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict, lazy_stack

from rlnb.data import Binary, Bounded, Categorical, Composite, MultiOneHot, OneHot, TensorSpec, Unbounded


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (OneHot(3), torch.tensor([0.0, 1.0, 0.0]), [False, True, False]),
        (OneHot(3), torch.tensor([0, 1, 0]), [False, True, False]),
        (OneHot(3, dtype=torch.float32), torch.tensor([True, False, False]), [1.0, 0.0, 0.0]),
        (MultiOneHot([2, 2]), torch.tensor([0.0, 1.0, 1.0, 0.0]), [False, True, True, False]),
        (Categorical(300), torch.tensor(299, dtype=torch.int32), 299),
        (Categorical(3), torch.tensor(2.0), 2),
        (Binary(2), torch.tensor([True, False]), [1, 0]),
        (Bounded(-1, 1, (2,)), torch.tensor([0.5, -1.0], dtype=torch.float64), [0.5, -1.0]),
        (Bounded(-1, 1, (1,)), torch.tensor(0.5), [0.5]),
        (Unbounded((2, 1)), torch.tensor([1, 2]), [[1.0], [2.0]]),
        (Categorical(3), torch.tensor([[2], [1]]), [[2], [1]]),  # a leading dim is one already
        (Unbounded(2), torch.tensor([[1.0], [2.0]]), [1.0, 2.0]),
    ],
)
def test_values_that_fit_afterwards(spec: TensorSpec, value: torch.Tensor, expected: Any) -> None:
    adapted = spec.adapt(value)
    assert spec.is_in(adapted)
    assert adapted.tolist() == expected


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (OneHot(3), torch.tensor([0.0, 0.5, 0.5])),
        (Categorical(3), torch.tensor(1.5)),
        (Categorical(3), torch.tensor(float("nan"))),
        (Bounded(-128, 127, (), dtype=torch.int8), torch.tensor(200, dtype=torch.uint8)),
        (Bounded(0, 255, (), dtype=torch.uint8), torch.tensor(-1, dtype=torch.int8)),
        (Bounded(0, 255, (), dtype=torch.uint8), torch.tensor(300)),
        (Bounded(0, 2**60, (), dtype=torch.int64), torch.tensor(2.0**63)),
        (Unbounded((), dtype=torch.float64), torch.tensor(2**53 + 1)),
        (Unbounded(2), torch.zeros(3)),
        (Unbounded(2), "text"),
        (OneHot(3), torch.tensor(1)),  # a number is no vector
    ],
)
def test_what_would_change_a_number_is_left_alone(spec: TensorSpec, value: Any) -> None:
    assert spec.adapt(value) is value
    assert not spec.is_in(value)


def test_what_fits_is_returned_itself_even_out_of_the_domain() -> None:
    value = torch.tensor([5.0, 5.0])
    assert Bounded(-1, 1, (2,)).adapt(value) is value


def test_entries_of_a_composite_and_the_rest_is_kept() -> None:
    spec = Composite(agent={"action": OneHot(2, shape=(3, 2))}, reward=Unbounded((3, 1)), nothing=None, shape=(3,))
    data = TensorDict(
        {"agent": {"action": torch.eye(2)[[0, 1, 1]]}, "reward": torch.ones(3, dtype=torch.float64), "other": [1] * 3},
        [3],
    )
    adapted = spec.adapt(data)
    assert adapted["agent", "action"].dtype == torch.bool
    assert adapted["reward"].shape == (3, 1)
    assert adapted["reward"].dtype == torch.float32
    assert "other" in adapted
    assert data["reward"].shape == (3,)
    assert spec.adapt(adapted) is adapted


def test_members_of_stacks() -> None:
    leaves = torch.stack([Categorical(2), Categorical(3)])
    assert leaves.adapt(torch.tensor([1.0, 2.0])).tolist() == [1, 2]
    value = torch.tensor([1.0, 1.5])
    assert leaves.adapt(value) is value
    spec = torch.stack([Composite(a=OneHot(2)), Composite(a=OneHot(3))])
    floats = lazy_stack([TensorDict({"a": torch.eye(n)[0]}) for n in (2, 3)])
    assert spec.is_in(spec.adapt(floats))
    assert spec.adapt(floats[:1]) is not None
