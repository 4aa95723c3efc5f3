"""Collectors, at the path of TorchRL."""

from rlnb.collectors.collector import Collector, SyncDataCollector
from rlnb.collectors.multi import (
    AsyncCollector,
    MultiAsyncCollector,
    MultiaSyncDataCollector,
    MultiCollector,
    MultiSyncCollector,
    MultiSyncDataCollector,
    aSyncDataCollector,
)

__all__ = [
    "AsyncCollector",
    "Collector",
    "MultiAsyncCollector",
    "MultiCollector",
    "MultiSyncCollector",
    "MultiSyncDataCollector",
    "MultiaSyncDataCollector",
    "SyncDataCollector",
    "aSyncDataCollector",
]
