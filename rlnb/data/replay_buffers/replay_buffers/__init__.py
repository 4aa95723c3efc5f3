"""Replay buffers: a storage, a sampler and a writer put together."""

from rlnb.data.replay_buffers.replay_buffers.buffer import ReplayBuffer
from rlnb.data.replay_buffers.replay_buffers.prioritized import (
    PrioritizedReplayBuffer,
    TensorDictPrioritizedReplayBuffer,
)
from rlnb.data.replay_buffers.replay_buffers.tensordict_buffer import TensorDictReplayBuffer

__all__ = [
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "TensorDictPrioritizedReplayBuffer",
    "TensorDictReplayBuffer",
]
