"""Small datasets that tests make: walks along a line, in episodes of several lengths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.datasets import BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import ted_steps

LENGTHS = (3, 5, 2, 4)
STEPS = sum(LENGTHS)


def walks(lengths: Iterable[int] = LENGTHS) -> TensorDict:
    """Episodes in which the position grows by one a step; every other one is cut off in place of ending."""
    parts = []
    for number, length in enumerate(lengths):
        x = torch.arange(length + 1.0)[:, None] + 100 * number
        last = torch.arange(length) == length - 1
        parts.append(
            ted_steps(
                {"observation": x[:-1], "action": torch.ones(length, 1), "episode": torch.full((length,), number)},
                {"observation": x[1:]},
                reward=x[1:] / 10,
                terminated=last if number % 2 == 0 else torch.zeros_like(last),
                truncated=last if number % 2 else None,
            )
        )
    return torch.cat(parts)


class Walks(BaseDatasetExperienceReplay):
    """The walks, in chunks of four steps; ``made`` counts how often they were read."""

    library = "walks"
    available_datasets = ("short-v0", "short-v1", "long/steep-v0")
    made = 0

    def read(self, folder: Path) -> Iterator[TensorDictBase]:
        type(self).made += 1
        self.keep_metadata({"author": "nobody", "version": self.made})
        yield from walks().split(4)


def same(first: Any, second: Any) -> bool:
    """Whether two TensorDicts have the same entries with the same values."""
    keys = set(first.keys(True, True)) - {"index"}
    return keys == set(second.keys(True, True)) - {"index"} and all((first[key] == second[key]).all() for key in keys)
