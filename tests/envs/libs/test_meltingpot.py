"""MeltingpotWrapper, the real one, over a fake of the interface of Melting Pot, which does not install everywhere.

The fake follows ``meltingpot.substrate`` (``SUBSTRATES``, ``get_config``, ``build_from_config``) and ``Substrate`` of
Melting Pot 2, https://github.com/google-deepmind/meltingpot/blob/main/meltingpot/substrate.py and
https://github.com/google-deepmind/meltingpot/blob/main/meltingpot/utils/substrates/substrate.py: ``reset`` and ``step``
return a ``dm_env.TimeStep`` whose observation and reward are lists with an item for each player.
"""

from __future__ import annotations

import operator
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from rlnb.envs import MarlGroupMapType, MeltingpotEnv, MeltingpotWrapper, SerialEnv, check_env_specs
from rlnb.envs.libs.libraries import is_installed
from rlnb.record import PixelRenderTransform


def array(shape, dtype, **kwargs):
    return SimpleNamespace(shape=shape, dtype=np.dtype(dtype), **kwargs)


class Substrate:
    """Each player's reward is its action. The episode ends after ``length`` steps."""

    def __init__(self, players=3, length=4, world=True):
        self.players, self.length, self.world, self.closed = players, length, world, False

    def observation_spec(self):
        world = {"WORLD.RGB": array((4, 6, 3), np.uint8, minimum=0, maximum=255)} if self.world else {}
        own = {
            "RGB": array((2, 2, 3), np.uint8, minimum=0, maximum=255), "READY_TO_SHOOT": array((), np.float64),
            "COLLECTIVE_REWARD": array((), np.float64),
        }  # fmt: skip
        return [{**own, **world} for _ in range(self.players)]

    def action_spec(self):
        return [array((), np.int64, num_values=8, minimum=0, maximum=7) for _ in range(self.players)]

    def reward_spec(self):
        return [array((), np.float64) for _ in range(self.players)]

    def reset(self):
        self.t = 0
        return self._step([0.0] * self.players)

    def step(self, action):
        assert len(action) == self.players and all(0 <= operator.index(a) < 8 for a in action)
        self.t += 1
        return self._step([float(a) for a in action])

    def _step(self, rewards):
        world = {"WORLD.RGB": np.full((4, 6, 3), self.t, np.uint8)} if self.world else {}
        seen = [
            {
                "RGB": np.full((2, 2, 3), i, np.uint8), "READY_TO_SHOOT": np.float64(1.0),
                "COLLECTIVE_REWARD": np.float64(sum(rewards)), **world,
            }
            for i in range(self.players)
        ]  # fmt: skip
        over = self.t >= self.length
        return SimpleNamespace(observation=seen, reward=[np.float64(r) for r in rewards], last=lambda: over)

    def close(self):
        self.closed = True


def test_data_and_specs():
    env = MeltingpotWrapper(Substrate())
    check_env_specs(env)
    assert env.agent_names_to_indices_map == {"player_0": 0, "player_1": 1, "player_2": 2}
    assert env.group_map == {"agents": ["player_0", "player_1", "player_2"]}
    data = env.rollout(20)
    assert set(data["next"].keys(True, True)) == {
        "RGB", "done", "terminated", ("agents", "reward"), ("agents", "observation", "RGB"),
        ("agents", "observation", "READY_TO_SHOOT"), ("agents", "observation", "COLLECTIVE_REWARD"),
    }  # fmt: skip
    assert data["RGB"].shape == (4, 4, 6, 3) and data["agents", "observation", "RGB"].shape == (4, 3, 2, 2, 3)
    assert data["next", "agents", "observation", "COLLECTIVE_REWARD"].shape == (4, 3, 1)
    assert data["next", "agents", "reward"].dtype == torch.float64
    assert torch.equal(data["next", "agents", "reward"].squeeze(-1).long(), data["agents", "action"])
    assert data["next", "RGB"][:, 0, 0, 0].tolist() == [1, 2, 3, 4]
    assert data["next", "terminated"].flatten().tolist() == [False, False, False, True]


def test_max_steps_terminates():
    env = MeltingpotWrapper(Substrate(), max_steps=2)
    done = env.rollout(6, break_when_any_done=False)["next", "terminated"].flatten()
    assert done.tolist() == [False, True] * 3
    with pytest.raises(ValueError, match="max_steps must be a positive integer or None and is 0"):
        MeltingpotWrapper(Substrate(), max_steps=0)


def test_groups_and_one_hot_actions():
    env = MeltingpotWrapper(Substrate(), False, MarlGroupMapType.ONE_GROUP_PER_AGENT)
    assert env.rollout(3)["player_2", "action"].shape == (3, 1, 8)


def test_rows_hold_the_data_of_steps():
    found = []
    for check in (None, True):
        env = MeltingpotWrapper(Substrate(), max_steps=3)
        env.run_type_checks = check
        assert env._fills_rows is (check is None)
        torch.manual_seed(0)
        found.append(env.rollout(10, break_when_any_done=False))
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[1].keys(True, True))


def test_frames():
    env = MeltingpotWrapper(Substrate())
    with pytest.raises(RuntimeError, match="render was called before reset"):
        env.render()
    data = env.append_transform(PixelRenderTransform()).rollout(3)
    assert torch.equal(data["next", "pixels"], data["next", "RGB"])
    with pytest.raises(RuntimeError) as caught:
        MeltingpotWrapper(Substrate(world=False)).render()
    assert str(caught.value) == (
        "This substrate shows no image of the world. Fix: build it with the global observation 'WORLD.RGB'."
    )


def test_a_seed_cannot_be_set():
    with pytest.raises(RuntimeError) as caught:
        MeltingpotWrapper(Substrate()).set_seed(0)
    assert str(caught.value) == (
        "A substrate of Melting Pot draws its own seed when it is built, and has no way to set one. "
        "Fix: leave set_seed out; torch.manual_seed(seed) repeats random actions."
    )


def test_in_a_batch_and_close():
    with SerialEnv(2, lambda: MeltingpotWrapper(Substrate())) as batch:
        assert batch.rollout(6, break_when_any_done=False)["next", "agents", "reward"].shape == (2, 6, 3, 1)
    env = MeltingpotWrapper(Substrate())
    env.close()
    assert env._env.closed


def test_what_is_not_a_substrate():
    with pytest.raises(TypeError) as caught:
        MeltingpotWrapper(object())
    assert str(caught.value) == (
        "MeltingpotWrapper wraps a substrate and got a object. "
        'Fix: MeltingpotEnv("commons_harvest__open"), or meltingpot.substrate.build(name, roles=roles).'
    )


class TestByName:
    @pytest.fixture
    def library(self, monkeypatch):
        substrate = ModuleType("meltingpot.substrate")
        substrate.SUBSTRATES = {"commons_harvest__open", "clean_up"}
        config = SimpleNamespace(default_player_roles=("default",) * 5)
        substrate.get_config = lambda name: config
        substrate.build_from_config = lambda given, roles: Substrate(len(roles)) if given is config else None
        package = ModuleType("meltingpot")
        package.substrate = substrate
        monkeypatch.setitem(sys.modules, "meltingpot", package)
        monkeypatch.setitem(sys.modules, "meltingpot.substrate", substrate)
        return substrate

    def test_by_name_or_config(self, library):
        assert MeltingpotEnv.available_envs == ["clean_up", "commons_harvest__open"]
        for given in ("commons_harvest__open", library.get_config("clean_up")):
            env = MeltingpotEnv(given, max_steps=3)
            assert env.rollout(9)["agents", "action"].shape == (3, 5)
        assert repr(MeltingpotEnv("clean_up")).startswith("MeltingpotEnv(env=clean_up, groups={'agents'")

    def test_unknown_names(self, library):
        with pytest.raises(ValueError) as caught:
            MeltingpotEnv("cleanup")
        assert str(caught.value) == "There is no environment 'cleanup' in Melting Pot. Did you mean 'clean_up'?"


@pytest.mark.skipif(is_installed("meltingpot"), reason="meltingpot is installed")
def test_without_the_library():
    assert MeltingpotEnv.available_envs == []
    with pytest.raises(ImportError) as caught:
        MeltingpotEnv("clean_up")
    assert str(caught.value) == (
        "MeltingpotEnv needs meltingpot, which is not installed. Fix: pip install dm-meltingpot."
    )
