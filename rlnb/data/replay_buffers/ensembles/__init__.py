"""Ensembles: several replay buffers that are sampled as one."""

from rlnb.data.replay_buffers.ensembles.buffer import ReplayBufferEnsemble
from rlnb.data.replay_buffers.ensembles.parts import SamplerEnsemble, StorageEnsemble, WriterEnsemble

__all__ = ["ReplayBufferEnsemble", "SamplerEnsemble", "StorageEnsemble", "WriterEnsemble"]
