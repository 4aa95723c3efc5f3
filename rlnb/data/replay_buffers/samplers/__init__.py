"""Samplers: what chooses elements."""

from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.samplers.consuming import ConsumingSampler
from rlnb.data.replay_buffers.samplers.prioritized import PrioritizedSampler
from rlnb.data.replay_buffers.samplers.prioritized_slice import PrioritizedSliceSampler
from rlnb.data.replay_buffers.samplers.random_sampler import RandomSampler
from rlnb.data.replay_buffers.samplers.slice_sampler import SliceSampler
from rlnb.data.replay_buffers.samplers.slice_without_replacement import SliceSamplerWithoutReplacement
from rlnb.data.replay_buffers.samplers.without_replacement import SamplerWithoutReplacement

__all__ = [
    "ConsumingSampler",
    "Info",
    "PrioritizedSampler",
    "PrioritizedSliceSampler",
    "RandomSampler",
    "Sampler",
    "SamplerWithoutReplacement",
    "SliceSampler",
    "SliceSamplerWithoutReplacement",
]
