"""The model of the traffic, in the docs, beside the bytes that are counted in Ray's object store."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from rlnb._ray import pack, unpack
from rlnb.collectors import Collector
from rlnb.collectors.ray_traffic import Traffic, estimate_traffic
from rlnb.data import TensorDict
from rlnb.envs import GymEnv, GymWrapper

DOCUMENT = Path(__file__).parents[3] / "docs" / "ray.md"
TOLERANCE = 0.02  # of a batch of 200 steps or more


class Pixels(gymnasium.Env):
    """Four pictures of 84 x 84 bytes, as of an Atari game."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        return np.zeros((4, 84, 84), np.uint8), {}

    def step(self, action):
        return np.zeros((4, 84, 84), np.uint8), 0.0, False, False, {}


ENVS = {
    "CartPole-v1": lambda: GymEnv("CartPole-v1"),
    "Pendulum-v1": lambda: GymEnv("Pendulum-v1"),
    "pictures, 4 x 84 x 84": lambda: GymWrapper(Pixels()),
}
POLICIES = {
    "4-64-64-2": nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 2)),
    "a million weights": nn.Sequential(nn.Linear(4, 1000), nn.Linear(1000, 1000), nn.Linear(1000, 2)),
}


def counted(content):
    """The bytes of an object as Ray writes it to its store."""
    import ray

    context = ray._private.worker.global_worker.get_serialization_context()
    return context.serialize(pack(content)).total_bytes


def model(name):
    return estimate_traffic(Collector(ENVS[name](), frames_per_batch=2).fake_tensordict())


@pytest.mark.parametrize("frames", [200, 1000])
@pytest.mark.parametrize("name", ENVS)
def test_bytes_of_a_batch(cluster, name, frames):
    if name.startswith("pictures"):
        frames = 200
    batch = Collector(ENVS[name](), frames_per_batch=frames).next()
    assert model(name).of_batch(frames) == pytest.approx(counted(batch), rel=TOLERANCE)


@pytest.mark.parametrize("name", POLICIES)
def test_bytes_of_an_update(cluster, name):
    traffic = estimate_traffic(TensorDict({"a": torch.zeros(3)}, [3]), POLICIES[name])
    assert traffic.update == pytest.approx(counted(POLICIES[name].state_dict()), rel=TOLERANCE)


def test_what_comes_out_of_the_store_is_what_was_put(cluster):
    import ray

    batch = Collector(ENVS["CartPole-v1"](), frames_per_batch=50).next()
    batch["odd"] = torch.randn(50, 2, 3).transpose(1, 2)
    batch["half"], batch["empty"] = torch.randn(50).bfloat16(), torch.zeros(50, 0)
    again = unpack(ray.get(ray.put(pack(batch))))
    assert again.names == batch.names and set(again.keys(True, True)) == set(batch.keys(True, True))
    for key, value in batch.items(True, True):
        assert torch.equal(again[key], value) and again[key].dtype == value.dtype, key
        again[key].zero_()  # a copy: the store itself is read-only


def test_the_docs_have_the_figures_of_the_model():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = {row[0]: row[1:] for row in re.findall(r"^\| ([^|]+) \| ([\d,]+) \| ([\d,]+) \| ", text, re.MULTILINE)}
    for name in ENVS:
        traffic = model(name)
        assert [int(cell.replace(",", "")) for cell in rows[name]] == [traffic.step, traffic.of_batch(1000)]
    for name, policy in POLICIES.items():
        update = estimate_traffic(TensorDict({"a": torch.zeros(3)}, [3]), policy).update
        assert [int(cell.replace(",", "")) for cell in rows[f"policy, {name}"]] == [
            sum(tensor.numel() for tensor in policy.state_dict().values()), update,
        ]  # fmt: skip


def test_what_a_link_carries():
    traffic = Traffic(step=100, batch=1000, update=500)
    assert traffic.of_batch(10) == 2000 and traffic.steps_per_second(1e6, 10) == 5000
    assert traffic.updates_per_second(1e6, 4) == 500 and Traffic(1, 1, 0).updates_per_second(1e6, 4) == float("inf")
