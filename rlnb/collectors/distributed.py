"""Collectors on several machines, at the path of TorchRL."""

from rlnb.collectors.ray import RayCollector

__all__ = ["RayCollector"]
