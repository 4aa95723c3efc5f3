"""Policies and envs of the tests of collectors on Ray."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import torch
from tensordict.nn import TensorDictModule
from torch import nn

FAIL, HANG = 1000.0, 2000.0


class Commanded(nn.Module):
    """Acts with its weight, and misbehaves with some weights, so that one actor can be used for many tests."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([value]))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        if self.value == FAIL:
            raise ZeroDivisionError("division by zero")
        if self.value == HANG:
            time.sleep(1000)
        return self.value.expand(*observation.shape[:-1], 1)


def commanded(value: float = 0.0) -> TensorDictModule:
    return TensorDictModule(Commanded(value), ["observation"], ["action"])


@contextlib.contextmanager
def shut(collector: Any) -> Iterator[Any]:
    """Shut a collector, or a buffer, down at the end of the block."""
    try:
        yield collector
    finally:
        collector.shutdown()
