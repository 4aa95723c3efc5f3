"""Collectors, under TorchRL's dotted path."""

from rlnb.collectors.collector import Collector, SyncDataCollector

__all__ = ["Collector", "SyncDataCollector"]
