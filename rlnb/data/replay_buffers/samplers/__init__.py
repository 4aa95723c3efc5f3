"""Samplers: choose the items of a sample."""

from rlnb.data.replay_buffers.samplers.base import Info as Info
from rlnb.data.replay_buffers.samplers.base import Sampler
from rlnb.data.replay_buffers.samplers.prioritized import PrioritizedSampler
from rlnb.data.replay_buffers.samplers.slice_sampler import (
    PrioritizedSliceSampler,
    SliceSampler,
    SliceSamplerWithoutReplacement,
)
from rlnb.data.replay_buffers.samplers.uniform import ConsumingSampler, RandomSampler, SamplerWithoutReplacement

__all__ = [
    "ConsumingSampler",
    "PrioritizedSampler",
    "PrioritizedSliceSampler",
    "RandomSampler",
    "Sampler",
    "SamplerWithoutReplacement",
    "SliceSampler",
    "SliceSamplerWithoutReplacement",
]
