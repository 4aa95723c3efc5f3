"""Storages: hold the items of a replay buffer."""

from rlnb.data.replay_buffers.storages.base import Rows as Rows
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.lazy_memmap import LazyMemmapStorage
from rlnb.data.replay_buffers.storages.list_storage import ListStorage
from rlnb.data.replay_buffers.storages.tensor import LazyTensorStorage, TensorStorage

__all__ = ["LazyMemmapStorage", "LazyTensorStorage", "ListStorage", "Storage", "TensorStorage"]
