"""Traffic of collectors on Ray: bytes for each step, batch and update of the weights, and what a link can carry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase

#: Bytes of a packed object, and of each of its tensors: names, dtypes, shapes, and Ray's own description of a buffer.
_OBJECT, _TENSOR = 400, 105


class Traffic(NamedTuple):
    """Bytes that a :class:`~rlnb.collectors.RayCollector` moves; :func:`estimate_traffic` makes one.

    A batch goes from the node of its actor to the learner, or to the node of a :class:`~rlnb.data.RayReplayBuffer`. An
    update goes from the learner to each other node once, however many actors it has.

    Attributes:
        step: bytes of a step.
        batch: bytes that each batch adds.
        update: bytes of the weights, for each node.

    Example:
        >>> from rlnb.collectors import Collector
        >>> from rlnb.envs import GymEnv
        >>> batch = Collector(GymEnv("CartPole-v1"), frames_per_batch=1).fake_tensordict()
        >>> traffic = estimate_traffic(batch, torch.nn.Linear(4, 2))
        >>> traffic
        Traffic(step=66, batch=1555, update=650)
        >>> traffic.of_batch(1000), round(traffic.steps_per_second(1.25e9, 1000))
        (67555, 18503442)
    """

    step: int
    batch: int
    update: int

    def of_batch(self, frames: int) -> int:
        """Return the bytes of a batch of this many steps."""
        return self.batch + frames * self.step

    def steps_per_second(self, bytes_per_second: float, frames_per_batch: int) -> float:
        """Return how many steps a second a link can carry to the learner, 1.25e9 bytes for 10 Gbit/s."""
        return bytes_per_second * frames_per_batch / self.of_batch(frames_per_batch)

    def updates_per_second(self, bytes_per_second: float, nodes: int) -> float:
        """Return how many updates a second a link can carry from the learner to this many other nodes."""
        return bytes_per_second / (self.update * nodes) if self.update * nodes else math.inf


def estimate_traffic(batch: TensorDictBase, policy: Any = None) -> Traffic:
    """Estimate what a collector on Ray moves, without starting one.

    Args:
        batch: a batch of the collector, ``[*batch_size, time]``, such as that of
            :meth:`~rlnb.collectors.Collector.fake_tensordict`.
        policy: the policy, a module, or its state dict. ``None``: no weights.
    """
    entries: list[Any] = list(batch.values(True, True))
    step = sum(map(_bytes, entries)) // batch.numel()
    state: Mapping[str, Any] = policy.state_dict() if isinstance(policy, torch.nn.Module) else policy or {}
    update = _OBJECT + _TENSOR * len(state) + sum(map(_bytes, state.values())) if state else 0
    return Traffic(step, _OBJECT + _TENSOR * len(entries), update)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
