"""Ensembles: several replay buffers that are sampled as one."""

from rlnb.data.replay_buffers.ensembles.buffer import ReplayBufferEnsemble
from rlnb.data.replay_buffers.ensembles.sampler import SamplerEnsemble
from rlnb.data.replay_buffers.ensembles.storage import StorageEnsemble
from rlnb.data.replay_buffers.ensembles.writer import WriterEnsemble

__all__ = ["ReplayBufferEnsemble", "SamplerEnsemble", "StorageEnsemble", "WriterEnsemble"]
