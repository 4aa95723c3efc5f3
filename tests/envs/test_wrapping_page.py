"""The page "Wrap your own library": its code runs block by block, and the wrapper is as short as it promises."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch

from rlnb.envs import ParallelEnv

PAGE = Path(__file__).parents[2] / "docs" / "wrapping.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def page() -> Iterator[dict[str, Any]]:
    """What the blocks define; running them is most of the test."""
    module = types.ModuleType("wrapping_page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        cloudpickle.register_pickle_by_value(module)  # as it does for what a notebook defines
        for block in BLOCKS:
            exec(compile(block, str(PAGE), "exec"), vars(module))
        yield vars(module)
        cloudpickle.unregister_pickle_by_value(module)


def test_the_wrapper_has_forty_lines_at_most():
    (wrapper,) = [block for block in BLOCKS if "class TankWrapper" in block]
    assert len(wrapper.splitlines()) <= 40


@pytest.mark.parametrize("make", ["TankEnv", "GymTank"])
def test_the_data_are_the_simulators(page, make):
    env = page["TankEnv"]() if make == "TankEnv" else page["GymWrapper"](page["GymTank"](page["Tank"]()))
    env.set_seed(5)
    rollout = env.rollout(60)
    tank = page["Tank"]()
    tank.rng = np.random.default_rng(5)
    readings = [tank.reset(), *[tank.step(action.numpy()) for action in rollout["action"]]]
    key = "level" if make == "TankEnv" else "observation"
    levels = torch.tensor([[reading.level] for reading in readings])
    assert torch.equal(rollout[key], levels[:-1]) and torch.equal(rollout["next", key], levels[1:])
    assert rollout["next", "reward"].flatten().tolist() == pytest.approx([-one.cost for one in readings[1:]])
    assert rollout["next", "terminated"].flatten().tolist() == [one.dry for one in readings[1:]]
    assert rollout["next", "truncated"].flatten().tolist() == [one.late for one in readings[1:]]


def test_what_the_page_says_of_the_wrapper(page):
    env = page["TankEnv"](leak=0.3, frame_skip=2)
    assert env.leak == 0.3 and env.rollout(3)["next", "pump"].dtype == torch.int64
    assert isinstance(page["tanks"], ParallelEnv)
