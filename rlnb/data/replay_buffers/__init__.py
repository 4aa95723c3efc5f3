"""Replay buffers: storages, samplers and writers of experience, and buffers composed of them."""

from rlnb.data.replay_buffers import checkpointers, ensembles, ray_buffer, replay_buffers, samplers, storages, writers
from rlnb.data.replay_buffers.checkpointers import *  # noqa: F403 - the list of public names has one home
from rlnb.data.replay_buffers.ensembles import *  # noqa: F403 - likewise
from rlnb.data.replay_buffers.ray_buffer import *  # noqa: F403 - likewise
from rlnb.data.replay_buffers.replay_buffers import *  # noqa: F403 - likewise
from rlnb.data.replay_buffers.samplers import *  # noqa: F403 - likewise
from rlnb.data.replay_buffers.storages import *  # noqa: F403 - likewise
from rlnb.data.replay_buffers.writers import *  # noqa: F403 - likewise

__all__ = [
    *checkpointers.__all__,
    *ensembles.__all__,
    *ray_buffer.__all__,
    *replay_buffers.__all__,
    *samplers.__all__,
    *storages.__all__,
    *writers.__all__,
]
