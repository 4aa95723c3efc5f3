"""The traffic model gives the figures in the docs; test_ray.py compares it with the bytes in Ray's object store."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from rlnb.collectors import Collector
from rlnb.collectors.ray_traffic import Traffic, estimate_traffic
from rlnb.data import TensorDict
from tests.collectors.ray.making import ENVS, POLICIES

DOCUMENT = Path(__file__).parents[3] / "docs" / "ray.md"


def test_the_docs_have_the_figures_of_the_model():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = {row[0]: row[1:] for row in re.findall(r"^\| ([^|]+) \| ([\d,]+) \| ([\d,]+) \| ", text, re.MULTILINE)}
    for name in ENVS:
        traffic = estimate_traffic(Collector(ENVS[name](), frames_per_batch=2).fake_tensordict())
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
