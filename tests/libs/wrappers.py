"""Requirements of every wrapper of a library, as functions for the tests of each library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rlnb_widgets import RolloutPlayer
from tensordict import TensorDictBase

from rlnb.envs import EnvBase, SerialEnv, check_env_specs
from rlnb.record import PixelRenderTransform


def assert_keeps_promises(make: Callable[[], EnvBase], steps: int = 8) -> TensorDictBase:
    """Check specs, a rollout, two copies in a batch, seeds, and a frame in the player. Returns the rollout."""
    env = make()
    check_env_specs(env)
    rollout = env.rollout(steps, break_when_any_done=False)
    assert rollout.batch_size == (*env.batch_size, steps)
    assert_seeds_repeat(make, steps)
    with SerialEnv(2, make) as batch:
        assert batch.rollout(3, break_when_any_done=False).batch_size == (2, *env.batch_size, 3)
    player = RolloutPlayer(rollout, env=env)
    assert player.model.length == steps and "<svg" in player.to_svg()
    env.close()
    return rollout


def assert_plays_frames(env: EnvBase, steps: int = 3) -> None:
    """The player shows a frame of each step, which the env renders, as colours and not one colour alone."""
    rollout = env.append_transform(PixelRenderTransform()).rollout(steps)
    assert rollout["pixels"].float().std() > 0
    assert rollout["pixels"].dtype is torch.uint8 and rollout["pixels"].shape[-1] == 3
    assert RolloutPlayer(rollout).model.frames.kind == "pixels"


def assert_seeds_repeat(make: Callable[[], EnvBase], steps: int = 8) -> None:
    """Two envs with one seed and one sequence of random actions give the same data, and another seed does not."""
    found = []
    for seed in (3, 3, 4):
        env = make()
        env.set_seed(seed)
        torch.manual_seed(seed)
        found.append(env.rollout(steps, break_when_any_done=False))
        env.close()
    assert_same(found[0], found[1])
    assert any(not same(found[0].get(key), found[2].get(key)) for key in found[0].keys(True, True))


def assert_same(first: TensorDictBase, second: TensorDictBase) -> None:
    """Two TensorDicts have the same entries, bit by bit."""
    keys = list(first.keys(True, True))
    assert set(keys) == set(second.keys(True, True))
    for key in keys:
        assert same(first.get(key), second.get(key)), key


def same(first: Any, second: Any) -> bool:
    """Whether two entries are equal; NaN equals NaN."""
    if not isinstance(first, torch.Tensor):
        return bool(first == second)
    return first.shape == second.shape and bool(torch.equal(first.nan_to_num(1e30), second.nan_to_num(1e30)))
