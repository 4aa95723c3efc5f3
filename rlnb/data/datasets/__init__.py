"""Datasets that others collected, as replay buffers: downloaded once, converted into memory-mapped TED data."""

from rlnb.data.datasets.common import BaseDatasetExperienceReplay

__all__ = ["BaseDatasetExperienceReplay"]
