"""Writers: choose the places of new items in a storage."""

from rlnb.data.replay_buffers.writers.base import Writer
from rlnb.data.replay_buffers.writers.immutable import ImmutableDatasetWriter
from rlnb.data.replay_buffers.writers.max_value import TensorDictMaxValueWriter
from rlnb.data.replay_buffers.writers.round_robin import RoundRobinWriter, TensorDictRoundRobinWriter

__all__ = [
    "ImmutableDatasetWriter",
    "RoundRobinWriter",
    "TensorDictMaxValueWriter",
    "TensorDictRoundRobinWriter",
    "Writer",
]
