"""Checkpointers: what saves storages in folders, and loads them."""

from rlnb.data.replay_buffers.checkpointers.base import StorageCheckpointerBase
from rlnb.data.replay_buffers.checkpointers.ensemble import StorageEnsembleCheckpointer
from rlnb.data.replay_buffers.checkpointers.flat import FlatStorageCheckpointer
from rlnb.data.replay_buffers.checkpointers.h5 import H5StorageCheckpointer
from rlnb.data.replay_buffers.checkpointers.list import ListStorageCheckpointer
from rlnb.data.replay_buffers.checkpointers.nested import NestedStorageCheckpointer
from rlnb.data.replay_buffers.checkpointers.tensor import TensorStorageCheckpointer

__all__ = [
    "FlatStorageCheckpointer",
    "H5StorageCheckpointer",
    "ListStorageCheckpointer",
    "NestedStorageCheckpointer",
    "StorageCheckpointerBase",
    "StorageEnsembleCheckpointer",
    "TensorStorageCheckpointer",
]
