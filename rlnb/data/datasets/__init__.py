"""Datasets that others collected, as replay buffers: downloaded once, converted into memory-mapped TED data."""

from rlnb.data.datasets.atari_dqn import AtariDQNExperienceReplay
from rlnb.data.datasets.common import BaseDatasetExperienceReplay
from rlnb.data.datasets.gen_dgrl import GenDGRLExperienceReplay
from rlnb.data.datasets.openml import OpenMLExperienceReplay
from rlnb.data.datasets.openx import OpenXExperienceReplay

__all__ = [
    "AtariDQNExperienceReplay",
    "BaseDatasetExperienceReplay",
    "GenDGRLExperienceReplay",
    "OpenMLExperienceReplay",
    "OpenXExperienceReplay",
]
