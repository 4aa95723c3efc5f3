"""A small TED with known numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tensordict import TensorDict


def make_ted(steps: int = 6, batch: tuple[int, ...] = (), ends: dict[int, str] | None = None) -> TensorDict:
    """Count upwards inside episodes and start anew at a large number after each end.

    Args:
        steps: length of the time dimension.
        batch: batch dimensions.
        ends: step to ``"terminated"`` or ``"truncated"``.
    """
    ends = ends or {}
    flags = {name: torch.zeros(*batch, steps, 1, dtype=torch.bool) for name in ("terminated", "truncated")}
    for step, kind in ends.items():
        flags[kind][..., step, 0] = True
    flags["done"] = flags["terminated"] | flags["truncated"]
    observation = torch.arange(steps * 2, dtype=torch.float32).reshape(steps, 2).expand(*batch, steps, 2).clone()
    following = observation + 2
    for step in ends:
        following[..., step, :] = 1000 + step  # a final observation that the reset does not carry on
    return TensorDict(
        {
            "observation": observation,
            "action": torch.zeros(*batch, steps, dtype=torch.int64),
            **{name: torch.zeros_like(flag) for name, flag in flags.items()},
            "next": {"observation": following, "reward": torch.ones(*batch, steps, 1), **flags},
        },
        [*batch, steps],
    )


@pytest.fixture
def ted() -> Callable[..., TensorDict]:
    """``ted(steps, batch, ends)``; see :func:`make_ted`."""
    return make_ted
