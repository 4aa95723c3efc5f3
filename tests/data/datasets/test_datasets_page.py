"""The page "Datasets": its code runs block by block, and the reader is as short as it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlnb.data import TensorDictReplayBuffer
from rlnb.data.datasets import __all__ as names

PAGE = Path(__file__).parents[3] / "docs" / "datasets.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the blocks define; running them is most of the test."""
    defined: dict[str, Any] = {"__name__": "datasets_page"}
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), defined)
    return defined


def test_the_reader_has_thirty_lines_at_most():
    (reader,) = [block for block in BLOCKS if "class Drives" in block]
    assert len([line for line in reader.partition("class Drives")[2].splitlines() if line]) <= 30


def test_the_data_are_those_of_the_files(page):
    files = sorted(page["logs"].glob("*.csv"))
    rows = [torch.from_numpy(np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.float32)) for file in files]
    data = page["drives"][:]
    assert len(files) == 20 and isinstance(page["drives"], TensorDictReplayBuffer)
    assert torch.equal(data["observation"], torch.cat([each[:-1, :2] for each in rows]))
    assert torch.equal(data["next", "observation"], torch.cat([each[1:, :2] for each in rows]))
    assert torch.equal(data["kinetic"], data["observation"][:, :1] ** 2 / 2)
    arrived = [bool(each[-1, 1] < 1) for each in rows]
    assert 5 < sum(arrived) < 20
    assert data["next", "terminated"].sum() == sum(arrived) and data["next", "truncated"].sum() == 20 - sum(arrived)


def test_the_page_lists_each_dataset():
    for name in names:
        assert f"`{name}`" in TEXT or name == "BaseDatasetExperienceReplay" or not name.endswith("ExperienceReplay")
