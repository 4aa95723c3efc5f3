"""Collectors, at the path of TorchRL."""

from rlnb.collectors.collector import Collector, SyncDataCollector

__all__ = ["Collector", "SyncDataCollector"]
